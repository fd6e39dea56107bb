"""The command line: `minitransformer COMMAND ...`. One file a command, and only the one asked for is loaded; packages
beside this one add theirs through the entry points of the group `minitransformer.commands`.

What a user can get wrong ends in one line on stderr and exit code 2. Ctrl-C ends with exit code 130."""

import argparse
import importlib
import importlib.util
import io
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import EntryPoint, entry_points
from typing import NamedTuple

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

PROGRAM = "minitransformer"

EXAMPLES = """examples:
  minitransformer backends
  minitransformer gradcheck --backend numba
  minitransformer pretrain && minitransformer generate
  minitransformer train-translator && minitransformer translate "I have a red car."
"""


class Command(NamedTuple):
    description: str | None
    add_arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int]  # → exit code


NOTHING: Mapping[str, Command] = {}


class _Parser(argparse.ArgumentParser):
    def error(self, message: str):
        self.exit(2, f"{self.prog}: {message}; see {self.prog} --help\n")


def added_commands() -> dict[str, EntryPoint]:
    """Commands of other packages, by name; those whose package is not installed are not there."""
    return {name: entry for name, entry in _declared_commands().items() if _missing_package(entry) is None}


def _declared_commands() -> dict[str, EntryPoint]:
    return {entry.name: entry for entry in sorted(entry_points(group="minitransformer.commands"))}


def _missing_package(entry: EntryPoint) -> str | None:
    """The package that is missing for this command, or None."""
    package = entry.module.partition(".")[0]
    return package if importlib.util.find_spec(package) is None else None


def command_named(name: str) -> Command:
    if name in COMMANDS:
        module = importlib.import_module(f"minitransformer.app.cli.{name.replace('-', '_')}")
    else:
        module = added_commands()[name].load()
    return Command(module.__doc__, module.add_arguments, module.run)


def parser_for(name: str, program: str = PROGRAM, instead: Mapping[str, Command] = NOTHING) -> argparse.ArgumentParser:
    """The parser of one command; see main."""
    command = instead[name] if name in instead else command_named(name)
    parser = _Parser(
        prog=f"{program} {name}",
        description=command.description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.add_arguments(parser)
    parser.set_defaults(run=command.run, program=program)
    return parser


def add_backend(parser: argparse._ActionsContainer) -> None:
    """--backend, for every command that computes."""
    parser.add_argument(
        "--backend",
        metavar="NAME",
        help="numpy, numba, emulated or cupy (default: $MINITRANSFORMER_BACKEND, else numba)",
    )


def main(
    arguments: Sequence[str] | None = None, program: str = PROGRAM, instead: Mapping[str, Command] = NOTHING
) -> int:
    """Runs a command and returns the exit code.

    program  what is typed before the name of a command
    instead  commands that take the place of those of the same name"""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    name = arguments[0] if arguments else "--help"
    if name not in COMMANDS and name not in added_commands():
        if name in _declared_commands():
            package = _missing_package(_declared_commands()[name])
            print(
                f"{program} {name}: this command comes with a clone of the project: an installed package does not have "
                f"the folder {package!r}; install from a clone with pip install --editable .",
                file=sys.stderr,
            )
            return 2
        _overview(program).parse_args(arguments[:1] or ["--help"])
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without → must not cost a run its summary

    def work() -> int:
        given = parser_for(name, program, instead).parse_args(arguments[1:])
        if getattr(given, "backend", None) is not None:
            kernels.use(given.backend)
        return given.run(given) or 0

    return orderly(f"{program} {name}", work)


def _overview(program: str) -> argparse.ArgumentParser:
    """What is said to whoever names no command, or one that there is not."""
    commands = COMMANDS | {name: entry.load().SUMMARY for name, entry in added_commands().items()}
    overview = _Parser(
        prog=program,
        description="A transformer engine to learn from.\n\ncommands:\n"
        + "\n".join(f"  {name:18} {text}" for name, text in commands.items()),
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        usage=f"{program} COMMAND [options]",
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
