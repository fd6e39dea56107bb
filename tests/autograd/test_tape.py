"""Questions to the tape, and its picture."""

import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

import autograd.functional as F
from autograd import AutogradError, Tensor, tape
from autograd.draw import draw


def leaf(rng, *shape):
    return Tensor(rng.standard_normal(shape), requires_grad=True)


def test_depth_is_the_longest_chain(rng):
    x = leaf(rng, 3)
    short, long = x * 2, x
    for _ in range(5):
        long = long + 1.0
    assert tape.depth(x) == 0 and tape.depth(short) == 1 and tape.depth(long) == 5
    assert tape.depth(short + long) == 6


def test_moves_are_no_steps(rng):
    y = (leaf(rng, 2, 3) * 2).reshape(3, 2).T[0]
    assert tape.depth(y) == 1 and tape.depth(y, moves=True) == 4


def test_shortest_path(rng):
    x = leaf(rng, 3)
    detour = ((x + 1) * 2).exp()
    result = detour + x.tanh()
    assert [f.name for f in tape.shortest_path(x, result)] == ["Tanh", "Add"]
    assert [f.name for f in tape.shortest_path(detour, result)] == ["Add"]
    assert tape.shortest_path(result, result) == []
    with pytest.raises(AutogradError, match="no path"):
        tape.shortest_path(result, x)


def test_a_way_through_moves_is_shorter_than_one_step(rng):
    """Many moves and one step must win against few Functions with two steps."""
    x = leaf(rng, 2, 3)
    moved = x.T.reshape(2, 3).T.reshape(2, 3) * 2
    stepped = (x + 1) * 2
    assert [f.name for f in tape.shortest_path(x, moved + stepped)] == ["Multiply", "Add"]


def test_cost_is_the_sum_of_the_contract(rng):
    x, w, b = leaf(rng, 4, 3), leaf(rng, 5, 3), leaf(rng, 5)
    y = F.relu(F.linear(x, w, b))
    assert tape.cost(y).flops == 2 * 4 * 3 * 5 + 4 * 5 + 4 * 5
    assert tape.cost(y).bytes_written == 8 * (20 + 20)
    y.backward(np.ones((4, 5)), retain_graph=True)
    assert tape.cost(y).flops == 160, "asking for the forward cost must not count backward's kernels"
    assert tape.cost(y, backward=True).flops == 160 + (4 * 4 * 3 * 5 + 20) + 2 * 20


def test_a_node_used_twice_is_paid_once(rng):
    x = leaf(rng, 3)
    shared = x.exp()
    assert tape.cost(shared * shared).flops == 3 + 3


def test_questions_after_backward_are_refused_clearly(rng):
    y = leaf(rng, 1) * 2
    y.backward()
    with pytest.raises(AutogradError, match="freed"):
        tape.cost(y)


def test_drawing(rng, tmp_path):
    x, w = Tensor(rng.standard_normal((2, 3))), leaf(rng, 4, 3)
    result = (F.linear(x, w).tanh() * 2).sum()
    svg = draw(result, tmp_path / "tape.svg", names={"input words": x, "loss": result})
    text = "".join(ElementTree.parse(svg).getroot().itertext())
    for word in ("Linear", "Tanh", "Multiply", "input words", "loss", "4 × 3"):
        assert word in text
    png = draw(result, tmp_path / "tape.png")
    assert png.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n" and png.stat().st_size > 5000


@pytest.mark.parametrize("name", ["b", "a prediction of many words", "WWWWWWWWWWWWWWWWWWWW", "iiiiiiii", r"a $\frac$"])
def test_every_text_is_inside_its_box(rng, tmp_path, monkeypatch, name):
    """As matplotlib lays them out; "parameter, number" alone is wider than the narrowest box."""
    figures, savefig = [], Figure.savefig
    monkeypatch.setattr(Figure, "savefig", lambda self, *a, **k: (figures.append(self), savefig(self, *a, **k)))
    w, b = Tensor(2.0, requires_grad=True), Tensor(1.0, requires_grad=True)
    draw((w * 3.0 + b).tanh(), tmp_path / "tape.png", names={name: b, "w": w})
    (figure,) = figures
    renderer, axes = FigureCanvasAgg(figure).get_renderer(), figure.axes[0]
    boxes = [patch.get_window_extent(renderer) for patch in axes.patches if isinstance(patch, FancyBboxPatch)]
    assert len(axes.texts) == 2 * len(boxes) == 12
    for number, text in enumerate(axes.texts):
        inner, outer = text.get_window_extent(renderer), boxes[number // 2]
        assert outer.x0 < inner.x0 and inner.x1 < outer.x1 and outer.y0 < inner.y0 and inner.y1 < outer.y1, text


def test_drawing_mistakes(rng, tmp_path):
    with pytest.raises(ValueError, match=r"\.svg, \.png or \.pdf, not 'tape.txt'"):
        draw(leaf(rng, 1) * 2, tmp_path / "tape.txt")
    with pytest.raises(ValueError, match="a leaf"):
        draw(leaf(rng, 1), tmp_path / "tape.svg")
    y = leaf(rng, 1)
    for _ in range(500):
        y = y + 1.0
    with pytest.raises(ValueError, match="too large to read"):
        draw(y, tmp_path / "tape.svg")
