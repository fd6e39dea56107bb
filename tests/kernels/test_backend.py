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
