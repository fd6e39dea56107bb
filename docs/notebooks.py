"""Lessons as notebooks: the cells of a percent script in Jupyter's format, ready to be opened or run.

    python docs/notebooks.py 02_attention ...    runs lessons and writes docs/read/02_attention.ipynb ...

These are kept with what they print and draw, to be read on a website that shows notebooks."""

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import reading
from cells import split

LESSONS, READ = Path(__file__).parents[1] / "lessons", Path(__file__).parent / "read"

GITHUB = ""  # owner/name, on the day the project has an address there: then each lesson gets a Colab badge
BADGE = "https://colab.research.google.com/assets/colab-badge.svg"


def notebook(source: str, name: str) -> dict[str, Any]:
    """The notebook of lesson `name`, such as 02_attention. Behind its title it says what it needs, and names itself:
    the engine asks a lesson for its file, and a notebook has none."""
    about = [_markdown(0, ABOUT.format(name=name)), _code(1, f'{_install()}__file__ = "{name}.py"', hidden="plumbing")]
    made: list[dict[str, Any]] = []
    for number, cell in enumerate(split(source), start=2):
        trial = "@lesson.trial(" in cell.text  # long, and may be skipped: the prose before it says what it does
        hidden = "plumbing" if cell.plumbing else "trial" if trial else ""
        made.append(_markdown(number, reading.linked(cell.text)) if cell.markdown else _code(number, cell.text, hidden))
    title = 1 if made and made[0]["cell_type"] == "markdown" else 0
    made[title:title] = about
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    metadata = {"kernelspec": kernel, "language_info": {"name": "python"}, "title": name}
    return {"nbformat": 4, "nbformat_minor": 5, "metadata": metadata, "cells": made}


ABOUT = """*To read this, nothing needs to be installed; cells of imports may be skipped. To run it, open it where
minitransformer is installed from a clone: `pip install -e '.[notebook]'`, then `jupyter notebook`. It was made from
`lessons/{name}.py`.*"""


def _install() -> str:
    if not GITHUB:
        return ""
    return f"""import sys
if "google.colab" in sys.modules:
    !git clone --quiet https://github.com/{GITHUB} && pip install --quiet --editable ./{GITHUB.split("/")[1]}
    sys.path.insert(0, "{GITHUB.split("/")[1]}")  # a running Python does not see an editable install
"""


def _markdown(number: int, text: str) -> dict[str, Any]:
    return {"cell_type": "markdown", "id": f"cell-{number}", "metadata": {}, "source": text}


def _code(number: int, text: str, hidden: str) -> dict[str, Any]:
    """`hidden` is the tag of a cell that Jupyter folds, or nothing."""
    metadata = {"tags": [hidden], "jupyter": {"source_hidden": True}} if hidden else {}
    kind: dict[str, Any] = {"cell_type": "code", "id": f"cell-{number}", "metadata": metadata}
    return kind | {"execution_count": None, "outputs": [], "source": text}


def as_json(source: str, name: str) -> str:
    return json.dumps(notebook(source, name), indent=1, ensure_ascii=False) + "\n"


def links(name: str) -> str:
    """What stands below the title of a lesson's page."""
    colab = f"https://colab.research.google.com/github/{GITHUB}/blob/gh-pages/notebooks/{name}.ipynb"
    badge = f' <a href="{colab}"><img alt="Open in Colab" src="{BADGE}"></a>' if GITHUB else ""
    download = f'<a href="../notebooks/{name}.ipynb" download>Download as notebook</a>'
    words = '<a href="../glossary.html">glossary</a>'
    return f'<p class="downloads">{download} · or run it: <code>python lessons/{name}.py</code> · {words}{badge}</p>'


def executed(name: str) -> str:
    """The notebook of a lesson with its results, but without what changes from run to run and says nothing."""
    import nbclient
    import nbformat

    with tempfile.TemporaryDirectory() as folder:
        book = nbformat.from_dict(notebook((LESSONS / f"{name}.py").read_text(), name))
        nbclient.NotebookClient(book, timeout=600, resources={"metadata": {"path": folder}}).execute()
    for cell in book["cells"]:
        cell["metadata"].pop("execution", None)
        if cell["cell_type"] == "code":
            cell["outputs"] = [one for one in cell["outputs"] if one.get("name") != "stderr"]
    return json.dumps(book, indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    READ.mkdir(exist_ok=True)
    for lesson in sys.argv[1:]:
        (READ / f"{lesson}.ipynb").write_text(executed(lesson))
        print(f"docs/read/{lesson}.ipynb")
