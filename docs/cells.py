"""A lesson as a page of the book: its prose, its code, and below each cell what the recorded run printed and showed."""

import ast
import re
from collections.abc import Callable
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

FULL = 85  # a line of prose that is longer was broken only because it was full
PLUMBING = "Plumbing: imports and helpers, which need not be read"
EXPERIMENT = "The experiment as code"
ANSWER = "Show what happens"
ASKS = (
    "predict", "guess", "do you expect", "would you expect", "what will", "compute it", "decide, then",
    "before you run", "before you look", "before you go on", "before you read the",
)  # fmt: skip
QUESTION = re.compile(rf"\b({'|'.join(ASKS)})", re.IGNORECASE)
ENDS_ASKING = re.compile(r"\?\**$")
NO_ANSWER = re.compile(r"#|\*\*(Claim|Predict)")  # how a paragraph begins that goes on to something else
GOES_ON = re.compile(r"[-|$a-z ]|\d+\. ")  # how one begins that belongs to the paragraph before it: a list, a formula
EXCERPT = re.compile(r"--- (kernels/\S+), line \d+\n")  # what lessons.excerpts writes above a piece of a kernel


class Cell(NamedTuple):
    """A cell of a percent script; `first` and `last` are the lines it stands on, counted from 1."""

    markdown: bool
    plumbing: bool  # code that need not be read: the book folds it
    first: int
    last: int
    text: str


def split(source: str) -> list[Cell]:
    """The cells of a percent script; what stands before the first mark is a cell too."""
    lines = source.splitlines()
    marks = [i for i, line in enumerate(lines) if re.match(r"# %%( |$)", line)]
    cells = []
    for start, end in zip([-1, *marks], [*marks, len(lines)], strict=True):
        body = lines[start + 1 : end]
        markdown = start >= 0 and "[markdown]" in lines[start]
        text = "\n".join(line.removeprefix("#").removeprefix(" ") for line in body) if markdown else "\n".join(body)
        if text.strip():
            plumbing = start >= 0 and re.fullmatch(r'# %% tags=\["plumbing"\]', lines[start].rstrip()) is not None
            cells.append(Cell(markdown, plumbing, start + 2, end, text.strip("\n")))
    return cells


def page(
    source: str,
    record: dict[str, Any],
    prose: Callable[[str], str] = str,
    place: Callable[[str, str], str] | None = None,
) -> str:
    """The Markdown of a lesson's page. `record` is what the lesson wrote about its run; `prose` may add links; `place`
    knows which page shows a piece of a kernel, from its file and its text."""
    parts: list[str] = []
    asked = hidden = False
    for cell in split(source):
        if cell.markdown:
            answer, rest = answered(cell.text) if hidden else ("", cell.text)
            if answer:  # it stays with what it speaks of
                parts[-1] = parts[-1].removesuffix("</details>") + f"{prose(answer)}\n\n</details>"
            parts.append(prose(rest))
            asked, hidden = asks(cell.text), False
            continue
        parts += _code(cell)
        claims = [claim for claim in record["claims"] if cell.first <= claim["line"] <= cell.last]
        tried = {claim["line"] for claim in claims}  # what a trial prints is told by its box
        output = [(line, part) for line, part in record["output"] if cell.first <= line <= cell.last]
        shown = _outputs([part for line, part in output if line not in tried or isinstance(part, dict)], place)
        # who was asked for a prediction shall not find the answer below the question
        hidden = bool(asked and shown and not claims)
        parts += [folded(ANSWER, ["\n\n".join(shown)])] if hidden else shown
        parts += map(verdict, claims)
        asked = asked and cell.plumbing
    return "\n\n".join(parts) + "\n"


def asks(prose: str) -> bool:
    """Whether the last paragraph before a cell asks the reader for a prediction, or ends with a question: unless what
    follows is to be looked at."""
    last = " ".join(prose.rstrip().rpartition("\n\n")[2].split())
    question = ENDS_ASKING.search(last) is not None and "look at" not in last.lower()
    return (question or QUESTION.search(last) is not None) and "compare with the picture" not in last


def answered(prose: str) -> tuple[str, str]:
    """What stands first below a folded result, which is its answer, and the rest. The answer is the first paragraph,
    with one in parentheses above it; there is none if the text goes on with a heading, a claim or the next question, or
    if all of it leads on to the next cell."""
    paragraphs = prose.split("\n\n")
    end = 0
    while end < len(paragraphs) and not NO_ANSWER.match(paragraphs[end]) and not ENDS_ASKING.search(paragraphs[end]):
        aside = re.fullmatch(r"\(.*\)", paragraphs[end], re.DOTALL)
        end += 1
        if not aside and not (end < len(paragraphs) and GOES_ON.match(paragraphs[end])):
            break
    end = end if end < len(paragraphs) else 0
    return "\n\n".join(paragraphs[:end]), "\n\n".join(paragraphs[end:])


def _code(cell: Cell) -> list[str]:
    """The code of a cell as the book shows it: trials and plumbing folded, without the lines that only draw."""
    text = without_drawing(cell.text)
    if not text.strip():
        return []
    code = _fenced(text, "{code-block} python")
    if "@lesson.trial(" in text:
        return [folded(EXPERIMENT, [code])]
    return [folded(PLUMBING, [code]) if cell.plumbing else code]


def without_drawing(code: str) -> str:
    """Without statements that show a figure, whose caption would often give the answer away, or end the lesson. The
    script and the notebook have them."""
    lines, drawn = code.split("\n"), set[int]()
    for statement in ast.parse(code).body:
        if _draws(statement):
            drawn.update(range(statement.lineno, (statement.end_lineno or statement.lineno) + 1))
    return "\n".join(line for number, line in enumerate(lines, 1) if number not in drawn).strip("\n")


def _draws(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.Assign):
        return [ast.unparse(target) for target in statement.targets] == ["caption"]
    return isinstance(statement, ast.Expr) and re.match(r"lesson\.(show|finish)\(", ast.unparse(statement)) is not None


def _outputs(parts: list[str | dict[str, str]], place: Callable[[str, str], str] | None = None) -> list[str]:
    """What a cell printed, in blocks between the figures and the pieces of kernels that it showed."""
    blocks = []
    for kind, group in groupby(parts, _kind):
        if kind == "figure":
            blocks += [_figure(part["figure"], part["caption"]) for part in group]
        elif kind == "excerpt":
            blocks += [_excerpt(part, place) for part in group]
        elif printed := "".join(group).strip("\n"):
            blocks.append(printed_block(printed))
    return blocks


def _kind(part: str | dict[str, str]) -> str:
    if isinstance(part, dict):
        return "figure"
    return "excerpt" if EXCERPT.match(part) else "printed"


def _excerpt(printed: str, place: Callable[[str, str], str] | None) -> str:
    """A piece of a kernel as code; where it comes from, with a link to the page that has it beside the other tiers."""
    head, _, text = printed.partition("\n")
    file = EXCERPT.match(printed)[1]
    language = "python" if file.endswith(".py") else "cuda"
    link = f": [beside the other tiers]({place(file, text.strip(chr(10)))})" if place else ""
    return _fenced(text.strip("\n"), f"{{code-block}} {language}", f":caption: {head.removeprefix('--- ')}{link}")


def printed_block(text: str) -> str:
    """What a program printed. Sentences may be broken where the page ends; columns may not."""
    in_columns = any(re.search(r"\S {2,}\S", line) for line in text.splitlines())
    return _fenced(text, "{code-block} text", ":class: output" + ("" if in_columns else " sentences"))


def verdict(claim: dict[str, Any]) -> str:
    """A box with the claim, its verdict and evidence, the notes and figures, and lists of checks and controls."""
    caught = sum(control["caught"] for control in claim["controls"])
    body = [plain(claim["statement"]), f"*What was seen:* {plain(claim['evidence'])}."]
    for event in claim["events"]:
        if "note" in event:
            body.append(printed_block(event["note"]))
        elif "figure" in event:
            body.append(_figure(event["figure"], event["caption"]))
    checks = [f"- {plain(text)}" for text in claim["checks"]]
    controls = [f"- **{plain(c['control'])}** ({plain(c['what'])}): {plain(c['by'])}" for c in claim["controls"]]
    body.append(folded(f"Checks that held: {len(checks)}", checks))
    body.append(folded(f"Broken engines caught: {caught} of {len(controls)}, and the check that failed", controls))
    box = ["::::::{admonition} " + f"{claim['claim']}: {claim['verdict']}", f":class: verdict {claim['verdict']}", ""]
    return f"(claim-{claim['claim']})=\n" + "\n".join(box) + "\n" + "\n\n".join(body) + "\n::::::"


def plain(text: str) -> str:
    """Text that Markdown must not interpret: every mark of punctuation is escaped, and lines are joined."""
    return re.sub(r"([!-/:-@\[-`{-~])", r"\\\1", " ".join(text.split()))


def unwrapped(text: str) -> str:
    """Prose of a docstring with each paragraph in one line: a browser breaks it where it must. Lines that are indented,
    in columns, or end early on purpose, stay."""
    lines: list[str] = []
    before = ""
    for line in text.splitlines():
        in_columns = line.startswith(" ") or before.startswith(" ") or re.search(r"^\S+(?: \S+)? {2,}\S", line)
        if len(before) > FULL and line.strip() and not in_columns:
            lines[-1] += " " + line
        else:
            lines.append(line)
        before = line
    return "\n".join(lines)


def folded(summary: str, items: list[str]) -> str:
    return f"<details><summary>{summary}</summary>\n\n" + "\n".join(items) + "\n\n</details>"


def _figure(file: str, caption: str) -> str:
    return (
        f":::{{figure}} /figures/{file}\n:alt: {' '.join(caption.split()) or Path(file).stem}\n\n{plain(caption)}\n:::"
    )


def _fenced(text: str, directive: str, *options: str) -> str:
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return "\n".join([fence + directive, *options, "", text, fence])
