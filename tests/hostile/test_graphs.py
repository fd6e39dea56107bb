"""Random graphs of operations: values and gradients against PyTorch, in float64."""

import numpy as np
import pytest

import autograd.functional as F
from autograd import Tensor

torch = pytest.importorskip("torch", reason="PyTorch is not installed: make test-hostile installs it")

GRAPHS = 300
UNARY = {
    "tanh": (lambda x: x.tanh(), torch.tanh), "exp": (lambda x: (x * 0.1).exp(), lambda x: (x * 0.1).exp()),
    "sigmoid": (F.sigmoid, torch.sigmoid), "gelu": (F.gelu, torch.nn.functional.gelu), "relu": (F.relu, torch.relu),
    "softmax": (F.softmax, lambda x: torch.softmax(x, -1)), "negative": (lambda x: -x, lambda x: -x),
    "square": (lambda x: x**2, lambda x: x**2), "transpose": (lambda x: x.swapaxes(0, 1), lambda x: x.swapaxes(0, 1)),
    "slice": (lambda x: x[1:, ::2], lambda x: x[1:, ::2]), "mean": (lambda x: x.mean(axis=0), lambda x: x.mean(0)),
    "sum": (lambda x: x.sum(axis=1, keepdims=True), lambda x: x.sum(1, keepdim=True)),
    "flat": (lambda x: x.reshape(1, -1), lambda x: x.reshape(1, -1)),
}  # fmt: skip
BINARY = {
    "add": lambda a, b: a + b, "subtract": lambda a, b: a - b, "multiply": lambda a, b: a * b,
    "divide": lambda a, b: a / (b * b + 1), "matmul": lambda a, b: a @ b.swapaxes(0, 1),
}  # fmt: skip


def grown(generator):
    """Two lists of the same values, ours and theirs; each entry is made of earlier ones, some of them twice."""
    numbers = np.random.default_rng(generator.randrange(2**32))
    rows, columns = generator.randint(1, 5), generator.randint(1, 5)
    leaves = [numbers.standard_normal((rows, columns)) for _ in range(generator.randint(1, 3))]
    ours = [Tensor(leaf.copy(), requires_grad=True) for leaf in leaves]
    theirs = [torch.tensor(leaf, requires_grad=True) for leaf in leaves]
    count = len(ours)
    for _ in range(generator.randint(1, 12)):
        place, other = generator.randrange(len(ours)), generator.randrange(len(ours))
        if generator.random() < 0.5:
            one, another = UNARY[generator.choice([*UNARY])]
            if len(theirs[place].shape) != 2 or 0 in theirs[place].shape:
                continue
            ours.append(one(ours[place]))
            theirs.append(another(theirs[place]))
        else:
            rule = BINARY[generator.choice([*BINARY])]
            try:
                theirs.append(rule(theirs[place], theirs[other]))
            except (RuntimeError, IndexError):  # shapes that do not fit
                continue
            ours.append(rule(ours[place], ours[other]))
        if 0 in theirs[-1].shape:
            ours.pop(), theirs.pop()
    return ours, theirs, count


def test_random_graphs_against_pytorch(generator, share, backend, record_property):
    nodes, graphs = 0, share(GRAPHS // 20 if backend.name == "emulated" else GRAPHS)  # thread by thread takes its time
    for _ in range(graphs):
        ours, theirs, leaves = grown(generator)
        nodes += len(ours)
        sum((y * y).sum() for y in ours[1:] or ours).backward()
        sum((y * y).sum() for y in theirs[1:] or theirs).backward()
        for mine, other in zip(ours[:leaves], theirs[:leaves], strict=True):
            expected = np.zeros(mine.shape) if other.grad is None else other.grad.numpy()
            found = np.zeros(mine.shape) if mine.grad is None else mine.grad.numpy()
            # 13 operations deep, each adds some ulp of the largest term: 1e-9 leaves a factor of a thousand
            np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9 * max(1.0, np.abs(expected).max()))
    record_property("hostile", f"random graphs against PyTorch on {backend.name}: {graphs}, {nodes:,} nodes")
