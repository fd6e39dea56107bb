"""Say to which class a text belongs, and how sure the model is.

With no text, and a model of the built-in language, a few fresh reviews are classified beside their true labels.

examples:
  minitransformer classify
  minitransformer classify "The author is dull, but this novel is superb." \\
                           "The author is superb, but this novel is dull."
  minitransformer classify --file reviews.txt --model runs/opinions
  cat reviews.txt | minitransformer classify
"""

import argparse
import itertools
from collections.abc import Sequence

from minitransformer.app.cli import text_input as _input
from minitransformer.app.cli import using as _using
from minitransformer.app.cli.namespace import options_of
from minitransformer.errors import UserError

MERELY_PRINTS = True


def add_arguments(parser: argparse.ArgumentParser) -> None:
    _input.add_input(parser, "texts to classify")
    _using.add_model(parser, "runs/finetune")


def run(arguments: argparse.Namespace) -> int:
    from minitransformer.app.tables import Table
    from minitransformer.app.tasks.classifying import names_of

    trained, first, groups = _using.opened(options_of(_input.TextOptions, arguments), "Classifier")
    names, codec = names_of(trained.checkpoint), trained.codecs["text"]
    truth: list[str] = []
    if not first:
        first, truth = _fresh(trained)
    header = ("label", "probability", "truth", "text") if truth else ("label", "probability", "text")
    longest = max(map(len, names))  # of a pipe nobody knows which labels are still to come
    shown = Table(header, right=(1,), shorten=(len(header) - 1,), least={0: longest})
    noted = False
    for texts in itertools.chain([first], groups):
        noted = noted or _using.note_unknown(codec, texts)
        answers = [(names[best], f"{chance:.1%}") for best, chance in _classified(trained.model, codec, texts)]
        rows = [(*answer, *truth[n : n + 1], text) for n, (answer, text) in enumerate(zip(answers, texts, strict=True))]
        print(shown.part(rows), flush=True)
    return 0


def _classified(model, codec, texts: Sequence[str]) -> list[tuple[int, float]]:
    """The likeliest class of each text, and its probability."""
    import numpy as np

    from minitransformer.app.data import ClassifierBatches
    from minitransformer.app.tasks import measures

    ids = [codec.encode(text) for text in texts]
    batches = ClassifierBatches(ids, [0] * len(ids), max_len=model.config.max_len, rows=32, shuffle=False)
    chances = np.zeros((len(texts), model.config.n_classes))
    for batch in batches.epoch():
        chances[batch.index] = measures.class_probabilities(model, batch.ids, batch.lengths)
    return [(int(row.argmax()), float(row.max())) for row in chances]


def _fresh(trained) -> tuple[list[str], list[str]]:
    """A few reviews nobody trained on, and their labels."""
    if not trained.builtin:
        raise UserError("there is nothing to classify: give texts, --file FILE, or lines through a pipe")
    from minitransformer.app.language import detokenize
    from minitransformer.app.tasks import builtin

    drawn = builtin.labelled_reviews(6, builtin.TEST, seed=1)
    return [detokenize(review.words) for review in drawn], [builtin.LABELS[review.label] for review in drawn]
