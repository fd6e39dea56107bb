"""A language model from text: the built-in reviews, or a file with one document a line.

It predicts the next word of a text, words that were hidden in it ("masked"), or words taken out of it ("bag").
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from minitransformer.app.data import BagBatches, LanguageModelBatches, MaskedBatches, Tokenizer, read_documents
from minitransformer.app.data.batches.bag import TAKEN
from minitransformer.app.data.batches.bert import CHOSEN
from minitransformer.app.tasks import builtin, measures
from minitransformer.app.tasks.recipes import Recipe
from minitransformer.app.tasks.runs import Task, built, wordings_of
from minitransformer.app.tasks.sources import columns, cut_note, digest, hold_back, ids_of, source_name, tokenizer_for
from minitransformer.app.tasks.trained import Trained
from minitransformer.app.tasks.wording import Wording
from minitransformer.app.training.checkpoints import Checkpoint
from minitransformer.errors import UserError
from minitransformer.models import LanguageModel
from minitransformer.word_sample import WordSample


def task(recipe: Recipe, options: Any, former: Checkpoint | None, base: Trained | None = None) -> Task:
    """former: the run that is resumed, whose words must keep their ids; base: the one whose weights are the start.
    options: objective, mask_rate, data, valid, text_column, tokenizer, vocabulary, dict, sentencepiece, sampled_words,
    texts, seed"""
    seed, rows = options.seed, recipe.batch
    max_len = base.model.config.max_len if base else recipe.model["max_len"]
    objective = options.objective
    for known_run in (former, base and base.checkpoint):
        if known_run:
            _same_objective(known_run, objective)
    specials = ("[MASK]",) if objective == "masked" else ()

    def batches_of(documents: list[np.ndarray], **how: Any) -> Any:
        return batches_for(objective, documents, wording.tokenizer, options.mask_rate, max_len=max_len, **how)

    known = wordings_of(former)["text"] if former else base.wordings["text"] if base else None
    documents: list[np.ndarray] = []
    if options.data is None:
        wording = known or builtin.review_wording(specials)

        def drawn(epoch: int) -> Any:
            documents = builtin.review_ids(wording, recipe.texts, builtin.TRAINING, seed, epoch)
            return batches_of(documents, rows=rows, seed=seed)

        batches: Any = builtin.FreshBatches(drawn)
        held = builtin.review_ids(wording, builtin.VALIDATION_TEXTS, builtin.VALIDATION)
    else:
        texts = built(read_documents, options.data, **columns(options))
        if options.valid is None:
            texts, other = hold_back(texts, options.data)
        else:
            other = built(read_documents, options.valid, **columns(options))
        wording = known or Wording(tokenizer_for(texts, options, specials))
        documents = ids_of(wording, texts, options.data)
        held = ids_of(wording, other, options.valid or options.data)
        batches = batches_of(documents, rows=rows, seed=seed)
    notes = cut_note(documents, max_len)
    if getattr(batches, "dropped", 0):
        notes.append(f"{batches.dropped:,} texts have no word to hide and are left out")
    validation = batches_of(held, rows=64, shuffle=False)
    if base:
        model = built(LanguageModel, **base.model.config() | {"seed": seed} | _dropout(options))
        model.load_state_dict(base.model.state_dict())
    else:
        kind = {"causal": objective == "next", "whole": objective == "bag"}
        model = built(LanguageModel, wording.tokenizer.vocab_size, seed=seed, **kind, **recipe.model)
    settings = {"task": "pretrain", "data": source_name(options.data), "preset": options.preset, "batch": rows}
    settings |= {"texts": digest(documents) if documents else recipe.texts, "held back": digest(held)}
    if options.sampled_words is not None:
        settings["sampled_words"] = options.sampled_words
    return Task(
        model=model,
        batches=batches,
        loss_of=partial(measures.word_loss, sample=_sample(documents, wording.tokenizer, max_len, options)),
        evaluate=lambda model: measures.language_model_loss(model, validation.epoch()),
        wordings={"text": wording},
        settings=settings | ({} if objective == "next" else {"objective": objective, "mask_rate": validation.rate}),
        held=held,
        notes=notes,
    )


def _sample(documents: Sequence[np.ndarray], tokenizer: Tokenizer, max_len: int, options: Any) -> WordSample | None:
    """What is scored instead of all words, if that was asked for."""
    if options.sampled_words is None:
        return None
    counts = predicted(documents, tokenizer, max_len, hidden=options.objective == "masked")
    return built(WordSample, counts, options.sampled_words)


def predicted(documents: Sequence[np.ndarray], tokenizer: Tokenizer, max_len: int, hidden: bool) -> np.ndarray:
    """(V) how often each word is to be predicted: of hidden ones the ordinary, else all that follow, and the end."""
    read = [document[: max_len - hidden] for document in documents]
    counts = np.bincount(np.concatenate(read), minlength=tokenizer.vocab_size)
    if hidden:
        counts[list(tokenizer.specials.values())] = 0
    else:
        counts[tokenizer.eos] += sum(len(document) < max_len for document in documents)
    return counts


def _dropout(options: Any) -> dict[str, float]:
    return {} if options.dropout is None else {"dropout": options.dropout}


RATES = {"masked": CHOSEN, "bag": TAKEN}  # part of the words that are hidden or taken out, unless told otherwise


def batches_for(
    objective: str, documents: list[np.ndarray], tokenizer: Tokenizer, rate: float | None = None, **how: Any
) -> Any:
    """What a language model learns from, by its objective: next, masked or bag."""
    if objective == "next":
        return built(LanguageModelBatches, documents, **how)
    kind = MaskedBatches if objective == "masked" else BagBatches
    return built(kind, documents, tokenizer, rate=RATES[objective] if rate is None else rate, **how)


def objective_of(config: Mapping[str, Any]) -> str:
    """What a language model was trained to predict; its first ones only knew the next word."""
    return "bag" if config.get("whole") else "next" if config.get("causal", True) else "masked"


def _same_objective(former: Checkpoint, asked: str) -> None:
    learnt = objective_of(former.model["config"])
    if learnt != asked:
        raise UserError(f"{former.path}: this run has the objective {learnt}, not {asked}; add --objective {learnt}")
