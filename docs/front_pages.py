"""The front page of the book, and the page with all claims."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from cells import plain

from lessons.harness import claims

LESSONS = Path(__file__).parents[1] / "lessons"

# Pictures of the front page, the first three that were drawn: file, what it shows, the lesson it comes from
PICTURES = (
    ("02_sentence.png", "Which word looks at which: attention weights of a sentence", "02_attention"),
    ("03_jacobians.png", "What each output depends on: nothing above the diagonal, to the last bit", "03_square_mask"),
    ("13_alignment.png", "Where a translator looks while it writes French", "13_translation"),
    ("17_cuts.png", "From letters to words: how a vocabulary of pieces grows", "17_words_in_pieces"),
)

# The lessons in the sidebar: title of a group, and its first lesson. The README has the same.
GROUPS = (
    ("Foundations", 1),
    ("Anatomy and cost", 5),
    ("Kernels", 8),
    ("Models", 11),
    ("Models of others", 15),
    ("Training at scale", 19),
)

# Paths through the book: title, what one knows at the end, the lessons of each evening
PATHS = (
    ("Two evenings", "how attention works, and how a language model is trained and writes",
     ((2, 3), (11,))),
    ("Six evenings", "all of the first transformer, from the derivative to a translator",
     ((1,), (2,), (3, 4), (6, 7), (11,), (13,))),
    ("Eleven evenings", "how it is made fast, too: kernels, memory and threads, on a laptop",
     tuple((n,) for n in (1, 2, 3, 4, 6, 7, 8, 9, 10, 11, 13))),
    ("All of it, an evening each", "what BERT adds, what has changed since 2017, real models, and many machines",
     tuple((int(script.name[:2]),) for script in sorted(LESSONS.glob("[0-9][0-9]_*.py")))),
)  # fmt: skip


LOOK_UP = (
    "claims", "results/index", "figures", "reading", "kernels/index", "api/index", "ranks", "promises", "answers",
    "changelog",
)  # fmt: skip
LONG = 7  # a path of so many evenings is said in a line: the sidebar has its lessons


def front_page(scripts: list[Path], tried: list[dict[str, Any]], figures: Path) -> str:
    caught, of = claims.score(tried)
    return f"""---
hide-toc: true
---
# How transformers really work

Transformers are explained in many places, and often loosely. Here every statement is tested on an engine that you can
read line by line: a reference in plain NumPy, the same kernels by hand in Numba and CUDA, an autograd for one evening
of reading, and the models of two university lab courses.

Each lesson lets you meet a thing first, on an example small enough to check by hand. Then it states a claim, says what
would refute it, makes the experiment and computes the verdict. And it repeats the trial on engines that were broken on
purpose, to show that its checks can fail. This book was built after {len(tried)} claims had been tried and {caught}
of {of} broken engines had been caught.

{gallery(figures)}

## Where to begin

You should know Python, matrices and derivatives; what a lesson needs beyond that, it says at the top, and the
[glossary](glossary.md) explains the words. A lesson takes half an hour to read, a minute to run, and has exercises.

{paths(scripts)}

Then look around: the [exercises](exercises/index.md) have a judge that tells you *what* is wrong. The
[kernels](kernels/index.md) are shown side by side on three tiers. [Results](results/index.md) shows the same engine on
real text. If you know PyTorch, [this page](from_pytorch.md) lists its names and ours. If you teach, [here is a
course](teaching.md). [Installation](installation.md) takes two commands.

## What people say, and what came out

**Proved** holds exactly, or within a bound that the lesson derives, on everything tried; **refuted** has a
counter-example; **sharpened** is true once a missing condition is added. The [table with all evidence](claims.md) says
what was seen.

```{{list-table}} {len(tried)} claims and their verdicts
:header-rows: 1
:class: claims
:widths: 78 12 10

* - claim
  - verdict
  - lesson
{_short_rows(tried)}
```

{contents(scripts)}
"""


def contents(scripts: list[Path]) -> str:
    """The sidebar: the lessons in groups, other pages above and below them."""
    groups: dict[str, list[str]] = {}
    for script in scripts:
        title = [title for title, first in GROUPS if first <= int(script.stem[:2])][-1]
        groups.setdefault(title, []).append(f"lessons/{script.stem}")
    begin = {"Begin": ["installation", "from_pytorch", "glossary", "teaching"]}
    last = {"Do it yourself": ["exercises/index", "own_exercise"], "Look things up": LOOK_UP}
    return "\n\n".join(_tree(title, pages) for title, pages in (begin | groups | last).items())


def _tree(title: str, pages: Iterable[str]) -> str:
    return "\n".join(["```{toctree}", ":hidden:", f":caption: {title}", "", *pages, "```"])


def gallery(figures: Path) -> str:
    """Three pictures, each a link to its lesson."""
    drawn = [picture for picture in PICTURES if (figures / picture[0]).exists()]
    shown = [
        f":::{{figure}} /figures/{file}\n:alt: {text}\n:target: lessons/{lesson}.html\n\n{plain(text)}\n:::"
        for file, text, lesson in drawn[:3]
    ]
    return "::::{container} gallery\n" + "\n\n".join(shown) + "\n::::" if shown else ""


def paths(scripts: list[Path]) -> str:
    numbered = {int(script.stem[:2]): script for script in scripts}
    boxes, lines = [], []
    for title, aim, evenings in PATHS:
        known = [evening for evening in evenings if all(n in numbered for n in evening)]
        if len(known) >= LONG:
            lines.append(f"**{title}**: {aim}. Lessons {spans([n for evening in known for n in evening])}.")
            continue
        links = [
            " and ".join(f"[{claims.title(numbered[n])}](lessons/{numbered[n].stem}.md)" for n in evening)
            for evening in known
        ]
        steps = "\n".join(f"1. {link}" for link in links)
        boxes.append(f":::{{container}} path\n**{title}**: {aim}\n\n{steps}\n:::")
    return "::::{container} paths\n" + "\n\n".join(boxes) + "\n::::\n\n" + "\n\n".join(lines)


def spans(numbers: list[int]) -> str:
    """1, 2, 3, 5 is "1 to 3 and 5"."""
    runs: list[list[int]] = []
    for n in numbers:
        if runs and n == runs[-1][-1] + 1:
            runs[-1].append(n)
        else:
            runs.append([n])
    said = [text for run in runs for text in ([f"{run[0]} to {run[-1]}"] if len(run) > 2 else map(str, run))]
    return " and ".join(filter(None, [", ".join(said[:-1]), said[-1]]))


def _short_rows(tried: list[dict[str, Any]]) -> str:
    rows = []
    for claim in tried:
        link, lesson = f"[{plain(claim['statement'])}](#claim-{claim['claim']})", int(claim["lesson"][:2])
        rows.append(f"* - {link}\n  - {_word(claim)}\n  - {lesson}")
    return "\n".join(rows)


def _word(claim: dict[str, Any]) -> str:
    return f"[{claim['verdict']}]{{.verdict-word .{claim['verdict']}}}"


def claims_page(tried: list[dict[str, Any]]) -> str:
    caught, of = claims.score(tried)
    rows = []
    for claim in tried:
        mine = f"{sum(c['caught'] for c in claim['controls'])}/{len(claim['controls'])}"
        text = f"{plain(claim['statement'])}\n\n    *{plain(claim['evidence'])}*"
        rows.append(f"* - [{claim['claim']}](#claim-{claim['claim']})\n  - {_word(claim)}\n  - {mine}\n  - {text}")
    table = "\n".join(rows)
    return f"""---
hide-toc: true
---
# The claims and their verdicts

**proved**: holds exactly, or within a bound that the lesson derives, on everything tried. **refuted**: a
counter-example is shown. **sharpened**: true once a missing condition is added, which the lesson states and proves. A
*control* is a deliberately broken engine on which the same trial has to fail: {caught} of {of} were caught.

```{{list-table}} All claims, with what was seen
:header-rows: 1
:class: claims
:widths: 16 10 9 65

* - claim
  - verdict
  - controls
  - statement, and *what was seen*
{table}
```
"""
