"""A translator from sentence pairs, and its translations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from minitransformer.app.data import Tokenizer, TranslationBatches, read_pairs
from minitransformer.app.data.batches.padded import right_pad
from minitransformer.app.progress import counted
from minitransformer.app.tasks import builtin, measures, recipes
from minitransformer.app.tasks.options import TokenizerOptions, TrainingOptions
from minitransformer.app.tasks.sources import digest, hold_back, source_name, trained_tokenizer
from minitransformer.app.tasks.task import Task
from minitransformer.app.tasks.text_codec import TextCodec
from minitransformer.app.tasks.trained import codecs_of, former_run
from minitransformer.decoding import beam_search, generate
from minitransformer.errors import UserError, make_or_refuse
from minitransformer.models import Translator

SIDES = ("source", "target")


@dataclass(frozen=True)
class TranslatorOptions(TrainingOptions):
    reverse: bool = False  # from the second column to the first
    label_smoothing: float = 0.0  # part of the probability that training asks to spread over all words


def task(options: TranslatorOptions) -> Task:
    recipe = recipes.choose(recipes.TRANSLATOR, options, "a sentence needs room for its end")
    former = former_run(options.out, options.resume, "Translator")
    options.check()
    seed, max_len, rows, source = options.seed, recipe.model.max_len, recipe.batch, options.data
    notes: list[str] = []
    known = codecs_of(former) if former else None
    codecs = (known["source"], known["target"]) if known else None
    if source.path is None:
        if options.reverse:
            raise UserError("--reverse needs a file of pairs: the built-in ones go from English to French")
        both = codecs or builtin.pair_codecs(recipe.model.share_embedding)

        def drawn(epoch: int) -> TranslationBatches:
            sides = builtin.pair_ids(both, recipe.texts, builtin.TRAINING, seed, epoch)
            return TranslationBatches(*sides, max_len=max_len, rows=rows, seed=seed)

        batches: Any = builtin.FreshBatches(drawn)
        held_back = builtin.pair_ids(both, builtin.VALIDATION_TEXTS, builtin.VALIDATION)
        texts: Any = recipe.texts
    else:
        pairs = _read(source.path, options.reverse)
        if source.valid is None:
            pairs, others = hold_back(pairs, source.path)
        else:
            others = _read(source.valid, options.reverse)
        both = codecs or _codecs(pairs, options.words, recipe.model.share_embedding)
        sides, held_back = encode_pairs(both, pairs), encode_pairs(both, others)
        batches = make_or_refuse(TranslationBatches, *sides, max_len=max_len, rows=rows, seed=seed, drop_long=True)
        texts = digest(*sides)
        if batches.dropped:
            notes.append(f"{batches.dropped:,} pairs are longer than {max_len - 1} words and left out (--max-len)")
    validation = make_or_refuse(TranslationBatches, *held_back, max_len=max_len, rows=64, shuffle=False, drop_long=True)
    sizes = {f"{side}_vocab": codec.tokenizer.vocab_size for side, codec in zip(SIDES, both, strict=True)}
    return Task(
        recipe=recipe,
        model=make_or_refuse(Translator, recipe.model, seed=seed, **sizes),
        batches=batches,
        loss_of=partial(measures.translation_loss, label_smoothing=options.label_smoothing),
        evaluate=lambda model: measures.translator_loss(model, validation.epoch()),
        codecs=dict(zip(SIDES, both, strict=True)),
        settings={
            "task": "train-translator", "data": source_name(source.path), "preset": options.preset,
            "reverse": options.reverse, "label_smoothing": options.label_smoothing, "batch": rows,
            "texts": texts, "held back": digest(*held_back),
        },
        notes=notes,
    )  # fmt: skip


def _read(path: str, reverse: bool) -> list[tuple[str, str]]:
    return read_pairs(path, source=int(reverse), target=int(not reverse))


def _codecs(pairs: list[tuple[str, str]], words: TokenizerOptions, shared: bool) -> tuple[TextCodec, TextCodec]:
    """shared: one vocabulary of both languages, for one embedding"""
    sides = [[pair[side] for pair in pairs] for side in range(2)]
    if shared:
        sides = [sides[0] + sides[1]]
    found = [TextCodec(trained_tokenizer(texts, words, "words")) for texts in sides]
    return found[0], found[-1]


def encode_pairs(both: tuple[TextCodec, TextCodec], pairs: Sequence[tuple[str, str]]) -> tuple[list[Any], list[Any]]:
    ids = [(both[0].encode(source), both[1].encode(target)) for source, target in counted(pairs, "cutting pairs")]
    return [source for source, _ in ids], [target for _, target in ids]


def translations(
    model: Translator,
    codecs: dict[str, TextCodec],
    sentences: Sequence[str],
    *,
    beams: int = 1,
    rows: int = 32,
    cut: bool = False,
) -> Iterator[list[int]]:
    """The ids of each sentence's translation, in order; a few sentences at a time, so that the first come soon.
    cut: of a sentence that is too long the beginning is translated; else it is refused"""
    sources = [source_ids(model, codecs["source"], text, cut) for text in sentences]
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


def source_ids(model: Translator, codec: TextCodec, text: str, cut: bool = False) -> list[int]:
    """One sentence's ids; when the model has no room for all of them, it is refused, or cut."""
    ids, room = codec.encode(text), model.config.max_len - 1
    if len(ids) > room and not cut:
        raise UserError(f"a sentence of {len(ids)} words ({text[:40]!r}...): this model takes at most {room}; cut it")
    return ids[:room]
