"""Check every derivative rule against differences of the function, in float64, on the inputs of kernels/samples.py.

The table shows, for each kernel, how many entries of the Jacobian were compared and the largest relative error.
Exit code 1 if any rule fails.

examples:
  minitransformer gradcheck                     every backend that works here
  minitransformer gradcheck --backend numpy
  minitransformer gradcheck attention softmax   only these kernels
"""

import argparse
import sys
import time

import kernels
from autograd import Function, GradcheckError, Tensor, functional, gradcheck
from kernels.samples import SAMPLES, samples
from minitransformer.cli import UserError, add_backend
from minitransformer.tables import table

assert functional  # importing it registers the rules


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("kernel", nargs="*", help="kernels to check (default: all)")
    add_backend(parser)


def differentiable(arguments: tuple) -> list:
    """The float arrays as Tensors that require a gradient, the rest as it is."""
    return [Tensor(a, requires_grad=True) if getattr(a, "dtype", None) == "float64" else a for a in arguments]


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
    names = arguments.kernel or list(SAMPLES)
    for name in names:
        if name not in SAMPLES:
            raise UserError(f"no kernel is called {name!r}; there are: {', '.join(SAMPLES)}")
    backends = (arguments.backend,) if arguments.backend else kernels.available()
    failures = []
    for backend in backends:
        rows: list[tuple] = []
        with kernels.use(backend):
            for number, name in enumerate(names, 1):
                if sys.stderr.isatty():
                    print(f"\r\033[K{backend}: {number}/{len(names)} {name}", end="", file=sys.stderr, flush=True)
                start = time.perf_counter()
                try:
                    count, entries, worst = check_kernel(name)
                    rows.append((name, count, entries, f"{worst:.1e}", f"{time.perf_counter() - start:.1f} s", "ok"))
                except GradcheckError as error:
                    failures.append(f"{backend}: {error}")
                    rows.append((name, "", "", "", f"{time.perf_counter() - start:.1f} s", "FAILED"))
        if sys.stderr.isatty():
            print("\r\033[K", end="", file=sys.stderr)
        print(f"backend {backend}, float64, relative tolerance 1e-7")
        header = ("kernel", "inputs", "entries", "worst error", "time", "")
        print(table(header, rows, right=(1, 2, 3, 4)) + "\n", flush=True)
    for failure in failures:
        print(failure, file=sys.stderr)
    print(f"{len(names) * len(backends) - len(failures)} rules right, {len(failures)} wrong")
    return 1 if failures else 0
