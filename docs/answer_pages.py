"""The page of answers: each one below its question, which is taken from the end of its lesson."""

import re
from collections.abc import Sequence
from pathlib import Path

import cells

_ITEM = re.compile(r"^\d+\. (.*?)(?=\n\d+\. |\n\n|\Z)", re.DOTALL | re.MULTILINE)


def page(text: str, scripts: Sequence[Path]) -> str:
    """docs/answers.md with the questions of the lessons; each lesson must have as many as there are answers."""
    front, *sections = re.split(r"^(?=## \d+\. )", text, flags=re.MULTILINE)
    by_number = {int(script.stem[:2]): script for script in scripts}
    parts = [front.strip()]
    for section in sections:
        title, _, body = section.partition("\n")
        script = by_number.pop(int(title.split()[1].rstrip(".")))
        asked, answers = questions(script.read_text(encoding="utf-8")), _ITEM.findall(body)
        if len(asked) != len(answers):
            raise ValueError(f"{script.stem} has {len(asked)} questions, and docs/answers.md {len(answers)} answers")
        parts.append(title)
        for number, pair in enumerate(zip(asked, answers, strict=True), start=1):
            question, answer = (" ".join(text.split()) for text in pair)
            parts.append(f"{number}. {question}\n\n   **Answer.** {answer}")
    if by_number:
        raise ValueError(f"docs/answers.md has no section for lessons {', '.join(map(str, by_number))}")
    return "\n\n".join(parts) + "\n"


def questions(source: str) -> list[str]:
    prose = "\n\n".join(cell.text for cell in cells.split(source) if cell.markdown)
    return _ITEM.findall(prose.partition("## Questions to think about")[2].partition("\n## ")[0])


TEACHERS = ("answers", "teaching")  # pages with answers


def without(pages: dict[str, str]) -> dict[str, str]:
    """The pages of a book for students, without those for teachers: their entries in the table of contents go, and a
    link to one names the file."""
    kept = {path: text for path, text in pages.items() if path.removesuffix(".md") not in TEACHERS}
    for name in TEACHERS:
        kept["index.md"] = kept["index.md"].replace(f"\n{name}\n", "\n")
    link = re.compile(rf"\[([^\]]+)\]\(((?:{'|'.join(TEACHERS)})\.md)(?:#[\w-]+)?\)")
    return {path: link.sub(r"\1 (`docs/\2`)", text) for path, text in kept.items()}
