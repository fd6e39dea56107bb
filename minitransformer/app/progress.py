"""What a user sees of a long computation: a bar on a terminal, a plain line every few seconds elsewhere."""

from __future__ import annotations

import math
import shutil
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol, TextIO, TypeVar

from minitransformer.app.output import forgiving

T = TypeVar("T")


@dataclass(frozen=True)
class Status:
    """Where a computation stands. `total` and `seconds_left` are None when nobody knows."""

    step: int
    total: int | None
    epoch: int
    values: Mapping[str, float]  # shown in this order: loss, perplexity, accuracy ...
    tokens_per_second: float
    seconds_left: float | None

    def numbers(self) -> str:
        shown = [f"{name} {_short(value)}" for name, value in self.values.items()]
        return ", ".join([*shown, f"{_thousands(self.tokens_per_second)} tokens/s"])

    def left(self) -> str:
        return "" if self.seconds_left is None else f"{duration(self.seconds_left)} left"


class Progress(Protocol):
    def update(self, status: Status) -> None: ...
    def note(self, text: str) -> None: ...
    def close(self) -> None: ...


class Silent:
    """Shows nothing."""

    def update(self, status: Status) -> None:
        pass

    def note(self, text: str) -> None:
        pass

    def close(self) -> None:
        pass


class Lines:
    """A line at most every `seconds`: for log files and pipes, where a bar would leave thousands of fragments."""

    def __init__(self, stream: TextIO | None = None, seconds: float = 5.0):
        self.stream, self.seconds = forgiving(stream), seconds
        self._next = time.monotonic()  # the first step is shown at once: it tells that all is well

    def update(self, status: Status) -> None:
        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + self.seconds
        step = f"step {status.step}" if status.total is None else f"step {status.step}/{status.total}"
        parts = [step, f"epoch {status.epoch + 1}", status.numbers(), status.left()]
        self.note(", ".join(part for part in parts if part))

    def note(self, text: str) -> None:
        print(text, file=self.stream, flush=True)

    def close(self) -> None:
        pass


class Bar:
    """A tqdm bar that stays on one line of the terminal."""

    def __init__(self, stream: TextIO | None = None):
        self.stream = forgiving(stream)
        self._bar: Any = None

    def update(self, status: Status) -> None:
        from tqdm import tqdm

        if self._bar is None:
            shape = "{desc} {percentage:3.0f}% |{bar}| {n_fmt}/{total_fmt}{postfix}"
            unknown = "{desc} {n_fmt} steps{postfix}"
            self._bar = tqdm(
                total=status.total,
                initial=status.step,
                file=self.stream,
                dynamic_ncols=True,
                leave=True,
                bar_format=unknown if status.total is None else shape,
            )
        self._bar.set_description_str(f"epoch {status.epoch + 1}", refresh=False)
        self._bar.set_postfix_str(", ".join(filter(None, [status.numbers(), status.left()])), refresh=False)
        self._bar.update(status.step - self._bar.n)

    def note(self, text: str) -> None:
        if self._bar is None:
            print(text, file=self.stream, flush=True)
        else:
            self._bar.write(text, file=self.stream)

    def close(self) -> None:
        if self._bar is not None:
            self._bar.refresh()  # tqdm skips updates that come too fast, the last one among them
            self._bar.close()
            self._bar = None


def progress_on(stream: TextIO | None = None) -> Progress:
    """A bar if the stream (stderr unless told) is a terminal, else lines."""
    stream = forgiving(stream)
    return Bar(stream) if stream.isatty() else Lines(stream)


PATIENCE = 2.0  # seconds that a user waits without asking why


def counted(items: Sequence[T], what: str, stream: TextIO | None = None) -> Iterator[T]:
    """The items themselves. Whoever waits for them longer than PATIENCE is shown how many have gone by."""
    stream = forgiving(stream)
    if stream.isatty():
        from tqdm import tqdm

        yield from tqdm(items, desc=what, file=stream, delay=PATIENCE, leave=False, dynamic_ncols=True)
        return
    following = time.monotonic() + PATIENCE
    for number, item in enumerate(items):
        if time.monotonic() >= following:
            print(f"{what}: {number:,} of {len(items):,}", file=stream, flush=True)
            following = time.monotonic() + 5
        yield item


@contextmanager
def clocked(what: str, stream: TextIO | None = None) -> Iterator[None]:
    """For work that cannot be counted. Whoever waits longer than PATIENCE is shown the seconds that have gone by, by a
    thread: the work must let others run (as sentencepiece does)."""
    stream = forgiving(stream)
    live, done, start = stream.isatty(), threading.Event(), time.monotonic()

    def tell() -> None:
        wait = PATIENCE
        while not done.wait(wait):
            text = f"{what}: {duration(time.monotonic() - start)}"
            room = shutil.get_terminal_size().columns - 1  # a line that wraps could not be rewritten
            print(f"\r\033[K{text[:room]}" if live else text, end="" if live else "\n", file=stream, flush=True)
            wait = 1 if live else 5

    clock = threading.Thread(target=tell, daemon=True)
    clock.start()
    try:
        yield
    finally:
        done.set()
        clock.join()
        if live and time.monotonic() - start >= PATIENCE:
            print("\r\033[K", end="", file=stream, flush=True)


class Pace:
    """Averages over the last steps: their loss, their speed, and from it the time left."""

    def __init__(self, window: int = 50):
        self._steps: deque[tuple[float, int, Mapping[str, float]]] = deque(maxlen=window)
        self._before = time.monotonic()

    def add(self, tokens: int, values: Mapping[str, float]) -> None:
        """One step is done. Evaluations and checkpoints between two steps count as time, as the user waits for them."""
        now = time.monotonic()
        self._steps.append((now - self._before, tokens, values))
        self._before = now

    def seconds_per_step(self) -> float:
        return sum(step[0] for step in self._steps) / max(1, len(self._steps))

    def tokens_per_second(self) -> float:
        seconds = sum(step[0] for step in self._steps)
        return sum(step[1] for step in self._steps) / seconds if seconds > 0 else 0.0

    def means(self) -> dict[str, float]:
        names = self._steps[-1][2] if self._steps else ()
        return {name: sum(s[2].get(name, math.nan) for s in self._steps) / len(self._steps) for name in names}


def duration(seconds: float) -> str:
    """9 s, 4:05, 3:20:00"""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    return f"{minutes}:{rest:02}" if minutes < 60 else f"{minutes // 60}:{minutes % 60:02}:{rest:02}"


def _short(value: float) -> str:
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.4g}"


def _thousands(value: float) -> str:
    return f"{value / 1000:.1f}k" if value >= 10_000 else f"{value:.0f}"
