"""From nothing to a first result, in processes of their own: the first training step of the labs' model, with compiled
kernels in the cache and without; and the first words of a small trained model, beside PyTorch.

python -m minitransformer.app.bench.startup     takes that step and ends"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

STEP = [sys.executable, "-m", "minitransformer.app.bench.startup"]
PEER = str(Path(__file__).with_name("torch_first_words.py"))
SMALL = ["--d-model", "64", "--n-heads", "4", "--n-layers", "2", "--d-ff", "128", "--max-len", "64"]  # as PEER has it


def _seconds(command: list[str], **environment: str) -> float:
    """Wall-clock time of one process."""
    start = time.perf_counter()
    quiet = subprocess.DEVNULL
    subprocess.run(command, env={**os.environ, **environment}, check=True, stdout=quiet, stderr=quiet)
    return time.perf_counter() - start


def first_step(tries: int, cold: bool = False) -> float:
    """A fresh process that trains one step; `cold` gives it an empty cache of kernels."""
    best = float("inf")
    for _ in range(tries):
        with tempfile.TemporaryDirectory() as empty:
            best = min(best, _seconds(STEP, **({"NUMBA_CACHE_DIR": empty} if cold else {})))
    return best


def first_words(tries: int, with_torch: bool) -> dict[str, float]:
    """Fresh processes that read a trained model and write 20 words with it, in turns; the best of each side."""
    best: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        ours = [sys.executable, "-m", "minitransformer"]
        run, weights = f"{folder}/run", f"{folder}/weights.pt"
        _seconds([*ours, "pretrain", "--steps", "1", "--texts", "100", "--out", run, *SMALL])
        sides = {"ours": [*ours, "generate", "--model", run, "--greedy", "--length", "20"]}
        if with_torch:
            _seconds([sys.executable, PEER, weights, "--make"])
            sides["torch"] = [sys.executable, PEER, weights]
        for side, command in [*sides.items()] * (1 + tries):  # the first time fills the caches
            best[side] = min(best.get(side, float("inf")), _seconds(command))
    return best


if __name__ == "__main__":
    from minitransformer.app.bench import ours
    from minitransformer.app.bench.cases import CASES

    ours.language_model(CASES["lm"].sizes, None)()
