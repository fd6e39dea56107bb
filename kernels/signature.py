"""One entry of the contract: how its line is read, how the arguments of a call are held against it, what a call costs.

How an argument is written
    x (N, C)               float array; a letter means the same size wherever it stands, and is at least 1
    x (...)                float array of any shape, also an empty one; `like x`: of the same shape and dtype as x
    bias (F) | none        the same, or None
    ids (N) int < V        integer array with values 0 ... V-1
    targets (N) int <? V   the same, or equal to the argument ignore_index
    lengths (B) int <= S   integer array with values 0 ... S
    eps real, p rate, scale real, seed int, n count, flag flag, axes axes
    activation name        one of ACTIVATIONS; `activation gate`: one of GATES
    weight (F, R) bytes    rows of quantised weights, blocks of WEIGHTS_OF_A_BLOCK one after another; `kind quantised`:
                           one of QUANTISED
    mask.is_causal flag    a field of the named tuple that is passed as the argument mask

Arrays are NumPy's or CuPy's own: a subclass may give indexing or comparison a meaning that compiled loops do not know.
"""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

ACTIVATIONS = ("relu", "gelu", "tanh", "gelu_tanh")
GATES = ("silu", "gelu")  # activations of a gated feed-forward layer
QUANTISED = {"Q8_0": 34, "Q4_1": 20}  # kinds of quantised weights: bytes of a block
WEIGHTS_OF_A_BLOCK = 32
FLOATS = (np.dtype("float32"), np.dtype("float64"))
CHOICES = {"name": ACTIVATIONS, "gate": GATES, "quantised": tuple(QUANTISED)}


class KernelError(ValueError):
    """Arguments that a kernel cannot take: says what was given, what was expected, and where."""


# Kinds of which not every value is allowed, and the values that need no further look.
SCALARS: dict[str, Callable[[Any], bool]] = {
    "real": lambda value: type(value) is float and value == value,
    "rate": lambda value: type(value) is float and 0.0 <= value < 1.0,
    "int": lambda value: type(value) is int,
    "count": lambda value: type(value) is int and value >= 0,
    **dict.fromkeys(CHOICES, lambda value: False),
}
REMEMBERED_SHAPES = 1000  # combinations of shapes that are known to fit, for each kernel


class Cost(NamedTuple):
    """What one call does: arithmetic, and array elements read and written (times itemsize = bytes)."""

    flops: int
    bytes_read: int
    bytes_written: int

    def __add__(self, other: "Cost") -> "Cost":  # type: ignore[override]
        return Cost(*(mine + theirs for mine, theirs in zip(self, other, strict=True)))


@dataclass(frozen=True)
class Argument:
    """One argument, parsed from its line in the table."""

    text: str

    @cached_property
    def parsed(self) -> re.Match:
        match = re.fullmatch(
            r"(?P<name>[\w.]+)(?: \((?P<dims>[^)]*)\))?"
            r"(?: (?P<kind>int|like|real|rate|count|flag|name|gate|axes|bytes|quantised))?"
            r"(?: ?(?P<bound><\??=?) (?P<limit>\w+)| (?P<model>\w+))?(?P<optional> \| none)?",
            self.text,
        )
        if match is None:
            raise SyntaxError(f"cannot read the contract line {self.text!r}")
        return match

    @cached_property
    def name(self) -> str:
        return self.parsed["name"]

    @cached_property
    def dims(self) -> tuple[str, ...] | None:
        """Letters of the shape; None for whatever is not an array of fixed rank."""
        dims = self.parsed["dims"]
        return None if dims is None or dims == "..." else tuple(d for d in re.split(r",\s*", dims) if d)

    @cached_property
    def kind(self) -> str:
        return self.parsed["kind"] or ("array" if self.parsed["dims"] is not None else "any")

    @cached_property
    def optional(self) -> bool:
        return self.parsed["optional"] is not None

    @cached_property
    def is_array(self) -> bool:
        return self.parsed["dims"] is not None or self.kind == "like"


@dataclass
class Kernel:
    """An entry of the contract."""

    name: str
    file: str
    arguments: tuple[Argument, ...]
    returns: str
    flops: str
    reads: str
    writes: str
    further_check: Callable[[str, dict[str, Any], dict[str, int]], None] | None = None  # what a line cannot express
    records: dict[str, Any] = field(default_factory=dict)  # the classes of arguments that are named tuples
    changed: tuple[str, ...] = ()  # arguments that the kernel writes to
    _code: dict[str, Any] = field(default_factory=dict)
    _passed: dict[tuple, dict[str, int]] = field(default_factory=dict)  # shapes and dtypes known to fit → sizes

    def __post_init__(self) -> None:
        self.names = tuple(dict.fromkeys(argument.name.partition(".")[0] for argument in self.arguments))
        self.bounded = tuple(argument for argument in self.arguments if argument.parsed["bound"])
        self.arrays = tuple(i for i, argument in enumerate(self.arguments) if argument.is_array)
        numbered = [(i, argument) for i, argument in enumerate(self.arguments) if not argument.is_array]
        self.scalars = tuple((i, SCALARS[a.kind], a) for i, a in numbered if a.kind in SCALARS)
        self.records = {name: record for name, record in self.records.items() if name in self.names}
        first = [argument.name.partition(".")[0] for argument in self.arguments]  # of each field, its tuple
        self.tuples = sorted((first.index(name), name, record) for name, record in self.records.items())
        for name, record in self.records.items():
            written = tuple(a.name.partition(".")[2] for a in self.arguments if a.name.partition(".")[0] == name)
            if written != record._fields:
                raise SyntaxError(f"{self.name}: the contract has {name} with {written}, not as {_spelled(record)}")

    def one_by_one(self, args: tuple) -> tuple:
        """The arguments of a call with the fields of a named tuple in place of the tuple."""
        if len(args) != len(self.names):
            expected = ", ".join(self.names)
            raise KernelError(f"{self.name}: {len(args)} arguments given, {len(self.names)} expected: {expected}")
        for place, name, record in self.tuples:
            value = args[place]
            if type(value) is not record:
                raise KernelError(f"{self.name}: {name} must be a {_spelled(record)}, not a {type(value).__name__}")
            args = (*args[:place], *value, *args[place + 1 :])
        return args

    def check(self, args: tuple) -> dict[str, int]:
        """Raises KernelError unless the arguments fit; returns the size of every letter."""
        return self.check_values(self.one_by_one(args))

    def check_values(self, args: tuple) -> dict[str, int]:
        """The same for arguments one by one. A training step calls the same kernels with the same shapes again and
        again: those that have passed once are known."""
        try:
            shapes: Any = tuple([None if (a := args[i]) is None else (a.shape, a.dtype, type(a)) for i in self.arrays])
            sizes = self._passed.get(shapes)
        except (AttributeError, TypeError):  # not an array, or nothing that could be a key
            shapes = sizes = None
        if sizes is None:
            sizes = self._check_shapes(args)
            if len(self._passed) >= REMEMBERED_SHAPES:
                self._passed.clear()
            if shapes is not None:
                self._passed[shapes] = sizes
        for i, is_plain, argument in self.scalars:
            value = args[i]
            if not is_plain(value) and not (value is None and argument.optional):
                self._check_scalar(argument, value)
        if self.further_check or self.bounded or self.changed:
            self._check_contents(self._given(args), sizes)
        return sizes

    def _given(self, args: tuple) -> dict[str, Any]:
        return {argument.name: value for argument, value in zip(self.arguments, args, strict=True)}

    def _check_contents(self, given: dict[str, Any], sizes: dict[str, int]) -> None:
        for name in self.changed:
            if not getattr(given[name].flags, "writeable", True):  # CuPy's arrays always are
                raise KernelError(f"{self.name}: {name} is read-only, but the kernel changes it in place; pass a copy")
        if self.further_check is not None:
            self.further_check(self.name, given, sizes)
        for argument in self.bounded:
            if given[argument.name] is not None:
                self._check_range(argument, given[argument.name], given, sizes)

    def _check_shapes(self, args: tuple) -> dict[str, int]:
        sizes: dict[str, int] = {}
        given = self._given(args)
        dtype_of = None  # the first float array decides the dtype of the others
        for argument, value in zip(self.arguments, args, strict=True):
            if argument.is_array and not (value is None and argument.optional):
                dtype_of = self._check_array(argument, value, given, sizes, dtype_of)
        return sizes

    def _check_array(self, argument: Argument, value: Any, given: dict, sizes: dict, dtype_of: str | None):
        shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
        if shape is None or dtype is None:
            raise KernelError(f"{self.name}: {argument.name} must be an array, not {type(value).__name__}")
        if not _is_plain(value):
            raise KernelError(
                f"{self.name}: {argument.name} is a {type(value).__name__}; kernels take plain arrays only, "
                "such as np.asarray makes"
            )
        if argument.kind == "int":
            if dtype.kind not in "iu":
                raise KernelError(f"{self.name}: {argument.name} must hold integers, not {dtype}; use .astype('int64')")
        elif argument.kind == "bytes":
            if dtype != np.uint8:
                raise KernelError(f"{self.name}: {argument.name} holds {dtype}; quantised weights are bytes (uint8)")
        else:
            if dtype not in FLOATS:
                raise KernelError(f"{self.name}: {argument.name} is {dtype}; float32 or float64 is needed")
            if dtype_of is None:
                dtype_of = argument.name
            elif dtype != given[dtype_of].dtype:
                raise KernelError(
                    f"{self.name}: {argument.name} is {dtype} but {dtype_of} is {given[dtype_of].dtype}; cast one"
                )
        if argument.kind == "like":
            model = argument.parsed["model"]
            if shape != given[model].shape:
                raise KernelError(
                    f"{self.name}: {argument.name} has shape {shape}, expected {given[model].shape} like {model}"
                )
        elif argument.dims is not None:
            self._check_dims(argument, shape, sizes)
        else:
            sizes.setdefault("M", math.prod(shape))
        return dtype_of

    def _check_dims(self, argument: Argument, shape: tuple[int, ...], sizes: dict[str, int]) -> None:
        dims = argument.dims or ()
        pattern = f"({', '.join(dims)})"
        if len(shape) != len(dims):
            raise KernelError(f"{self.name}: {argument.name} must have shape {pattern}, not {shape}")
        for letter, size in zip(dims, shape, strict=True):
            if size == 0:
                raise KernelError(f"{self.name}: {argument.name} {pattern} is empty: its shape is {shape}")
            if sizes.setdefault(letter, size) != size:
                raise KernelError(
                    f"{self.name}: {argument.name} {pattern} has shape {shape}, "
                    f"but {letter} is {sizes[letter]} in an earlier argument"
                )

    def _check_scalar(self, argument: Argument, value: Any) -> None:
        kind, name = argument.kind, argument.name
        if kind in ("real", "rate"):
            try:
                number = float(value)
            except (TypeError, ValueError):
                raise KernelError(f"{self.name}: {name} must be a number, not {value!r}") from None
            if kind == "rate" and not 0.0 <= number < 1.0:
                raise KernelError(f"{self.name}: {name} must be at least 0 and below 1, not {value}")
            if math.isnan(number):
                raise KernelError(f"{self.name}: {name} is not a number")
        elif kind in ("int", "count"):
            if isinstance(value, bool) or not hasattr(value, "__index__"):
                raise KernelError(f"{self.name}: {name} must be an integer, not {value!r}")
            if kind == "count" and value < 0:
                raise KernelError(f"{self.name}: {name} must not be negative, not {value}")
        elif kind in CHOICES:
            known = CHOICES[kind]
            if value not in known:
                raise KernelError(f"{self.name}: unknown {name} {value!r}; choose from {', '.join(known)}")

    def _check_range(self, argument: Argument, value: Any, given: dict, sizes: dict) -> None:
        """Ids outside the table would read or write foreign memory in a compiled loop."""
        bound, letter = argument.parsed["bound"], argument.parsed["limit"]
        limit = sizes[letter] if letter in sizes else int(given[letter])
        wrong = (value < 0) | ((value > limit) if bound == "<=" else (value >= limit))
        if bound == "<?" and given.get("ignore_index") is not None:
            wrong &= value != given["ignore_index"]
        if not bool(wrong.any()):
            return
        where = int(wrong.argmax())
        largest = limit if bound == "<=" else limit - 1
        raise KernelError(
            f"{self.name}: {argument.name}[{where}] is {int(value.ravel()[where])}, "
            f"outside the allowed 0 ... {largest} ({letter} = {limit})"
        )

    def cost(self, *args: Any) -> Cost:
        """The cost of a call with these arguments; only their shapes are looked at."""
        args = self.one_by_one(args)
        given, sizes = self._given(args), dict[str, Any](_sizes_without_check(self, args))
        itemsize = next((v.dtype.itemsize for v in args if getattr(getattr(v, "dtype", None), "kind", "") == "f"), 8)
        sizes.update(_derived(given, sizes))
        sizes["byte"] = Fraction(1, itemsize)  # of an element
        flops, reads, writes = (self._evaluate(text, sizes) for text in (self.flops, self.reads, self.writes))
        return Cost(int(flops), int(reads * itemsize), int(writes * itemsize))

    def _evaluate(self, formula: str, sizes: dict[str, Any]) -> Any:
        if formula not in self._code:
            self._code[formula] = compile(formula, f"<cost of {self.name}>", "eval")
        return eval(self._code[formula], {"__builtins__": {}}, sizes)


def _spelled(record: Any) -> str:
    """Mask(key_lengths, is_causal, query_offset)"""
    return f"{record.__name__}({', '.join(record._fields)})"


def _is_plain(array: Any) -> bool:
    """Of NumPy's or CuPy's own class, or one of NumPy's numbers, which pass for arrays without axes."""
    kind = type(array)
    is_cupys = (kind.__module__, kind.__name__) == ("cupy", "ndarray")
    return kind is np.ndarray or isinstance(array, np.generic) or is_cupys


def _sizes_without_check(kernel: Kernel, args: tuple):
    for argument, value in zip(kernel.arguments, args, strict=True):
        if argument.kind == "count":
            yield argument.name, value
        if value is None or not argument.is_array:
            continue
        if argument.dims is None:
            yield "M", math.prod(value.shape)
            yield f"M_{argument.name}", math.prod(value.shape)
        else:
            yield from zip(argument.dims, value.shape, strict=True)


def _derived(given: dict[str, Any], sizes: dict[str, int]) -> dict[str, int]:
    """Sizes that follow from options: visible pairs of an attention, results of a broadcast or a product."""
    optional = ("bias", "b_gate", "b_up", "b_down", "base")
    derived = {f"with_{name}": int(bool(given.get(f"with_{name}", given.get(name) is not None))) for name in optional}
    derived["with_gradients"] = int(bool(given.get("with_gradients")))
    if "kind" in given:
        derived["C"] = sizes["R"] // QUANTISED[given["kind"]] * WEIGHTS_OF_A_BLOCK
    if "mask.is_causal" in given:
        T, S = sizes["T"], sizes.get("S", sizes["T"])  # a layer that looks at itself has no S
        offset = min(given["mask.query_offset"], S)
        derived["P"] = sum(min(S, t + 1 + offset) for t in range(T)) if given["mask.is_causal"] else T * S
    if "a" in given and "b" in given:
        a, b = given["a"].shape, given["b"].shape
        width = max(len(a), len(b))
        pairs = zip((1,) * (width - len(a)) + tuple(a), (1,) * (width - len(b)) + tuple(b), strict=True)
        joint = [one if other == 1 else other for one, other in pairs]
        derived["J"] = math.prod(joint)  # elements of the broadcast result
        derived["batch"] = math.prod(joint[:-2])
        derived["rows"] = a[-2] if len(a) > 1 else 1
        derived["inner"] = a[-1] if a else 1
        derived["columns"] = b[-1] if b else 1
    if "axes" in given:
        shape = given["x"].shape
        derived["R"] = math.prod(size for axis, size in enumerate(shape) if axis not in given["axes"])
    return derived
