"""Train a language model: it reads text and learns to predict the next word, or words missing in it.

With no data it learns the built-in language of book reviews, whose best possible loss is known. DATA has one document
a line (.txt, .spm with its dict.txt) or a text column (.tsv, .csv, .jsonl).

examples:
  minitransformer pretrain                                     built-in reviews, about a minute
  minitransformer pretrain books.txt --out runs/books --epochs 3 --max-len 256
  minitransformer pretrain imdb.review.spm --dict dict.txt --preset lab
  minitransformer pretrain --objective masked --out runs/masked   hidden words, read from both sides: for finetune
  minitransformer pretrain reviews.txt --objective bag --out runs/bag   half a text's words, from the other half
  minitransformer pretrain reviews.txt --from runs/books --out runs/reviews   go on with text of another kind
  minitransformer pretrain --resume                            after Ctrl-C
"""

import argparse

from minitransformer.app.cli import options as _options
from minitransformer.errors import UserError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("data", nargs="?", metavar="DATA", help="text to learn from (default: the built-in language)")
    parser.add_argument("--valid", metavar="FILE", help="text to validate on (default: a twentieth of DATA)")
    parser.add_argument("--text-column", metavar="NAME", help="of a table (default: text); a number: no header")
    parser.add_argument("--from", dest="base", metavar="RUN", help="language model to start from, with its words")
    parser.add_argument(
        "--objective",
        choices=("next", "masked", "bag"),
        default="next",
        help="next: predict the next word; masked: hidden words, from both sides; bag: words taken out of a text, "
        "wherever they stood, from the rest as a whole (default: next)",
    )
    parser.add_argument(
        "--mask-rate",
        type=_options.part,
        metavar="P",
        help="part of the words hidden or taken out (default: 0.15; for a bag 0.5)",
    )
    parser.add_argument(
        "--sampled-words",
        type=_options.whole,
        metavar="N",
        help="score about N words in training, another sample each step, instead of the whole vocabulary: reads more "
        "text in the same time; what is measured is the whole model",
    )
    _options.add_training(parser, "runs/pretrain", "built-in reviews in an epoch", tied=True)
    _options.add_tokenizer(parser, "pieces", 8000)


_KINDS = {"next": "language model", "masked": "masked language model", "bag": "language model of whole texts"}
_WORDS = {"next": "word", "masked": "hidden word", "bag": "missing word"}


def run(arguments: argparse.Namespace) -> int:
    from minitransformer.app.tasks import modelling, recipes, runs
    from minitransformer.app.tasks.trained import open_model

    recipe = recipes.choose(recipes.PRETRAIN, arguments)
    if recipe.model["max_len"] < 2:
        raise UserError("--max-len 1: a word needs another one to follow; give at least 2")
    if arguments.mask_rate is not None and arguments.objective == "next":
        raise UserError("--mask-rate hides words, and the next word is not hidden: add --objective masked (or bag)")
    if arguments.objective == "bag" and arguments.base is None and not recipe.model.get("norm_first"):
        raise UserError("--objective bag reads what layers with their norm first have summed up: add --norm-first")
    if arguments.sampled_words is not None and (arguments.data is None or arguments.objective == "bag"):
        what = "a bag is predicted once a text" if arguments.data else "the built-in language has few words"
        raise UserError(f"--sampled-words is for predicting many words out of many: {what}; leave it away")
    former = runs.former_run(arguments.out, arguments.resume, "LanguageModel")
    base = None
    if arguments.base is not None:
        if arguments.data is None:
            raise UserError("--from goes on with other text: give DATA, a file with one document a line")
        _options.refuse_sizes(arguments, "leave them away, or do without --from")
        base = open_model(arguments.base, "LanguageModel")
    _options.settle_data(arguments, based=base is not None)
    task = modelling.task(recipe, arguments, former, base)
    size = task.wordings["text"].tokenizer.vocab_size
    kind = _KINDS[arguments.objective]
    print(f"{kind}, {size:,} words or pieces, {task.model.num_parameters():,} weights", flush=True)
    if base:
        print(f"starts from {base.path}", flush=True)
    result = runs.run(
        task, recipe, folder=arguments.out, resume=arguments.resume, seed=arguments.seed, command=_options.go_on()
    )
    if not result.interrupted:
        _options.report(_summary(task, result, arguments))
    return _options.exit_code(result)


def _summary(task, result, arguments) -> list[tuple[str, str]]:
    import math

    from minitransformer.app.tasks import filling

    objective, wording = arguments.objective, task.wordings["text"]
    rows = []
    if result.best:
        word = _WORDS[objective]
        loss = result.best["value"]
        rows.append(("loss", f"{loss:.3f} nats a {word} (perplexity {math.exp(min(loss, 700)):.2f}) on unseen text"))
    if arguments.data is None and objective == "next":
        from minitransformer.app.language import reviews

        floor = reviews().best_loss()
        rows.append(("best possible", f"{floor:.3f} (perplexity {math.exp(floor):.2f}): the language's own entropy"))
    if objective == "masked":
        rows += [("fills in", text) for text in filling.filled(task.model, wording, task.held, 2)]
    elif objective == "bag":
        rows += [("expects", text) for text in filling.expected(task.model, wording, task.held, 2)]
    else:
        rows += [("it says", text) for text in _samples(task, 2)]
    next_command, option = ("generate", "--model") if objective == "next" else ("finetune", "--from")
    where = "" if arguments.out == "runs/pretrain" else f" {option} {arguments.out}"
    rows.append(("try", f"minitransformer {next_command}{where}"))
    return rows


def _samples(task, n: int) -> list[str]:
    from minitransformer.app.data import Tokenizer
    from minitransformer.decoding import generate

    room = min(40, task.model.config.max_len - 1)
    texts = generate(
        task.model, [[Tokenizer.sos]] * n, max_new_tokens=room, eos=Tokenizer.eos, temperature=0.8,
        suppress=(Tokenizer.sos, Tokenizer.pad), seed=1,
    )  # fmt: skip
    return [task.wordings["text"].decode(ids) for ids in texts]
