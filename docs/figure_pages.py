"""All figures of the lessons on one page with their captions, and as a pack for slides: as pixels (PNG) and as lines
and letters (SVG), which stay sharp at any size.

python docs/figure_pages.py TARGET.zip      the pack, from the figures and records of the last run of the lessons
"""

import sys
import zipfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
from cells import plain

from lessons.harness import claims


def figures(record: dict[str, Any]) -> dict[str, str]:
    """File → caption, of one lesson: what it shows between the trials, and in them."""
    shown = [part for _, part in record["output"] if isinstance(part, dict)]
    shown += [event for claim in record["claims"] for event in claim["events"] if "figure" in event]
    return {part["figure"]: part["caption"] for part in shown}


def page(records: list[dict[str, Any]]) -> str:
    parts = ["# All figures"]
    parts.append(
        '<p class="downloads"><a href="figures.zip" download>Download all as PNG and SVG, with their captions</a></p>'
    )
    for record in filter(figures, records):
        parts.append(f"## {int(record['lesson'][:2])}. {plain(record['title'])}")
        for file, caption in figures(record).items():
            alt = " ".join(caption.split()) or Path(file).stem
            parts.append(f":::{{figure}} /figures/{file}\n:alt: {alt}\n\n{plain(caption)} (`{file}`)\n:::")
    return "\n\n".join(parts) + "\n"


def pack(records: list[dict[str, Any]], target: Path) -> int:
    """Writes the zip file; returns how many figures it has."""
    target.parent.mkdir(parents=True, exist_ok=True)
    listed = [(record, file, caption) for record in records for file, caption in figures(record).items()]
    lines = [
        f"{file}\n  lesson {record['lesson']}: {record['title']}\n  {caption}\n" for record, file, caption in listed
    ]
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("figures/CAPTIONS.txt", "\n".join(lines))
        for _, file, _ in listed:
            archive.write(claims.FOLDER / file, f"figures/{file}")
            drawing = (claims.FOLDER / file).with_suffix(".svg")
            if drawing.name != file and drawing.exists():
                archive.write(drawing, f"figures/{drawing.name}")
    return len(listed)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python docs/figure_pages.py TARGET.zip")
    number = pack(claims.lesson_records(), Path(sys.argv[1]))
    print(f"{number} figures and their captions: {sys.argv[1]}")
