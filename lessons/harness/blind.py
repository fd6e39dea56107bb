"""Find the broken engine: a lesson that runs on one of its controls and does not say on which.

    python lessons/03_square_mask.py --blind            some broken engine of this lesson; its number is printed
    python lessons/03_square_mask.py --blind 2          engine 2, the same for everybody
    python lessons/03_square_mask.py --break mask-off --blind      the teacher chooses
    python lessons/03_square_mask.py --blind 2 --reveal            what it was

Numbers are dealt out in an order that the script does not show. The engine is broken from the first line on, so that
every number and figure of the lesson may show a symptom; a control that is made of the lesson's own functions is broken
in its trials only. All checks are run, also behind one that fails. Figures go to build/lessons/blind."""

import ast
import random
import string
import sys
from pathlib import Path
from typing import Any, NamedTuple

from lessons.harness.claims import FOLDER
from lessons.harness.engine import Engine


class Hidden(NamedTuple):
    """The broken engine of a run, by its number and its name."""

    lesson: str
    number: int
    of: int
    name: str
    from_the_start: bool  # or only in the trials that name it
    shared: dict[str, str]  # all controls of this lesson that stand in lessons.faults → what is broken

    @property
    def folder(self) -> Path:
        return FOLDER / "blind"

    def figure(self, name: str) -> str:
        return f"{self.lesson[:2]}_engine{self.number}_{name}"

    def break_engine(self) -> None:
        """Breaks it for as long as this process lives."""
        if self.from_the_start:
            from lessons import faults

            getattr(faults, self.name.replace("-", "_"))(Engine())

    def answer(self) -> str:
        command = f"python lessons/{self.lesson}.py --break {self.name}"
        return (
            f"engine {self.number} of {self.of} is {self.name}; `{command}` says what is broken and which check sees it"
        )

    def question(self, met: dict[str, str], tried: list[dict[str, Any]]) -> str:
        """What was seen, and the choice.   met: control → what is broken, of the trials that the run came to"""
        checks, failed = (sum(record[what] for record in tried) for what in ("checks", "failed"))
        seen = f"{failed} of {checks} checks failed" if checks else "the lesson did not come to a check"
        lines = [
            "",
            f"engine {self.number} of {self.of}: {seen}; figures are in {self.folder}",
            "Which of these is it?",
        ]
        choice = zip(string.ascii_lowercase, sorted({**self.shared, **met}.values()), strict=False)
        lines += [f"  {letter})  {what}" for letter, what in choice]
        return "\n".join([*lines, f"The answer: python lessons/{self.lesson}.py --blind {self.number} --reveal"])


def controls_of(script: Path) -> dict[str, bool]:
    """The controls that a lesson names, and whether each is a fault of `lessons.faults` as it stands."""
    found: dict[str, bool] = {}
    for node in ast.walk(ast.parse(script.read_text(encoding="utf-8"))):
        if isinstance(node, ast.keyword) and node.arg == "controls" and isinstance(node.value, ast.List):
            for control in node.value.elts:
                function = control.func if isinstance(control, ast.Call) else control
                name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
                found[name.replace("_", "-")] = isinstance(control, ast.Attribute)
    return found


def _place(name: str) -> float:
    """Where a control stands among the others: always the same, and not as in the script."""
    return random.Random(name).random()


def choose(script: Path, number: int, name: str | None) -> Hidden:
    """The engine of this number (0: any), or of this name. Raises ValueError with a line for the user."""
    controls = controls_of(script)
    names = sorted(controls, key=_place)
    if name is not None and name not in controls:
        raise ValueError(f"{script.stem} has no control {name!r}; there are: {', '.join(controls)}")
    if not 0 <= number <= len(names):
        raise ValueError(f"--blind {number}: {script.stem} has the broken engines 1 to {len(names)}")
    number = names.index(name) + 1 if name is not None else number or random.randint(1, len(names))
    name = names[number - 1]
    from lessons import faults  # here, since faults need this package

    shared = {n: (getattr(faults, n.replace("-", "_")).__doc__ or n).strip() for n, plain in controls.items() if plain}
    return Hidden(script.stem, number, len(names), name, controls[name], shared)


def asked_for(script: Path, number: int | None, name: str | None, reveal: bool) -> Hidden | None:
    """What --blind asks for, if it does. --reveal says which engine that is, and ends here; a mistake too."""
    if number is None and not reveal:
        return None
    try:
        if reveal and not number and name is None:
            raise ValueError("--reveal needs the number of an engine: --blind 2 --reveal")
        hidden = choose(script, number or 0, name)
    except ValueError as error:
        print(error, file=sys.stderr)
        sys.exit(2)
    if reveal:
        print(hidden.answer())
        sys.exit(0)
    return hidden
