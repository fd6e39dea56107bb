"""Optimizers, gradient clipping, and learning-rate schedules.

An optimizer takes `model.parameters()`, or `model.named_parameters()` to have names in its saved state. It changes
the weights in place and skips those without a gradient. `lr` is an attribute: a schedule sets it before each step,
    optimizer.lr = 3e-4 * factor(step)          step = 1, 2, 3 ...
"""

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from autograd import Tensor
from autograd.scaled_gradient import ScaledGradient, gradient_and_factor

Parameters = Iterable[Tensor] | Iterable[tuple[str, Tensor]]


class Optimizer:
    """What all optimizers share: the named parameters, and a few arrays and a step count kept for each."""

    kept: tuple[str, ...] = ()  # the arrays a subclass keeps for each parameter
    squares: tuple[str, ...] = ()  # those among them that cannot be negative
    by_number: bool = True  # each number is updated by itself, so that several processes may divide an array

    def __init__(self, parameters: Parameters, lr: float, weight_decay: float):
        self.parameters = _named(parameters)
        if not self.parameters:
            raise ValueError("the optimizer got no parameters")
        for name, value in (("lr", lr), ("weight_decay", weight_decay)):
            if not 0 <= value < math.inf:
                raise ValueError(f"{name} must not be negative, not {value}")
        self.lr, self.weight_decay = lr, weight_decay
        self.steps = dict.fromkeys(self.parameters, 0)
        self.arrays: dict[str, dict[str, Any]] = {kind: {} for kind in self.kept}

    def __repr__(self) -> str:
        numbers = sum(parameter.size for parameter in self.parameters.values())
        what = f"{numbers:,} numbers in {len(self.parameters)} arrays, step {max(self.steps.values())}"
        return f"{type(self).__name__}(lr={self.lr:g}, weight_decay={self.weight_decay:g}): {what}"

    def zero_grad(self) -> None:
        for parameter in self.parameters.values():
            parameter.grad = None

    def step(self) -> None:
        """One update of every parameter that has a gradient."""
        for name, parameter in self.parameters.items():
            if parameter.grad is None:
                continue
            self.steps[name] += 1
            self._update(name, parameter, self.steps[name])

    def _update(self, name: str, parameter: Tensor, step: int) -> None:
        raise NotImplementedError

    def _kept(self, kind: str, name: str, parameter: Tensor) -> Any:
        """The array of this kind, zeros at first; it follows its parameter to another backend."""
        backend, known = parameter.backend, self.arrays[kind].get(name)
        if known is None:
            known = backend.xp.zeros(parameter.shape, dtype=parameter.dtype)
        elif not backend.owns(known):
            known = backend.asarray(_host(known))
        self.arrays[kind][name] = known
        return known

    def state_dict(self) -> dict[str, Any]:
        """{"lr": ..., "steps": {name: count}} and NumPy copies "m.name", "v.name" (Adam) or "momentum.name" (SGD)."""
        arrays = {f"{kind}.{name}": np.array(_host(a)) for kind in self.kept for name, a in self.arrays[kind].items()}
        return {"lr": self.lr, "steps": dict(self.steps), **arrays}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes on from a saved state, or raises and changes nothing."""
        arrays = {name: value for name, value in state.items() if name not in ("lr", "steps")}
        if len(arrays) + 2 != len(state) or not isinstance(state["steps"], Mapping):
            raise ValueError("this is not the state of an optimizer: lr or steps is missing")
        steps, lr = dict(state["steps"]), state["lr"]
        if isinstance(lr, bool) or not isinstance(lr, int | float) or not 0 <= lr < math.inf:
            raise ValueError(f"this state does not fit the optimizer: lr is {lr!r}")
        for name, count in steps.items():
            if (
                isinstance(count, bool) or not isinstance(count, int) or not 0 <= count < 2**53
            ):  # further, a float cannot count
                raise ValueError(f"this state does not fit the optimizer: {name} was updated {count!r} times")
        faults = [f"{name} is missing" for name in self.parameters if name not in steps]
        faults += [f"{name} is unknown here" for name in steps if name not in self.parameters]
        for name, count in steps.items():
            faults += [f"{kind}.{name} is missing" for kind in self.kept if count and f"{kind}.{name}" not in arrays]
        new: dict[str, dict[str, Any]] = {kind: {} for kind in self.kept}
        for key, value in arrays.items():
            kind, _, name = key.partition(".")
            parameter, array = self.parameters.get(name), np.asarray(value)
            if kind not in self.kept or parameter is None:
                faults.append(f"{key} is unknown here")
            elif array.shape != parameter.shape or array.dtype.kind != "f":
                faults.append(f"{key} is {array.dtype} {array.shape}, expected floats {parameter.shape}")
            elif kind in self.squares and array.size and array.min() < 0:
                faults.append(f"{key} is a mean of squares and holds {array.min():.3g}")
            else:
                new[kind][name] = parameter.backend.asarray(np.array(array, dtype=parameter.dtype))
        if faults:
            raise ValueError(f"this state does not fit the optimizer: {'; '.join(faults[:8])}")
        self.lr, self.arrays, self.steps = float(lr), new, steps


class Adam(Optimizer):
    """m and v follow the mean of the gradient and of its square; each number moves by lr · m̂ / (√v̂ + eps).

    weight_decay pulls weights towards zero by way of the gradient, where v̂ then scales it (see AdamW)."""

    kept = ("m", "v")
    squares = ("v",)
    decoupled = False

    def __init__(
        self,
        parameters: Parameters,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
    ):
        super().__init__(parameters, lr, weight_decay)
        if not all(0 <= beta < 1 for beta in betas):
            raise ValueError(f"betas must be at least 0 and below 1, not {betas}")
        self.betas, self.eps = betas, eps

    def step(self) -> None:
        """One update of every parameter that has a gradient, by one call for all that agree in their numbers."""
        groups: dict[Any, list[tuple]] = {}
        for name, parameter in self.parameters.items():
            if parameter.grad is not None:
                self.steps[name] += 1
                grad, factor = gradient_and_factor(parameter.grad)
                m, v = self._kept("m", name, parameter), self._kept("v", name, parameter)
                key = parameter.backend, parameter.dtype, self.rate(name), self.steps[name], factor
                groups.setdefault(key, []).append((parameter.writable(), grad, m, v))
        for (backend, _, lr, step, factor), arrays in groups.items():
            options = (lr, *self.betas, self.eps, self.weight_decay, self.decoupled, step, factor)
            backend.each("adam", arrays, *options)

    def rate(self, name: str) -> float:
        """The learning rate of one parameter: that of all, unless a subclass says otherwise."""
        return self.lr


class AdamW(Adam):
    """Adam whose weight decay shrinks the weights directly, by lr · weight_decay a step."""

    decoupled = True

    def __init__(self, parameters: Parameters, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=1e-2):
        super().__init__(parameters, lr, betas, eps, weight_decay)


class SGD(Optimizer):
    """b ← momentum · b + g;  weight ← weight - lr · b, with g the gradient plus weight_decay · weight."""

    def __init__(self, parameters: Parameters, lr: float = 1e-3, momentum: float = 0.0, weight_decay: float = 0.0):
        if not 0 <= momentum < 1:
            raise ValueError(f"momentum must be at least 0 and below 1, not {momentum}")
        self.momentum = momentum
        self.kept = ("momentum",) if momentum else ()
        super().__init__(parameters, lr, weight_decay)

    def _update(self, name: str, parameter: Tensor, step: int) -> None:
        assert parameter.grad is not None
        k, number, grad = parameter.backend, parameter.dtype.type, parameter.grad.array

        def times(array: Any, factor: float) -> Any:
            return k.multiply(array, k.asarray(number(factor)))

        if self.weight_decay:
            grad = k.add(grad, times(parameter.array, self.weight_decay))
        if self.momentum:
            speed = self._kept("momentum", name, parameter)
            speed[...] = k.add(times(speed, self.momentum), grad)
            grad = speed
        parameter.writable()[...] = k.subtract(parameter.array, times(grad, self.lr))


def clip_grad_norm(parameters: Iterable[Tensor], max_norm: float) -> float:
    """Scales all gradients so that their common norm √(Σ g²) is at most max_norm; returns the norm before.

    A norm that is infinite or not a number is returned as it is, and the gradients are left alone: look at the
    result before the next step. The sum is taken in double precision."""
    if not max_norm > 0:
        raise ValueError(f"max_norm must be above 0, not {max_norm}")
    gradients = {id(p): (p, p.grad) for p in parameters if p.grad is not None}.values()
    groups: dict[Any, list[tuple]] = {}
    for _, grad in gradients:
        groups.setdefault((grad.backend, grad.dtype), []).append((grad.array,))
    total = sum(sum(backend.each("sum_of_squares", arrays)) for (backend, _), arrays in groups.items())
    norm = math.sqrt(total)
    if max_norm < norm < math.inf:
        for parameter, grad in gradients:
            parameter.grad = ScaledGradient(grad, max_norm / norm)
    return norm


# ---------------------------------------------------------------------------------------------------- schedules
# Each returns a function of the step's number, 1 for the first, that gives the factor for the learning rate.

Schedule = Callable[[int], float]


def constant() -> Schedule:
    """Always 1."""
    return lambda step: 1.0


def warmup_cosine(warmup: int, total: int, floor: float = 0.0) -> Schedule:
    """Rises in a straight line to 1 at step `warmup`, then falls along half a cosine to `floor` at step `total`."""
    if not 0 <= warmup < total:
        raise ValueError(f"warmup must be at least 0 and below total, not {warmup} and {total}")

    def factor(step: int) -> float:
        if step < warmup:
            return step / warmup
        progress = min(1.0, (step - warmup) / (total - warmup))
        return floor + (1 - floor) * 0.5 * (1 + math.cos(math.pi * progress))

    return factor


def inverse_square_root(warmup: int) -> Schedule:
    """Rises in a straight line to 1 at step `warmup`, then falls as √(warmup / step): the transformer paper's, whose
    peak is (C · warmup)^-½ there."""
    if warmup < 1:
        raise ValueError(f"warmup must be at least 1, not {warmup}")
    return lambda step: min(step / warmup, math.sqrt(warmup / max(step, 1)))


def _named(parameters: Parameters) -> dict[str, Tensor]:
    """Name → parameter, each once; numbers are the names where none are given."""
    named: dict[str, Tensor] = {}
    seen: set[int] = set()
    for number, item in enumerate(parameters):
        name, parameter = item if isinstance(item, tuple) else (str(number), item)
        if not isinstance(parameter, Tensor):
            raise TypeError(f"an optimizer takes parameters, not {type(parameter).__name__}")
        if id(parameter) not in seen:
            seen.add(id(parameter))
            named[name] = parameter
    return named


def _host(array: Any) -> np.ndarray:
    return array.get() if hasattr(array, "get") else np.asarray(array)
