"""# Unpack four bits

A block of a `Q4_1` file has 20 bytes for 32 weights:

    bytes 0 and 1     the step, a float16, its lower byte first
    bytes 2 and 3     the least value, a float16
    bytes 4 to 19     32 rungs of four bits, two in a byte: the lower half of byte 4 + i is rung i, the upper half is
                      rung 16 + i

    weight[i] = least + step · rung[i]

Example: step 0.5 is the bytes 0 and 56, least value -1 the bytes 0 and 188. If the next byte is 0x21 = 0010 0001, then
rung 0 is 1 and rung 16 is 2, so that weight 0 is -0.5 and weight 16 is 0.
"""

import numpy as np

from kernels.reference.quantised_linear import dequantise
from lessons.exercises.exercise import Case
from minitransformer.quantised import quantise

TRACK, LESSON, LEVEL, MINUTES = "real", "15", 1, 15
RESULTS = ("weights",)
TOLERANCE = 1e-6  # the engine unpacks to float32, which is off by 6e-8 of the largest weight at most

SOLUTION = '''
import numpy as np


def unpack(blocks):
    """blocks (N, 20) bytes  →  weights (N, 32)"""
    header = blocks[:, :4].copy().view("<f2").astype(float)  # four bytes are two numbers of 16 bits
    step, least = header[:, :1], header[:, 1:]
    pairs = blocks[:, 4:]
    rungs = np.concatenate([pairs & 0b1111, pairs >> 4], axis=-1)  # all lower halves, then all upper ones
    return least + step * rungs
'''

ANOTHER = """
import numpy as np


def half(low, high):  # a float16 by its bits: a sign, five bits of exponent, ten of fraction
    sign, exponent, fraction = high // 128, high // 4 % 32, high % 4 * 256 + low
    size = (1024 + fraction) * 2.0 ** (exponent - 25) if exponent else fraction * 2.0**-24
    return -size if sign else size


def unpack(blocks):
    weights = np.zeros((len(blocks), 32))
    for n, block in enumerate(blocks.tolist()):
        step, least = half(*block[0:2]), half(*block[2:4])
        for i in range(32):
            rung = block[4 + i % 16] // 16 ** (i // 16) % 16
            weights[n, i] = least + step * rung
    return weights
"""


def expected(blocks):
    return dequantise(blocks, "Q4_1")


def cases():
    yield Case("the example", (np.array([[0, 56, 0, 188] + 16 * [0x21]], np.uint8),))
    ladder = [0, 60, 0, 0] + [i + 16 * (15 - i) for i in range(16)]
    yield Case("step 1, least value 0: the rungs themselves", (np.array([ladder], np.uint8),))
    rng = np.random.default_rng(0)
    yield Case("a block of weights", (quantise(rng.normal(size=(1, 32)), "Q4_1"),))
    yield Case("32 equal weights", (quantise(np.full((1, 32), 0.7), "Q4_1"),))
    yield Case("five blocks", (quantise(rng.normal(size=(5, 32)) * 0.05 + 0.3, "Q4_1"),))
    yield Case("tiny weights", (quantise(rng.normal(size=(2, 32)) * 1e-4, "Q4_1"),))
