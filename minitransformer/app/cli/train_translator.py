"""Train a translator: an encoder reads a sentence, a decoder writes it in the other language.

With no data it learns built-in English-French pairs. DATA has one pair a line, english<TAB>french.

examples:
  minitransformer train-translator                             built-in pairs, about a minute and a half
  minitransformer train-translator fra.txt --out runs/french --epochs 10
  minitransformer train-translator fra.txt --preset lab --out runs/lab
  minitransformer train-translator fra.txt --reverse --out runs/english
"""

import argparse

from minitransformer.app.cli import numbers
from minitransformer.app.cli import training_flags as _training
from minitransformer.app.tasks import builtin, translating
from minitransformer.app.tasks.task import Task
from minitransformer.app.tasks.translating import SIDES, TranslatorOptions
from minitransformer.app.training import Result

OUT = "runs/translator"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("data", nargs="?", metavar="DATA", help="sentence pairs (default: the built-in language)")
    parser.add_argument("--valid", metavar="FILE", help="pairs to validate on (default: a twentieth of DATA)")
    parser.add_argument("--reverse", action="store_true", help="translate from the second column to the first")
    help = "part of the probability that training asks to spread over all words (default: 0)"
    parser.add_argument("--label-smoothing", type=numbers.below_one, metavar="P", help=help)
    _training.add_training(parser, OUT, "built-in pairs in an epoch", "Translator")
    _training.add_tokenizer(parser, "words", lab=False)


def run(arguments: argparse.Namespace) -> int:
    options = _training.training_options(TranslatorOptions, arguments, "Translator")
    task = translating.task(options)
    sizes = [f"{task.codecs[side].tokenizer.vocab_size:,}" for side in SIDES]
    print(f"translator, {' and '.join(sizes)} words, {task.model.num_parameters():,} weights")
    return _training.carry_out(task, options, arguments.program, lambda result: _summary(task, result, options))


def _summary(task: Task, result: Result, options: TranslatorOptions) -> list[tuple[str, str]]:
    rows = []
    if result.best:
        rows.append(("loss", f"{result.best['value']:.3f} nats a word on unseen pairs"))
    if options.data.path is None:
        from minitransformer.app.language import detokenize, pairs

        rows.append(("best possible", f"{pairs().best_translation_loss():.3f}: what the English leaves open"))
        drawn = pairs().sample(3, builtin.seed_of(builtin.VALIDATION, 1))
        sentences = [detokenize(pair.english) for pair in drawn]
        found = translating.translations(task.model, task.codecs, sentences)
        rows += [
            ("it says", f"{one} → {task.codecs['target'].decode(ids)}")
            for one, ids in zip(sentences, found, strict=True)
        ]
    where = "" if options.out == OUT else f" --model {options.out}"
    rows.append(("try", f'minitransformer translate{where} "I have a red car."'))
    return rows
