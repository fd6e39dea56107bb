"""Compiles the Numba kernels before the tests need them, each core the next one that is left. Among the tests, two
processes would often need the same kernel at the same time, and would both compile it.

python tests/kernels/compile_kernels.py
"""

import multiprocessing
import os
import sys

import numba
from emulator_calls import FORWARD, calls

import kernels

# what takes longest comes first, so that no core is left with it at the end
LONG = ("attention", "linear_cross_entropy", "feed_forward", "gated_feed_forward", "linear", "quantised_linear")


def compiled(task: tuple[str, str]) -> None:
    for _ in calls(kernels.backend("numba"), *task):
        pass


def alone() -> None:
    os.environ["MINITRANSFORMER_QUIET"] = "1"
    numba.set_num_threads(1)


def main() -> None:
    print("compiling kernels, where they are not kept from before (a minute or two) ...", flush=True)
    names = sorted(FORWARD, key=lambda name: LONG.index(name) if name in LONG else len(LONG))
    tasks = [(name, dtype) for name in names for dtype in ("float32", "float64")]
    with multiprocessing.get_context("spawn").Pool(initializer=alone) as processes:
        for number, _ in enumerate(processes.imap_unordered(compiled, tasks), 1):
            if sys.stdout.isatty():
                print(f"\r{number} of {len(tasks)}", end="", flush=True)
            elif number % 10 == 0:
                print(f"{number} of {len(tasks)}", flush=True)
    if sys.stdout.isatty():
        print()


if __name__ == "__main__":
    main()
