"""A language model from text: the built-in reviews, or a file with one document a line."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from minitransformer.app.data import read_documents
from minitransformer.app.tasks import borrowed, builtin, measures, recipes
from minitransformer.app.tasks.objectives import NEXT, Objective, objective_name
from minitransformer.app.tasks.options import TrainingOptions
from minitransformer.app.tasks.sources import columns, cut_note, digest, hold_back, ids_of, source_name, tokenizer_for
from minitransformer.app.tasks.task import Task
from minitransformer.app.tasks.text_codec import TextCodec
from minitransformer.app.tasks.trained import Trained, codecs_of, former_run, shortened
from minitransformer.app.training.checkpoints import Checkpoint
from minitransformer.errors import UserError, make_or_refuse
from minitransformer.models import LanguageModel


@dataclass(frozen=True)
class PretrainOptions(TrainingOptions):
    base: str | None = None  # the run of a language model to start from, with its words
    objective: Objective = NEXT
    mask_rate: float | None = None  # part of the words hidden; None: as usual for the objective


def task(options: PretrainOptions) -> Task:
    is_borrowed = options.base is not None and borrowed.is_borrowed(options.base)
    presets = recipes.PRETRAIN | ({"default": recipes.BORROWED_READING} if is_borrowed else {})
    recipe = recipes.choose(presets, options, "a word needs another one to follow")
    former = former_run(options.out, options.resume, "LanguageModel")
    if options.mask_rate is not None and options.objective.rate is None:
        raise UserError("--mask-rate hides words, and the next word is not hidden: add --objective masked")
    if options.base is not None and options.data.path is None:
        raise UserError("--from goes on with other text: give DATA, a file with one document a line")
    options.check(based="omit them, or do without --from" if options.base is not None else "")
    base = None if options.base is None else borrowed.base_at(options.base)
    base = base and shortened(base, options.sizes.get("max_len"))
    objective, seed, rows, source = options.objective, options.seed, recipe.batch, options.data
    for known_run in (former, base and base.checkpoint):
        if known_run:
            _check_objective(known_run, objective)
    max_len = base.model.config.max_len if base else recipe.model.max_len

    def batches_of(documents: list[np.ndarray], **how: Any) -> Any:
        return objective.batches(documents, codec.tokenizer, options.mask_rate, max_len=max_len, **how)

    known = codecs_of(former)["text"] if former else base.codecs["text"] if base else None
    documents: list[np.ndarray] = []
    if source.path is None:
        codec = known or builtin.review_codec(objective.specials)

        def drawn(epoch: int) -> Any:
            documents = builtin.review_ids(codec, recipe.texts, builtin.TRAINING, seed, epoch)
            return batches_of(documents, rows=rows, seed=seed)

        batches: Any = builtin.FreshBatches(drawn)
        held_back = builtin.review_ids(codec, builtin.VALIDATION_TEXTS, builtin.VALIDATION)
    else:
        texts = make_or_refuse(read_documents, source.path, **columns(source))
        if source.valid is None:
            texts, other = hold_back(texts, source.path)
        else:
            other = make_or_refuse(read_documents, source.valid, **columns(source))
        codec = known or TextCodec(tokenizer_for(texts, source.path, options.words, objective.specials))
        documents = ids_of(codec, texts, source.path)
        held_back = ids_of(codec, other, source.valid or source.path)
        batches = batches_of(documents, rows=rows, seed=seed)
    notes = cut_note(documents, max_len)
    if getattr(batches, "dropped", 0):
        notes.append(f"{batches.dropped:,} texts have no word to hide and are left out")
    validation = batches_of(held_back, rows=64, shuffle=False)
    settings = {"task": "pretrain", "data": source_name(source.path), "preset": options.preset, "batch": rows}
    settings |= {"texts": digest(documents) if documents else recipe.texts, "held back": digest(held_back)}
    if objective.rate is not None:
        settings |= {"objective": objective.name, "mask_rate": validation.rate}
    return Task(
        recipe=recipe,
        model=_model(recipe, options, base, codec),
        batches=batches,
        loss_of=measures.word_loss,
        evaluate=lambda model: measures.language_model_loss(model, validation.epoch()),
        codecs={"text": codec},
        settings=settings,
        held_back=held_back,
        starts_from=base.path if base else None,
        notes=notes,
    )


def _model(recipe: recipes.Recipe, options: PretrainOptions, base: Trained | None, codec: TextCodec) -> LanguageModel:
    kind = options.objective.model
    if base is None:
        sizes = {"vocab_size": codec.tokenizer.vocab_size, "causal": options.objective.causal}
        return make_or_refuse(kind, recipe.model, seed=options.seed, **sizes)
    model = kind(replace(base.model.config, seed=options.seed, **options.sizes))  # dropout and max_len, at most
    model.load_state_dict(base.model.state_dict())
    return model


def _check_objective(run: Checkpoint, asked: Objective) -> None:
    learnt = objective_name(run)
    if learnt != asked.name:
        raise UserError(f"{run.path}: this run has the objective {learnt}, not {asked.name}; add --objective {learnt}")
