"""The exercises as pages of the book: one for each track with statements and hints, the solutions on a page of their
own, and in front how many wrong answers the judge has rejected."""

import re
from collections.abc import Sequence
from pathlib import Path

from lessons.exercises import catalogue, power
from lessons.exercises.exercise import Exercise

LEVELS = {1: "easy", 2: "medium", 3: "hard"}


def pages(found: Sequence[power.Power] | None = None, solutions: bool = True) -> dict[str, str]:
    """Path below the book's source → Markdown. `found` is the measured power of the judge; measured if not given."""
    found = power.recorded() if found is None else found
    tracks = {name: [one for one in catalogue.ours() if one.track == name] for name in catalogue.TRACKS}
    tracks = {name: group for name, group in tracks.items() if group}
    made = {f"exercises/{name}.md": track_page(name, group, solutions) for name, group in tracks.items()}
    if solutions:
        made["exercises/solutions.md"] = solutions_page(tracks)
    made["exercises/index.md"] = front_page([*tracks, *(["solutions"] if solutions else [])], found)
    return made


def linked(text: str) -> str:
    """A lesson's page with links to the exercises that it names, in paragraphs about `minitransformer exercise`."""
    names = {one.name for one in catalogue.ours()}

    def link(found: re.Match) -> str:
        return f"[{found[0]}](#exercise-{found[2]})" if found[2] in names else found[0]

    return "\n\n".join(
        re.sub(r"`(minitransformer exercise )?([a-z-]+)`", link, part) if "`minitransformer exercise" in part else part
        for part in text.split("\n\n")
    )


def front_page(pages: Sequence[str], found: Sequence[power.Power]) -> str:
    *_, (_, _, rejected, accepted) = power.lines(found)
    entries = "\n".join(pages)
    lines = "\n".join(
        f"* - [{one.title}](#exercise-{one.name})\n  - `{one.name}`\n  - {_lesson_link(one)}\n  - {LEVELS[one.level]}\n"
        f"  - {one.minutes}"
        for one in sorted(catalogue.ours(), key=lambda one: (str(one.lesson), one.level))
    )
    unmeasured = [one.name for one in catalogue.ours() if one.name not in {power.name for power in found}]
    note = f"\nNot measured on this machine (no compiler): {', '.join(unmeasured)}.\n" if unmeasured else ""
    judged = (
        f" Before this book was built, {rejected} wrong answers had been rejected, and {accepted} right ones (two for"
        " each exercise, that differ in method) had been accepted."
    ) * bool(found)
    return f"""# Exercises

Reading is not doing. Each exercise is one function, or a small model: `minitransformer exercise start NAME` writes a
file with the task and a body to fill in, `minitransformer exercise check NAME` judges it. The judge does not say
"wrong" but what is wrong: the smallest input that fails, what was expected, what came, and the likely mistake. There
are three hints and a solution.

```{{list-table}} All exercises, in the order of the lessons
:header-rows: 1
:class: exercises cards

* - exercise
  - NAME
  - lesson
  - level
  - minutes
{lines}
```

Who judges the judge? Every exercise comes with wrong answers: typical mistakes, constants, special cases that pass the
example, copies of the engine's own function.{judged}
{note}
```{{toctree}}
:maxdepth: 1
:hidden:

{entries}
```
"""


def _lesson_link(one: Exercise) -> str:
    """Its lesson by number, as a link where that lesson is a page."""
    script = next((Path(__file__).parents[1] / "lessons").glob(f"{one.lesson}_*.py"), None)
    return f"[{int(one.lesson)}](/lessons/{script.stem}.md)" if script else str(one.lesson)


def track_page(name: str, group: Sequence[Exercise], solutions: bool = True) -> str:
    parts = [f"# {catalogue.TRACKS[name][0].capitalize()}"]
    for one in group:
        level = LEVELS[one.level]
        parts += [
            f"(exercise-{one.name})=\n## {one.title}",
            f"`{one.name}` · {level} · {one.minutes} minutes · lesson {_lesson_link(one)}",
            _body(one),
            _fenced(one.stub, one.kind),
            f"Begin: `minitransformer exercise start {one.name}`."
            + (f" After a try: [the solution](#solution-{one.name})." if solutions else ""),
            *(_folded(f"Hint {number}", hint) for number, hint in enumerate(one.hints, start=1)),
        ]
    return "\n\n".join(parts) + "\n"


def solutions_page(tracks: dict[str, list[Exercise]]) -> str:
    parts = ["# Solutions", "Try first: a solution that one has looked for stays."]
    for name, group in tracks.items():
        parts.append(f"## {catalogue.TRACKS[name][0].capitalize()}")
        for one in group:
            parts += [f"(solution-{one.name})=\n### {one.title}", f"[The exercise](#exercise-{one.name})"]
            parts += [_fenced(one.solution, one.kind), "Another way:", _fenced(one.another, one.kind)]
    return "\n\n".join(parts) + "\n"


def _body(one: Exercise) -> str:
    """The statement without its title; formulas stand as they are."""
    return one.statement.partition("\n")[2].strip()


def _fenced(text: str, kind: str) -> str:
    return f"````{{code-block}} {'cuda' if kind == 'cuda' else 'python'}\n{text.strip()}\n````"


def _folded(title: str, text: str) -> str:
    return f"<details><summary>{title}</summary>\n\n{text}\n\n</details>"
