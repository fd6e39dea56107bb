"""The command line: `minitransformer COMMAND ...`. Commands live in `commands/`, and only the one asked for is loaded.

What a user can get wrong ends in one line on stderr and exit code 2. Ctrl-C ends with exit code 130."""

import argparse
import importlib
import io
import os
import sys
from collections.abc import Callable, Sequence

COMMANDS = {
    "backends": "what works here, and why the rest does not",
    "gradcheck": "check every derivative rule on every backend, and print the worst errors",
    "lessons": "run the lessons, each of which checks what it says",
    "claims": "every claim of the lessons, its verdict and evidence, from their last run",
    "params": "count a model's parameters part by part",
    "data": "fetch real data by name, for the commands below",
    "pretrain": "train a language model",
    "finetune": "train a classifier, on the base of a language model or from scratch",
    "classify": "say to which class a text belongs",
    "generate": "let a language model write",
    "train-translator": "train a translator",
    "translate": "translate sentences",
    "evaluate": "measure a trained model on unseen data",
    "bench": "measure the engine's speed and memory, side by side with PyTorch",
}

EXAMPLES = """examples:
  minitransformer backends
  minitransformer gradcheck --backend numba
  minitransformer lessons
  minitransformer pretrain && minitransformer generate
  minitransformer train-translator && minitransformer translate "I have a red car."
"""


class UserError(Exception):
    """Something the user can mend; the message says how, in one line."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str):
        self.exit(2, f"{self.prog}: {message}; see {self.prog} --help\n")


def parser_for(name: str) -> argparse.ArgumentParser:
    """The parser of one command."""
    module = importlib.import_module(f"minitransformer.commands.{name.replace('-', '_')}")
    parser = _Parser(
        prog=f"minitransformer {name}",
        description=module.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    module.add_arguments(parser)
    parser.set_defaults(run=module.run)
    return parser


def add_backend(parser: argparse.ArgumentParser) -> None:
    """--backend, for every command that computes."""
    parser.add_argument(
        "--backend",
        metavar="NAME",
        help="numpy, numba, emulated or cupy (default: $MINITRANSFORMER_BACKEND, else numba)",
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command and returns the exit code."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    overview = _Parser(
        prog="minitransformer",
        description="A transformer engine to learn from.\n\ncommands:\n"
        + "\n".join(f"  {name:18} {text}" for name, text in COMMANDS.items()),
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        usage="minitransformer COMMAND [options]",
    )
    overview.add_argument("command", nargs="?", choices=sorted(COMMANDS), metavar="COMMAND", help=argparse.SUPPRESS)
    if not arguments:
        overview.print_help()
        return 0
    chosen = overview.parse_args(arguments[:1])
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without → must not cost a run its summary

    def work() -> int:
        options = parser_for(chosen.command).parse_args(arguments[1:])
        if getattr(options, "backend", None) is not None:
            import kernels

            kernels.use(options.backend)
        return options.run(options) or 0

    return orderly(f"minitransformer {chosen.command}", work)


def orderly(name: str, work: Callable[[], int]) -> int:
    """Does a program's work and returns its exit code; what a user can mend becomes one line on stderr."""
    try:
        return work()
    except KeyboardInterrupt:
        print("\nstopped", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader (head, less) has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except MemoryError as error:
        print(f"{name}: not enough memory ({error}); give smaller sizes or batches", file=sys.stderr)
        return 2
    except _mistakes() as error:
        print(f"{name}: {error}", file=sys.stderr)
        return 2


def _mistakes() -> tuple[type[Exception], ...]:
    """Exceptions whose message is meant for the user."""
    import kernels
    from minitransformer.checkpoints import CheckpointError
    from minitransformer.text import DataError
    from minitransformer.training import TrainingError

    return UserError, kernels.BackendError, DataError, CheckpointError, TrainingError


if __name__ == "__main__":
    sys.exit(main())
