"""SmolLM2 reads a prompt and writes, beside llama.cpp with the same file where `llama-cpp-python` is installed.

    python -m minitransformer.app.bench.smollm2 SIDE        one side, ours or llama.cpp, in a process of its own

answers each line on stdin with the seconds of the prompt and of the words after it, and at the end with its memory.
Both sides have as many threads as Numba, the same words in the prompt, and go on with the likeliest word."""

import importlib.util
import json
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import median
from typing import Any

import numpy as np

from minitransformer.app.bench.worker import peak_megabytes

PROMPT, WORDS, ROUNDS = 256, 128, 5
PEER = "llama.cpp"
GET_PEER = "pip install llama-cpp-python (built from its sources, some ten minutes)"

Run = Callable[[], tuple[float, float]]


@dataclass
class Side:
    """Seconds of the prompt and of the words, round by round."""

    name: str
    prompt: list[float] = field(default_factory=list)
    words: list[float] = field(default_factory=list)
    megabytes: float = 0.0

    def rates(self) -> tuple[float, float]:
        """Tokens a second, by the median round."""
        return PROMPT / median(self.prompt), WORDS / median(self.words)


def has_peer() -> bool:
    return importlib.util.find_spec("llama_cpp") is not None


def measure(tell: Callable[[str], None], rounds: int = ROUNDS) -> list[Side]:
    """The sides in turns, so that whatever else slows the machine down meets both alike."""
    sides = [Side(name) for name in ("ours", *([PEER] if has_peer() else []))]
    workers = []
    try:
        for side in sides:
            tell(f"smollm2: {side.name} gets ready")
            workers.append(
                subprocess.Popen(
                    [sys.executable, "-m", __name__, side.name, str(_threads())],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    text=True,
                )  # fmt: skip
            )
            _answer(workers[-1])
        for number in range(rounds):
            for side, worker in zip(sides, workers, strict=True):
                tell(f"smollm2: round {number + 1} of {rounds}, {side.name}")
                prompt, words = _answer(worker, "go")
                side.prompt.append(prompt)
                side.words.append(words)
        for side, worker in zip(sides, workers, strict=True):
            side.megabytes = _answer(worker, "end")
        return sides
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()


def _answer(worker: Any, line: str = "") -> Any:
    if line:
        worker.stdin.write(line + "\n")
        worker.stdin.flush()
    answer = worker.stdout.readline()
    if not answer:
        from minitransformer.errors import UserError

        raise UserError("a side of the case smollm2 failed (its message is above)")
    return json.loads(answer)


def _threads() -> int:
    from minitransformer.app.bench import ours

    return ours.threads()


def _file() -> str:
    from minitransformer.pretrained.fetch import fetch

    return str(next(fetch("smollm2").glob("*.gguf")))


def _prompt(vocabulary: int) -> list[int]:
    return np.random.default_rng(0).integers(0, vocabulary, PROMPT).tolist()


def _ours() -> Run:
    from minitransformer.decoding import Session
    from minitransformer.pretrained import load

    model, _ = load(_file())

    def run() -> tuple[float, float]:
        session = Session(model, [_prompt(model.config.vocab_size)], max_new_tokens=WORDS + 1)

        def write(count: int) -> None:
            for _ in range(count):
                session.append([int(session.next_logits()[0].argmax())])

        return _timed(lambda: write(1)), _timed(lambda: write(WORDS))

    return run


def _llama(threads: int) -> Run:
    from llama_cpp import Llama

    model = Llama(_file(), n_ctx=512, n_threads=threads, n_threads_batch=threads, verbose=False)

    def run() -> tuple[float, float]:
        model.reset()

        def write() -> None:
            for _ in range(WORDS):
                model.eval([model.sample(temp=0.0)])

        return _timed(lambda: model.eval(_prompt(model.n_vocab()))), _timed(write)

    return run


def _timed(work: Callable[[], Any]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def main(side: str, threads: str) -> None:
    run = _ours() if side == "ours" else _llama(int(threads))
    run()  # compiles, and fills caches
    print(json.dumps("ready"), flush=True)
    for line in sys.stdin:
        print(json.dumps(run() if line.strip() == "go" else peak_megabytes()), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
