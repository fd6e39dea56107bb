"""NumPy's functions with a Tensor among their arguments.

They compute with the values alone, and would cut the gradient in silence. So a Tensor that requires one is refused,
with the name of our function; any other is taken as its values."""

from collections.abc import Callable, Iterator
from typing import Any

import autograd

# NumPy's functions whose answer has no derivative: there is nothing to cut
HARMLESS = {
    "all", "allclose", "any", "argmax", "argmin", "argpartition", "argsort", "argwhere", "array2string", "array_equal",
    "array_equiv", "array_repr", "array_str", "can_cast", "count_nonzero", "digitize", "empty_like", "equal",
    "flatnonzero", "full_like", "greater", "greater_equal", "isclose", "iscomplexobj", "isfinite", "isinf", "isnan",
    "isrealobj", "less", "less_equal", "may_share_memory", "ndim", "nonzero", "not_equal", "ones_like", "result_type",
    "save", "savetxt", "savez", "savez_compressed", "searchsorted", "shape", "shares_memory", "size", "zeros_like",
}  # fmt: skip

# what in autograd.functional does the work of NumPy's function, where the names differ
OURS = {
    "abs": "absolute", "amax": "max", "append": "concatenate", "array_split": "split", "broadcast_to": "expand",
    "column_stack": "stack", "dot": "matmul", "dstack": "concatenate", "einsum": "matmul", "expand_dims": "reshape",
    "hsplit": "split", "hstack": "concatenate", "inner": "matmul", "maximum": "where", "minimum": "where",
    "moveaxis": "transpose", "negative": "multiply", "ravel": "reshape", "rollaxis": "transpose", "select": "where",
    "square": "power", "squeeze": "reshape", "std": "var", "take": "index", "tensordot": "matmul", "vdot": "matmul",
    "vecdot": "matmul", "vsplit": "split", "vstack": "concatenate",
}  # fmt: skip


def call(function: Callable, name: str, arguments: tuple, options: dict[str, Any]) -> Any:
    """function(*arguments, **options) on the values of all Tensors, or an error if one of them requires a gradient."""
    short = name.rpartition(".")[2]
    if short not in HARMLESS and any(tensor.requires_grad for tensor in _tensors((arguments, options))):
        ours = OURS.get(short, short)
        place = f"autograd.functional.{ours}" if ours in autograd.functional.__all__ else "autograd.functional"
        raise TypeError(f"{name} would cut the gradient; use {place}, or .numpy() on purpose")
    return function(*_values(arguments), **_values(options))


def _tensors(value: Any) -> Iterator[Any]:
    """All Tensors in an argument, also those in lists within lists."""
    if isinstance(value, autograd.Tensor):
        yield value
    elif isinstance(value, list | tuple | dict):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _tensors(part)


def _values(value: Any) -> Any:
    """The same argument with arrays in the place of Tensors."""
    if isinstance(value, autograd.Tensor):
        return value.numpy()
    if isinstance(value, dict):
        return {name: _values(part) for name, part in value.items()}
    return type(value)(map(_values, value)) if type(value) in (list, tuple) else value
