"""Is a derivative rule right? Compare it with differences of the function itself.

    gradcheck(lambda x, w: (x @ w).tanh(), (x, w))      raises GradcheckError, or returns a Report

How the numerical derivative is made. The central difference D(h) = (f(x+h) - f(x-h)) / 2h errs by c₂h² + c₄h⁴ + ...
Combining D(h), D(h/2), D(h/4) so that the first terms cancel (Richardson) leaves an error of order h⁶, which allows a
large h and so keeps rounding small: with h = 1e-2 or less some 11 digits remain, where a single difference keeps 10 at
best and 5 in careless hands. The table's own spread estimates what is left; if it is too large for a verdict (a kink
between the points, say), h is reduced.

What is compared. For small inputs the full Jacobian: every input element against every output element. For large ones
several random directions through each input, against random weights on the outputs. An entry passes when
    |analytic - numeric| ≤ rtol · max(|analytic|, |numeric|) + floor
where floor is the rounding noise of the difference: NOISE units in the last place of f's largest value, divided by h.
Where that noise drowns a derivative (a large constant was added, say), the check says that it cannot tell.

Everything is in float64, and the function must be deterministic (give dropout a seed).
"""

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from autograd import diagnosis
from autograd.function import no_grad
from autograd.tensor import Tensor

STEP = 1e-2  # first h; scaled by |x| where that is larger than 1
SMALLEST_STEP = 1e-5
NOISE = 500  # rounding errors a function may accumulate, in units of the last place of its largest value
FULL_JACOBIAN = 1500  # entries up to which all are checked
DIRECTIONS = 6
UPSTREAM = -2.0  # not 1, which a rule might ignore unnoticed; a power of two, so that dividing by it is exact


class GradcheckError(AssertionError):
    """The analytic derivative is wrong, missing, or not reproducible; the message names the worst entry."""


@dataclass(frozen=True)
class Report:
    """What was compared, and the largest relative error."""

    entries: int
    worst_error: float  # |analytic - numeric| / max(|analytic|, |numeric|), over entries above the noise floor
    complete: bool = True  # all entries of the Jacobian, not random directions for some inputs

    def __bool__(self) -> bool:
        return True

    def __str__(self) -> str:
        what = "all {} entries" if self.complete else "{} entries and random directions"
        return f"right: {what.format(self.entries)} agree, relative error at most {self.worst_error:.1e}"


def gradcheck(
    function: Callable[..., Any],
    inputs: Sequence[Tensor] | Tensor,
    rtol: float = 1e-7,
    directions: int = DIRECTIONS,
    full_jacobian: int = FULL_JACOBIAN,
    seed: int = 0,
    explain: bool = True,
) -> Report:
    """Checks d(outputs)/d(input) for every input that requires a gradient; raises at the worst entry.

    function       takes the inputs, returns a Tensor or several
    inputs         Tensors (float64 where they require a gradient) and whatever else the function takes
    rtol           relative tolerance; smooth functions meet 1e-7 with room to spare
    directions     random directions for each input too large for its full Jacobian
    full_jacobian  largest number of Jacobian entries that are all checked
    explain        look for the likely mistake when a rule is wrong, which takes the rest of the entries
    """
    inputs = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
    positions = _positions_to_check(inputs)
    fresh = tuple(_copy(value) for value in inputs)
    probe = _Probe(function, fresh)
    rng = np.random.default_rng(seed)
    entries, worst, complete = 0, 0.0, True
    for position in positions:
        size, outputs = fresh[position].size, probe.output_size
        if size * outputs <= full_jacobian:
            checks = _all_entries(probe, position)
        else:
            checks, complete = _random_directions(probe, position, directions, rng), False
        largest, noise, seen = 0.0, 0.0, []
        for entry in checks:
            seen.append(entry)
            if entry.wrong(rtol).any():
                if explain:
                    with contextlib.suppress(Exception):  # at other points the function may fail in ways of its own
                        seen.extend(checks)
                raise GradcheckError(diagnosis.complaint(probe, position, seen, rtol))
            entries += entry.analytic.size
            clear = entry.size > entry.floor / rtol
            worst = max(worst, float((entry.error[clear] / entry.size[clear]).max(initial=0.0)))
            largest, noise = max(largest, float(entry.size.max())), max(noise, float(entry.floor.max()))
        if noise * 1e-3 < largest < noise * 10:  # far below the noise it is a zero up to rounding
            raise GradcheckError(
                f"input {position}: derivatives of size {largest:.2g} drown in the rounding noise {noise:.2g} of the "
                "function's values; subtract what is constant, or scale the function, so that they can be checked"
            )
    return Report(entries, worst, complete)


def _positions_to_check(inputs: tuple) -> list[int]:
    positions = [i for i, value in enumerate(inputs) if isinstance(value, Tensor) and value.requires_grad]
    if not positions:
        raise ValueError("gradcheck needs at least one input with requires_grad=True")
    for i in positions:
        if inputs[i].dtype != np.float64:
            raise ValueError(f"input {i} is {inputs[i].dtype}; differences need float64, so pass it .astype('float64')")
    return positions


def _copy(value: Any):
    """A leaf of its own with the same values and memory layout: the caller's Tensor is never touched."""
    if not isinstance(value, Tensor):
        return value
    data = value.backend.to_numpy(value.array)
    if value.requires_grad:
        copy = np.empty_like(data)  # keeps the order of axes of a transposed view
        copy[...] = data
        data = copy
    return Tensor(data, value.requires_grad, backend=value.backend)


class _Probe:
    """The function with its outputs joined into one long vector, and its rows of the Jacobian by backward."""

    def __init__(self, function: Callable[..., Any], inputs: tuple):
        self.function, self.inputs = function, inputs
        before = [np.array(value.numpy()) if isinstance(value, Tensor) else None for value in inputs]
        self.outputs = self._run()
        for position, (values, tensor) in enumerate(zip(before, inputs, strict=True)):
            if values is not None and not np.array_equal(values, tensor.numpy(), equal_nan=True):
                name = diagnosis.name_of(function, self.outputs)
                raise GradcheckError(
                    f"{name}: the forward pass changes input {position} in place; let it change a copy"
                )
        self.values = self._join(self.outputs)
        self.output_size = self.values.size
        if not np.array_equal(self.values, self._join(self._run()), equal_nan=True):
            raise GradcheckError("the function gives different values when called twice; fix its seed")
        if not np.array_equal(self.values, self.value(), equal_nan=True):
            raise GradcheckError("the function gives other values under no_grad() than while recording")
        # the size of the rounding errors: each output by its own largest value
        self.scale = np.concatenate([np.full(o.size, _largest(o.numpy())) for o in self.outputs])

    def _run(self) -> list[Tensor]:
        result = self.function(*self.inputs)
        outputs = list(result) if isinstance(result, tuple | list) else [result]
        if not outputs:
            raise GradcheckError("the function returned nothing to differentiate")
        for output in outputs:
            if not isinstance(output, Tensor):
                raise GradcheckError(f"the function must return Tensors, not {type(output).__name__}")
        return outputs

    @staticmethod
    def _join(outputs: list[Tensor]) -> np.ndarray:
        return np.concatenate([np.asarray(o.numpy(), dtype=np.float64).reshape(-1) for o in outputs])

    def place(self, flat: int) -> str:
        """An element of the joined vector, as the output and index that it has."""
        for number, output in enumerate(self.outputs):
            if flat < output.size:
                name = "output" if len(self.outputs) == 1 else f"output {number}"
                return name + diagnosis.index_text(tuple(map(int, np.unravel_index(flat, output.shape))))
            flat -= output.size
        raise IndexError(flat)

    def value(self) -> np.ndarray:
        with no_grad():
            return self._join(self._run())

    def gradient(self, position: int, weights: np.ndarray) -> np.ndarray | None:
        """Σ weights · d(outputs)/d(input), by backward, twice: the bits must agree."""
        first = self._backward(position, weights)
        second = self._backward(position, weights)
        if (None if first is None else first.tobytes()) != (None if second is None else second.tobytes()):
            raise GradcheckError(f"input {position}: backward gives other bits the second time")
        return first

    def _backward(self, position: int, weights: np.ndarray) -> np.ndarray | None:
        for value in self.inputs:
            if isinstance(value, Tensor):
                value.grad = None
        start = 0
        for output in self.outputs:
            part = weights[start : start + output.size].reshape(output.shape)
            start += output.size
            if output.requires_grad:
                try:
                    output.backward(part, retain_graph=True)
                except Exception as error:
                    raise GradcheckError(f"backward failed: {type(error).__name__}: {error}") from error
        tensor = self.inputs[position]
        if tensor.grad is None:
            return None
        if tensor.grad.shape != tensor.shape:
            raise GradcheckError(f"input {position} has shape {tensor.shape}, its gradient {tensor.grad.shape}")
        if tensor.grad.dtype != tensor.dtype:
            raise GradcheckError(f"input {position} is {tensor.dtype}, its gradient {tensor.grad.dtype}")
        return np.array(tensor.grad.numpy())

    def value_at(self, position: int, centre: Any, step: np.ndarray) -> np.ndarray:
        tensor = self.inputs[position]
        tensor.data = tensor.backend.asarray(tensor.backend.to_numpy(centre) + step)
        return self.value()

    def slopes(self, position: int, index: tuple[int, ...], h: float = 10 * SMALLEST_STEP):
        """Derivatives of all outputs by one input element from the left and from the right, to a few digits."""
        tensor = self.inputs[position]
        centre, step = tensor.array.copy(), np.zeros(tensor.shape)
        step[index] = h
        try:
            left, here, right = (self.value_at(position, centre, side * step) for side in (-1, 0, 1))
        finally:
            tensor.data = centre
        return (here - left) / h, (right - here) / h

    def numeric(self, position: int, direction: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The derivative of all outputs along a direction of one input, its noise floor, and where it is in doubt."""
        tensor = self.inputs[position]
        centre = tensor.array.copy()
        backend = tensor.backend

        def central(h: float) -> np.ndarray:
            return (
                self.value_at(position, centre, h * direction) - self.value_at(position, centre, -h * direction)
            ) / (2 * h)

        moved = np.abs(backend.to_numpy(centre))[direction != 0]
        h = STEP * max(1.0, float(moved.max(initial=0.0)))
        try:
            while True:
                coarse, middle, fine = central(h), central(h / 2), central(h / 4)
                first, second = (4 * middle - coarse) / 3, (4 * fine - middle) / 3
                best = (16 * second - first) / 15
                floor = NOISE * np.finfo(np.float64).eps * self.scale / (h / 4)
                settled = np.abs(best - second) <= 1e-8 * np.abs(best) + floor
                doubt = ~(settled & np.isfinite(best))
                if not doubt.any() or h < SMALLEST_STEP:
                    return best, floor, doubt
                h /= 4
        finally:
            tensor.data = centre


def _all_entries(probe: _Probe, position: int):
    """Column after column of the Jacobian: one input element, all outputs."""
    shape = probe.inputs[position].shape
    jacobian = np.zeros((probe.output_size, probe.inputs[position].size))
    missing = True
    for row in range(probe.output_size):
        gradient = probe.gradient(position, UPSTREAM * np.eye(1, probe.output_size, row)[0])
        if gradient is not None:
            jacobian[row], missing = gradient.reshape(-1) / UPSTREAM, False
    for column, where in enumerate(np.ndindex(shape)):
        direction = np.zeros(shape)
        direction[where] = 1.0
        numeric, floor, doubt = probe.numeric(position, direction)
        if missing:
            _complain_if_missing(position, numeric, floor)
        yield diagnosis.Entry(where, jacobian[:, column], numeric, floor, doubt)


def _random_directions(probe: _Probe, position: int, count: int, rng: np.random.Generator):
    """Random unit directions through the input, seen through random weights on the outputs."""
    shape = probe.inputs[position].shape
    for _ in range(count):
        weights = rng.standard_normal(probe.output_size)
        direction = rng.standard_normal(shape)
        direction /= np.linalg.norm(direction)
        gradient = probe.gradient(position, weights)
        columns, floor, doubt = probe.numeric(position, direction)
        noise = np.array([float(np.linalg.norm(weights * floor))])
        numeric = float(weights @ columns)
        if gradient is None:
            _complain_if_missing(position, np.array([numeric]), noise)
            gradient = np.zeros(shape)
        analytic = np.array([float((gradient * direction).sum())])
        yield diagnosis.Entry(None, analytic, np.array([numeric]), noise, np.array([bool(doubt.any())]))


def _complain_if_missing(position: int, numeric: np.ndarray, floor: np.ndarray) -> None:
    if np.any(np.abs(numeric) > floor):
        raise GradcheckError(
            f"input {position} got no gradient at all, yet the function depends on it "
            f"(derivative {numeric[np.argmax(np.abs(numeric))]:.3g}): a rule returned None, or the graph was cut"
        )


def _largest(values: np.ndarray) -> float:
    return float(np.max(np.abs(values), initial=1e-300, where=np.isfinite(values)))
