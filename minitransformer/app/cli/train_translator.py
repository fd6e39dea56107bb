"""Train a translator: an encoder reads a sentence, a decoder writes it in the other language.

With no data it learns built-in English-French pairs. DATA has one pair a line, english<TAB>french.

examples:
  minitransformer train-translator                             built-in pairs, about a minute and a half
  minitransformer train-translator fra.txt --out runs/french --epochs 10
  minitransformer train-translator fra.txt --preset lab --out runs/lab
  minitransformer train-translator fra.txt --reverse --out runs/english
"""

import argparse

from minitransformer.app.cli import options as _options
from minitransformer.errors import UserError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("data", nargs="?", metavar="DATA", help="sentence pairs (default: the built-in language)")
    parser.add_argument("--valid", metavar="FILE", help="pairs to validate on (default: a twentieth of DATA)")
    parser.add_argument("--reverse", action="store_true", help="translate from the second column to the first")
    help = "part of the probability that training asks to spread over all words (default: 0)"
    parser.add_argument("--label-smoothing", type=_options.dropout, metavar="P", help=help)
    _options.add_training(parser, "runs/translator", "built-in pairs in an epoch", tied=True)
    _options.add_tokenizer(parser, "words", 8000, lab=False)


def run(arguments: argparse.Namespace) -> int:
    from minitransformer.app.tasks import recipes, runs, translating

    recipe = recipes.choose(recipes.TRANSLATOR, arguments)
    if recipe.model["max_len"] < 2:
        raise UserError("--max-len 1: a sentence needs room for its end; give at least 2")
    former = runs.former_run(arguments.out, arguments.resume, "Translator")
    _options.settle_data(arguments)
    task = translating.task(recipe, arguments, former)
    sizes = [f"{task.wordings[side].tokenizer.vocab_size:,}" for side in translating.SIDES]
    print(f"translator, {' and '.join(sizes)} words, {task.model.num_parameters():,} weights")
    result = runs.run(
        task, recipe, folder=arguments.out, resume=arguments.resume, seed=arguments.seed, command=_options.go_on()
    )
    if not result.interrupted:
        _options.report(_summary(task, result, arguments))
    return _options.exit_code(result)


def _summary(task, result, arguments) -> list[tuple[str, str]]:
    from minitransformer.app.tasks import builtin, translating

    rows = []
    if result.best:
        rows.append(("loss", f"{result.best['value']:.3f} nats a word on unseen pairs"))
    if arguments.data is None:
        from minitransformer.app.language import detokenize, pairs

        rows.append(("best possible", f"{pairs().best_translation_loss():.3f}: what the English leaves open"))
        drawn = pairs().sample(3, builtin.seed_of(builtin.VALIDATION, 1))
        sentences = [detokenize(pair.english) for pair in drawn]
        found = translating.translations(task.model, task.wordings, sentences)
        rows += [
            ("it says", f"{one} → {task.wordings['target'].decode(ids)}")
            for one, ids in zip(sentences, found, strict=True)
        ]
    where = "" if arguments.out == "runs/translator" else f" --model {arguments.out}"
    rows.append(("try", f'minitransformer translate{where} "I have a red car."'))
    return rows
