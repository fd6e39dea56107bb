"""The tape as a picture: `draw(tensor, "tape.svg")` or ".png".

Time runs from top to bottom: leaves above, the result below. Each Tensor and the Function that made it are one box;
a Function sits one row below the lowest of its inputs, and boxes of a row are ordered by the mean position of
their neighbours, which untangles most crossings."""

from pathlib import Path
from typing import Any

from autograd.tensor import Tensor, inputs_before_results

ROW, COLUMN, HEIGHT = 1.35, 2.1, 0.72
INCHES = 0.54  # in the picture, for one unit of these
TITLE: dict[str, Any] = {"size": 10, "weight": "bold"}
DETAIL: dict[str, Any] = {"size": 8}
COLOURS = {  # colour-blind safe (Okabe and Ito), light enough for black text
    "parameter": ("#fbe3c4", "#b86e00"),
    "input": ("#e7e7e7", "#6b6b6b"),
    "step": ("#cfe6f5", "#0a6aa6"),
    "move": ("#ffffff", "#9fb6c6"),
    "result": ("#cdebdf", "#00795a"),
}
LARGEST = 400


def draw(result: Tensor, path: str | Path, names: dict[str, Tensor] | None = None) -> Path:
    """Writes the tape of `result` as SVG or PNG; `names` labels Tensors of your choice."""
    path = Path(path)
    if path.suffix.lower() not in (".svg", ".png", ".pdf"):
        raise ValueError(f"the picture can be .svg, .png or .pdf, not {path.name!r}")
    tensors = inputs_before_results(result)
    if result.node is None:
        raise ValueError("this Tensor is a leaf: there is no tape to draw")
    known = {id(t) for t in tensors}
    for tensor in list(tensors):  # inputs that need no gradient are drawn too
        for parent in [] if tensor.node is None else tensor.node.inputs:
            if parent is not None and id(parent) not in known:
                known.add(id(parent))
                tensors.insert(0, parent)
    if len(tensors) > LARGEST:
        raise ValueError(f"a tape of {len(tensors)} Tensors is too large to read; draw a smaller one (up to {LARGEST})")
    labels = {id(tensor): name for name, tensor in (names or {}).items()}
    _paint(tensors, *_layout(tensors), result, labels, path)
    return path


def _parents(tensor: Tensor) -> list[Tensor]:
    return [] if tensor.node is None else [t for t in tensor.node.inputs if t is not None]


def _layout(tensors: list[Tensor]) -> tuple[dict[Any, tuple[float, int]], dict[tuple[int, int], list]]:
    """Column (a float; rows are centred) and row of every Tensor, and the bends of every edge longer than one row:
    such an edge occupies a place in each row it crosses, so that it is led around the boxes."""
    row: dict[int, int] = {}
    for tensor in tensors:
        row[id(tensor)] = 1 + max((row[id(p)] for p in _parents(tensor)), default=-1)
    for tensor in tensors:  # a leaf hangs just above its first user rather than at the very top
        users = [row[id(t)] for t in tensors if any(p is tensor for p in _parents(t))] if tensor.node is None else []
        if users:
            row[id(tensor)] = min(users) - 1
    rows: list[list[Any]] = [[] for _ in range(max(row.values()) + 1)]
    for tensor in tensors:
        rows[row[id(tensor)]].append(id(tensor))
    above: dict[Any, list] = {}
    below: dict[Any, list] = {}
    bends: dict[tuple[int, int], list] = {}
    for tensor in tensors:
        for parent in dict.fromkeys(_parents(tensor)):
            edge = id(parent), id(tensor)
            bends[edge] = [(*edge, r) for r in range(row[id(parent)] + 1, row[id(tensor)])]
            for bend in bends[edge]:
                rows[bend[2]].append(bend)
            chain = [edge[0], *bends[edge], edge[1]]
            for upper, lower in zip(chain, chain[1:], strict=False):
                below.setdefault(upper, []).append(lower)
                above.setdefault(lower, []).append(upper)
    x = {place: i - (len(line) - 1) / 2 for line in rows for i, place in enumerate(line)}
    for sweep in range(10):
        neighbours = below if sweep % 2 else above
        for line in reversed(rows) if sweep % 2 else rows:
            wish = {place: _mean([x[n] for n in neighbours.get(place, ())], x[place]) for place in line}
            line.sort(key=wish.__getitem__)
            for i, place in enumerate(line):
                x[place] = i - (len(line) - 1) / 2
    places: dict[Any, tuple[float, int]] = {place: (x[place], r) for r, line in enumerate(rows) for place in line}
    return places, bends


def _mean(values: list[float], otherwise: float) -> float:
    return sum(values) / len(values) if values else otherwise


def _paint(tensors, places, bends, result, labels, path: Path) -> None:
    from matplotlib import rc_context
    from matplotlib.figure import Figure  # not pyplot, which would meddle with the user's own windows
    from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

    words = {id(t): _words(t, labels) for t in tensors}
    lines = [line for title, detail in words.values() for line in ((title, TITLE), (detail, DETAIL))]
    half = max(COLUMN * 0.44, max(_width(text, font) for text, font in lines) / 2 + 0.12)
    column = 2 * half / 0.88
    columns = [x for x, _ in places.values()]
    rows = 1 + max(row for _, row in places.values())
    left, right = (min(columns) - 0.55) * column, (max(columns) + 0.55) * column
    bottom, top = -(rows - 1) * ROW - HEIGHT, HEIGHT
    here = {"svg.fonttype": "none", "font.family": "sans-serif", "svg.hashsalt": "tape"}
    no_layout: dict[str, Any] = {"figure.constrained_layout.use": False, "figure.autolayout": False}
    with rc_context(here | no_layout):
        size = (right - left) * INCHES, (top - bottom) * INCHES
        figure = Figure(figsize=size)
        axes = figure.add_axes((0, 0, 1, 1))
        for tensor in tensors:
            x, row = places[id(tensor)]
            kind = _kind(tensor, result)
            fill, edge = COLOURS[kind]
            centre = x * column, -row * ROW
            box = FancyBboxPatch(
                (centre[0] - half, centre[1] - HEIGHT / 2), 2 * half, HEIGHT, boxstyle="round,pad=0,rounding_size=0.16",
                facecolor=fill, edgecolor=edge, linewidth=1.3, zorder=2,
            )  # fmt: skip
            axes.add_patch(box)
            title, detail = words[id(tensor)]
            middle: dict[str, Any] = {"ha": "center", "zorder": 3, "parse_math": False}
            axes.text(centre[0], centre[1], title, va="bottom", color="#1c1c1c", **middle, **TITLE)
            axes.text(centre[0], centre[1] - 0.06, detail, va="top", color="#444444", **middle, **DETAIL)
            for parent in dict.fromkeys(_parents(tensor)):
                way = [places[place] for place in (id(parent), *bends[id(parent), id(tensor)], id(tensor))]
                axes.add_patch(
                    FancyArrowPatch(
                        path=_curve([(x * column, -row * ROW) for x, row in way]), arrowstyle="-|>", mutation_scale=10,
                        color="#7a8b99", linewidth=1.1, zorder=1,
                    )
                )  # fmt: skip
        axes.set_xlim(left, right)
        axes.set_ylim(bottom, top)
        axes.axis("off")
        figure.savefig(path, dpi=160, bbox_inches="tight", metadata={"Date": None} if path.suffix == ".svg" else None)


def _width(text: str, font: dict[str, Any]) -> float:
    """Of a line as matplotlib's own font sets it; that of whoever looks at an SVG is seldom wider."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import TextPath

    plain = text.replace("$", r"\$")  # a dollar, no formula
    drawn = TextPath((0, 0), plain, prop=FontProperties(family="sans-serif", **font))
    return drawn.get_extents().width / 72 / INCHES  # 72 points in an inch


def _curve(points):
    """A smooth line from the bottom of the first box to the top of the last, upright wherever it crosses a row."""
    from matplotlib.path import Path as Line

    points = [(points[0][0], points[0][1] - HEIGHT / 2), *points[1:-1], (points[-1][0], points[-1][1] + HEIGHT / 2)]
    vertices, codes = [points[0]], [Line.MOVETO]
    for (x0, y0), (x1, y1) in zip(points, points[1:], strict=False):
        middle = (y0 + y1) / 2
        vertices += [(x0, middle), (x1, middle), (x1, y1)]
        codes += [Line.CURVE4] * 3
    return Line(vertices, codes)


def _kind(tensor: Tensor, result: Tensor) -> str:
    if tensor is result:
        return "result"
    if tensor.node is None:
        return "parameter" if tensor.requires_grad else "input"
    return "step" if tensor.node.kernels.calls else "move"


def _words(tensor: Tensor, labels: dict[int, str]) -> tuple[str, str]:
    origin = tensor.node.name if tensor.node is not None else ("parameter" if tensor.requires_grad else "input")
    shape = " × ".join(map(str, tensor.shape)) or "number"
    name = labels.get(id(tensor))
    return (name, f"{origin}, {shape}") if name else (origin, shape)
