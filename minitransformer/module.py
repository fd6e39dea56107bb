"""What every layer and model is made of: named parameters, buffers, and the two random sequences of a model.

A `Module` finds its parts by looking at its own attributes: a `Parameter` is a weight, any other Tensor a buffer (a
constant that moves between backends along with the weights), a Module or a list of Modules a child. The names are the
attribute names joined by dots, as in PyTorch: `layers.0.self_attn.in_proj_weight`.
"""

import itertools
from collections.abc import Iterator, Mapping
from typing import Any, Self

import numpy as np

import kernels
from autograd import Tensor

MASK64 = 2**64 - 1


class Parameter(Tensor):
    """A Tensor that is to be learned. It stays a parameter while it is frozen (requires_grad = False)."""

    __slots__ = ()

    def __init__(self, data: Any, requires_grad: bool = True):
        super().__init__(data, requires_grad)

    def numbers(self) -> np.ndarray:
        """A copy of its numbers."""
        return np.array(self.backend.to_numpy(self.array))


class DropoutSeeds:
    """The seeds of a model's dropout masks, by counting: mask number n depends on (seed, n) and on nothing else.

    The two numbers are the whole state, so a stopped training goes on with the masks it would have had, and the
    masks are the same on every backend."""

    def __init__(self, seed: int = 0):
        self.seed, self.counter = int(seed), 0

    def next(self) -> int:
        self.counter += 1
        return _mix(_mix(self.seed) + self.counter) >> 1  # 63 bits: fits a signed integer everywhere


def _mix(x: int) -> int:
    """A bijection of 64 bits in which every input bit reaches every output bit (splitmix64)."""
    x = (x + 0x9E3779B97F4A7C15) & MASK64
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK64
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK64
    return x ^ (x >> 31)


class Init:
    """Makes the initial weights of a model, in the order in which its layers are built, from one seed.

    Numbers are drawn in float64 and rounded to the dtype: the float32 model is the float64 model, rounded. With
    seed=None there are no values, and no memory is taken: enough to count parameters, or before load_state_dict."""

    def __init__(self, seed: int | None = 0, dtype: Any = "float32"):
        self.dtype = np.dtype(dtype)
        if self.dtype.name not in ("float32", "float64"):
            raise ValueError(f"dtype must be float32 or float64, not {self.dtype}")
        if seed is not None and seed < 0:
            raise ValueError(f"seed must not be negative, not {seed}")
        self._random = None if seed is None else np.random.Generator(np.random.PCG64(seed))
        self.dropout_seeds = DropoutSeeds(seed or 0)

    def uniform(self, bound: float, *shape: int) -> Parameter:
        """Uniform in ±bound."""
        if self._random is None:
            return self.constant(0, *shape)
        return _fresh(self._random.uniform(-bound, bound, shape).astype(self.dtype))

    def xavier(self, *shape: int) -> Parameter:
        """Uniform with variance 2 / (rows + columns): forward and backward signals keep their size."""
        return self.uniform((6 / (shape[0] + shape[1])) ** 0.5, *shape)

    def constant(self, value: float, *shape: int) -> Parameter:
        number = self.dtype.type(value)
        return _fresh(np.broadcast_to(number, shape) if self._random is None else np.full(shape, number))


def _fresh(array: np.ndarray) -> Parameter:
    """A weight made of an array that nobody else holds, without the copy that a Tensor takes."""
    backend = kernels.current()
    parameter = Parameter.holding(backend.asarray(array), backend)
    parameter.requires_grad = True
    return parameter


class Module:
    """A layer or a model. A subclass sets its parts as attributes and computes in `forward`."""

    training = True

    def forward(self, *arguments: Any, **options: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} has no forward method")

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        return self.forward(*arguments, **options)

    # ------------------------------------------------------------------------------------------ parts

    def _children(self) -> Iterator[tuple[str, "Module"]]:
        for name, value in vars(self).items():
            if isinstance(value, Module):
                yield name, value
            elif isinstance(value, list | tuple):
                yield from ((f"{name}.{i}", child) for i, child in enumerate(value) if isinstance(child, Module))

    def children(self) -> Iterator["Module"]:
        """The modules directly below this one."""
        return (child for _, child in self._children())

    def named_modules(self, prefix: str = "") -> Iterator[tuple[str, "Module"]]:
        """(name, module) of this one, whose name is empty, and of all below it."""
        yield prefix, self
        for name, child in self._children():
            yield from child.named_modules(f"{prefix}.{name}" if prefix else name)

    def modules(self) -> Iterator["Module"]:
        """This module and all below it."""
        return (module for _, module in self.named_modules())

    def _named_tensors(self, prefix: str = "") -> Iterator[tuple[str, Tensor]]:
        """Every Tensor under every name it has: a tied weight comes several times."""
        for name, value in vars(self).items():
            if isinstance(value, Tensor):
                yield prefix + name, value
        for name, child in self._children():
            yield from child._named_tensors(f"{prefix}{name}.")

    def named_parameters(self) -> list[tuple[str, Parameter]]:
        """(name, weight) pairs; a weight that is used in several places stands once, under its first name."""
        first_names: dict[int, tuple[str, Parameter]] = {}
        for name, tensor in self._named_tensors():
            if isinstance(tensor, Parameter):
                first_names.setdefault(id(tensor), (name, tensor))
        return list(first_names.values())

    def parameters(self) -> list[Parameter]:
        return [parameter for _, parameter in self.named_parameters()]

    def num_parameters(self) -> int:
        """How many numbers are learned; tied weights count once."""
        return sum(parameter.size for parameter in self.parameters())

    def num_bytes(self) -> int:
        """How much memory the weights take: 4 bytes each in float32, 5 to 8.5 bits where they are quantised."""
        return sum(parameter.array.nbytes for parameter in self.parameters())

    # ------------------------------------------------------------------------------------------ what print shows

    def __repr__(self) -> str:
        """Parts, shapes and counts, with equal layers of a list told once."""
        weights = self.parameters()
        count = f"{self.num_parameters():,} parameters in {len(weights)} arrays, backend {self.backend.name}"
        if any(hasattr(weight, "kind") for weight in weights):
            count += f", {self.num_bytes() / 1e6:,.1f} MB"
        first, *lines = self._lines("")
        return "\n".join([f"{first}: {count}", *lines])

    def _lines(self, indent: str) -> Iterator[str]:
        tensors = {name: value for name, value in vars(self).items() if isinstance(value, Tensor)}
        shapes = [f"{name} {value.shape} {getattr(value, 'kind', '')}".rstrip() for name, value in tensors.items()]
        yield f"{type(self).__name__}{'  ' if shapes else ''}{', '.join(shapes)}"
        parts = [(name, tuple(child._lines(indent + "  "))) for name, child in self._children()]
        for _, alike in itertools.groupby(parts, key=lambda part: (part[0].rpartition(".")[0] or part[0], part[1])):
            (name, (first, *lines)), *others = alike
            yield f"{indent}  {name}{f' to {len(others)}' if others else ''}: {first}"
            yield from lines

    # ------------------------------------------------------------------------------------------ state

    def state_dict(self) -> dict[str, np.ndarray]:
        """Name → copy of the weight as a NumPy array, each weight once. Buffers can be computed again: not here."""
        return {name: parameter.numbers() for name, parameter in self.named_parameters()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Takes over all weights, or none: raises if a name is missing or unknown, or a shape or dtype does not fit.

        Floats of another precision are rounded. Further names of a tied weight (PyTorch writes them all) may be
        there, if they hold the same numbers. Quantised weights stay as they are, and must not be there."""
        quantised = {name for name, tensor in self._named_tensors() if hasattr(tensor, "kind")}
        parameters = {name: p for name, p in self.named_parameters() if name not in quantised}
        first_name = {id(parameter): name for name, parameter in parameters.items()}
        aliases = {
            name: first_name[id(tensor)]
            for name, tensor in self._named_tensors()
            if isinstance(tensor, Parameter) and name not in parameters and name not in quantised
        }
        arrays = {name: np.asarray(value) for name, value in state.items()}
        faults = [f"{name} is missing" for name in parameters if name not in arrays]
        for name, array in arrays.items():
            target = aliases.get(name, name)
            if name in quantised:
                faults.append(f"{name} is quantised here, and takes no new numbers")
            elif target not in parameters:
                faults.append(f"{name} is unknown here")
            elif array.shape != parameters[target].shape:
                faults.append(f"{name} has shape {array.shape}, expected {parameters[target].shape}")
            elif array.dtype.kind != "f":
                faults.append(f"{name} holds {array.dtype}, expected floats")
            elif name in aliases and target in arrays and not np.array_equal(array, arrays[target], equal_nan=True):
                faults.append(f"{name} differs from {target}, to which it is tied")
        if faults:
            more = f" and {len(faults) - 8} more" if len(faults) > 8 else ""
            raise ValueError(f"these weights do not fit {type(self).__name__}: {'; '.join(faults[:8])}{more}")
        for name, parameter in parameters.items():
            parameter.data = np.asarray(arrays[name], dtype=parameter.dtype, order="C")

    # ------------------------------------------------------------------------------------------ modes and moves

    def train(self, mode: bool = True) -> Self:
        """Dropout acts."""
        for module in self.modules():
            module.training = mode
        return self

    def eval(self) -> Self:
        """Dropout rests."""
        return self.train(False)

    def requires_grad_(self, flag: bool = True) -> Self:
        """Freezes (False) or frees the weights."""
        for parameter in self.parameters():
            parameter.requires_grad = flag
        return self

    def zero_grad(self) -> None:
        for parameter in self.parameters():
            parameter.grad = None

    @property
    def backend(self) -> kernels.Backend:
        """Where the weights lie."""
        return next((tensor.backend for _, tensor in self._named_tensors()), kernels.current())

    def to(self, backend: str) -> Self:
        """Moves weights, gradients and buffers to another backend, bit for bit, and returns this module."""
        target = kernels.backend(backend)
        tensors = {id(tensor): tensor for _, tensor in self._named_tensors()}
        for tensor in tensors.values():
            values, grad = tensor.backend.to_numpy(tensor.array), tensor.grad
            tensor.backend = target
            tensor.data = values
            tensor.grad = None if grad is None else grad.to(backend)
        return self
