"""Writes the pages of the book from the lessons, from the record of their last run, and from the kernels' sources.

python docs/pages.py TARGET      Ends with 1 if a lesson has not passed: a book with a failing claim is not printed.
"""

import shutil
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
import exercise_pages
from cells import page, plain

from lessons.harness import claims

ROOT = Path(__file__).parents[1]
TIERS = (("reference", "NumPy: the specification"), ("cpu", "Numba"), ("gpu", "CUDA"))
ENDINGS = (".cu", ".cuh", ".py")


def main(target: Path) -> int:
    try:
        records = {record["lesson"]: record for record in claims.lesson_records()}
    except claims.ClaimsError as error:
        return _refuse(str(error))
    scripts = sorted((ROOT / "lessons").glob("[0-9][0-9]_*.py"))
    unsound = [s.stem for s in scripts if s.stem not in records or not claims.passed(records[s.stem])]
    if unsound:
        return _refuse(f"these lessons have not passed: {', '.join(unsound)}; run minitransformer lessons")
    stale = [s.stem for s in scripts if not _is_fresh(s, records[s.stem])]
    if stale:
        return _refuse(f"sources have changed since these lessons ran: {', '.join(stale)}; run minitransformer lessons")
    shutil.rmtree(target, ignore_errors=True)
    (target / "lessons").mkdir(parents=True)
    (target / "kernels").mkdir()
    shutil.copytree(claims.FOLDER, target / "figures", ignore=shutil.ignore_patterns("*.json", "*.log", ".*"))
    for script in scripts:
        text = exercise_pages.linked(page(script.read_text(encoding="utf-8"), records[script.stem]))
        (target / "lessons" / f"{script.stem}.md").write_text(text, encoding="utf-8")
    tried = [claim for script in scripts for claim in records[script.stem]["claims"]]
    names = kernel_names()
    for name in names:
        (target / "kernels" / f"{name}.md").write_text(kernel_page(name), encoding="utf-8")
    (target / "kernels" / "helpers.md").write_text(helpers_page(names), encoding="utf-8")
    (target / "kernels" / "index.md").write_text(kernel_index(names), encoding="utf-8")
    (target / "exercises").mkdir()
    for path, text in exercise_pages.pages().items():
        (target / path).write_text(text, encoding="utf-8")
    (target / "claims.md").write_text(claims_page(tried), encoding="utf-8")
    (target / "index.md").write_text(front_page(scripts, tried), encoding="utf-8")
    print(f"{len(scripts)} lessons, {len(tried)} claims and {len(names)} kernels written to {target}")
    return 0


def _is_fresh(script: Path, record: dict[str, Any]) -> bool:
    options = {name: record.get(name) for name in ("backend", "full", "data")}
    return record["key"] == claims.sources_key(script, **options)


def _refuse(reason: str) -> int:
    print(f"no book: {reason}", file=sys.stderr)
    return 1


def front_page(scripts: list[Path], tried: list[dict[str, Any]]) -> str:
    caught, of = claims.score(tried)
    entries = "\n".join(f"lessons/{script.stem}" for script in scripts)
    return f"""# How transformers really work

Transformers are explained in many places, and often loosely. Here every statement is put on trial against an engine
whose every line is open: a reference in plain NumPy, the same kernels by hand in Numba and CUDA, an autograd of one
sitting, and the models of two university labs.

Each lesson states a claim, says what would refute it, makes the experiment and computes the verdict. Then it repeats
the trial on engines that were broken on purpose, to show that its checks can fail. This book was printed after
{len(tried)} claims had been tried and {caught} of {of} broken engines had been caught: the
[table of claims](claims.md) leads to each.

The [kernels](kernels/index.md) stand side by side: the same function as a specification, for the processor, and for the
graphics card. The [exercises](exercises/index.md) are for doing it yourself, with a judge that explains.

```{{toctree}}
:caption: Lessons
:maxdepth: 1

{entries}
```

```{{toctree}}
:caption: Look things up
:maxdepth: 1

exercises/index
claims
kernels/index
```
"""


def claims_page(tried: list[dict[str, Any]]) -> str:
    caught, of = claims.score(tried)
    rows = []
    for claim in tried:
        mine = f"{sum(c['caught'] for c in claim['controls'])}/{len(claim['controls'])}"
        text = f"{plain(claim['statement'])}\n\n    *{plain(claim['evidence'])}*"
        word = f"[{claim['verdict']}]{{.verdict-word .{claim['verdict']}}}"
        rows.append(f"* - [{claim['claim']}](#claim-{claim['claim']})\n  - {word}\n  - {mine}\n  - {text}")
    table = "\n".join(rows)
    return f"""---
hide-toc: true
---
# The claims and their verdicts

**proved**: holds exactly, or within a bound that the lesson derives, on everything tried. **refuted**: a
counter-example is shown. **sharpened**: true once a missing condition is added, which the lesson states and proves. A
*control* is a deliberately broken engine on which the same trial has to fail: {caught} of {of} were caught.

```{{list-table}}
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


def kernel_names() -> list[str]:
    return sorted(file.stem for file in (ROOT / "kernels" / "reference").glob("[a-z]*.py"))


def kernel_index(names: list[str]) -> str:
    entries = "\n".join([*names, "helpers"])
    return f"""# Kernels, side by side

The same file name on every tier, the same function names, the same arguments. Read the left column first: it is the
specification. Then see what it takes to make it fast.

Shapes carry the same letters everywhere: `B` batch, `T` query positions, `S` key positions, `C` model width, `H` heads,
`D = C/H`, `F` feed-forward width, `V` vocabulary, `N = B·T` rows.

```{{toctree}}
:maxdepth: 1

{entries}
```
"""


def kernel_page(name: str) -> str:
    """Three columns: what a tier does not have is said, not left blank."""
    columns = []
    for folder, title in TIERS:
        files = [ROOT / "kernels" / folder / f"{name}{ending}" for ending in ENDINGS]
        blocks = [_source(file) for file in files if file.exists()]
        missing = "This tier has no file of that name."
        columns.append(f"::::{{container}} tier\n**{title}**\n\n" + ("\n\n".join(blocks) or missing) + "\n::::")
    body = "\n\n".join(columns)
    return f"---\nhide-toc: true\n---\n# {name}\n\n:::::{{container}} tiers\n{body}\n:::::\n"


def helpers_page(names: list[str]) -> str:
    """The files of the fast tiers that have no counterpart in the reference."""
    parts = ["---\nhide-toc: true\n---\n# Helpers of the fast tiers\n\nWhat the kernels of one tier share."]
    for folder, title in TIERS[1:]:
        files = [file for file in sorted((ROOT / "kernels" / folder).glob("[a-z]*.*")) if file.suffix in ENDINGS]
        blocks = [_source(file) for file in files if file.stem not in names]
        parts += [f"## {title}", *blocks] if blocks else []
    return "\n\n".join(parts) + "\n"


def _source(file: Path) -> str:
    language = "python" if file.suffix == ".py" else "cuda"
    text = file.read_text(encoding="utf-8").rstrip()
    return f"````{{code-block}} {language}\n:caption: {file.relative_to(ROOT)}\n\n{text}\n````"


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python docs/pages.py TARGET")
    sys.exit(main(Path(sys.argv[1])))
