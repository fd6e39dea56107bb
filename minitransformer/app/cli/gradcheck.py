"""Check every derivative rule against differences of the function, in float64, on awkward inputs.

The table shows, for each rule, how many entries of the Jacobian were compared and the largest relative error.
Exit code 1 if any rule fails.

examples:
  minitransformer gradcheck                     every backend that works here
  minitransformer gradcheck --backend numpy
  minitransformer gradcheck attention softmax   only these rules
"""

import argparse
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass

import kernels
from autograd import Function, GradcheckError, Tensor, gradcheck
from autograd.examples import EXAMPLES
from kernels.backend import VARIABLE
from kernels.samples import SAMPLES, samples
from minitransformer.app.cli.main import add_backend
from minitransformer.app.cli.namespace import options_of
from minitransformer.app.tables import table
from minitransformer.errors import UserError


@dataclass(frozen=True)
class Options:
    rule: Sequence[str] = ()
    backend: str | None = None


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("rule", nargs="*", help="rules to check, in upper or lower case (default: all)")
    add_backend(parser, otherwise="all that work here, one after the other")


def differentiable(arguments: tuple) -> list:
    """The float arrays as Tensors that require a gradient, the rest as it is."""
    return [Tensor(a, requires_grad=True) if getattr(a, "dtype", None) == "float64" else a for a in arguments]


def check_example(name: str) -> tuple[int, int, float]:
    """The same for a rule without a kernel: reshaping, indexing and the like."""
    function, inputs = EXAMPLES[name]()
    try:
        report = gradcheck(function, inputs)
    except GradcheckError as error:
        raise GradcheckError(f"{name}: {error}") from error
    return 1, report.entries, report.worst_error


def check_kernel(name: str) -> tuple[int, int, float]:
    """Checks one kernel's rule on all its samples: how many, the entries compared, the worst error. May raise."""
    count, entries, worst = 0, 0, 0.0
    for label, arguments in samples(name, "float64"):
        try:
            report = gradcheck(Function.rules[name].apply, differentiable(arguments))
        except GradcheckError as error:
            raise GradcheckError(f"{name} ({label}): {error}") from error
        count, entries, worst = count + 1, entries + report.entries, max(worst, report.worst_error)
    return count, entries, worst


def run(arguments: argparse.Namespace) -> int:
    options = options_of(Options, arguments)
    rules = {name.lower(): name for name in (*SAMPLES, *EXAMPLES)}
    for name in options.rule:
        if name.lower() not in rules:
            raise UserError(f"no rule is called {name!r}; there are: {', '.join(rules.values())}")
    names = [rules[name.lower()] for name in options.rule] or list(rules.values())
    chosen = options.backend or os.environ.get(VARIABLE)
    backends = (chosen,) if chosen else kernels.available()
    failures = []
    for backend in backends:
        rows: list[tuple] = []
        with kernels.use(backend):
            for number, name in enumerate(names, 1):
                if sys.stderr.isatty():
                    print(f"\r\033[K{backend}: {number}/{len(names)} {name}", end="", file=sys.stderr, flush=True)
                start = time.perf_counter()
                try:
                    count, entries, worst = (check_kernel if name in SAMPLES else check_example)(name)
                    rows.append((name, count, entries, f"{worst:.1e}", f"{time.perf_counter() - start:.1f} s", "ok"))
                except GradcheckError as error:
                    failures.append(f"{backend}: {error}")
                    rows.append((name, "", "", "", f"{time.perf_counter() - start:.1f} s", "FAILED"))
        if sys.stderr.isatty():
            print("\r\033[K", end="", file=sys.stderr)
        print(f"backend {backend}, float64, relative tolerance 1e-7")
        header = ("rule", "inputs", "entries", "worst error", "time", "")
        print(table(header, rows, right=(1, 2, 3, 4)) + "\n", flush=True)
    for failure in failures:
        print(failure, file=sys.stderr)
    print(f"{len(names) * len(backends) - len(failures)} rules right, {len(failures)} wrong")
    return 1 if failures else 0
