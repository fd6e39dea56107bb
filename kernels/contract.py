"""What every backend must offer: each kernel's name, shapes, checks and costs. One table, three uses.

The table is read by the backends (arguments are checked here, once for all tiers, before any compiled loop runs),
by the tests (samples.py adds inputs for every entry) and by the cost questions that `autograd.tape` answers.

Legend: B batch, T query positions, S key positions, C model width, H heads, D = C/H, F feed-forward width,
V vocabulary, N = B*T rows, E output width of a feed-forward layer.

How an argument is written
    x (N, C)               float array; a letter means the same size wherever it stands, and is at least 1
    x (...)                float array of any shape, also an empty one; `like x`: of the same shape and dtype as x
    bias (F) | none        the same, or None
    ids (N) int < V        integer array with values 0 ... V-1
    targets (N) int <? V   the same, or equal to the argument ignore_index
    key_lengths (B) int <= S
    eps real, p rate, scale real, seed int, n count, flag flag, activation name, axes axes

Costs are counts: a multiply-add is 2 flops, any other operation (also exp, tanh, sqrt, a comparison) is 1; reads and
writes count the array elements that must cross memory once, whatever a tier does beyond that. They follow from shapes
and options alone: key lengths and ignored targets, which are values, are not looked at.
"""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

ACTIVATIONS = ("relu", "gelu", "tanh")
FLOATS = (np.dtype("float32"), np.dtype("float64"))


class KernelError(ValueError):
    """Arguments that a kernel cannot take: says what was given, what was expected, and where."""


MOST_KNOWN = 1000  # combinations of shapes remembered for a kernel


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
            r"(?P<name>\w+)(?: \((?P<dims>[^)]*)\))?(?: (?P<kind>int|like|real|rate|count|flag|name|axes))?"
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
    more: Callable[[str, dict[str, Any], dict[str, int]], None] | None = None  # checks that a line cannot express
    _code: dict[str, Any] = field(default_factory=dict)
    _passed: dict[tuple, dict[str, int]] = field(default_factory=dict)  # shapes and dtypes known to fit → sizes

    def __post_init__(self) -> None:
        self.names = tuple(argument.name for argument in self.arguments)
        self.bounded = tuple(argument for argument in self.arguments if argument.parsed["bound"])

    def check(self, args: tuple) -> dict[str, int]:
        """Raises KernelError unless the arguments fit; returns the size of every letter. A training step calls the same
        kernels with the same shapes again and again: those that have passed once are known."""
        if len(args) != len(self.arguments):
            expected = ", ".join(a.name for a in self.arguments)
            raise KernelError(f"{self.name}: {len(args)} arguments given, {len(self.arguments)} expected: {expected}")
        pairs = zip(args, self.arguments, strict=True)
        shapes = tuple([(getattr(a, "shape", a), getattr(a, "dtype", None)) for a, which in pairs if which.is_array])
        try:
            sizes = self._passed.get(shapes)
        except TypeError:  # not an array, and nothing that could be a key
            sizes = None
        if sizes is None:
            sizes = self._check_shapes(args)
            if len(self._passed) >= MOST_KNOWN:
                self._passed.clear()
            self._passed[shapes] = sizes
        for argument, value in zip(self.arguments, args, strict=True):
            if not argument.is_array and not (value is None and argument.optional):
                self._check_scalar(argument, value)
        given = dict(zip(self.names, args, strict=True)) if self.more or self.bounded else {}
        if self.more is not None:
            self.more(self.name, given, sizes)
        for argument in self.bounded:
            if given[argument.name] is not None:
                self._check_range(argument, given[argument.name], given, sizes)
        return sizes

    def _check_shapes(self, args: tuple) -> dict[str, int]:
        sizes: dict[str, int] = {}
        given = dict(zip(self.names, args, strict=True))
        dtype_of = None  # the first float array decides the dtype of the others
        for argument, value in zip(self.arguments, args, strict=True):
            if argument.is_array and not (value is None and argument.optional):
                dtype_of = self._check_array(argument, value, given, sizes, dtype_of)
        return sizes

    def _check_array(self, argument: Argument, value: Any, given: dict, sizes: dict, dtype_of: str | None):
        shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
        if shape is None or dtype is None:
            raise KernelError(f"{self.name}: {argument.name} must be an array, not {type(value).__name__}")
        if argument.kind == "int":
            if dtype.kind not in "iu":
                raise KernelError(f"{self.name}: {argument.name} must hold integers, not {dtype}; use .astype('int64')")
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
        elif kind == "name" and value not in ACTIVATIONS:
            raise KernelError(f"{self.name}: unknown {name} {value!r}; choose from {', '.join(ACTIVATIONS)}")

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
        sizes = dict(_sizes_without_check(self, args))
        given = {argument.name: value for argument, value in zip(self.arguments, args, strict=True)}
        itemsize = next((v.dtype.itemsize for v in args if getattr(getattr(v, "dtype", None), "kind", "") == "f"), 8)
        sizes.update(_derived(given, sizes))
        flops, reads, writes = (self._evaluate(text, sizes) for text in (self.flops, self.reads, self.writes))
        return Cost(flops, reads * itemsize, writes * itemsize)

    def _evaluate(self, formula: str, sizes: dict[str, int]) -> int:
        if formula not in self._code:
            self._code[formula] = compile(formula, f"<cost of {self.name}>", "eval")
        return int(eval(self._code[formula], {"__builtins__": {}}, sizes))


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
    derived = {"with_bias": int(bool(given.get("with_bias", given.get("bias") is not None)))}
    derived["with_gradients"] = int(bool(given.get("with_gradients")))
    if "is_causal" in given:
        T, S = sizes["T"], sizes["S"]
        offset = min(given["query_offset"], S)
        derived["P"] = sum(min(S, t + 1 + offset) for t in range(T)) if given["is_causal"] else T * S
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


CONTRACT: dict[str, Kernel] = {}


def kernel(file: str, signature: str, returns: str, flops: str, reads: str, writes: str, more=None) -> None:
    """Adds an entry. The signature is `name: argument; argument; ...`."""
    name, _, arguments = signature.partition(":")
    parsed = tuple(Argument(" ".join(text.split())) for text in arguments.split(";"))
    for argument in parsed:
        _ = argument.parsed  # a misspelt line fails at import
    CONTRACT[name] = Kernel(name, file, parsed, returns, flops, reads, writes, more)


def _some_target_is_kept(name: str, given: dict[str, Any], _sizes: dict[str, int]) -> None:
    ignored = given["ignore_index"]
    if ignored is not None and not bool((given["targets"] != ignored).any()):
        raise KernelError(f"{name}: every target equals ignore_index = {ignored}, so there is no loss to average")


def _shapes_broadcast(name: str, given: dict[str, Any], _sizes: dict[str, int]) -> None:
    a, b = given["a"].shape, given["b"].shape
    for one, other in zip(reversed(a), reversed(b), strict=False):
        if one != other and 1 not in (one, other):
            raise KernelError(f"{name}: shapes {a} and {b} cannot be broadcast together")


def _matrices_fit(name: str, given: dict[str, Any], _sizes: dict[str, int]) -> None:
    a, b = given["a"].shape, given["b"].shape
    if len(a) < 2 or len(b) < 2 or a[-1] != b[-2]:
        raise KernelError(f"{name}: (..., n, k) @ (..., k, m) is needed, not {a} @ {b}")
    for one, other in zip(reversed(a[:-2]), reversed(b[:-2]), strict=False):
        if one != other and 1 not in (one, other):
            raise KernelError(f"{name}: the leading axes of {a} and {b} cannot be broadcast together")


def _axes_exist(name: str, given: dict[str, Any], _sizes: dict[str, int]) -> None:
    axes, rank = given["axes"], given["x"].ndim
    if not isinstance(axes, tuple) or any(not 0 <= axis < rank for axis in axes) or len(set(axes)) != len(axes):
        raise KernelError(f"{name}: axes {axes} do not fit an array of {rank} axes")


def _axes_not_empty(name: str, given: dict[str, Any], sizes: dict[str, int]) -> None:
    _axes_exist(name, given, sizes)
    if given["x"].size == 0:
        raise KernelError(f"{name}: an empty array of shape {given['x'].shape} has no largest element")


def _adam_can_divide(name: str, given: dict[str, Any], _sizes: dict[str, int]) -> None:
    if given["step"] < 1:
        raise KernelError(f"{name}: steps count from 1, not {given['step']}")
    for beta in ("beta1", "beta2"):
        if not 0 <= given[beta] < 1:
            raise KernelError(f"{name}: {beta} must be at least 0 and below 1, not {given[beta]}")
    if not getattr(given["param"].flags, "writeable", True):  # CuPy's arrays always are
        raise KernelError(f"{name}: param is read-only, and shall be changed in place")


def _scalar_gradient(name: str, given: dict[str, Any], _sizes: dict[str, int]) -> None:
    if given["dloss"].shape != ():
        raise KernelError(f"{name}: dloss must be a single number, not an array of shape {given['dloss'].shape}")


# ---------------------------------------------------------------------------------------------------- the table

kernel("linear", "linear: x (N, C); weight (F, C); bias (F) | none", "y (N, F)",
       "2*N*C*F + N*F*with_bias", "N*C + F*C + F*with_bias", "N*F")  # fmt: skip
kernel("linear", "linear_backward: dy (N, F); x (N, C); weight (F, C); with_bias flag",
       "dx (N, C), dweight (F, C), dbias (F) or None",
       "4*N*C*F + N*F*with_bias", "N*F + N*C + F*C", "N*C + F*C + F*with_bias")  # fmt: skip
kernel("linear", "matmul: a (...); b (...)", "c (..., n, m)",
       "2*batch*rows*inner*columns", "M_a + M_b", "batch*rows*columns", _matrices_fit)  # fmt: skip

ATTENTION = """key_lengths (B) int <= S | none; is_causal flag; query_offset count;
               scale real; dropout_p rate; seed int"""
kernel("attention", f"attention: q (B, H, T, D); k (B, H, S, D); v (B, H, S, D); {ATTENTION}",
       "out (B, H, T, D), lse (B, H, T)",
       "B*H*(P*(4*D + 4) + T*(D + 2))", "B*H*(T + 2*S)*D", "B*H*T*(D + 1)")  # fmt: skip
kernel("attention",
       f"""attention_backward: dout (B, H, T, D); q (B, H, T, D); k (B, H, S, D); v (B, H, S, D);
           out (B, H, T, D); lse (B, H, T); {ATTENTION}""",
       "dq (B, H, T, D), dk (B, H, S, D), dv (B, H, S, D)",
       "B*H*(P*(10*D + 5) + T*2*D)", "B*H*((3*T + 2*S)*D + T)", "B*H*(T + 2*S)*D")  # fmt: skip

kernel("layer_norm", "layer_norm: x (N, C); weight (C); bias (C); eps real", "y (N, C), mean (N), rstd (N)",
       "N*(8*C + 4)", "N*C + 2*C", "N*C + 2*N")  # fmt: skip
kernel("layer_norm", "layer_norm_backward: dy (N, C); x (N, C); weight (C); mean (N); rstd (N)",
       "dx (N, C), dweight (C), dbias (C)",
       "N*(14*C + 2)", "2*N*C + C + 2*N", "N*C + 2*C")  # fmt: skip

kernel("feed_forward", "feed_forward: x (N, C); w1 (F, C); b1 (F); w2 (E, F); b2 (E); activation name",
       "y (N, E), pre (N, F)",
       "2*N*C*F + 2*N*F + 2*N*F*E + N*E", "N*C + F*C + F + E*F + E", "N*E + N*F")  # fmt: skip
kernel("feed_forward",
       "feed_forward_backward: dy (N, E); x (N, C); w1 (F, C); w2 (E, F); pre (N, F); activation name",
       "dx (N, C), dw1 (F, C), db1 (F), dw2 (E, F), db2 (E)",
       "4*N*C*F + 4*N*F*E + 4*N*F + N*E", "N*E + N*C + F*C + E*F + N*F", "N*C + F*C + F + E*F + E")  # fmt: skip

kernel("softmax", "softmax: x (N, C)", "y (N, C)", "5*N*C", "N*C", "N*C")
kernel("softmax", "softmax_backward: dy (N, C); y (N, C)", "dx (N, C)", "4*N*C", "2*N*C", "N*C")
kernel("softmax", "log_softmax: x (N, C)", "y (N, C)", "5*N*C + N", "N*C", "N*C")
kernel("softmax", "log_softmax_backward: dy (N, C); y (N, C)", "dx (N, C)", "4*N*C", "2*N*C", "N*C")

LOSS = "targets (N) int <? V; ignore_index int | none; label_smoothing rate"
kernel("cross_entropy", f"cross_entropy: logits (N, V); {LOSS}", "loss (), lse (N)",
       "4*N*V + 3*N", "N*V + N", "N + 1", _some_target_is_kept)  # fmt: skip
kernel("cross_entropy",
       """cross_entropy_backward: dloss (...); logits (N, V); lse (N); targets (N) int <? V;
          ignore_index int | none; label_smoothing rate""",
       "dlogits (N, V)", "3*N*V + N", "N*V + 2*N", "N*V", _scalar_gradient)  # fmt: skip
kernel("linear_cross_entropy",
       f"linear_cross_entropy: x (N, C); weight (V, C); bias (V) | none; {LOSS}; with_gradients flag",
       "loss (), dx (N, C), dweight (V, C), dbias (V); the gradients are None unless asked for",
       "2*N*C*V + (4 + with_bias)*N*V + with_gradients*(4*N*C*V + (3 + with_bias)*N*V)", "N*C + V*C + V*with_bias + N",
       "1 + with_gradients*(N*C + V*C + V*with_bias)", _some_target_is_kept)  # fmt: skip

kernel("embedding", "embedding: weight (V, C); ids (N) int < V", "y (N, C)", "0", "N*C + N", "N*C")
kernel("embedding", "embedding_backward: dy (N, C); ids (N) int < V; V count", "dweight (V, C)",
       "N*C", "N*C + N", "V*C")  # fmt: skip
kernel("dropout", "dropout: x (...); p rate; seed int", "y, shaped like x", "2*M", "M", "M")
kernel("adam",
       """adam: param (...); grad like param; m like param; v like param; lr real; beta1 real; beta2 real;
          eps real; weight_decay real; decoupled flag; step count; grad_factor real""",
       "nothing: param, m and v change in place", "15*M", "4*M", "3*M", _adam_can_divide)  # fmt: skip

for _name, _flops in {"exp": 1, "log": 1, "sqrt": 1, "tanh": 1, "sigmoid": 3, "relu": 1, "gelu": 4}.items():
    kernel("elementwise", f"{_name}: x (...)", "y, shaped like x", f"{_flops}*M", "M", "M")
for _name, _saved, _flops in (("exp", "y", 1), ("log", "x", 1), ("sqrt", "y", 2), ("tanh", "y", 3),
                              ("sigmoid", "y", 3), ("relu", "x", 2), ("gelu", "x", 9)):  # fmt: skip
    kernel("elementwise", f"{_name}_backward: dy (...); {_saved} like dy", "dx, shaped like dy",
           f"{_flops}*M", "2*M", "M")  # fmt: skip
for _name in ("add", "subtract", "multiply", "divide", "power"):
    kernel("elementwise", f"{_name}: a (...); b (...)", "c, shaped like the broadcast of a and b",
           "J", "M_a + M_b", "J", _shapes_broadcast)  # fmt: skip

kernel("reduce", "sum: x (...); axes axes", "y, without the axes", "M", "M", "R", _axes_exist)
kernel("reduce", "max: x (...); axes axes", "y, without the axes", "M", "M", "R", _axes_not_empty)
kernel("reduce", "sum_of_squares: x (...)", "a float", "2*M", "M", "1")
