"""A number that tells whether an array is still what it was: how autograd notices a change in place."""

import zlib

import numpy as np


def fingerprint(x):
    """CRC-32 of the elements in row order."""
    return zlib.crc32(np.ascontiguousarray(x).data)
