"""What attention looks at. The fused kernel never stores its weights; whoever asks gets them computed beside it.

weights = model.attention(ids)                        name of the layer → array (B, H, T, S)
weights["base.encoder.layers.0.self_attn"][0, 1]      the first text, the second head: one row a word, sum 1
"""

from typing import Any

import numpy as np

from autograd import Tensor


def attention_weights(
    q: Tensor, k: Tensor, is_causal: bool = False, key_lengths: Any = None, query_offset: int = 0, **_dropout: Any
) -> np.ndarray:
    """softmax(q kᵀ / √D) where a query sees a key, 0 elsewhere.   q (B, H, T, D); k (B, G, S, D) → (B, H, T, S)"""
    queries, keys = (np.asarray(x.numpy(), dtype=np.float64) for x in (q, k))
    (H, T, D), (G, S) = q.shape[1:], k.shape[1:3]
    scores = queries @ np.repeat(keys, H // G, axis=1).swapaxes(-1, -2) * D**-0.5
    seen = np.arange(S) <= np.arange(T)[:, None] + query_offset if is_causal else np.ones((T, S), bool)
    seen = np.broadcast_to(seen, scores.shape)
    if key_lengths is not None:
        lengths = key_lengths.get() if hasattr(key_lengths, "get") else key_lengths  # CuPy's array, or NumPy's
        seen = seen & (np.arange(S) < np.asarray(lengths)[:, None])[:, None, None, :]
    largest = np.max(scores, axis=-1, keepdims=True, where=seen, initial=-np.inf)
    powers = np.where(seen, np.exp(np.where(seen, scores - np.where(np.isfinite(largest), largest, 0), 0)), 0.0)
    total = powers.sum(axis=-1, keepdims=True)
    return np.divide(powers, total, out=np.zeros_like(powers), where=total > 0)
