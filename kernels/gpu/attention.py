"""Attention in tiles on the GPU: launches attention.cu, which explains the algorithm. Nothing of size T x S is stored.

The head width D is padded to the next of WIDTHS in registers and shared memory only; global arrays stay as they are.
"""

from kernels.contract import KernelError, Mask
from kernels.cuda.launcher import launch, module_of
from kernels.gpu.dropout import key
from kernels.gpu.grid import ids64
from kernels.reference.dropout import keep_factor
from kernels.reference.philox import threshold

WIDTHS = 32, 64, 128, 256
QUERIES, TILE = 64, 32  # rows of a forward query tile, and of all other tiles
WARP = 32


def _defines(head: int) -> dict[str, int]:
    """Wide heads take more threads a block, so that a thread's part of the result still fits its registers."""
    return {"HEAD": head, "QUERIES": QUERIES, "TILE": TILE, "THREADS": 128 if head <= 64 else 256}


VARIANTS = [_defines(head) for head in WIDTHS]  # every set of compile-time constants used below, in both dtypes


def _variant(D: int) -> dict[str, int]:
    for defines in VARIANTS:
        if defines["HEAD"] >= D:
            return defines
    raise KernelError(f"attention: a head is {D} wide, and the GPU kernels go up to {WIDTHS[-1]}; use more heads")


def _options(q, k, mask, scale, dropout):
    """(key_lengths, H, H/G, T, S, D, ...): the arguments that all tiled kernels end with."""
    xp = module_of(q)
    B, H, T, D = q.shape
    S = k.shape[2]
    lengths = xp.full(B, S, dtype="int64") if mask.key_lengths is None else ids64(mask.key_lengths)
    return (
        lengths, H, H // k.shape[1], T, S, D, int(bool(mask.is_causal)), min(int(mask.query_offset), S), scale,
        threshold(dropout.p), keep_factor(dropout.p, q.dtype), key(dropout.seed),
    )  # fmt: skip


def _launch(kernel, tiles, args, dtype, defines):
    launch("attention", kernel, (tiles,), (defines["THREADS"],), args, dtype, defines)


def attention(q, k, v, mask, scale, dropout):
    """q (B, H, T, D); k, v (B, G, S, D) → out (B, H, T, D), lse (B, H, T) = log Σ_s exp(score)"""
    xp = module_of(q)
    if q.shape[2] == 1 and q.shape[1] > k.shape[1] and dropout.p == 0:
        return _one_query(q, k, v, mask, scale, dropout)
    B, H, T, D = q.shape
    defines = _variant(D)
    options = _options(q, k, mask, scale, dropout)
    q, k, v = (xp.ascontiguousarray(x) for x in (q, k, v))
    out = xp.empty(q.shape, dtype=q.dtype)
    lse = xp.empty(q.shape[:3], dtype=q.dtype)
    _launch("attention_forward", B * H * -(-T // QUERIES), (out, lse, q, k, v, *options), q.dtype, defines)
    return out, lse


def _one_query(q, k, v, mask, scale, dropout):
    """A model that writes word by word has one query a head: the heads of a group are the queries of one tile then, so
    that their keys are read once. They are of one age, which makes a causal mask a matter of lengths. Dropout, which
    numbers heads and queries differently, is for training."""
    xp = module_of(q)
    (B, H, _, D), (_, G, S, _) = q.shape, k.shape
    lengths = xp.full(B, S, dtype="int64") if mask.key_lengths is None else ids64(mask.key_lengths)
    if mask.is_causal:
        lengths = xp.minimum(lengths, min(int(mask.query_offset), S) + 1)
    out, lse = attention(q.reshape(B, G, H // G, D), k, v, Mask(lengths), scale, dropout)
    return out.reshape(q.shape), lse.reshape(B, H, 1)


def attention_backward(dout, q, k, v, out, lse, mask, scale, dropout):
    """dv = (p z)ᵀ dout;  ds = p (z dout vᵀ - Σ_d dout out);  dq = scale ds k;  dk = scale dsᵀ q, tile by tile"""
    xp = module_of(q)
    B, H, T, D = q.shape
    G, S = k.shape[1:3]
    defines = _variant(D)
    options = _options(q, k, mask, scale, dropout)
    dout, q, k, v, out, lse = (xp.ascontiguousarray(x) for x in (dout, q, k, v, out, lse))
    dq, dk, dv = (xp.empty(x.shape, dtype=x.dtype) for x in (q, k, v))
    delta = xp.empty(lse.shape, dtype=lse.dtype)
    rows = B * H * T
    _launch("attention_delta", -(-rows * WARP // defines["THREADS"]), (delta, dout, out, rows, D), q.dtype, defines)
    shared = (dout, q, k, v, lse, delta, *options)
    _launch("attention_backward_queries", B * H * -(-T // TILE), (dq, *shared), q.dtype, defines)
    _launch("attention_backward_keys", B * G * -(-S // TILE), (dk, dv, *shared), q.dtype, defines)
    return dq, dk, dv
