"""A classifier from labelled texts, on the base of a language model or from scratch."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import autograd.functional as F
from minitransformer.app.data import ClassifierBatches, LabelledDocuments, read_labelled
from minitransformer.app.tasks import borrowed, builtin, measures, recipes
from minitransformer.app.tasks.objectives import OBJECTIVES, objective_name
from minitransformer.app.tasks.options import DataOptions, TrainingOptions
from minitransformer.app.tasks.sources import columns, cut_note, digest, hold_back, ids_of, source_name, tokenizer_for
from minitransformer.app.tasks.task import Task
from minitransformer.app.tasks.text_codec import TextCodec
from minitransformer.app.tasks.trained import Trained, codecs_of, former_run, setting, shortened
from minitransformer.app.training.checkpoints import Checkpoint, CheckpointError
from minitransformer.errors import UserError, make_or_refuse
from minitransformer.models import Classifier

FEW = 20  # texts held back: below that, accuracy takes so few values that the first step is often "the best"
LEAST_STEPS = 60  # on a borrowed base: a handful of texts is read often enough to learn from them


@dataclass(frozen=True)
class FinetuneOptions(TrainingOptions):
    base: str | None = None  # the run of a language model whose head is swapped
    scratch: bool = False  # without one, from random weights
    pooling: str | None = None  # what the head reads; None: as the language model was trained


def base_of(options: FinetuneOptions) -> Trained | None:
    """The language model to start from, if any."""
    if options.scratch:
        return None
    base = borrowed.base_at(options.base, ", or add --scratch to do without")
    return shortened(base, options.sizes.get("max_len"))


def task(options: FinetuneOptions, base: Trained | None, classifier: type[Classifier] = Classifier) -> Task:
    """base: what base_of gave; classifier: the kind of model to train"""
    is_borrowed = base is not None and borrowed.is_borrowed(base.path)
    presets = recipes.FINETUNE | ({"default": recipes.BORROWED} if is_borrowed else {})
    recipe = recipes.choose(presets, options, "there is no room for a word")
    former = former_run(options.out, options.resume, "Classifier")
    options.check(based="give them to pretrain, or add --scratch" if base else "")
    seed, rows, source = options.seed, recipe.batch, options.data
    codec = codecs_of(former)["text"] if former else base.codecs["text"] if base else None
    if source.path is None:
        codec = codec or builtin.review_codec()
        if codec.style != "en":
            raise UserError(
                f"the language model was not trained on {builtin.NAME}: give labelled data of your own (a .tsv, .csv, "
                ".jsonl or .spm file)"
            )
        names: tuple[str, ...] = builtin.LABELS
        documents, labels = builtin.labelled_ids(codec, recipe.texts, builtin.LABELLED, seed)
        held_back, held_labels = builtin.labelled_ids(codec, builtin.VALIDATION_TEXTS, builtin.VALIDATION)
    else:
        data = labelled(source.path, source, names_of(former) if former else None)
        names, texts, labels = data.names, data.texts, data.labels
        if source.valid is not None:
            other = labelled(source.valid, source, names)
            held_texts, held_labels = other.texts, other.labels
        else:
            parts = hold_back(list(zip(texts, labels, strict=True)), source.path)
            (texts, labels), (held_texts, held_labels) = (map(list, zip(*part, strict=True)) for part in parts)
        codec = codec or TextCodec(tokenizer_for(texts, source.path, options.words))
        documents = ids_of(codec, texts, source.path)
        held_back = ids_of(codec, held_texts, source.valid or source.path)
    if len(names) < 2:
        raise UserError(f"{source.path}: every text has the label {names[0]!r}; give texts of at least two classes")
    few = is_borrowed and len(held_back) < FEW
    if is_borrowed and options.steps is None and options.epochs is None:
        recipe = replace(recipe, epochs=max(recipe.epochs or 1, -(-LEAST_STEPS // (-(-len(documents) // rows)))))
    head = {"n_classes": len(names), "pooling": options.pooling or _pooling(base), "seed": seed}
    if base is None:
        model = make_or_refuse(classifier, recipe.model, vocab_size=codec.tokenizer.vocab_size, **head)
    else:
        dropout = options.sizes.get("dropout")
        model = make_or_refuse(classifier.from_language_model, base.model, dropout=dropout, **head)
    max_len = model.config.max_len
    validation = ClassifierBatches(held_back, held_labels, max_len=max_len, rows=64, shuffle=False)
    settings = {
        "task": "finetune", "data": source_name(source.path), "preset": options.preset, "labels": [*names],
        "batch": rows, "texts": digest(documents), "held back": digest(held_back),
    }  # fmt: skip
    return Task(
        recipe=recipe,
        model=model,
        batches=make_or_refuse(ClassifierBatches, documents, labels, max_len=max_len, rows=rows, seed=seed),
        loss_of=_loss,
        evaluate=lambda model: measures.classifier_scores(model, validation.epoch()),
        codecs={"text": codec},
        settings=settings,
        starts_from=base.path if base else None,
        notes=[*cut_note(documents, max_len), *([few_note(len(held_back))] if few else [])],
        # epochs of a few texts are short: after each, its 270 MB would be saved
        training={"perplexity": False, "evaluate_every": LEAST_STEPS // 5}
        if few
        else {"perplexity": False, "monitor": "accuracy", "higher_is_better": True, "evaluate_every": None},
    )


def few_note(texts: int) -> str:
    held = "one text is" if texts == 1 else f"{texts} texts are"
    return f"only {held} held back, too few to count right answers: the loss decides; --valid FILE would tell more"


def _pooling(base: Trained | None) -> str:
    return OBJECTIVES[objective_name(base.checkpoint) if base else "next"].pooling


def _loss(model: Any, batch: Any) -> tuple[Any, dict[str, float]]:
    logits = model(batch.ids, batch.lengths)
    right = (logits.numpy().argmax(axis=1) == batch.labels).mean()
    return F.cross_entropy(logits, batch.labels), {"accuracy": right}


def labelled(path: str, source: DataOptions, names: tuple[str, ...] | None) -> LabelledDocuments:
    """Texts with their classes."""
    return make_or_refuse(read_labelled, path, labels=names, **columns(source))


def names_of(checkpoint: Checkpoint) -> tuple[str, ...]:
    """The names of a classifier's classes."""
    names = setting(checkpoint, "labels")
    count = checkpoint.model["config"].get("n_classes")
    if not isinstance(names, list) or len(names) != count or not all(isinstance(name, str) for name in names):
        raise CheckpointError(checkpoint.path, "does not name its classes", "name a run of minitransformer finetune")
    return tuple(names)
