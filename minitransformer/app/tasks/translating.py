"""A translator from sentence pairs, and its translations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from minitransformer.app.data import Tokenizer, TranslationBatches, read_pairs
from minitransformer.app.data.batches.padded import right_pad
from minitransformer.app.progress import counted
from minitransformer.app.tasks import builtin, measures
from minitransformer.app.tasks.recipes import Recipe
from minitransformer.app.tasks.runs import Task, built, wordings_of
from minitransformer.app.tasks.sources import digest, hold_back, source_name, trained_tokenizer
from minitransformer.app.tasks.wording import Wording
from minitransformer.app.training.checkpoints import Checkpoint
from minitransformer.decoding import beam_search, generate
from minitransformer.errors import UserError
from minitransformer.models import Translator

SIDES = ("source", "target")


def task(recipe: Recipe, options: Any, former: Checkpoint | None) -> Task:
    """options: data, valid, tokenizer, vocabulary, reverse, label_smoothing, seed"""
    seed, max_len, rows = options.seed, recipe.model["max_len"], recipe.batch
    notes: list[str] = []
    known = wordings_of(former) if former else None
    wordings = (known["source"], known["target"]) if known else None
    if options.data is None:
        if options.reverse:
            raise UserError("--reverse needs a file of pairs: the built-in ones go from English to French")
        both = wordings or builtin.pair_wordings()

        def drawn(epoch: int) -> TranslationBatches:
            sides = builtin.pair_ids(both, recipe.texts, builtin.TRAINING, seed, epoch)
            return TranslationBatches(*sides, max_len=max_len, rows=rows, seed=seed)

        batches: Any = builtin.FreshBatches(drawn)
        held = builtin.pair_ids(both, builtin.VALIDATION_TEXTS, builtin.VALIDATION)
        texts: Any = recipe.texts
    else:
        pairs = _read(options.data, options.reverse)
        if options.valid is None:
            pairs, back = hold_back(pairs, options.data)
        else:
            back = _read(options.valid, options.reverse)
        both = wordings or _wordings(pairs, options)
        sides, held = encode_pairs(both, pairs), encode_pairs(both, back)
        batches = built(TranslationBatches, *sides, max_len=max_len, rows=rows, seed=seed, drop_long=True)
        texts = digest(*sides)
        if batches.dropped:
            notes.append(f"{batches.dropped:,} pairs are longer than {max_len - 1} words and left out (--max-len)")
    validation = built(TranslationBatches, *held, max_len=max_len, rows=64, shuffle=False, drop_long=True)
    sizes = [wording.tokenizer.vocab_size for wording in both]
    return Task(
        model=built(Translator, *sizes, seed=seed, **recipe.model),
        batches=batches,
        loss_of=partial(measures.translation_loss, label_smoothing=options.label_smoothing or 0.0),
        evaluate=lambda model: measures.translator_loss(model, validation.epoch()),
        wordings=dict(zip(SIDES, both, strict=True)),
        settings={
            "task": "train-translator", "data": source_name(options.data), "preset": options.preset,
            "reverse": options.reverse, "label_smoothing": options.label_smoothing or 0.0, "batch": rows,
            "texts": texts, "held back": digest(*held),
        },
        notes=notes,
    )  # fmt: skip


def _read(path: str, reverse: bool) -> list[tuple[str, str]]:
    return read_pairs(path, source=int(reverse), target=int(not reverse))


def _wordings(pairs: list[tuple[str, str]], options: Any) -> tuple[Wording, Wording]:
    texts = [[pair[side] for pair in pairs] for side in range(2)]
    source, target = (Wording(trained_tokenizer(one, options.tokenizer, options.vocabulary)) for one in texts)
    return source, target


def encode_pairs(both: tuple[Wording, Wording], pairs: Sequence[tuple[str, str]]) -> tuple[list[Any], list[Any]]:
    ids = [(both[0].encode(source), both[1].encode(target)) for source, target in counted(pairs, "cutting pairs")]
    return [source for source, _ in ids], [target for _, target in ids]


def translations(
    model: Translator,
    wordings: dict[str, Wording],
    sentences: Sequence[str],
    *,
    beams: int = 1,
    rows: int = 32,
    cut: bool = False,
) -> Iterator[list[int]]:
    """The ids of each sentence's translation, in order; a few sentences at a time, so that the first come soon.
    cut: of a sentence that is too long the beginning is translated; else it is refused"""
    sources = [source_ids(model, wordings["source"], text, cut) for text in sentences]
    how: dict[str, Any] = {"eos": Tokenizer.eos, "suppress": (Tokenizer.sos, Tokenizer.pad, Tokenizer.oov)}
    for first in range(0, len(sources), rows):
        batch = padded(sources[first : first + rows])
        if beams > 1:
            yield from (row[0].tokens if row else [] for row in beam_search(model, *batch, beams=beams, **how))
        else:
            yield from generate(model, *batch, **how)


def padded(sources: Sequence[list[int]]) -> tuple[np.ndarray, np.ndarray]:
    """(B, S) ids, each row ended by <eos> and padded; (B) their lengths"""
    rows = [[*source, Tokenizer.eos] for source in sources]
    return right_pad(rows, Tokenizer.pad), np.array([len(row) for row in rows])


def source_ids(model: Translator, wording: Wording, text: str, cut: bool = False) -> list[int]:
    """One sentence's ids; when the model has no room for all of them, it is refused, or cut."""
    ids, room = wording.encode(text), model.config.max_len - 1
    if len(ids) > room and not cut:
        raise UserError(f"a sentence of {len(ids)} words ({text[:40]!r}...): this model takes at most {room}; cut it")
    return ids[:room]
