"""Writes the pages of the book from the lessons, from the record of their last run, and from the engine's sources.

python docs/pages.py TARGET [--without-solutions]

Ends with 1 if a lesson has not passed: a book with a failing claim is not printed.
"""

import re
import shutil
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
import answer_pages
import api_pages
import exercise_pages
import figure_pages
import front_pages
import kernel_pages
import notebooks
import reading
import torch_page
import words
from cells import page

from lessons.harness import claims

ROOT = Path(__file__).parents[1]


def main(target: Path, solutions: bool = True) -> int:
    try:
        records = {record["lesson"]: record for record in claims.lesson_records()}
    except claims.ClaimsError as error:
        return _refuse(str(error))
    scripts = sorted((ROOT / "lessons").glob("[0-9][0-9]_*.py"))
    for script in scripts:
        known = records.get(script.stem, {})
        if claims.needs(script) and (not known or known.get("left_out")):
            records[script.stem] = claims.blank(script, left_out=f"it needs {' and '.join(claims.needs(script))}")
    done = [script for script in scripts if not records.get(script.stem, {}).get("left_out")]
    unsound = [s.stem for s in done if s.stem not in records or not claims.passed(records[s.stem])]
    if unsound:
        return _refuse(f"these lessons have not passed: {', '.join(unsound)}; run minitransformer lessons")
    stale = [s.stem for s in done if not _is_fresh(s, records[s.stem])]
    if stale:
        return _refuse(f"sources have changed since these lessons ran: {', '.join(stale)}; run minitransformer lessons")
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(claims.FOLDER, target / "figures", ignore=shutil.ignore_patterns("*.json", "*.log", ".*"))
    tried = [claim for script in scripts for claim in records[script.stem]["claims"]]
    made = {"index.md": front_pages.front_page(scripts, tried, claims.FOLDER)}
    made["claims.md"] = front_pages.claims_page(tried)
    for script in scripts:
        source = script.read_text(encoding="utf-8")
        made[f"lessons/{script.stem}.md"] = lesson_page(source, script.stem, records[script.stem])
        made[f"extra/notebooks/{script.stem}.ipynb"] = notebooks.as_json(source, script.stem)
    made |= kernel_pages.pages(ROOT, {script.stem: claims.title(script) for script in scripts})
    made |= exercise_pages.pages(solutions=solutions) | api_pages.pages() | {"from_pytorch.md": torch_page.page()}
    made |= {"reading.md": reading.page(scripts)}
    made |= {"figures.md": figure_pages.page([records[script.stem] for script in scripts])} | written_pages(target)
    if "answers.md" in made:
        made["answers.md"] = answer_pages.page(made["answers.md"], scripts)
    made = made if solutions else answer_pages.without(made)
    for path, text in made.items():
        (target / path).parent.mkdir(parents=True, exist_ok=True)
        (target / path).write_text(text, encoding="utf-8")
    figure_pages.pack([records[script.stem] for script in scripts], target / "extra" / "figures.zip")
    missing = f" ({len(scripts) - len(done)} of them not run)" * (len(done) < len(scripts))
    print(f"{len(scripts)} lessons{missing}, {len(tried)} claims, {len(made)} pages written to {target}")
    return 0


def lesson_page(source: str, name: str, record: dict[str, Any]) -> str:
    """The lesson with its notebook below the title and its kernels at the end."""
    glossary = words.Linker()
    text = page(
        source,
        record,
        prose=lambda prose: glossary(reading.linked(prose)),
        place=lambda file, text: kernel_pages.place(ROOT, file, text),
    )
    title, _, body = exercise_pages.linked(text).partition("\n")
    if record.get("left_out"):
        why = f" ({record['left_out']})" if "needs time" not in record["left_out"] else ""
        note = f"This copy of the book was built without running this lesson{why}, so its results are missing."
        body = f"*{note} `minitransformer lessons {name[:2]}` runs it.*\n\n{body}"
    return "\n\n".join([title, notebooks.links(name), body.strip("\n"), kernel_pages.for_lesson(name, ROOT)])


def written_pages(target: Path) -> dict[str, str]:
    """Pages that lie in the project as they are; links to sources of the project become their names."""
    names = ("installation", "teaching", "answers", "ranks", "glossary", "promises")
    made = {f"{name}.md": (ROOT / "docs" / f"{name}.md") for name in names}
    made |= {"changelog.md": ROOT / "CHANGELOG.md", "results/index.md": ROOT / "lessons" / "results" / "README.md"}
    for picture in (ROOT / "lessons" / "results").glob("*.png"):
        (target / "results").mkdir(exist_ok=True)
        shutil.copy(picture, target / "results")
    for picture in (ROOT / "docs").glob("*.png"):
        shutil.copy(picture, target)
    texts = {path: without_sources(file.read_text(encoding="utf-8")) for path, file in made.items() if file.exists()}
    if (ROOT / "CONTRIBUTING.md").exists():
        texts["own_exercise.md"] = own_exercise((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"))
    return texts | {path: words.page(text) for path, text in texts.items() if path == "glossary.md"}


def own_exercise(contributing: str) -> str:
    """What the book for contributors says about exercises, for teachers."""
    section = contributing.partition("\n## An exercise\n")[2].partition("\n## ")[0]
    return f"# An exercise of your own\n{section}"


IN_THE_BOOK = {  # where a file of the project is a page
    r"\.\./lessons/(\d\d_\w+)\.py": r"lessons/\1.md",
    r"\.\./kernels/reference/(\w+)\.py": r"kernels/\1.md",
    r"\.\./CONTRIBUTING\.md#an-exercise": "own_exercise.md",
    r"\.\./lessons/results/README\.md": "results/index.md",
    r"\.\./lessons/results/(\w+\.png)": r"results/\1",
}


def without_sources(text: str) -> str:
    """Links for readers of the book: one to a lesson leads to its page, and [how](word_sample.py), which has none,
    becomes how (`word_sample.py`)."""
    for file, place in IN_THE_BOOK.items():
        text = re.sub(rf"\]\({file}\)", rf"]({place})", text)
    return re.sub(r"\[([^\]]+)\]\(((?!http)[\w./-]+\.(?:py|cu|json|toml))\)", r"\1 (`\2`)", text)


def _is_fresh(script: Path, record: dict[str, Any]) -> bool:
    options = {name: record.get(name) for name in ("backend", "full", "data")}
    return record["key"] == claims.sources_key(script, **options)


def _refuse(reason: str) -> int:
    print(f"no book: {reason}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    target, *options = sys.argv[1:] or [""]
    if not target or options not in ([], ["--without-solutions"]):
        sys.exit("usage: python docs/pages.py TARGET [--without-solutions]")
    sys.exit(main(Path(target), solutions=not options))
