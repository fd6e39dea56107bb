"""The command line: `minitransformer COMMAND ...`. One file a command, and only the one asked for is loaded; packages
beside this one add theirs through the entry points of the group `minitransformer.commands`.

What a user can get wrong ends in one line on stderr and exit code 2. Ctrl-C ends with exit code 130."""

import argparse
import importlib
import io
import os
import sys
from collections.abc import Callable, Sequence
from importlib.metadata import EntryPoint, entry_points

import kernels
from minitransformer.errors import UserError

COMMANDS = {
    "backends": "what works here, and why the rest does not",
    "gradcheck": "check every derivative rule on every backend, and print the worst errors",
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
  minitransformer pretrain && minitransformer generate
  minitransformer train-translator && minitransformer translate "I have a red car."
"""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str):
        self.exit(2, f"{self.prog}: {message}; see {self.prog} --help\n")


def added_commands() -> dict[str, EntryPoint]:
    """Commands of other packages, by name."""
    return {entry.name: entry for entry in sorted(entry_points(group="minitransformer.commands"))}


def parser_for(name: str) -> argparse.ArgumentParser:
    """The parser of one command."""
    if name in COMMANDS:
        module = importlib.import_module(f"minitransformer.app.cli.{name.replace('-', '_')}")
    else:
        module = added_commands()[name].load()
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
    name = arguments[0] if arguments else "--help"
    if name not in COMMANDS and name not in added_commands():
        _overview().parse_args(arguments[:1] or ["--help"])
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without → must not cost a run its summary

    def work() -> int:
        options = parser_for(name).parse_args(arguments[1:])
        if getattr(options, "backend", None) is not None:
            kernels.use(options.backend)
        return options.run(options) or 0

    return orderly(f"minitransformer {name}", work)


def _overview() -> argparse.ArgumentParser:
    """What is said to whoever names no command, or one that there is not."""
    commands = COMMANDS | {name: entry.load().SUMMARY for name, entry in added_commands().items()}
    overview = _Parser(
        prog="minitransformer",
        description="A transformer engine to learn from.\n\ncommands:\n"
        + "\n".join(f"  {name:18} {text}" for name, text in commands.items()),
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        usage="minitransformer COMMAND [options]",
    )
    overview.add_argument("command", choices=sorted(commands), metavar="COMMAND", help=argparse.SUPPRESS)
    return overview


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
    except (UserError, kernels.BackendError) as error:
        print(f"{name}: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
