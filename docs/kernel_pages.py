"""The kernels as pages of the book: function beside function on three tiers, its formula and its costs on top."""

import ast
import re
from collections.abc import Iterable
from itertools import groupby, pairwise
from pathlib import Path

import alignment
from cells import folded, plain, unwrapped

from kernels.contract import CONTRACT

TIERS = (("reference", "NumPy: the specification"), ("cpu", "Numba: the processor"), ("gpu", "CUDA: the graphics card"))
ENDINGS = (".cu", ".cuh", ".py")
ABSENT = "This tier has nothing of its own here."

# Which lesson explains which kernel: both pages link to each other.
LESSONS = {
    "02_attention": ("attention", "softmax"),
    "03_square_mask": ("attention",),
    "08_kernels": ("attention", "softmax", "layer_norm", "elementwise", "linear", "embedding"),
    "09_memory": ("attention", "linear_cross_entropy", "cross_entropy", "softmax"),
    "10_races": ("reduce", "layer_norm", "embedding", "dropout"),
    "13_translation": ("layer_norm", "cross_entropy"),
    "14_since_2017": ("rotary", "rms_norm", "gated_feed_forward", "attention"),
    "15_four_bits": ("quantised_linear",),
}


def kernel_names(root: Path) -> list[str]:
    return sorted(file.stem for file in (root / "kernels" / "reference").glob("[a-z]*.py"))


def pages(root: Path, titles: dict[str, str]) -> dict[str, str]:
    """Path below the book's source → Markdown. `titles` has the lessons of the book, by their file names."""
    names = kernel_names(root)
    made = {f"kernels/{name}.md": kernel_page(root, name, titles) for name in names}
    made["kernels/helpers.md"] = helpers_page(root, names)
    made["kernels/index.md"] = index(root, names)
    return made


def for_lesson(lesson: str, root: Path) -> str:
    """The line at the end of a lesson that leads to its kernels; "" if it has none."""
    known = [name for name in LESSONS.get(lesson, ()) if name in kernel_names(root)]
    links = ", ".join(f"[{name}](../kernels/{name}.md)" for name in known)
    return f"**The kernels of this lesson, side by side:** {links}.\n" if links else ""


def place(root: Path, file: str, text: str) -> str:
    """Where the book shows a piece of a kernel's file beside the other tiers, seen from a lesson."""
    _, folder, name = file.partition(".")[0].split("/")
    tier = _tier(root, folder, name, functions_of(root, name))
    for function, pieces in tier.rows.items():
        if any(text in piece.text for piece in pieces):
            return f"../kernels/{name}.md#{function.replace('_', '-')}"
    return f"../kernels/{name}.md"


def index(root: Path, names: list[str]) -> str:
    entries = "\n".join([*names, "helpers"])
    rows = []
    for name in names:
        functions = ", ".join(f"`{function}`" for function in functions_of(root, name) if "backward" not in function)
        rows.append(f"* - [{name}]({name}.md)\n  - {functions}")
    table = "\n".join(rows)
    return f"""# Kernels, side by side

A *kernel* is a function from arrays to arrays that does one step of a network. Each of them stands here three times:
as the shortest NumPy that is plainly right, as a loop for the processor, and in CUDA C for the graphics card. File
names, function names and arguments are the same, so one can read along a row. Read the left column first: it is the
specification. Then see what it takes to make it fast.

Shapes carry the same letters everywhere: `B` batch, `T` query positions, `S` key positions, `C` model width, `H` heads,
`G` heads of keys and values, `D = C/H`, `F` feed-forward width, `V` vocabulary, `N = B·T` rows.

```{{list-table}} What each page holds; each function has its derivative beside it
:header-rows: 1
:widths: 30 70

* - page
  - functions
{table}
* - [helpers](helpers.md)
  - what the kernels of one tier share
```

```{{toctree}}
:hidden:

{entries}
```
"""


def functions_of(root: Path, name: str) -> list[str]:
    """The rows of a page: the functions of the contract; for a file that has none, those of the reference."""
    listed = [kernel.name for kernel in CONTRACT.values() if kernel.file == name]
    if listed:  # each followed by its derivative
        forward = [function for function in listed if function.removesuffix("_backward") not in {*listed} - {function}]
        pairs = [(function, f"{function}_backward") for function in forward]
        return [function for pair in pairs for function in pair if function in listed]
    source = alignment.read(root / "kernels" / "reference" / f"{name}.py")
    return [next(iter(piece.defines)) for piece in source.pieces if piece.text.lstrip().startswith("def ")]


def kernel_page(root: Path, name: str, titles: dict[str, str]) -> str:
    functions = functions_of(root, name)
    tiers = [_tier(root, folder, name, functions) for folder, _ in TIERS]
    ideas = _row([_idea(tier.idea) for tier in tiers])
    parts = [f"---\nhide-toc: true\n---\n# {name}", navigation(root, name)]
    lessons = [lesson for lesson, names in LESSONS.items() if name in names and lesson in titles]
    if lessons:
        links = ", ".join(f"[{plain(titles[lesson])}](../lessons/{lesson}.md)" for lesson in lessons)
        parts.append(f"Explained in: {links}.")
    parts.append(f"**{plain(first_sentence(tiers[0].idea))}**")
    parts.append(folded("What each file says about itself: the idea, the care taken, what was tried", [ideas]))
    for function in functions:
        parts += [f"## {function}", *_about(function, tiers[0].rows[function])]
        parts.append(_row([_blocks(root, tier.rows[function]) or _elsewhere(function, tier) for tier in tiers]))
    if any(tier.shared for tier in tiers):
        parts.append("## What these functions share")
        parts.append(_row([_blocks(root, tier.shared) for tier in tiers]))
    return "\n\n".join(parts) + "\n"


def navigation(root: Path, here: str) -> str:
    names = [*kernel_names(root), "helpers"]
    links = " · ".join(f"**{name}**" if name == here else f"[{name}]({name}.md)" for name in names)
    return f":::{{container}} all-kernels\n[The book](../index.md) · [Kernels](index.md): {links}\n:::"


def helpers_page(root: Path, names: list[str]) -> str:
    """The files of the fast tiers that have no counterpart in the reference."""
    parts = ["---\nhide-toc: true\n---\n# Helpers of the fast tiers", navigation(root, "helpers")]
    parts.append("What the kernels of one tier share.")
    for folder, title in TIERS[1:]:
        files = [file for file in sorted((root / "kernels" / folder).glob("[a-z]*.*")) if file.suffix in ENDINGS]
        blocks = [_code(root, file, file.read_text(encoding="utf-8")) for file in files if file.stem not in names]
        parts += [f"## {title}", *blocks] if blocks else []
    return "\n\n".join(parts) + "\n"


def _tier(root: Path, folder: str, name: str, functions: list[str]) -> alignment.Aligned:
    files = [root / "kernels" / folder / f"{name}{ending}" for ending in ENDINGS]
    return alignment.align(functions, [alignment.read(file) for file in files if file.exists()])


def _elsewhere(function: str, tier: alignment.Aligned) -> str:
    """A line that defines several functions at once stands beside the first of them."""
    for other, pieces in tier.rows.items():
        if any(function in piece.defines for piece in pieces):
            return f"In one line with [{other}](#{other.replace('_', '-')})."
    return ""


def _about(function: str, pieces: list[alignment.Piece]) -> list[str]:
    """The formula, from the reference, and what the contract says: arguments, results and costs."""
    parts = []
    for piece in pieces:
        for node in ast.parse(piece.text).body:
            if isinstance(node, ast.FunctionDef) and node.name == function and (formula := ast.get_docstring(node)):
                parts.append(f"````{{code-block}} text\n:class: formula\n\n{formula}\n````")
    if kernel := CONTRACT.get(function):
        arguments = "; ".join(argument.text for argument in kernel.arguments)
        costs = f"{kernel.flops} flops · reads {kernel.reads} · writes {kernel.writes}"
        parts.append(f":::{{container}} contract\n`{arguments}` → `{kernel.returns}`\n\n{plain(costs)}\n:::")
    return parts


def _row(cells: list[str]) -> str:
    columns = [
        f"::::{{container}} tier\n:::{{container}} tier-name\n{title}\n:::\n\n{cell or ABSENT}\n::::"
        for (_, title), cell in zip(TIERS, cells, strict=True)
    ]
    return ":::::{container} tiers\n" + "\n\n".join(columns) + "\n:::::"


def first_sentence(text: str) -> str:
    return re.split(r"(?<=[.:])\s+(?=[A-Z])", " ".join(text.split()), maxsplit=1)[0]


def _idea(text: str) -> str:
    return f"````{{code-block}} text\n:class: idea\n\n{unwrapped(text)}\n````" if text else ""


def _blocks(root: Path, pieces: Iterable[alignment.Piece]) -> str:
    return "\n\n".join(
        _code(root, file, _joined([piece.text for piece in group])) for file, group in groupby(pieces, lambda p: p.file)
    )


def _joined(texts: list[str]) -> str:
    """A blank line between definitions, none between lines such as imports."""
    text = texts[0]
    for before, after in pairwise(texts):
        text += ("\n\n" if "\n" in before + after else "\n") + after
    return text


def _code(root: Path, file: Path, text: str) -> str:
    language = "python" if file.suffix == ".py" else "cuda"
    return f"````{{code-block}} {language}\n:caption: {file.relative_to(root).as_posix()}\n\n{text.rstrip()}\n````"
