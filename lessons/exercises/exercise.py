"""What an exercise is, and how it is read from its file. The recipe is in CONTRIBUTING; a first file to imitate is
lessons/exercises/derivatives/matmul_gradient.py.

The file's docstring is the text that students get (its first line, a heading, is the title). Its names are
    TRACK, LESSON, LEVEL, MINUTES     where it belongs; LEVEL from 1 (easy) to 3
    SOLUTION, ANOTHER                 two right answers that differ in method; the first is commented
    cases()                           the inputs, from small to large
    expected(*arguments)              what a right answer gives, computed in another way than by SOLUTION
Hints and wrong answers lie beside it, in NAME.toml (feedback.py). Where needed, the file also has
    STUB                              what students fill in, if that is not SOLUTION without the body of its function
    forward(*arguments)               instead of `expected`: the function, of Tensors, whose gradient is asked for
    TOLERANCE                         instead of that of compare.py, relative to the largest entry
    RESULTS                           names of the results, when there are several
    judged(case, result)              instead of `expected`, where many answers are right: what is wrong, and the likely
                                      mistake (two sentences, the second may be empty), or None
    KIND                              "python" (if not given), "engine" (answers may import autograd), "numba" or "cuda"
    ALLOWED                           packages that answers may import beside NumPy
    FORBIDDEN                         functions that are the task itself, and must not be called
    launch(*arguments)                for CUDA: how the kernel is started
    demands(case, counters)           for CUDA and Numba: what else is asked, as a sentence on what is wrong, or None
"""

from __future__ import annotations

import ast
import importlib.util
import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from lessons.exercises.compare import TOLERANCE
from lessons.exercises.feedback import Wrong, read_feedback
from minitransformer.errors import FileError

KINDS = {"python": ".py", "engine": ".py", "numba": ".py", "cuda": ".cu"}


@dataclass(frozen=True)
class Case:
    """One input that is tried."""

    label: str  # says what is special about it: "one row", "a length that is no multiple of the tile"
    arguments: tuple = ()
    call: str = ""  # another name of the answer than its function: a second function, or a value
    expected: Any = None  # if not given: expected(*arguments)
    secret: bool = False  # what is expected is not shown: it is the question
    large: bool = False  # for Numba: only compiled, not as plain Python


def bug(stub: str, line: str, mended: str, comment: str) -> str:
    """The solution of a find-the-bug exercise: the stub with the faulty line named and mended."""
    for piece in (line, 'the_line = ""'):
        if stub.count(piece) != 1:
            raise ValueError(f"{piece!r} occurs {stub.count(piece)} times in the stub, not once")
    indent = line[: len(line) - len(line.lstrip())]
    named = stub.replace('the_line = ""', f"the_line = {line.strip()!r}")
    return named.replace(f"\n{line}\n", f"\n{indent}# {comment}\n{mended}\n")


@dataclass(frozen=True)
class Launch:
    """How a CUDA kernel is started; `outputs` are the places of the arrays that hold the result."""

    grid: tuple[int, ...]
    block: tuple[int, ...]
    arguments: tuple
    outputs: tuple[int, ...] = (0,)
    defines: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Exercise:
    name: str
    track: str
    lesson: str
    level: int
    minutes: int
    statement: str  # Markdown
    stub: str
    hints: tuple[str, ...]
    solution: str
    another: str
    wrong: Mapping[str, Wrong]
    cases: Callable[[], Iterator[Case]]
    expected: Callable[..., Any]
    kind: str = "python"
    function: str = ""
    results: Sequence[str] = ()
    allowed: Sequence[str] = ()
    tolerance: float = 0.0
    forbidden: Sequence[str] = ()
    forward: Callable[..., Any] | None = None
    judged: Callable[..., tuple[str, str] | None] | None = None
    launch: Callable[..., Launch] | None = None
    demands: Callable[..., str | None] | None = None

    @property
    def title(self) -> str:
        return self.statement.splitlines()[0].lstrip("# ")

    @property
    def file(self) -> str:
        return self.name + KINDS[self.kind]

    @property
    def parameters(self) -> list[str]:
        """The names of the arguments."""
        found = re.search(rf"def {self.function}\((.*?)\)", self.stub, re.DOTALL)
        if self.kind == "cuda" or found is None:
            return list(inspect.signature(self.expected).parameters)
        return [part.partition("=")[0].partition(":")[0].strip() for part in found[1].split(",")]

    @property
    def start(self) -> str:
        """The file that a student gets: the text as a comment, then the body to fill in."""
        if self.kind == "cuda":
            text = "\n".join(f"// {line}".rstrip() for line in self.statement.splitlines())
            return f"{text}\n\n{self.stub}"
        quotes = 'r"""' if "\\" in self.statement else '"""'
        return f'{quotes}{self.statement.rstrip()}\n"""\n\n{self.stub}'


def read_exercise(path: Path) -> Exercise:
    """The exercise in a file; FileError says what is missing."""
    module = _module(path)
    missing = [name for name in ("TRACK", "SOLUTION", "ANOTHER", "cases") if not hasattr(module, name)]
    if not any(hasattr(module, name) for name in ("expected", "forward", "judged")):
        missing.append("expected")
    if getattr(module, "KIND", "python") not in KINDS:
        raise FileError(path, f"KIND is {module.KIND!r}", f"choose one of {', '.join(KINDS)}")
    if missing:
        raise FileError(path, f"no exercise: {', '.join(missing)} not found", "see 'An exercise' in CONTRIBUTING.md")
    if not module.__doc__:
        raise FileError(path, "no text for students", "write it as the docstring of the file")
    kind = getattr(module, "KIND", "python")
    stub = (module.STUB if hasattr(module, "STUB") else stub_of(module.SOLUTION, path)).lstrip("\n")
    pattern = r"__global__ void (\w+)" if kind == "cuda" else r"^def (\w+)"
    found = re.findall(pattern, stub, re.MULTILINE)
    function = getattr(module, "FUNCTION", found[-1] if found else "")
    if not function:
        raise FileError(path, "STUB defines no function", "write `def name(arguments):` in it")
    forward, judged = getattr(module, "forward", None), getattr(module, "judged", None)
    expected = getattr(module, "expected", None) or (_gradient(forward) if forward else _nothing)
    solution = module.SOLUTION.lstrip("\n")
    hints, wrong = read_feedback(path.with_suffix(".toml"), solution)
    # what a file may leave out, and what holds then
    options = {
        "lesson": "", "level": 1, "minutes": 10, "results": (), "allowed": (), "forbidden": (),
        "tolerance": TOLERANCE[kind],
    }  # fmt: skip
    return Exercise(
        name=path.stem.replace("_", "-"), track=module.TRACK, kind=kind, function=function,
        statement=inspect.cleandoc(module.__doc__) + "\n", stub=stub, hints=hints,
        solution=solution, another=module.ANOTHER.lstrip("\n"), wrong=wrong,
        cases=module.cases, expected=expected, forward=forward, judged=judged,
        launch=getattr(module, "launch", None), demands=getattr(module, "demands", None),
        **{name: getattr(module, name.upper(), value) for name, value in options.items()},
    )  # fmt: skip


def stub_of(solution: str, path: Path) -> str:
    """The solution without the body of its function: imports, signature and docstring stay."""
    try:
        last = ast.parse(solution).body[-1]
    except (SyntaxError, IndexError):
        last = None
    if not isinstance(last, ast.FunctionDef) or ast.get_docstring(last) is None:
        raise FileError(
            path, "no STUB, and SOLUTION does not end with a function with a docstring", "write one of them"
        )
    lines = solution.splitlines()[: last.body[0].end_lineno]
    return "\n".join([*lines, '    raise NotImplementedError("your turn")', ""])


def _module(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"exercise_{path.stem}", path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise FileError(path, f"{type(error).__name__}: {error}", "mend the file of the exercise") from error
    return module


def _nothing(*_: Any) -> None:
    """What is expected where a result is judged instead of compared."""


def _gradient(forward: Callable[..., Any]) -> Callable[..., Any]:
    """(dy, *inputs) → the gradients of forward(*inputs), by the engine."""

    def expected(dy, *inputs):
        from autograd import Tensor

        tensors = [Tensor(one, requires_grad=True) for one in inputs]
        forward(*tensors).backward(dy)
        gradients = tuple(tensor.grad.numpy() for tensor in tensors)
        return gradients if len(gradients) > 1 else gradients[0]

    return expected
