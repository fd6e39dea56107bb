"""Let a language model write. The words appear as they are chosen.

examples:
  minitransformer generate
  minitransformer generate "I read this novel" --count 3
  minitransformer generate --temperature 1.2 --top-p 0.9 --seed 7
  minitransformer generate "The author" --beam 4
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from minitransformer.app.cli import numbers
from minitransformer.app.cli import text_input as _input
from minitransformer.app.cli import using as _using
from minitransformer.app.cli.namespace import options_of
from minitransformer.errors import UserError

if TYPE_CHECKING:
    from minitransformer.app.tasks.trained import Trained

MERELY_PRINTS = True


@dataclass(frozen=True)
class Options:
    prompt: str = ""
    model: str | None = None
    count: int = 1
    length: int | None = None
    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    greedy: bool = False
    beam: int | None = None
    no_repeat: int = 0
    seed: int | None = None


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("prompt", nargs="?", default="", help="how the text begins (default: anything)")
    parser.add_argument(
        "--count", type=numbers.at_least_one, default=1, metavar="N", help="how many texts (default: 1)"
    )
    parser.add_argument("--length", type=numbers.at_least_one, metavar="N", help="at most so many new words or pieces")
    how = parser.add_argument_group("how words are chosen")
    how.add_argument("--temperature", type=numbers.positive, metavar="X", help="0.8; lower is safer, higher is wilder")
    how.add_argument("--top-k", type=numbers.at_least_one, metavar="K", help="draw from the K likeliest words only")
    how.add_argument(
        "--top-p", type=numbers.fraction, metavar="P", help="draw from the fewest words that reach P together"
    )
    how.add_argument("--greedy", action="store_true", help="always the likeliest word")
    how.add_argument(
        "--beam", type=numbers.at_least_one, metavar="K", help="search for the likeliest texts with K beams"
    )
    how.add_argument(
        "--no-repeat", type=numbers.at_least_one, default=0, metavar="N", help="no N words in a row come twice"
    )
    how.add_argument(
        "--seed", type=numbers.at_least_zero, metavar="N", help="same seed, same text (default: another each time)"
    )
    _using.add_model(parser, "runs/pretrain")


def run(arguments: argparse.Namespace) -> int:
    from minitransformer.app.data import Tokenizer
    from minitransformer.app.tasks.trained import open_model
    from minitransformer.app.training.checkpoints import CheckpointError

    options = options_of(Options, arguments)
    drawn = (options.temperature, options.top_k, options.top_p)
    if (options.greedy or options.beam) and any(value is not None for value in drawn):
        raise UserError("--greedy and --beam choose the likeliest words: leave out --temperature, --top-k and --top-p")
    if options.greedy and options.beam:
        raise UserError("--greedy and --beam: give one or the other")
    prompt = _input.checked(options.prompt)
    trained = open_model(options.model, "LanguageModel")
    if not trained.model.config.causal:
        found = "holds a model that fills in hidden words and cannot go on with a text"
        advice = "name a run of `minitransformer pretrain` without --objective"
        raise CheckpointError(trained.path, found, advice)
    codec, max_len = trained.codecs["text"], trained.model.config.max_len
    _using.announce(trained)
    _using.note_unknown(codec, [prompt] if prompt.strip() else [])
    ids = [Tokenizer.sos, *codec.encode(prompt, complete=False)]
    if len(ids) >= max_len:
        raise UserError(f"a prompt of {len(ids) - 1} words fills the model's {max_len} positions: shorten it")
    if options.length is not None and len(ids) + options.length > max_len:
        raise UserError(f"--length {options.length}: after this prompt there is room for {max_len - len(ids)} words")
    limits = {
        "max_new_tokens": options.length,
        "eos": Tokenizer.eos,
        "no_repeat": options.no_repeat,
        "suppress": (Tokenizer.sos, Tokenizer.pad),
    }
    if options.beam:
        _search(trained, ids, max(options.beam, options.count), options.count, limits)
    else:
        _stream(trained, ids, options, limits)
    return 0


def _stream(trained: Trained, ids: list[int], options: Options, limits: dict[str, Any]) -> None:
    """One text after the other, word by word."""
    import secrets

    from minitransformer.decoding import stream

    seed = options.seed
    if not options.greedy:
        limits |= {"sample": True, "top_k": options.top_k, "top_p": options.top_p}
        limits["temperature"] = 0.8 if options.temperature is None else options.temperature
        if seed is None:
            seed = secrets.randbelow(10_000)
            print(f"seed {seed}", file=sys.stderr, flush=True)
    for number in range(1 if options.greedy else options.count):
        page = _Page(trained.codecs["text"])
        page.show(ids[1:])
        written = ids[1:]
        for words in stream(trained.model, [ids], seed=(seed or 0) + number, **limits):
            written = [*written, int(words[0])]
            page.show(written)
        page.end()


class _Page:
    """A text that grows on the terminal."""

    def __init__(self, codec) -> None:
        self.codec, self.shown, self.text = codec, "", ""

    def show(self, ids: list[int]) -> None:
        """Adds what is new. Half a character, spelt in bytes, waits for its other half."""
        self.text = self.codec.decode(ids)
        ready = self.text.rstrip("\ufffd")
        if ready.startswith(self.shown):
            print(ready[len(self.shown) :], end="", flush=True)
            self.shown = ready

    def end(self) -> None:
        if self.text != self.shown:  # later pieces changed earlier text: show it as it is now
            print(f"\n{self.text}" if not self.text.startswith(self.shown) else self.text[len(self.shown) :], end="")
        print(flush=True)


def _search(trained: Trained, ids: list[int], beams: int, count: int, limits: dict[str, Any]) -> None:
    """The likeliest whole texts, best first."""
    from minitransformer.decoding import beam_search

    found = beam_search(trained.model, [ids], beams=beams, **limits)[0]
    for hypothesis in found[:count]:
        text = trained.codecs["text"].decode([*ids[1:], *hypothesis.tokens])
        print(text if count == 1 else f"{hypothesis.log_prob:8.2f}  {text}", flush=True)
