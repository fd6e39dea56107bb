"""Translate sentences.

With no sentence, and a model of the built-in language, a few fresh sentences are translated.

examples:
  minitransformer translate
  minitransformer translate "I have a red car." "The cat does not eat."
  minitransformer translate --file english.txt --beam 4 --model runs/french
  echo "We sleep." | minitransformer translate
"""

import argparse
import itertools
import sys

from minitransformer.app.cli import numbers
from minitransformer.app.cli import text_input as _input
from minitransformer.app.cli import using as _using
from minitransformer.app.cli.namespace import options_of
from minitransformer.errors import UserError

MERELY_PRINTS = True


def add_arguments(parser: argparse.ArgumentParser) -> None:
    _input.add_input(parser, "sentences to translate")
    parser.add_argument("--beam", type=numbers.at_least_one, default=1, metavar="K", help="beams (default: 1, greedy)")
    _using.add_model(parser, "runs/translator")


def run(arguments: argparse.Namespace) -> int:
    from minitransformer.app.tasks.translating import translations

    options = options_of(_input.TextOptions, arguments)
    trained, first, groups = _using.opened(options, "Translator")
    demonstration = not first
    if demonstration:
        first = _fresh(trained)
    noted = False
    for sentences in itertools.chain([first], groups):
        noted = noted or _using.note_unknown(trained.codecs["source"], sentences)
        found = translations(trained.model, trained.codecs, sentences, beams=options.beam)
        # beside its source where a person compares, alone where a program reads
        beside = demonstration or (sys.stdout.isatty() and len(sentences) > 1)
        width = max(map(len, sentences)) if beside else 0
        for sentence, ids in zip(sentences, found, strict=True):
            text = trained.codecs["target"].decode(ids)
            print(f"{sentence:{width}}  {text}" if beside else text, flush=True)
    return 0


def _fresh(trained) -> list[str]:
    """A few sentences nobody trained on."""
    if not trained.builtin:
        raise UserError("there is nothing to translate: give sentences, --file FILE, or lines through a pipe")
    from minitransformer.app.language import detokenize, pairs
    from minitransformer.app.tasks import builtin

    return [detokenize(pair.english) for pair in pairs().sample(6, builtin.seed_of(builtin.TEST, 1))]
