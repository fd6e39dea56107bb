"""The command line: `minitransformer COMMAND ...`. One file a command, and only the one asked for is loaded; packages
beside this one add theirs through the entry points of the group `minitransformer.commands`.

What a user can get wrong ends in one line on stderr and exit code 2, a result that cannot be written in one line and
exit code 1. Ctrl-C ends with exit code 130, other signals that ask a program to stop with 128 and their number."""

import argparse
import importlib
import importlib.util
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.metadata import EntryPoint, entry_points
from typing import NamedTuple

import kernels
from kernels.backend import VARIABLE
from minitransformer import __version__
from minitransformer.app import output, ranks, watched
from minitransformer.app.cli.start import TRAINING
from minitransformer.app.cli.surroundings import tidy_up
from minitransformer.errors import UserError, one_line, system_error

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
    "models": "models that others trained: what there is, and fetching them",
    "chat": "talk with a small model that was trained to answer",
    "embed": "turn texts into vectors, or find the lines nearest to a question",
    "transcribe": "write down what is said in a recording",
    "evaluate": "measure a trained model on unseen data",
    "bench": "measure the engine's speed and memory, side by side with PyTorch",
}

PROGRAM = "minitransformer"

EXAMPLES = """examples:
  minitransformer backends
  minitransformer gradcheck --backend numba
  minitransformer pretrain && minitransformer generate
  minitransformer train-translator && minitransformer translate "I have a red car."
  minitransformer chat
"""


class Command(NamedTuple):
    description: str | None
    add_arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int]  # → exit code
    merely_prints: bool = False  # done when nobody reads on; others go on with their work


NOTHING: Mapping[str, Command] = {}


class _Parser(argparse.ArgumentParser):
    def error(self, message: str):
        self.exit(2, f"{self.prog}: {message}; see {self.prog} --help\n" if ranks.is_first() else None)


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
    return Command(module.__doc__, module.add_arguments, module.run, getattr(module, "MERELY_PRINTS", False))


def parser_for(name: str, program: str = PROGRAM, instead: Mapping[str, Command] = NOTHING) -> argparse.ArgumentParser:
    """The parser of one command; see main."""
    command = instead[name] if name in instead else command_named(name)
    parser = _Parser(
        prog=f"{program} {name}",
        description=command.description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.add_arguments(parser)
    parser.set_defaults(run=command.run, program=program, merely_prints=command.merely_prints)
    return parser


def add_backend(parser: argparse._ActionsContainer, otherwise: str = "numba") -> None:
    """--backend, for every command that computes. otherwise: what is used when nothing was chosen"""
    parser.add_argument(
        "--backend",
        metavar="NAME",
        help=f"numpy, numba, emulated or cupy (default: $MINITRANSFORMER_BACKEND, else {otherwise})",
    )


def main(
    arguments: Sequence[str] | None = None, program: str = PROGRAM, instead: Mapping[str, Command] = NOTHING
) -> int:
    """Runs a command and returns the exit code.

    program  what is typed before the name of a command
    instead  commands that take the place of those of the same name"""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    name = arguments[0] if arguments else "--help"

    def work() -> int:
        if name in TRAINING:
            watched.start_early()  # unless it was done: this may have been called from Python
        ranks.hush()
        tidy_up()
        if name not in COMMANDS and name not in added_commands():
            if name in _declared_commands():
                package = _missing_package(_declared_commands()[name])
                raise UserError(
                    f"this command comes with a clone of the project: an installed package does not have the folder "
                    f"{package!r}; install from a clone with pip install --editable ."
                )
            _overview(program).parse_args(arguments[:1] or ["--help"])
        given = parser_for(name, program, instead).parse_args(arguments[1:])
        if getattr(given, "backend", None) is not None:
            kernels.use(given.backend)
        elif hasattr(given, "backend") and os.environ.get(VARIABLE):
            kernels.current()  # refused at once, before a file or a checkpoint is blamed
        if not given.merely_prints:
            output.keep_working()
        return given.run(given) or 0

    return orderly(f"{program} {name}", work, merely_prints=True)  # until a command with work to do is found


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
    overview.add_argument("--version", action="version", version=f"minitransformer {__version__}")
    overview.add_argument("command", choices=sorted(commands), metavar="COMMAND", help=argparse.SUPPRESS)
    return overview


class Stopped(KeyboardInterrupt):
    """A signal that asks the program to stop: it leaves as by Ctrl-C, and nothing half done behind."""

    def __init__(self, number: int):
        self.number = number


def orderly(name: str, work: Callable[[], int], merely_prints: bool = False) -> int:
    """Does a program's work and returns its exit code; what a user can mend becomes one line on stderr."""
    with output.guarded() as out, _signals():
        try:
            try:
                if not merely_prints:
                    output.keep_working()
                code = work()
            finally:
                out.flush()
        except Stopped as stop:
            return _said(f"\nstopped by {signal.Signals(stop.number).name}", 128 + stop.number)
        except KeyboardInterrupt:
            return _said("\nstopped", 130)
        except output.OutputLost as lost:
            return 0 if lost.reader_left else _said(f"{name}: {lost}", 1)
        except MemoryError as error:
            return _said(f"{name}: not enough memory ({error}); give smaller sizes or batches", 2)
        except (UserError, kernels.BackendError) as error:
            return _said(f"{name}: {error}", 2)
        except OSError as error:  # what nobody foresaw: the system's own words, and the file if it names one
            return _said(f"{name}: {system_error(error.filename or 'the system', 'refused', error)}", 2)
        if out.failure is not None and code == 0 and not output.OutputLost("stdout", out.failure).reader_left:
            return 1  # the work is done, but its summary is lost; it has been said
        return code


def _said(line: str, code: int) -> int:
    first, rest = ("\n", line[1:]) if line.startswith("\n") else ("", line)
    if not ranks.let_the_first_speak():
        print(first + one_line(rest, 2000) + ranks.name_here(), file=sys.stderr, flush=True)
        ranks.end_all(code)
    return code


def _stop(number: int, _frame: object) -> None:
    raise Stopped(number)


@contextmanager
def _signals() -> Iterator[None]:
    """SIGTERM, and SIGHUP of a terminal that is closed, end a program as Ctrl-C does; what whoever started it chose
    to ignore (nohup) stays ignored."""
    numbers = [getattr(signal, name, None) for name in ("SIGTERM", "SIGHUP")]
    caught = [n for n in numbers if n is not None and signal.getsignal(n) is signal.SIG_DFL]
    if threading.current_thread() is not threading.main_thread():
        caught = []
    for number in caught:
        signal.signal(number, _stop)
    try:
        yield
    finally:
        for number in caught:
            signal.signal(number, signal.SIG_DFL)


if __name__ == "__main__":
    sys.exit(main())
