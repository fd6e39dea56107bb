"""What works here, and why the rest does not.

example:
  minitransformer backends
"""

import argparse
import os

import kernels
from minitransformer.app.cli.namespace import JsonOptions, options_of
from minitransformer.app.tables import table

TIERS = {
    "numpy": "the reference: plain NumPy",
    "numba": "hand-written Numba kernels on the CPU",
    "emulated": "the CUDA kernels, run on the CPU",
    "cupy": "the CUDA kernels, on a GPU",
}
MERELY_PRINTS = True


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")


def run(arguments: argparse.Namespace) -> int:
    options = options_of(JsonOptions, arguments)
    import numpy

    current = kernels.current().name
    reasons = kernels.reasons()
    if options.json:
        import json

        states = {name: {"available": reason is None, "reason": reason} for name, reason in reasons.items()}
        print(json.dumps({"current": current, "backends": states}, indent=2))
        return 0
    rows = []
    for name, reason in reasons.items():
        mark = "in use" if name == current else ("available" if reason is None else "missing")
        rows.append((name, mark, reason or TIERS[name]))
    print(table(("backend", "state", "what it is, or why it is missing"), rows))
    print(f"\nNumPy {numpy.__version__}, {os.cpu_count()} cores; choose with --backend NAME or MINITRANSFORMER_BACKEND")
    return 0
