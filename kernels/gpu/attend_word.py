"""Attention of one new word for each row, with the keys and values of the words before it at hand: the kernels of
rotary.cu and attention.cu, one after the other, since the last one reads what was written before."""

from kernels.contract import Dropout, Mask
from kernels.cuda.launcher import module_of
from kernels.gpu.attention import attention
from kernels.gpu.rotary import rotary


def attend_word(heads, keys, values, lengths, base, scale):
    """The word's queries and its keys are turned by its position lengths[b], if there is a base; keys and values join
    those before them, in place; the queries look at all of these.

    heads (B, H + 2G, D): queries, keys, values; keys, values (B, G, S, D); lengths (B) → out (B, H, D)"""
    G, rows = keys.shape[1], module_of(heads).arange(len(heads))
    H = heads.shape[1] - 2 * G
    turned = heads[:, : H + G, None]
    if base is not None:
        turned = rotary(turned, lengths[:, None], base, True)
    keys[rows, :, lengths] = turned[:, H:, 0]
    values[rows, :, lengths] = heads[:, H + G :]
    return attention(turned[:, :H], keys, values, Mask(lengths + 1), scale, Dropout())[0][:, :, 0]
