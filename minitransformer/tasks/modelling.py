"""A language model from text: the built-in reviews, or a file with one document a line.

It predicts the next word of a text, words that were hidden in it ("masked"), or words taken out of it ("bag").
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from minitransformer.checkpoints import Checkpoint
from minitransformer.cli import UserError
from minitransformer.models import LanguageModel
from minitransformer.progress import counted
from minitransformer.text import (
    BagBatches,
    LabTokenizer,
    LanguageModelBatches,
    MaskedBatches,
    PieceTokenizer,
    Tokenizer,
    WordTokenizer,
    read_documents,
)
from minitransformer.text.bag_batches import TAKEN
from minitransformer.text.bert_batches import CHOSEN
from minitransformer.word_sample import WordSample

from . import builtin, measures
from .recipes import Recipe
from .runs import Task, built, wordings_of
from .trained import Trained
from .wording import Wording

HELD_BACK = 0.05  # of a file without a validation file of its own, at most HELD_BACK_MOST documents
HELD_BACK_MOST = 500
LONG = 3_000_000  # letters, from which a vocabulary is not found at once


def task(recipe: Recipe, options: Any, former: Checkpoint | None, base: Trained | None = None) -> Task:
    """former: the run that is resumed, whose words must keep their ids; base: the one whose weights are the start.
    options: objective, mask_rate, data, valid, tokenizer, vocabulary, dict, sentencepiece, sampled_words, seed"""
    seed, rows = options.seed, recipe.batch
    max_len = base.model.config()["max_len"] if base else recipe.model["max_len"]
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
        texts = read_documents(options.data)
        pieces = in_pieces(options.data)
        wording = known or Wording(tokenizer_for(texts, options, specials))
        documents = wording.tokenizer.encode_all(counted(texts, f"cutting {options.data}"), in_pieces=pieces)
        if options.valid is not None:
            held = wording.tokenizer.encode_all(read_documents(options.valid), in_pieces=in_pieces(options.valid))
        else:
            documents, held = hold_back(documents, options.data)
        batches = batches_of(documents, rows=rows, seed=seed)
    validation = batches_of(held, rows=64, shuffle=False)
    if base:
        model = built(LanguageModel, **base.model.config() | {"seed": seed} | _dropout(options))
        model.load_state_dict(base.model.state_dict())
    else:
        kind = {"causal": objective == "next", "whole": objective == "bag"}
        model = built(LanguageModel, wording.tokenizer.vocab_size, seed=seed, **kind, **recipe.model)
    settings = {"task": "pretrain", "data": source_name(options.data), "preset": options.preset}
    if options.sampled_words is not None:
        settings["sampled_words"] = options.sampled_words
    return Task(
        model=model,
        batches=batches,
        loss_of=partial(measures.word_loss, sample=_sample(documents, wording.tokenizer, options)),
        evaluate=lambda model: measures.language_model_loss(model, validation.epoch()),
        wordings={"text": wording},
        settings=settings | ({} if objective == "next" else {"objective": objective, "mask_rate": validation.rate}),
        held=held,
    )


def _sample(documents: Sequence[np.ndarray], tokenizer: Tokenizer, options: Any) -> WordSample | None:
    """What is scored instead of all words, if that was asked for. Each document is followed by its end."""
    if options.sampled_words is None:
        return None
    counts = np.bincount(np.concatenate(documents), minlength=tokenizer.vocab_size)
    counts[tokenizer.eos] += len(documents)
    return built(WordSample, counts, options.sampled_words)


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


def tokenizer_for(texts: list[str], options: Any, specials: Sequence[str] = ()) -> Tokenizer:
    """A tokenizer for a file: the labs' dictionary where one is given or the text is in its pieces, else a
    sentencepiece model that is given, else one learnt from the text."""
    if in_pieces(options.data):
        beside = os.path.join(os.path.dirname(options.data), "dict.txt")
        dictionary = options.dict or beside
        if options.dict is None and not os.path.exists(beside):
            raise UserError(f"{options.data}: text in pieces needs their dictionary; give --dict dict.txt")
        return built(LabTokenizer.from_files, dictionary, options.sentencepiece, extra_specials=specials)
    if options.dict is not None:
        if options.sentencepiece is None:
            raise UserError(f"--dict numbers pieces, but {options.data} is text: give --sentencepiece FILE to cut it")
        return built(LabTokenizer.from_files, options.dict, options.sentencepiece, extra_specials=specials)
    if options.sentencepiece is not None:
        return built(PieceTokenizer.from_file, options.sentencepiece, extra_specials=specials)
    return trained_tokenizer(texts, options.tokenizer, options.vocabulary, specials)


def trained_tokenizer(texts: list[str], kind: str, vocabulary: int, specials: Sequence[str] = ()) -> Tokenizer:
    length = sum(map(len, texts))
    if length > LONG:
        print(f"choosing {kind} from {length / 1e6:.0f} million letters ...", file=sys.stderr, flush=True)
    if kind == "words":
        return built(WordTokenizer.train, texts, max_size=vocabulary, lower=True, extra_specials=specials)
    return built(PieceTokenizer.train, texts, vocab_size=vocabulary, extra_specials=specials)


def in_pieces(path: str) -> bool:
    return path.endswith(".spm")


def hold_back(documents: list[Any], path: str) -> tuple[list[Any], list[Any]]:
    """Training and validation: every twentieth document or so is held back, spread over the file."""
    if len(documents) < 2:
        raise UserError(f"{path}: one document only; give at least two, or --valid FILE to validate on")
    count = max(1, min(HELD_BACK_MOST, int(HELD_BACK * len(documents))))
    chosen = set(np.linspace(0, len(documents) - 1, count).astype(int).tolist())
    kept = [document for number, document in enumerate(documents) if number not in chosen]
    return kept, [documents[number] for number in sorted(chosen)]


def source_name(path: str | None) -> str:
    return "built-in" if path is None else path
