"""What students hear about an exercise: NAME.toml beside its NAME.py. First the three hints, each of which gives away a
little more; then the wrong answers that the judge must reject, each under the name of the mistake:

    hints = ["...", "...", "..."]

    ["mask after the softmax"]
    old = "softmax(masked)"                  # a piece that stands once in SOLUTION,
    new = "softmax(scores) * allowed"        # and what stands there instead
    tell = "The mask comes too late."        # for whoever gets the same numbers

Where several pieces change, edits = [["old", "new"], ["old", "new"]] stands for `old` and `new`; answer = '''...''' is
a wrong answer written out. Where the judge finds the mistake by itself, `says` takes the place of `tell`: a word that
its explanation must contain. With projector = false it only tests the judge, and a class would find nothing in it: the
numbers of the example, a call of the engine."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from minitransformer.errors import FileError

KEYS = ("old", "new", "edits", "answer", "tell", "says", "projector")
RECIPE = "see lessons/exercises/feedback.py"


@dataclass(frozen=True)
class Wrong:
    """A wrong answer: the solution with some pieces replaced, or one written out."""

    edits: tuple[tuple[str, str], ...] = ()
    text: str = ""
    tell: str = ""
    says: str = ""
    projector: bool = True  # worth showing to a class

    def source(self, solution: str) -> str:
        if self.text:
            return self.text
        for old, new in self.edits:
            if solution.count(old) != 1:
                raise ValueError(f"{old!r} occurs {solution.count(old)} times in the solution, not once")
            solution = solution.replace(old, new)
        return solution


def read_feedback(path: Path, solution: str) -> tuple[tuple[str, ...], dict[str, Wrong]]:
    """The hints, and name of the mistake → wrong answer; FileError says what is not as it should be."""
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise FileError(path, "hints and wrong answers are missing", f"write this file; {RECIPE}") from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise FileError(path, f"not readable as TOML: {error}", "mend it") from None
    hints = tables.pop("hints", None)
    if not isinstance(hints, list) or not hints or not all(isinstance(hint, str) and hint for hint in hints):
        raise FileError(path, "no hints", 'begin it with hints = ["...", "...", "..."]')
    wrong = {}
    for name, table in tables.items():
        try:
            wrong[name] = _wrong(table)
            wrong[name].source(solution)
        except ValueError as error:
            raise FileError(path, f"{name!r}: {error}", RECIPE) from None
    return tuple(hints), wrong


def _wrong(table: Any) -> Wrong:
    if not isinstance(table, Mapping):
        raise ValueError(f"{table!r} stands alone; a wrong answer begins with its name in brackets")
    if unknown := [key for key in table if key not in KEYS]:
        raise ValueError(f"there is no {unknown[0]!r}; known are {', '.join(KEYS)}")
    kinds = [("old" in table or "new" in table), "edits" in table, "answer" in table]
    if sum(kinds) != 1:
        raise ValueError("one of `old` with `new`, `edits` and `answer` is needed")
    if ("tell" in table) == ("says" in table):
        raise ValueError("either `tell` or `says` is needed: what does a student learn?")
    pairs = table.get("edits", [] if "answer" in table else [[table.get("old"), table.get("new")]])
    if not isinstance(pairs, list) or any(not isinstance(pair, list) or len(pair) != 2 for pair in pairs):
        raise ValueError("`edits` is a list of pairs, [old, new] each")
    answer, tell, says = (table.get(key, "") for key in ("answer", "tell", "says"))
    if not all(isinstance(text, str) for text in (answer, tell, says, *(text for pair in pairs for text in pair))):
        raise ValueError("a text is missing, or something else stands in its place")
    if not (tell or says) or not (answer or pairs):
        raise ValueError("a text is empty")
    if any(old == new for old, new in pairs):
        raise ValueError("`new` is the same as `old`")
    projector = table.get("projector", True)
    if not isinstance(projector, bool):
        raise ValueError("`projector` is true or false")
    return Wrong(tuple((old, new) for old, new in pairs), answer, tell, says, projector)
