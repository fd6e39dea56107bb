"""SmolLM2 reads a prompt and writes, beside llama.cpp with the same file where `llama-cpp-python` is installed.

Both sides have as many threads as Numba, the same words in the prompt, and go on with the likeliest word."""

import importlib.util
import sys

import numpy as np

from minitransformer.app.bench.two_parts import Run, serve, timed

PROMPT, WORDS, ROUNDS = 256, 128, 5
PEER = "llama.cpp"
GET_PEER = "pip install llama-cpp-python (built from its sources, some ten minutes)"


def sides() -> list[str]:
    """Those that can run here."""
    return ["ours", *([PEER] if importlib.util.find_spec("llama_cpp") is not None else [])]


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

        return timed(lambda: write(1)), timed(lambda: write(WORDS))

    return run


def _llama(threads: int) -> Run:
    from llama_cpp import Llama

    model = Llama(_file(), n_ctx=512, n_threads=threads, n_threads_batch=threads, verbose=False)

    def run() -> tuple[float, float]:
        model.reset()

        def write() -> None:
            for _ in range(WORDS):
                model.eval([model.sample(temp=0.0)])

        return timed(lambda: model.eval(_prompt(model.n_vocab()))), timed(write)

    return run


if __name__ == "__main__":
    serve(_ours() if sys.argv[1] == "ours" else _llama(int(sys.argv[2])))
