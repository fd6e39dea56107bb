"""Attention of one new word for each row, with the keys and values of the words before it at hand."""

import numpy as np

from kernels.contract import Dropout, Mask
from kernels.reference.attention import attention
from kernels.reference.rotary import rotary


def attend_word(heads, keys, values, lengths, base, scale):
    """The word's queries and its keys are turned by its position lengths[b], if there is a base; keys and values join
    those before them, in place; the queries look at all of these.

    heads (B, H + 2G, D): queries, keys, values; keys, values (B, G, S, D); lengths (B) → out (B, H, D)"""
    G, rows = keys.shape[1], np.arange(len(heads))
    H = heads.shape[1] - 2 * G
    turned = heads[:, : H + G, None]
    if base is not None:
        turned = rotary(turned, lengths[:, None], base, True)
    keys[rows, :, lengths] = turned[:, H:, 0]
    values[rows, :, lengths] = heads[:, H + G :]
    return attention(turned[:, :H], keys, values, Mask(lengths + 1), scale, Dropout())[0][:, :, 0]
