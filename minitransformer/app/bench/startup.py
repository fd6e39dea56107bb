"""From nothing to the first training step of the labs' model: with compiled kernels in the cache, and without.

python -m minitransformer.app.bench.startup     takes that step and ends"""

import os
import subprocess
import sys
import tempfile
import time


def seconds(tries: int, cold: bool = False) -> float:
    """Wall-clock time of a fresh process that trains one step; `cold` gives it an empty cache of kernels."""
    best = float("inf")
    for _ in range(tries):
        with tempfile.TemporaryDirectory() as empty:
            environment = {**os.environ, "NUMBA_CACHE_DIR": empty} if cold else dict(os.environ)
            start = time.perf_counter()
            command = [sys.executable, "-m", "minitransformer.app.bench.startup"]
            subprocess.run(command, env=environment, check=True, stderr=subprocess.DEVNULL)
            best = min(best, time.perf_counter() - start)
    return best


if __name__ == "__main__":
    from minitransformer.app.bench import ours
    from minitransformer.app.bench.cases import CASES

    ours.language_model(CASES["lm"].sizes, None)()
