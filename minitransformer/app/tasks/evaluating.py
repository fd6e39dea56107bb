"""A trained model on unseen data: its figures and, for the built-in language, the best that is possible at all."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from minitransformer.app.data import (
    ClassifierBatches,
    LanguageModelBatches,
    TranslationBatches,
    read_documents,
    read_pairs,
)
from minitransformer.app.language import detokenize, pairs, reviews
from minitransformer.app.tasks import builtin, measures
from minitransformer.app.tasks.classifying import labelled, names_of
from minitransformer.app.tasks.objectives import OBJECTIVES, Objective, objective_name
from minitransformer.app.tasks.options import DataOptions
from minitransformer.app.tasks.sources import columns, cut_texts, ids_of
from minitransformer.app.tasks.trained import Trained, setting
from minitransformer.app.tasks.translating import encode_pairs, translations
from minitransformer.app.training.checkpoints import CheckpointError
from minitransformer.errors import make_or_refuse


@dataclass(frozen=True)
class EvaluateOptions:
    data: DataOptions = DataOptions()
    texts: int = 1000  # fresh built-in ones, where there are no data
    seed: int = 0  # of these
    beam: int = 1  # of a translator; 1: greedy


@dataclass(frozen=True)
class Evaluation:
    """Lines for a person, (name, value), and the same as numbers for a program."""

    lines: list[tuple[str, str]]
    values: dict[str, Any]


def evaluation(
    trained: Trained, options: EvaluateOptions, objectives: Mapping[str, Objective] = OBJECTIVES
) -> Evaluation:
    """objectives: that a language model may have been trained with"""
    if options.data.path is None and not trained.builtin:
        found = f"was not trained on {builtin.NAME}"
        raise CheckpointError(trained.path, found, "give it data of its own: minitransformer evaluate DATA --model RUN")
    if trained.kind == "Classifier":
        return _classifier(trained, options)
    if trained.kind == "Translator":
        return _translator(trained, options)
    name = objective_name(trained.checkpoint)
    if trained.kind != "LanguageModel" or name not in objectives:
        raise CheckpointError(trained.path, f"holds a {trained.kind}", "it cannot be evaluated by a command yet")
    return _language_model(trained, options, objectives[name])


def _data_line(options: EvaluateOptions, count: int, what: str) -> tuple[str, str]:
    source = options.data.path or f"{builtin.NAME}, fresh (seed {options.seed})"
    return "data", f"{count:,} {what} of {source}"


def _language_model(trained: Trained, options: EvaluateOptions, objective: Objective) -> Evaluation:
    codec, exact, source = trained.codecs["text"], None, options.data
    if source.path is None:
        drawn = reviews().sample(options.texts, builtin.seed_of(builtin.TEST, options.seed))
        documents = codec.tokenizer.encode_all(map(" ".join, drawn))
        words = sum(len(review) + 1 for review in drawn)
        exact = -math.fsum(reviews().log_probability(review) for review in drawn) / words
    else:
        documents = ids_of(codec, make_or_refuse(read_documents, source.path, **columns(source)), source.path)
    if objective.rate is not None:
        return _hidden_words(trained, options, objective, documents)
    max_len = trained.model.config.max_len
    batches = LanguageModelBatches(documents, max_len=max_len, rows=64, shuffle=False, windows=True)
    loss = measures.language_model_loss(trained.model, batches.epoch())["loss"]
    values: dict[str, Any] = {"texts": len(documents), "loss": loss, "perplexity": _exp(loss)}
    lines = [_data_line(options, len(documents), "texts"), ("loss", f"{loss:.4f} nats a word"),
             ("perplexity", f"{_exp(loss):.3f}")]  # fmt: skip
    if exact is not None:
        floor = reviews().best_loss()
        values |= {"best_possible_loss": floor, "exact_loss_of_these_texts": exact}
        lines.append(("best possible", f"{floor:.4f} on average, {exact:.4f} on these very texts (exact entropy)"))
    return Evaluation(lines, values)


def _hidden_words(
    trained: Trained, options: EvaluateOptions, objective: Objective, documents: list[np.ndarray]
) -> Evaluation:
    """Of the words hidden in epoch 0 of seed 0, so that figures can be compared."""
    rate, max_len = setting(trained.checkpoint, "mask_rate"), trained.model.config.max_len
    rate = rate if isinstance(rate, float) and 0 < rate <= 1 else None
    tokenizer = trained.codecs["text"].tokenizer
    batches = objective.batches(documents, tokenizer, rate, max_len=max_len, rows=64, shuffle=False)
    loss = measures.language_model_loss(trained.model, batches.epoch())["loss"]
    values: dict[str, Any] = {
        "texts": len(documents), "mask_rate": batches.rate, "hidden_word_loss": loss,
        "hidden_word_perplexity": _exp(loss),
    }  # fmt: skip
    hidden = f"{batches.rate:.0%} of the words, the same ones each time; each to be found {objective.found}"
    lines = [
        _data_line(options, len(documents), "texts"),
        ("hidden", hidden),
        ("loss", f"{loss:.4f} nats a hidden word"),
        ("perplexity", f"{_exp(loss):.3f} a hidden word (not to be compared with that of next words)"),
    ]
    _say_cut(lines, values, cut_texts(documents, max_len), max_len, "texts")
    return Evaluation(lines, values)


def _classifier(trained: Trained, options: EvaluateOptions) -> Evaluation:
    codec, names = trained.codecs["text"], names_of(trained.checkpoint)
    if options.data.path is None:
        documents, labels = builtin.labelled_ids(codec, options.texts, builtin.TEST, options.seed)
    else:
        data = labelled(options.data.path, options.data, names)
        documents, labels = ids_of(codec, data.texts, options.data.path), data.labels
    max_len = trained.model.config.max_len
    batches = ClassifierBatches(documents, labels, max_len=max_len, rows=64, shuffle=False)
    scores = measures.classifier_scores(trained.model, batches.epoch())
    right = round(scores["accuracy"] * len(labels))
    low, high = measures.wilson(right, len(labels))
    often = max(labels.count(number) for number in set(labels)) / len(labels)
    values: dict[str, Any] = {"texts": len(labels), **scores, "interval": [low, high], "most_frequent_label": often}
    lines = [
        _data_line(options, len(labels), "texts"),
        ("accuracy", f"{scores['accuracy']:.1%}  (95 % interval {low:.1%} to {high:.1%}; {right:,} right)"),
        ("loss", f"{scores['loss']:.4f} nats a text"),
        ("always the same", f"{often:.1%}: the most frequent label for every text"),
    ]
    _say_cut(lines, values, cut_texts(documents, max_len), max_len, "texts")
    if options.data.path is None:
        values["best_possible_accuracy"] = reviews().best_accuracy()
        lines.append(("best possible", f"{reviews().best_accuracy():.1%}: some reviews never commit themselves"))
    return Evaluation(lines, values)


def _translator(trained: Trained, options: EvaluateOptions) -> Evaluation:
    both = trained.codecs["source"], trained.codecs["target"]
    if options.data.path is None:
        drawn = pairs().sample(options.texts, builtin.seed_of(builtin.TEST, options.seed))
        sources = [detokenize(pair.english) for pair in drawn]
        references = [detokenize(pair.french, "fr") for pair in drawn]
        accepted = [[detokenize(text, "fr") for text in pairs().translations(pair.english)] for pair in drawn]
    else:
        turned = setting(trained.checkpoint, "reverse") is True
        given = read_pairs(options.data.path, source=int(turned), target=int(not turned))
        sources, references = [pair[0] for pair in given], [pair[1] for pair in given]
        # exactly right is what the model would write with the reference's words, its own capitals and spaces; a
        # reference with a word that it does not know it cannot write
        accepted = [[text if both[1].unknown(text) else both[1].decode(both[1].encode(text))] for text in references]
    sides = encode_pairs(both, list(zip(sources, references, strict=True)))
    max_len = trained.model.config.max_len
    batches = make_or_refuse(TranslationBatches, *sides, max_len=max_len, rows=64, shuffle=False)
    loss = measures.translator_loss(trained.model, batches.epoch())["loss"]
    found = translations(trained.model, trained.codecs, sources, beams=options.beam, rows=64, cut=True)
    written = [both[1].decode(ids) for ids in found]
    right = measures.exact_matches(written, accepted)
    lower = getattr(both[1].tokenizer, "lower", False) is True
    low, high = measures.wilson(right, len(sources))
    score, any_case = (measures.bleu(written, references, lowercase=how) for how in (lower, True))
    exact = right / len(sources)
    values: dict[str, Any] = {
        "texts": len(sources), "loss": loss, "bleu": score, "bleu_lowercase": lower, "bleu_any_case": any_case,
        "exact": exact, "interval": [low, high],
    }  # fmt: skip
    how = "capitals do not count: the model knows none" if lower else f"{any_case:.1f} if capitals do not count"
    lines = [
        _data_line(options, len(sources), "pairs"),
        ("loss", f"{loss:.4f} nats a word"),
        ("BLEU", f"{score:.1f} ({how})"),
        ("exactly right", f"{exact:.1%}  (95 % interval {low:.1%} to {high:.1%}; {right:,} sentences)"),
    ]
    long = sum(len(source) >= max_len or len(target) >= max_len for source, target in zip(*sides, strict=True))
    _say_cut(lines, values, long, max_len, "pairs")
    if options.data.path is None:
        floor = pairs().best_translation_loss()
        values["best_possible_loss"] = floor
        lines.append(("best possible", f"{floor:.4f} nats a word: what the English leaves open (exact entropy)"))
    return Evaluation(lines, values)


def _say_cut(lines: list[tuple[str, str]], values: dict[str, Any], cut: int, max_len: int, what: str) -> None:
    if cut:
        values["cut"] = cut
        lines.append(("cut", f"{cut:,} of the {what}, longer than the {max_len - 1} words that the model can take"))


def _exp(loss: float) -> float:
    return math.exp(min(loss, 700.0))
