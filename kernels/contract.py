"""What every backend must offer: each kernel's name, shapes, checks and costs. One table, three uses.

The table is read by the backends (arguments are checked here, once for all tiers, before any compiled loop runs),
by the tests (samples.py adds inputs for every entry) and by the cost questions that `autograd.tape` answers.

Legend: B batch, T query positions, S key positions, C model width, H heads, G key-value heads, D = C/H, F feed-forward
width, V vocabulary, N = B*T rows, E output width of a feed-forward layer.

How an argument is written: signature.py.

Costs are counts: a multiply-add is 2 flops, any other operation (also exp, tanh, sqrt, a comparison) is 1; reads and
writes count the array elements that must cross memory once, whatever a tier does beyond that. They follow from shapes
and options alone: key lengths and ignored targets, which are values, are not looked at.
"""

from typing import Any, NamedTuple

from kernels.signature import (
    ACTIVATIONS,
    FLOATS,
    GATES,
    QUANTISED,
    WEIGHTS_OF_A_BLOCK,
    Argument,
    Cost,
    Kernel,
    KernelError,
)

__all__ = [
    "ACTIVATIONS", "CONTRACT", "Cost", "Dropout", "FLOATS", "GATES", "Kernel", "KernelError", "Mask", "QUANTISED",
]  # fmt: skip


class Mask(NamedTuple):
    """Query t of sequence b sees key s when s < key_lengths[b] and, if causal, s ≤ t + query_offset."""

    key_lengths: Any = None  # (B) integers; None: all keys exist
    is_causal: bool = False
    query_offset: int = 0  # position of the first query among the keys


class Dropout(NamedTuple):
    """Each attention weight becomes 0 with probability p, else is divided by 1 - p; the seed says which ones."""

    p: float = 0.0
    seed: int = 0


RECORDS = {"mask": Mask, "dropout": Dropout}
CHANGED = {"adam": ("param", "m", "v"), "attend_word": ("keys", "values")}  # arguments that a kernel writes to
CONTRACT: dict[str, Kernel] = {}


def kernel(file: str, signature: str, returns: str, flops: str, reads: str, writes: str, further_check=None) -> None:
    """Adds an entry. The signature is `name: argument; argument; ...`."""
    name, _, arguments = signature.partition(":")
    parsed = tuple(Argument(" ".join(text.split())) for text in arguments.split(";"))
    for argument in parsed:
        _ = argument.parsed  # a misspelt line fails at import
    changed = CHANGED.get(name, ())
    CONTRACT[name] = Kernel(name, file, parsed, returns, flops, reads, writes, further_check, RECORDS, changed)


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


def _groups_are_whole(name: str, _given: dict[str, Any], sizes: dict[str, int]) -> None:
    if sizes["H"] % sizes["G"]:
        raise KernelError(
            f"{name}: {sizes['G']} key-value heads cannot share {sizes['H']} query heads evenly; G must divide H"
        )


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


def _columns_pair_up(name: str, given: dict[str, Any], sizes: dict[str, int]) -> None:
    if sizes["D"] % 2:
        raise KernelError(f"{name}: columns are turned in pairs, so D must be even, not {sizes['D']}")
    if sizes["P"] not in (1, sizes["B"]):
        raise KernelError(
            f"{name}: positions (P, T) has shape {given['positions'].shape}; P must be 1 or B = {sizes['B']}"
        )
    if not given["base"] > 0:
        raise KernelError(f"{name}: base must be positive, not {given['base']}")


def _blocks_are_whole(name: str, given: dict[str, Any], sizes: dict[str, int]) -> None:
    """Rows of bytes are whole blocks, and as many as the numbers they are multiplied with need."""
    kind = given["kind"]
    widths = {"R": "C", "Q": "F"} if "w_down" in given else {"R": "C"}
    for row, columns in widths.items():
        blocks, rest = divmod(sizes[row], QUANTISED[kind])
        weights = blocks * WEIGHTS_OF_A_BLOCK
        if rest:
            raise KernelError(
                f"{name}: rows of {sizes[row]} bytes are not whole blocks of {kind} ({QUANTISED[kind]} each)"
            )
        if sizes.get(columns, weights) != weights:
            raise KernelError(
                f"{name}: rows of {sizes[row]} bytes of {kind} hold {weights} weights, "
                f"but {columns} is {sizes[columns]}"
            )


def _word_has_queries(name: str, given: dict[str, Any], sizes: dict[str, int]) -> None:
    heads, groups, base = sizes["A"] - 2 * sizes["G"], sizes["G"], given["base"]
    if heads < 1 or heads % groups or base is not None and sizes["D"] % 2:
        raise KernelError(
            f"{name}: heads {given['heads'].shape} leave {heads} for queries beside {groups} of keys and {groups} of "
            "values; they must be a multiple of these, and D even where they are turned"
        )
    if base is not None and not base > 0:
        raise KernelError(f"{name}: base must be positive or None, not {base}")


def _heads_fit(name: str, given: dict[str, Any], sizes: dict[str, int]) -> None:
    C, H = sizes["C"], given["n_heads"]
    if sizes["A"] != 3 * C:
        raise KernelError(f"{name}: w_in has {sizes['A']} rows; queries, keys and values of width {C} are {3 * C}")
    if H < 1 or C % H:
        raise KernelError(f"{name}: a width of {C} cannot be divided among {H} heads")


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

ATTENTION = """mask.key_lengths (B) int <= S | none; mask.is_causal flag; mask.query_offset count;
               scale real; dropout.p rate; dropout.seed int"""
kernel("attention", f"attention: q (B, H, T, D); k (B, G, S, D); v (B, G, S, D); {ATTENTION}",
       "out (B, H, T, D), lse (B, H, T)",
       "B*H*(P*(4*D + 4) + T*(D + 2))", "B*(H*T + 2*G*S)*D", "B*H*T*(D + 1)", _groups_are_whole)  # fmt: skip
kernel("attention",
       f"""attention_backward: dout (B, H, T, D); q (B, H, T, D); k (B, G, S, D); v (B, G, S, D);
           out (B, H, T, D); lse (B, H, T); {ATTENTION}""",
       "dq (B, H, T, D), dk (B, G, S, D), dv (B, G, S, D)",
       "B*H*(P*(10*D + 5) + T*2*D)", "B*((3*H*T + 2*G*S)*D + H*T)", "B*(H*T + 2*G*S)*D",
       _groups_are_whole)  # fmt: skip

# One word for each row of a model that writes: A = H + 2 G heads of queries, keys and values, and what is kept of the
# words before. With a base, queries and keys are turned. Counted as if all S places were filled, and one angle for each
# pair of columns.
kernel("attend_word",
       """attend_word: heads (B, A, D); keys (B, G, S, D); values (B, G, S, D); lengths (B) int < S; base real | none;
          scale real""",
       "out (B, H, D); the word's keys and values are written at their place",
       "B*((A - 2*G)*(S*(4*D + 4) + D + 2) + with_base*(3*(A - G)*D + 2*D))", "B*(A*D + 2*G*S*D + 1)",
       "B*((A - 2*G)*D + 2*G*D)", _word_has_queries)  # fmt: skip

kernel("layer_norm", "layer_norm: x (N, C); weight (C); bias (C); eps real", "y (N, C), mean (N), rstd (N)",
       "N*(8*C + 4)", "N*C + 2*C", "N*C + 2*N")  # fmt: skip
kernel("layer_norm", "layer_norm_backward: dy (N, C); x (N, C); weight (C); mean (N); rstd (N)",
       "dx (N, C), dweight (C), dbias (C)",
       "N*(14*C + 2)", "2*N*C + C + 2*N", "N*C + 2*C")  # fmt: skip

kernel("rms_norm", "rms_norm: x (N, C); weight (C); eps real", "y (N, C), rstd (N)",
       "N*(4*C + 4)", "N*C + C", "N*C + N")  # fmt: skip
kernel("rms_norm", "rms_norm_backward: dy (N, C); x (N, C); weight (C); rstd (N)", "dx (N, C), dweight (C)",
       "N*(9*C + 1)", "2*N*C + C + N", "N*C + C")  # fmt: skip

# The gradient of a rotation is the rotation back: the same kernel with negated positions. P is B, or 1 for all alike.
kernel("rotary", "rotary: x (B, H, T, D); positions (P, T) int; base real; interleaved flag", "y (B, H, T, D)",
       "3*B*H*T*D + 3*P*T*D//2 + D//2", "B*H*T*D + P*T", "B*H*T*D", _columns_pair_up)  # fmt: skip

kernel("feed_forward", "feed_forward: x (N, C); w1 (F, C); b1 (F); w2 (E, F); b2 (E); activation name",
       "y (N, E), pre (N, F)",
       "2*N*C*F + 2*N*F + 2*N*F*E + N*E", "N*C + F*C + F + E*F + E", "N*E + N*F")  # fmt: skip
kernel("feed_forward",
       "feed_forward_backward: dy (N, E); x (N, C); w1 (F, C); w2 (E, F); pre (N, F); activation name",
       "dx (N, C), dw1 (F, C), db1 (F), dw2 (E, F), db2 (E)",
       "4*N*C*F + 4*N*F*E + 4*N*F + N*E", "N*E + N*C + F*C + E*F + N*F", "N*C + F*C + F + E*F + E")  # fmt: skip

# A layer of an encoder as a whole, for models that only compute: norm(h + feed_forward(h)), h = norm(x + attention(x)).
kernel("encoder_layer",
       """encoder_layer: x (B, T, C); w_in (A, C); b_in (A); w_out (C, C); b_out (C); weight1 (C); bias1 (C); w1 (F, C);
          b1 (F); w2 (C, F); b2 (C); weight2 (C); bias2 (C); mask.key_lengths (B) int <= T | none; mask.is_causal flag;
          mask.query_offset count; n_heads count; eps real; activation name""",
       "y (B, T, C)",
       "B*T*(2*C*(A + C + 2*F) + A + 21*C + 2*F + 2*n_heads + 8) + B*P*(4*C + 4*n_heads)",
       "B*T*C + A*C + A + C*C + 2*F*C + F + 6*C", "B*T*C", _heads_fit)  # fmt: skip

GATED = "N*F*({} + with_b_gate + with_b_up) + N*E*with_b_down"  # flops beside the products
BIASES = "F*(with_b_gate + with_b_up) + E*with_b_down"
kernel("gated_feed_forward",
       """gated_feed_forward: x (N, C); w_gate (F, C); b_gate (F) | none; w_up (F, C); b_up (F) | none; w_down (E, F);
          b_down (E) | none; activation gate""",
       "y (N, E), gate (N, F), up (N, F)",
       f"4*N*C*F + 2*N*F*E + {GATED.format(2)}", f"N*C + 2*F*C + E*F + {BIASES}", "N*E + 2*N*F")  # fmt: skip
kernel("gated_feed_forward",
       """gated_feed_forward_backward: dy (N, E); x (N, C); w_gate (F, C); w_up (F, C); w_down (E, F); gate (N, F);
          up (N, F); activation gate; with_b_gate flag; with_b_up flag; with_b_down flag""",
       "dx (N, C), dw_gate (F, C), db_gate (F), dw_up (F, C), db_up (F), dw_down (E, F), db_down (E); None for no bias",
       f"8*N*C*F + 4*N*F*E + N*C + {GATED.format(6)}", "N*E + N*C + 2*F*C + E*F + 2*N*F",
       f"N*C + 2*F*C + E*F + {BIASES}")  # fmt: skip

# Quantised weights are rows of bytes, R in each (Q in w_down); C weights follow from R and the kind. They are float32
# numbers once unpacked, and not trained: backward has no gradient for them.
kernel("quantised_linear", "dequantise: weight (F, R) bytes; kind quantised", "w (F, C) of float32",
       "2*F*C", "F*R*byte", "4*F*C*byte", _blocks_are_whole)  # fmt: skip
kernel("quantised_linear", "quantised_linear: x (N, C); weight (F, R) bytes; kind quantised", "y (N, F)",
       "2*N*C*F + 2*F*C", "N*C + F*R*byte", "N*F", _blocks_are_whole)  # fmt: skip
kernel("quantised_linear", "quantised_linear_backward: dy (N, F); weight (F, R) bytes; kind quantised", "dx (N, C)",
       "2*N*C*F + 2*F*C", "N*F + F*R*byte", "N*C", _blocks_are_whole)  # fmt: skip
kernel("quantised_linear",
       """quantised_gated_feed_forward: x (N, C); w_gate (F, R) bytes; w_up (F, R) bytes; w_down (E, Q) bytes;
          kind quantised; activation gate""",
       "y (N, E)",
       "4*N*C*F + 2*N*F*E + 2*N*F + 4*F*C + 2*F*E", "N*C + (2*F*R + E*Q)*byte", "N*E", _blocks_are_whole)  # fmt: skip

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

for _name, _flops in {"exp": 1, "log": 1, "sqrt": 1, "tanh": 1, "sigmoid": 3, "relu": 1, "gelu": 4,
                      "gelu_tanh": 8, "silu": 4}.items():  # fmt: skip
    kernel("elementwise", f"{_name}: x (...)", "y, shaped like x", f"{_flops}*M", "M", "M")
for _name, _saved, _flops in (("exp", "y", 1), ("log", "x", 1), ("sqrt", "y", 2), ("tanh", "y", 3),
                              ("sigmoid", "y", 3), ("relu", "x", 2), ("gelu", "x", 9), ("gelu_tanh", "x", 16),
                              ("silu", "x", 8)):  # fmt: skip
    kernel("elementwise", f"{_name}_backward: dy (...); {_saved} like dy", "dx, shaped like dy",
           f"{_flops}*M", "2*M", "M")  # fmt: skip
for _name in ("add", "subtract", "multiply", "divide", "power"):
    kernel("elementwise", f"{_name}: a (...); b (...)", "c, shaped like the broadcast of a and b",
           "J", "M_a + M_b", "J", _shapes_broadcast)  # fmt: skip

kernel("reduce", "sum: x (...); axes axes", "y, without the axes", "M", "M", "R", _axes_exist)
kernel("reduce", "max: x (...); axes axes", "y, without the axes", "M", "M", "R", _axes_not_empty)
kernel("reduce", "sum_of_squares: x (...)", "a float", "2*M", "M", "1")
