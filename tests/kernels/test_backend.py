"""The flag: choosing, listing, refusing."""

import os
import subprocess
import sys

import numpy as np
import pytest

import kernels
from autograd import Tensor
from kernels.backend import FOLDERS


def test_use_sets_and_restores():
    before = kernels.current().name
    with kernels.use("numpy") as inside:
        assert kernels.current().name == "numpy" == inside.name
        with kernels.use("numba"):
            assert kernels.current().name == "numba"
        assert kernels.current().name == "numpy"
    assert kernels.current().name == before


def test_use_restores_after_an_error():
    before = kernels.current().name
    with pytest.raises(ZeroDivisionError), kernels.use("numpy"):
        raise ZeroDivisionError
    assert kernels.current().name == before


def test_use_without_with_stays():
    before = kernels.current().name
    kernels.use("numpy")
    assert kernels.current().name == "numpy"
    kernels.use(before)


def test_unknown_backend_lists_what_exists():
    with pytest.raises(kernels.BackendError, match="unknown backend 'tpu'; available here: numpy, numba"):
        kernels.use("tpu")


def test_absent_backend_says_why():
    absent = [name for name in FOLDERS if name not in kernels.available()]
    for name in absent:
        with pytest.raises(kernels.BackendError, match=f"backend '{name}' cannot be used here: .+available here"):
            kernels.use(name)


def test_failed_use_changes_nothing():
    before = kernels.current()
    with pytest.raises(kernels.BackendError):
        kernels.use("tpu")
    assert kernels.current() is before


def test_environment_variable_sets_the_default():
    code = "import kernels; print(kernels.current().name)"
    run = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "MINITRANSFORMER_BACKEND": "numpy"}, capture_output=True
    )
    assert run.stdout.strip() == b"numpy"


def test_tensors_of_two_backends_do_not_mix():
    with kernels.use("numpy"):
        a = Tensor(np.ones(3))
    with kernels.use("numba"):
        b = Tensor(np.ones(3))
        with pytest.raises(kernels.BackendError, match=r"'numba' met .* 'numpy'"):
            a + b
        assert np.array_equal((a.to("numba") + b).numpy(), [2, 2, 2])


def test_a_tensor_stays_on_its_backend():
    with kernels.use("numpy"):
        a = Tensor(np.ones(3), requires_grad=True)
    with kernels.use("numba"):
        result = (a * a).sum()
    assert result.backend.name == "numpy"
    result.backward()
    assert a.grad.backend.name == "numpy"


class ndarray:  # noqa: N801 - its name is the point
    """Stands in for a CuPy array, which no machine without a GPU can make."""

    shape, dtype = (3,), np.dtype("float32")

    def __setitem__(self, key, value): ...


ndarray.__module__ = "cupy"


@pytest.mark.parametrize(
    "entry", [lambda x: kernels.backend("numpy").exp(x), lambda x: kernels.backend("numpy").asarray(x)]
)
def test_foreign_arrays_are_refused_with_both_names(entry):
    with pytest.raises(kernels.BackendError, match=r"'cupy' met .* 'numpy'"):
        entry(ndarray())


def test_unknown_kernel():
    with pytest.raises(AttributeError, match="no kernel is called 'soft_max'"):
        kernels.current().soft_max  # noqa: B018 - the look-up is what fails


OPTIONS = 1e-3, 0.9, 0.999, 1e-8, 0.01, True, 3, 0.5  # of Adam


def adams(dtype="float32"):
    """Arrays for Adam: one number, more than a task has, many axes, rows that are no neighbours, none at all."""
    rng = np.random.default_rng(0)
    shapes = [(1,), (5000,), (3, 5, 7), (4, 6), (0,), *[(n,) for n in range(1, 20)]]
    calls = [tuple(np.abs(rng.standard_normal(shape)).astype(dtype) for _ in range(4)) for shape in shapes]
    calls[3] = tuple(np.asfortranarray(array) for array in calls[3])
    return calls


@pytest.mark.parametrize("name", [name for name in kernels.available() if name != "cupy"])
def test_each_is_the_same_as_one_by_one(name):
    """To the last bit, whoever shares a call."""
    backend, together, alone = kernels.backend(name), adams(), adams()
    backend.each("adam", together, *OPTIONS)
    for call in alone:
        backend.adam(*call, *OPTIONS)
    for these, those in zip(together, alone, strict=True):
        assert all(np.array_equal(a, b) for a, b in zip(these, those, strict=True))
    squares = [(call[0],) for call in together]
    assert backend.each("sum_of_squares", squares) == [backend.sum_of_squares(x) for (x,) in squares]


def test_each_checks_every_call():
    backend = kernels.backend("numba")
    for spoil, message in [
        (lambda call: (call[0], call[1][:-1], *call[2:]), "grad has shape"),
        (lambda call: (np.broadcast_to(call[0][:1], call[0].shape), *call[1:]), "param is read-only"),
        (lambda call: tuple(array.astype("float64") for array in call), "must share a dtype"),
    ]:
        calls = adams()
        before = [call[0].copy() for call in calls]
        with pytest.raises(kernels.KernelError, match=message):
            backend.each("adam", [*calls, spoil(calls[1])], *OPTIONS)
        assert all(np.array_equal(call[0], former) for call, former in zip(calls, before, strict=True))
