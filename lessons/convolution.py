"""Convolution along a sequence, composed from slices and one linear map."""

from autograd.functional import concatenate, linear
from autograd.tensor import Tensor


def conv1d(x, weight, bias=None, padding=0, dilation=1):
    """y[b, t] = Σ_k weight[:, :, k] x[b, t + k·dilation - padding] + bias

    x (B, T, I); weight (O, I, K), PyTorch's layout; bias (O) → y (B, T + 2·padding - dilation·(K - 1), O).
    padding: zeros on either side, or "same" (as many as keep the length; the extra one of an even K goes right).
    The K shifted copies of x stand side by side, so that the whole convolution is one matrix product."""
    B, T, inputs = x.shape
    O, I, K = weight.shape
    if inputs != I:
        raise ValueError(f"x has {inputs} channels, the weight {weight.shape} wants {I}")
    if dilation < 1:
        raise ValueError(f"dilation must be at least 1, not {dilation}")
    reach = dilation * (K - 1)
    left, right = (reach // 2, reach - reach // 2) if padding == "same" else (padding, padding)
    length = T + left + right - reach
    if length < 1 or left < 0:
        raise ValueError(f"a kernel that reaches over {reach + 1} positions does not fit into {T + left + right}")
    parts = [_zeros(x, B, left, I), x, _zeros(x, B, right, I)]
    x = concatenate([part for part in parts if part.shape[1]], axis=1) if left or right else x
    windows = concatenate([x[:, k * dilation : k * dilation + length] for k in range(K)], axis=2)  # (B, length, K·I)
    return linear(windows, weight.transpose(0, 2, 1).reshape(O, K * I), bias)


def _zeros(x, *shape):
    return Tensor(x.backend.xp.zeros(shape, dtype=x.dtype), backend=x.backend)
