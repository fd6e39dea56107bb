"""Talk with a small model that was trained to answer. Its words appear as they are chosen.

It is small: it knows some things, makes up others, and forgets the beginning of a long talk. Ctrl-C stops an answer, a
second one leaves; so does an empty end of input (Ctrl-D). Lines from a pipe are answered one after the other.

examples:
  minitransformer chat
  minitransformer chat --system "You are a poet." --temperature 0.8
  echo "What is the capital of France?" | minitransformer chat --greedy
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from minitransformer.app.cli import numbers
from minitransformer.app.cli import text_input as _input
from minitransformer.app.cli import using as _using
from minitransformer.app.cli.main import add_backend
from minitransformer.app.cli.namespace import options_of
from minitransformer.app.tasks import borrowed
from minitransformer.errors import UserError, excerpt

MERELY_PRINTS = True
SYSTEM = "You are a helpful AI assistant named SmolLM, trained by Hugging Face"  # the words it was trained with
START, END = "<|im_start|>", "<|im_end|>"


@dataclass(frozen=True)
class Options:
    model: str = "smollm2"
    system: str = SYSTEM
    length: int = 400
    temperature: float | None = None
    top_p: float | None = None
    greedy: bool = False
    seed: int | None = None


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--system", metavar="TEXT", default=SYSTEM, help="what the model is told about itself")
    parser.add_argument(
        "--length", type=numbers.at_least_one, default=400, metavar="N", help="longest answer, in pieces (default: 400)"
    )
    parser.add_argument("--temperature", type=numbers.positive, metavar="X", help="0.2; higher is wilder")
    parser.add_argument(
        "--top-p", type=numbers.fraction, metavar="P", help="0.9: draw from the fewest words that reach P together"
    )
    parser.add_argument("--greedy", action="store_true", help="always the likeliest word")
    parser.add_argument("--seed", type=numbers.at_least_zero, metavar="N", help="same seed, same answers")
    parser.add_argument("--model", metavar="MODEL", default="smollm2", help=f"{borrowed.SOURCES} (default: smollm2)")
    add_backend(parser)


def run(arguments: argparse.Namespace) -> int:
    import secrets

    options = options_of(Options, arguments)
    if options.greedy and (options.temperature is not None or options.top_p is not None):
        raise UserError("--greedy chooses the likeliest words: leave out --temperature and --top-p")
    how: dict[str, Any] = {}
    if not options.greedy:
        how = {"sample": True, "temperature": options.temperature or 0.2, "top_p": options.top_p or 0.9}
    seed = secrets.randbelow(10_000) if options.seed is None else options.seed
    system = _input.checked(options.system)
    model, tokenizer = borrowed.borrow(options.model, "base", "smollm2 can")
    if START not in tokenizer.special or END not in tokenizer.special:
        raise UserError(f"{excerpt(options.model)} was not trained to talk in turns; smollm2 was")
    _using.compile_first(model)
    talk = Talk(model, tokenizer, system, options.length)
    at_keyboard = sys.stdin is not None and sys.stdin.isatty()
    if at_keyboard:
        print("Say something. Ctrl-C stops an answer, and leaves when nothing is being said.", flush=True)
    for number, question in enumerate(_questions(at_keyboard)):
        _answer(talk, question, at_keyboard, {**how, "seed": seed + number})
    return 0


@dataclass
class Talk:
    """What was said so far, as ids, turn by turn."""

    model: Any
    tokenizer: Any
    system: str
    length: int
    turns: list[list[int]] = field(default_factory=list)

    def turn(self, role: str, text: str) -> list[int]:
        """<|im_start|>role, a new line, the text<|im_end|>, a new line. Marks in the text are text: nobody ends his
        own turn."""
        return [*self._begin(role, text), self.tokenizer.special[END], *self._plain("\n")]

    def _begin(self, role: str, text: str = "") -> list[int]:
        return [self.tokenizer.special[START], *self._plain(f"{role}\n{text}")]

    def _plain(self, text: str) -> list[int]:
        return self.tokenizer.encode(text, add_special=False, parse_special=False)

    def prompt(self) -> list[int]:
        """All that was said, and the beginning of the answer. What has no room any more is forgotten, oldest first."""
        first, last = self.turn("system", self.system), self._begin("assistant")
        room = self.model.config.max_len - self.length - len(first) - len(last)
        while self.turns and sum(map(len, self.turns)) > room:
            del self.turns[: 2 if len(self.turns) > 1 else 1]
            if not self.turns:
                raise UserError(
                    f"that is too long: with an answer of {self.length} pieces it does not fit the model's "
                    f"{self.model.config.max_len:,} places; shorten it, or lower --length"
                )
        return [*first, *(i for turn in self.turns for i in turn), *last]

    def answer(self, question: str, **how: Any) -> Iterator[str]:
        """The pieces of the answer as they come; what was said of it is remembered, even when it is cut off."""
        from minitransformer.decoding import stream

        self.turns.append(self.turn("user", question))
        prompt, said = self.prompt(), []
        specials = frozenset(self.tokenizer.special.values())

        def ids() -> Iterator[int]:
            for words in stream(self.model, [prompt], max_new_tokens=self.length, **how):
                if int(words[0]) in specials:
                    return
                said.append(int(words[0]))
                yield said[-1]

        self.pieces = said
        try:
            yield from self.tokenizer.decode_stream(ids())
        finally:
            ending = [self.tokenizer.special[END], *self._plain("\n")]
            self.turns.append([*self._begin("assistant"), *said, *ending])


def _questions(at_keyboard: bool) -> Iterator[str]:
    if not at_keyboard:
        for questions in _input.piped():
            yield from questions
        return
    from contextlib import suppress

    with suppress(ImportError):
        import readline  # noqa: F401  # arrow keys and earlier questions
    while True:
        try:
            question = input("\nyou> ")
        except EOFError:
            print()
            return
        if question.strip():
            yield _input.checked(question.strip())


def _answer(talk: Talk, question: str, at_keyboard: bool, how: dict[str, Any]) -> None:
    """Prints an answer while it is made, and how fast that was."""
    if not at_keyboard:
        print(f"you> {question}", flush=True)
    started = time.monotonic()
    try:
        for text in talk.answer(question, **how):
            print(text, end="", flush=True)
        print(flush=True)
    except KeyboardInterrupt as stop:
        if type(stop) is not KeyboardInterrupt or not at_keyboard:  # asked to end, not to be quiet
            raise
        print(" ...", flush=True)
    _using.tell_rate(len(talk.pieces), started)
