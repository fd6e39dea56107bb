"""Which pieces of a source file belong to which function, so that the same function of three tiers stands in one row.

A file is cut into its top-level pieces (definitions with the comments above them). A piece belongs to a function if
only that function needs it, straight or through others; what several need, and imports and constants, is shared."""

import ast
import re
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Piece:
    """Some lines of a file that stay together: `defines` the names, `uses` the words that may be names of others."""

    text: str
    defines: set[str]
    uses: set[str]
    file: Path


@dataclass
class Source:
    """A file in pieces. `idea` is what it says about itself on top."""

    idea: str
    pieces: list[Piece]


@dataclass
class Aligned:
    """The pieces of one tier in the rows of a page: for each function its own, and what several need."""

    idea: str
    rows: dict[str, list[Piece]] = field(default_factory=dict)
    shared: list[Piece] = field(default_factory=list)


def read(file: Path) -> Source:
    text = file.read_text(encoding="utf-8")
    return python_pieces(text, file) if file.suffix == ".py" else cuda_pieces(text, file)


def python_pieces(text: str, file: Path) -> Source:
    lines = text.splitlines()
    tree = ast.parse(text)
    idea = ast.get_docstring(tree) or ""
    body = tree.body[1:] if idea else tree.body
    pieces, end = [], tree.body[0].end_lineno if idea else 0
    for node in body:  # comments and blank lines above a definition go with it
        piece = "\n".join(lines[end : node.end_lineno]).strip("\n")
        end = node.end_lineno
        uses = {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}
        uses |= {p.value for p in ast.walk(node) if isinstance(p, ast.Constant) and isinstance(p.value, str)}
        pieces.append(Piece(piece, _defined(node), uses, file))
    return Source(idea, pieces)


def _defined(node: ast.stmt) -> set[str]:
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return {node.name}
    if isinstance(node, ast.Assign | ast.AnnAssign):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        return {part.id for target in targets for part in ast.walk(target) if isinstance(part, ast.Name)}
    return set()


def cuda_pieces(text: str, file: Path) -> Source:
    """Pieces end where braces are closed; a directive of the preprocessor is one of its own."""
    lines = text.splitlines()
    head = next((i for i, line in enumerate(lines) if not line.startswith("//")), len(lines))
    idea = "\n".join(line.removeprefix("//").removeprefix(" ") for line in lines[:head])
    pieces, start, depth = [], head, 0
    for i in range(head, len(lines)):
        code = re.sub(r"//.*", "", lines[i])
        depth += code.count("{") - code.count("}")
        whole = code.lstrip().startswith("#") or code.rstrip().endswith(("}", ";"))
        if depth == 0 and whole and not code.rstrip().endswith("\\"):
            pieces.append(_cuda_piece("\n".join(lines[start : i + 1]).strip("\n"), file))
            start = i + 1
    rest = "\n".join(lines[start:]).strip("\n")
    return Source(idea.strip(), pieces + ([_cuda_piece(rest, file)] if rest else []))


def _cuda_piece(text: str, file: Path) -> Piece:
    code = re.sub(r"//.*", "", text)
    named = re.search(r"#define (\w+)|\b(?:struct|enum) (\w+)|(\w+)\((?!128|THREADS)", code)
    name = next(filter(None, named.groups()), "") if named else ""
    return Piece(text, {name} - {""}, set(re.findall(r"\w+", code)), file)


def align(functions: list[str], sources: list[Source]) -> Aligned:
    """The pieces of a tier's files (for CUDA: kernels, then their launcher) in rows."""
    pieces = [piece for source in sources for piece in source.pieces]
    needed = {function: _needed(function, functions, pieces) for function in functions}
    aligned = Aligned("\n\n".join(source.idea for source in sources), {function: [] for function in functions})
    for index, piece in enumerate(pieces):
        own = [function for function in functions if function in piece.defines]
        users = own[:1] or [function for function in functions if index in needed[function]]
        if len(users) == 1 and (own or piece.defines):
            aligned.rows[users[0]].append(piece)
        else:
            aligned.shared.append(piece)
    return aligned


def _needed(function: str, functions: list[str], pieces: list[Piece]) -> set[int]:
    """The numbers of the pieces that a function needs, not counting the other functions themselves."""
    others = {*functions} - {function}
    launched = {name for piece in pieces if piece.file.suffix == ".py" for name in piece.uses}
    found = set()
    for i, piece in enumerate(pieces):
        if function in piece.defines or (not piece.defines & launched and _is_kernel_of(function, others, piece)):
            found.add(i)
    wanted = [*found]
    while wanted:
        uses = pieces[wanted.pop()].uses - others
        more = {i for i, piece in enumerate(pieces) if piece.defines & uses} - found
        found |= more
        wanted += more
    return found


def _is_kernel_of(function: str, others: set[str], piece: Piece) -> bool:
    """A CUDA kernel that is named after the function and after none with a longer name."""
    if piece.file.suffix == ".py":
        return False
    names = [name for name in piece.defines if name == f"{function}_forward" or name.startswith(f"{function}_")]
    return any(not any(name.startswith(other) and len(other) > len(function) for other in others) for name in names)
