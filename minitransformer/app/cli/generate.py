"""Let a language model write. The words appear as they are chosen.

examples:
  minitransformer generate
  minitransformer generate "I read this novel" --count 3
  minitransformer generate --temperature 1.2 --top-p 0.9 --seed 7
  minitransformer generate "The author" --beam 4
  minitransformer generate "The capital of France is" --model smollm2    a model of others, see `minitransformer models`
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from minitransformer.app.cli import numbers
from minitransformer.app.cli import text_input as _input
from minitransformer.app.cli import using as _using
from minitransformer.app.cli.namespace import options_of
from minitransformer.app.tasks import borrowed
from minitransformer.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Callable

MERELY_PRINTS = True
BORROWED_LENGTH = 200  # new pieces, unless told otherwise: models of others have room for thousands


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
    _using.add_model(parser, "runs/pretrain", f", or {borrowed.SOURCES}")


def run(arguments: argparse.Namespace) -> int:
    options = options_of(Options, arguments)
    drawn = (options.temperature, options.top_k, options.top_p)
    if (options.greedy or options.beam) and any(value is not None for value in drawn):
        raise UserError("--greedy and --beam choose the likeliest words: leave out --temperature, --top-k and --top-p")
    if options.greedy and options.beam:
        raise UserError("--greedy and --beam: give one or the other")
    prompt = _input.checked(options.prompt)
    find = _borrowed if options.model is not None and borrowed.is_borrowed(options.model) else _trained
    writer = find(options, prompt)
    ids, max_len = writer.ids, writer.model.config.max_len
    given = len(ids) - writer.hidden
    if len(ids) >= max_len:
        raise UserError(f"a prompt of {given} words fills the model's {max_len} positions: shorten it")
    length = options.length
    if length is not None and len(ids) + length > max_len:
        raise UserError(f"--length {length}: after this prompt there is room for {max_len - len(ids)} words")
    if length is None and writer.usual_length is not None:
        length = min(writer.usual_length, max_len - len(ids))
    limits = {
        "max_new_tokens": length,
        "eos": writer.eos,
        "no_repeat": options.no_repeat,
        "suppress": writer.suppress,
    }
    if options.beam:
        _search(writer, max(options.beam, options.count), options.count, limits)
    else:
        _stream(writer, options, limits)
    return 0


@dataclass(frozen=True)
class _Writer:
    """A language model that goes on with a text."""

    model: Any
    decode: Callable[[list[int]], str]
    ids: list[int]  # of the text
    hidden: int  # so many of them stand before the text and are not shown
    eos: int | None
    suppress: tuple[int, ...]
    usual_length: int | None = None


def _trained(options: Options, prompt: str) -> _Writer:
    """Of a run of ours."""
    from minitransformer.app.data import Tokenizer
    from minitransformer.app.tasks.trained import open_model
    from minitransformer.app.training.checkpoints import CheckpointError

    trained = open_model(options.model, "LanguageModel")
    if not trained.model.config.causal:
        found = "holds a model that fills in hidden words and cannot go on with a text"
        advice = "name a run of `minitransformer pretrain` without --objective"
        raise CheckpointError(trained.path, found, advice)
    codec = trained.codecs["text"]
    _using.announce(trained)
    _using.note_unknown(codec, [prompt] if prompt.strip() else [])
    ids = [Tokenizer.sos, *codec.encode(prompt, complete=False)]
    return _Writer(trained.model, codec.decode, ids, 1, Tokenizer.eos, (Tokenizer.sos, Tokenizer.pad))


def _borrowed(options: Options, prompt: str) -> _Writer:
    """Of somebody else's."""
    assert options.model is not None
    model, tokenizer = borrowed.borrow(options.model, "base", "smollm2 can")
    ends = [tokenizer.special[name] for name in ENDS if name in tokenizer.special]
    ids = tokenizer.encode(prompt, parse_special=False)[: None if not tokenizer.after else -len(tokenizer.after)]
    hidden = len(tokenizer.before)
    if not ids and ends:  # texts are separated by such a mark, so one begins after it
        ids, hidden = [ends[0]], 1
    if not ids:
        raise UserError("this model needs a word to begin with: give a prompt")
    end = ends[0] if ends else None
    others = tuple(i for i in tokenizer.special.values() if i != end)
    return _Writer(model, tokenizer.decode, ids, hidden, end, others, BORROWED_LENGTH)


ENDS = ("<|endoftext|>", "</s>", "<|end_of_text|>", "<|im_end|>")  # of a text, in the words of several tokenizers


def _stream(writer: _Writer, options: Options, limits: dict[str, Any]) -> None:
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
    _using.compile_first(writer.model)
    for number in range(1 if options.greedy else options.count):
        page, written = _Page(writer.decode), writer.ids[writer.hidden :]
        page.show(written)
        given, started = len(written), time.monotonic()
        for words in stream(writer.model, [writer.ids], seed=(seed or 0) + number, **limits):
            written = [*written, int(words[0])]
            page.show(written)
        page.end()
        _using.tell_rate(len(written) - given, started)


class _Page:
    """A text that grows on the terminal."""

    def __init__(self, decode: Callable[[list[int]], str]) -> None:
        self.decode, self.shown, self.text = decode, "", ""

    def show(self, ids: list[int]) -> None:
        """Adds what is new. Half a character, spelt in bytes, waits for its other half."""
        self.text = self.decode(ids)
        ready = self.text.rstrip("\ufffd")
        if ready.startswith(self.shown):
            print(ready[len(self.shown) :], end="", flush=True)
            self.shown = ready

    def end(self) -> None:
        if self.text != self.shown:  # later pieces changed earlier text: show it as it is now
            print(f"\n{self.text}" if not self.text.startswith(self.shown) else self.text[len(self.shown) :], end="")
        print(flush=True)


def _search(writer: _Writer, beams: int, count: int, limits: dict[str, Any]) -> None:
    """The likeliest whole texts, best first."""
    from minitransformer.decoding import beam_search

    found = beam_search(writer.model, [writer.ids], beams=beams, **limits)[0]
    for hypothesis in found[:count]:
        text = writer.decode([*writer.ids[writer.hidden :], *hypothesis.tokens])
        print(text if count == 1 else f"{hypothesis.log_prob:8.2f}  {text}", flush=True)
