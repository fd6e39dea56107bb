"""A classifier from labelled texts, on the base of a language model or from scratch."""

from __future__ import annotations

from typing import Any

import autograd.functional as F
from minitransformer.app.data import ClassifierBatches, LabelledDocuments, read_labelled
from minitransformer.app.tasks import builtin, measures
from minitransformer.app.tasks.modelling import objective_of
from minitransformer.app.tasks.recipes import Recipe
from minitransformer.app.tasks.runs import Task, built, wordings_of
from minitransformer.app.tasks.sources import columns, cut_note, digest, hold_back, ids_of, source_name, tokenizer_for
from minitransformer.app.tasks.trained import Trained, setting
from minitransformer.app.tasks.wording import Wording
from minitransformer.app.training.checkpoints import Checkpoint, CheckpointError
from minitransformer.errors import UserError
from minitransformer.models import Classifier


def task(recipe: Recipe, options: Any, former: Checkpoint | None, base: Trained | None) -> Task:
    """base: the language model whose head is swapped; None trains from scratch.
    options: data, valid, label_column, text_column, pooling, quiet_start, word_dropout, layer_rate, tokenizer,
    vocabulary, dict, sentencepiece, seed"""
    seed, rows = options.seed, recipe.batch
    wording = wordings_of(former)["text"] if former else base.wordings["text"] if base else None
    if options.data is None:
        wording = wording or builtin.review_wording()
        if wording.style != "en":
            raise UserError(
                f"the language model was not trained on {builtin.NAME}: give labelled data of your own (a .tsv, .csv, "
                ".jsonl or .spm file)"
            )
        names: tuple[str, ...] = builtin.LABELS
        documents, labels = builtin.labelled_ids(wording, recipe.texts, builtin.LABELLED, seed)
        held, held_labels = builtin.labelled_ids(wording, builtin.VALIDATION_TEXTS, builtin.VALIDATION)
    else:
        data = labelled(options.data, options, names_of(former) if former else None)
        names, texts, labels = data.names, data.texts, data.labels
        if options.valid is not None:
            other = labelled(options.valid, options, names)
            held_texts, held_labels = other.texts, other.labels
        else:
            parts = hold_back(list(zip(texts, labels, strict=True)), options.data)
            (texts, labels), (held_texts, held_labels) = (map(list, zip(*part, strict=True)) for part in parts)
        wording = wording or Wording(tokenizer_for(texts, options))
        documents = ids_of(wording, texts, options.data)
        held = ids_of(wording, held_texts, options.valid or options.data)
    if len(names) < 2:
        raise UserError(f"{options.data}: every text has the label {names[0]!r}; give texts of at least two classes")
    model = _model(recipe, options, base, wording, len(names))
    max_len = model.config.max_len
    validation = ClassifierBatches(held, held_labels, max_len=max_len, rows=64, shuffle=False)
    lost = {"word_dropout": options.word_dropout} if options.word_dropout else {}
    slowed = {"layer_rate": options.layer_rate} if options.layer_rate else {}
    hidden = wording.tokenizer.specials.get("[MASK]", wording.tokenizer.oov)
    batches = built(ClassifierBatches, documents, labels, max_len=max_len, rows=rows, seed=seed, hidden=hidden, **lost)
    settings = {"task": "finetune", "data": source_name(options.data), "preset": options.preset, "labels": [*names]}
    settings |= {"batch": rows, "texts": digest(documents), "held back": digest(held)}
    return Task(
        model=model,
        batches=batches,
        loss_of=_loss,
        evaluate=lambda model: measures.classifier_scores(model, validation.epoch()),
        wordings={"text": wording},
        settings=settings | lost | slowed,
        rates={} if options.layer_rate is None else {"base.encoder.": options.layer_rate},
        notes=cut_note(documents, max_len),
        options={"perplexity": False, "monitor": "accuracy", "higher_is_better": True, "evaluate_every": None},
    )


def _model(recipe: Recipe, options: Any, base: Trained | None, wording: Wording, n_classes: int) -> Classifier:
    # the last word has read all others; where each has, their mean; where it was trained on a mean, the same one
    usual = {"next": "last", "masked": "mean", "bag": "stream"}
    pooling = options.pooling or usual[objective_of(base.model.config()) if base else "next"]
    head = {"pooling": pooling, "seed": options.seed, "n_classes": n_classes}
    if base is not None:
        return built(Classifier.from_language_model, base.model, dropout=options.dropout, **head)
    return built(Classifier, wording.tokenizer.vocab_size, quiet_start=options.quiet_start, **recipe.model | head)


def _loss(model: Any, batch: Any) -> tuple[Any, dict[str, float]]:
    logits = model(batch.ids, batch.lengths)
    right = (logits.numpy().argmax(axis=1) == batch.labels).mean()
    return F.cross_entropy(logits, batch.labels), {"accuracy": right}


def labelled(path: str, options: Any, names: tuple[str, ...] | None) -> LabelledDocuments:
    """Texts with their classes."""
    return built(read_labelled, path, labels=names, **columns(options))


def names_of(checkpoint: Checkpoint) -> tuple[str, ...]:
    """The names of a classifier's classes."""
    names = setting(checkpoint, "labels")
    count = checkpoint.model["config"].get("n_classes")
    if not isinstance(names, list) or len(names) != count or not all(isinstance(name, str) for name in names):
        raise CheckpointError(checkpoint.path, "does not name its classes", "name a run of minitransformer finetune")
    return tuple(names)
