"""Each mistake is recognised by its numbers, and right numbers or chance are not taken for one."""

import numpy as np
import pytest

from lessons.exercises.compare import difference, normal
from lessons.exercises.mistakes import OTHER_SHAPE, SAME_SHAPE, recognise

RNG = np.random.default_rng(0)
X = RNG.normal(size=(4, 4))
P = np.exp(X) / np.exp(X).sum(-1, keepdims=True)
Q = P.copy()
Q[3] *= 2
TAIL = X.copy()
TAIL[3:] = 0

# what is recognised: (expected, got)
MISTAKES = {
    "sum over a broadcast axis": (X.sum(0), X),
    "but transposed": (X[:2], X[:2].T),
    "keepdims": (X[:, :1], X[:, 0]),
    "one sum too many": (X, X.sum(1)),
    "All numbers are zero": (X, np.zeros((4, 4))),
    "Everything is NaN": (X, np.full((4, 4), np.nan)),
    "Some entries are NaN": (X, np.where(X > 1, np.nan, X)),
    "infinite": (X, np.where(X > 1, np.inf, X)),
    "The sign is wrong": (X, -X),
    "right, but transposed": (X, X.T),
    "1/2 times": (X, X / 2),
    "√3 times": (X, X * 3**0.5),
    "off by 3": (X, X + 3),
    "is reversed": (X, X[::-1]),
    "one place late": (X, np.roll(X, 1, axis=0)),
    "one place early": (X, np.roll(X, -1, axis=1)),
    "columns sum to one": (P, (P.T / P.T.sum(-1, keepdims=True)).T / (P.T / P.T.sum(-1, keepdims=True)).T.sum(0)),
    "Rows should sum to one": (P, P + 0.1 * X**2),
    "look at the tail": (X, TAIL),
    "begin one too late": (X, np.concatenate([X[:1] * 0, X[1:]])),
    "a factor of its own": (X, X * np.arange(1, 5)[:, None]),
}


@pytest.mark.parametrize("words", MISTAKES)
def test_a_mistake_is_recognised(words):
    expected, got = MISTAKES[words]
    said = recognise(expected, got, {"x": np.zeros((4, 3))}, {})
    assert words in said, said


def test_every_recogniser_has_an_example():
    looks = {*OTHER_SHAPE, *SAME_SHAPE}
    used = set()
    for expected, got in MISTAKES.values():
        group = SAME_SHAPE if np.shape(expected) == np.shape(got) else OTHER_SHAPE
        used.add(next(look for look in group if look(np.asarray(expected), np.asarray(got), {})))
    assert used == looks


def test_swapped_results_are_recognised():
    assert "dw" in recognise(X, P, {}, {"dw": P})


def test_chance_is_not_taken_for_a_mistake():
    for seed in range(50):
        rng = np.random.default_rng(seed)
        assert recognise(rng.normal(size=(3, 5)), rng.normal(size=(3, 5)), {"x": np.zeros((3, 5))}, {}) == ""
        assert recognise(rng.normal(size=(3,)), rng.normal(size=(5, 3)), {}, {}) == ""


@pytest.mark.parametrize(
    ("expected", "got"),
    [
        (np.array([1.0, 2.0]), [1.0, 2.0]),
        (np.array([1, 2]), np.array([1.0, 2.0])),
        (1.5, np.float64(1.5)),
        ((1.0, X), (np.array(1.0), X + 1e-13)),
        ({"a": X}, {"a": X.tolist()}),
        ("the  line", " the line\n"),
        (np.array([np.inf, 1.0]), np.array([np.inf, 1.0])),
    ],
)
def test_the_same_answer_in_another_form_is_right(expected, got):
    assert difference(normal(expected), normal(got), 1e-9) is None


@pytest.mark.parametrize(
    ("expected", "got"),
    [
        (X, X + 1e-6),
        (np.array([np.inf]), np.array([1e300])),
        (np.array([1.0]), np.array([np.nan])),
        (np.array([1, 2]), np.array([1, 3])),
        ((X, X), X),
        ((X, X), (X, X, X)),
        ({"a": X}, {"b": X}),
        (X, None),
        (X, "X"),
        ("line", "other line"),
        (np.zeros(3), np.full(3, 1e-12)),
    ],
)
def test_another_answer_is_not_right(expected, got):
    found = difference(normal(expected), normal(got), 1e-9)
    assert found is not None and found.lines()
