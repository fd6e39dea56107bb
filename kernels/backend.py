"""The flag: which backends exist, which one is in use, and how a kernel is found behind it.

A backend is a folder with the kernels of `contract.py` in files of the same names (or a folder that says, by KERNELS,
whose kernels it runs: the emulator runs those of gpu/). Nothing is imported before it is asked for, so that
`import kernels` stays light and needs neither a compiler nor a GPU.
"""

import importlib
import importlib.util
import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from contextvars import ContextVar
from functools import cache
from types import ModuleType
from typing import Any

from kernels.contract import CONTRACT, Kernel
from kernels.errors import BackendError
from kernels.forks import finished_before_forks

DEFAULT = "numba"
VARIABLE = "MINITRANSFORMER_BACKEND"  # of the environment: another default
FOLDERS = {
    "numpy": "kernels.reference",
    "numba": "kernels.cpu",
    "emulated": "kernels.emulator",
    "cupy": "kernels.gpu",
}


class Backend:
    """One set of kernels. `backend.softmax(x)` checks the arguments against the contract, then runs the kernel."""

    def __init__(self, name: str, folder: ModuleType):
        self.name = name
        self.folder = folder
        self.xp: Any = folder.array_module()  # numpy or cupy: makes and moves arrays, never computes a kernel

    def __repr__(self) -> str:
        return f"Backend({self.name!r})"

    def __reduce__(self):
        return backend, (self.name,)

    def __getattr__(self, name: str):
        """The checked kernel of that name; looked up once, then an ordinary attribute."""
        spec = CONTRACT.get(name)
        if spec is None:
            raise AttributeError(f"no kernel is called {name!r}; kernels/contract.py lists them all")
        home = getattr(self.folder, "KERNELS", self.folder.__name__)
        module = importlib.import_module(f"{home}.{spec.file}")
        kernel = _checked(self, spec, getattr(module, name), getattr(module, f"{name}_each", None))
        setattr(self, name, kernel)
        return kernel

    def each(self, name: str, calls: Sequence[tuple], *options: Any) -> list[Any]:
        """[kernel(*arrays, *options) for arrays in calls], where no call needs what another writes. A tier may run them
        as one, which spares small arrays the cost of a call (its function `name_each`); the bits are the same."""
        kernel = getattr(self, name)
        together = getattr(kernel, "each", None)
        return together(calls, options) if together else [kernel(*arrays, *options) for arrays in calls]

    def owns(self, array: object) -> bool:
        return isinstance(array, self.xp.ndarray)

    def asarray(self, data: object, dtype: Any = None):
        """An array of this backend. Host data (lists, NumPy arrays) is taken; a GPU array must be moved by `to`."""
        owner = _array_owner(data)
        if owner is not None and not self.owns(data) and owner != "numpy":
            raise BackendError(mixing(self.name, owner))
        return self.xp.asarray(data, dtype=dtype)

    def to_numpy(self, array: Any):
        return self.folder.to_numpy(array)


def _checked(owner: Backend, spec: Kernel, implementation: Callable, of_each: Callable | None) -> Any:
    not_foreign = {owner.xp.ndarray, type(None), bool, int, float, str, tuple}

    def check(args):
        values = spec.one_by_one(args)
        for value in values:
            if type(value) in not_foreign:
                continue
            other = _array_owner(value)
            if other is not None and not owner.owns(value):
                raise BackendError(mixing(owner.name, other))
        spec.check_values(values)

    def run(function):
        """That function, with an error of ours where memory ends; no fork comes while it runs in another thread."""
        function = finished_before_forks(function)

        def call(*args):
            try:
                return function(*args)
            except MemoryError as error:  # CuPy's error for a full GPU is one of these
                reason = (str(error).strip().splitlines() or ["no details"])[0]
                raise BackendError(
                    f"{spec.name} on backend {owner.name!r} ran out of memory ({reason}); "
                    "use a smaller batch or shorter sequences, or free what is no longer needed"
                ) from error

        return call

    one, all_of_them = run(implementation), run(of_each)

    def kernel(*args):
        check(args)
        return one(*args)

    def each(calls, options):
        for arrays in calls:
            check((*arrays, *options))
        return all_of_them(calls, *options)

    kernel.__name__ = spec.name
    kernel.__doc__ = implementation.__doc__
    kernel.each = each if of_each else None  # type: ignore[attr-defined]
    return kernel


def mixing(one: str, other: str) -> str:
    return (
        f"an array of backend {other!r} met an operation of backend {one!r}: "
        f"move one of them first, for instance with .to({one!r})"
    )


def _array_owner(value: object) -> str | None:
    """The kind of array this is, by the package that defines it; None for whatever is not an array."""
    package = type(value).__module__.partition(".")[0]
    is_array = package in ("numpy", "cupy") and hasattr(value, "dtype") and hasattr(value, "__setitem__")
    return package if is_array else None  # __setitem__ tells arrays from NumPy's scalars


@cache
def _reason_against(name: str) -> str | None:
    """Why this backend cannot work here; None when it can."""
    folder = FOLDERS[name]
    if importlib.util.find_spec(folder) is None:
        return f"this version has no {folder.replace('.', '/')}/ folder"
    return importlib.import_module(folder).reason_against()


@cache
def backend(name: str) -> Backend:
    """The backend of that name, or an error that lists what there is and why the rest is missing."""
    if name not in FOLDERS:
        raise BackendError(f"unknown backend {name!r}; {_overview()}")
    reason = _reason_against(name)
    if reason is not None:
        raise BackendError(f"backend {name!r} cannot be used here: {reason}; {_overview(leave_out=name)}")
    return Backend(name, importlib.import_module(FOLDERS[name]))


def available() -> tuple[str, ...]:
    """The names that work here and now."""
    return tuple(name for name in FOLDERS if _reason_against(name) is None)


def reasons() -> dict[str, str | None]:
    """Every backend that is known, with the reason it cannot be used here, or None."""
    return {name: _reason_against(name) for name in FOLDERS}


def _overview(leave_out: str | None = None) -> str:
    """What there is, and why the rest is missing; all in one line."""
    others = {name: why for name, why in reasons().items() if why is not None and name != leave_out}
    missing = "".join(f"; {name} is missing: {why}" for name, why in others.items())
    return f"available here: {', '.join(available())}{missing}"


_current: ContextVar[Backend | None] = ContextVar("the backend in use", default=None)


class use(AbstractContextManager):  # noqa: N801 - reads as a verb: kernels.use("numba")
    """Sets the backend from here on; as a context manager, sets the former one again at the end. What is made from now
    on belongs to it. Tensors and models that exist stay where they are, and compute there: model.to(name) moves them.

    It holds in this thread and this asyncio task, and in tasks that start from here. A new thread begins with the
    default, as it does with `no_grad`; `contextvars.copy_context().run` hands the choice on."""

    def __init__(self, name: str | Backend):
        chosen = name if isinstance(name, Backend) else backend(name)
        self._former = _current.get()
        _current.set(chosen)

    def __enter__(self) -> Backend:
        return current()

    def __exit__(self, *_exception) -> None:
        _current.set(self._former)


def current() -> Backend:
    """The backend in use here: the one last set, or $MINITRANSFORMER_BACKEND, or numba."""
    return _current.get() or _default()


@cache
def _default() -> Backend:
    chosen = os.environ.get(VARIABLE)
    if not chosen:
        return backend(DEFAULT)
    try:
        return backend(chosen)
    except BackendError as error:
        raise BackendError(f"{VARIABLE}={chosen} in the environment: {error}") from None


def backend_of(array: object) -> Backend:
    """The backend an array can be used on: the current one if it fits, else an error naming both."""
    here = current()
    owner = _array_owner(array)
    if owner is not None and not here.owns(array):
        raise BackendError(mixing(here.name, owner))
    return here


def common_backend(backends: Iterable[Backend]) -> Backend:
    """The one backend of several operands (the current one, if there are none), or an error naming two that differ."""
    common = None
    for other in backends:
        if common is not None and other is not common:
            raise BackendError(mixing(common.name, other.name))
        common = other
    return current() if common is None else common
