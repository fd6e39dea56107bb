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

from minitransformer.app.cli import text_input as _input
from minitransformer.app.cli import using as _using
from minitransformer.app.cli.namespace import options_of
from minitransformer.errors import UserError

MERELY_PRINTS = True


def add_arguments(parser: argparse.ArgumentParser) -> None:
    _input.add_input(parser, "texts to classify")
    _using.add_model(parser, "runs/finetune")


def run(arguments: argparse.Namespace) -> int:
    import numpy as np

    from minitransformer.app.data import ClassifierBatches
    from minitransformer.app.tables import table
    from minitransformer.app.tasks import measures
    from minitransformer.app.tasks.classifying import names_of
    from minitransformer.app.tasks.trained import open_model

    options = options_of(_input.TextOptions, arguments)
    texts = _input.texts_from(options)
    trained = open_model(options.model, "Classifier")
    names, codec = names_of(trained.checkpoint), trained.codecs["text"]
    _using.announce(trained)
    truth: list[str] = []
    if not texts:
        texts, truth = _fresh(trained)
    _using.note_unknown(codec, texts)
    ids = [codec.encode(text) for text in texts]
    max_len = trained.model.config.max_len
    batches = ClassifierBatches(ids, [0] * len(ids), max_len=max_len, rows=32, shuffle=False)
    chances = np.zeros((len(texts), len(names)))
    for batch in batches.epoch():
        chances[batch.index] = measures.class_probabilities(trained.model, batch.ids, batch.lengths)
    rows = []
    for number, text in enumerate(texts):
        best = int(chances[number].argmax())
        rows.append((names[best], f"{chances[number, best]:.1%}", *truth[number : number + 1], text))
    header = ("label", "probability", "truth", "text") if truth else ("label", "probability", "text")
    print(table(header, rows, right=(1,), shorten=(len(header) - 1,)))
    return 0


def _fresh(trained) -> tuple[list[str], list[str]]:
    """A few reviews nobody trained on, and their labels."""
    if not trained.builtin:
        raise UserError("there is nothing to classify: give texts, --file FILE, or lines through a pipe")
    from minitransformer.app.language import detokenize
    from minitransformer.app.tasks import builtin

    drawn = builtin.labelled_reviews(6, builtin.TEST, seed=1)
    return [detokenize(review.words) for review in drawn], [builtin.LABELS[review.label] for review in drawn]
