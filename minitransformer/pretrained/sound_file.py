"""Sound from a file: WAV with whole numbers of 8, 16, 24 or 32 bits, or bare samples (.raw: 16 bits, 16,000 a second).

What comes out is what Whisper wants: one channel, 16,000 samples a second, between -1 and 1."""

from __future__ import annotations

import os
import struct
from math import gcd

import numpy as np

from minitransformer.errors import Path, WeightsError
from minitransformer.pretrained.weight_file import Source

RATE = 16_000  # samples a second
LONGEST = 4 * 3600  # seconds in one file
PCM, EXTENSIBLE = 1, 0xFFFE
CONVERT = "make a plain WAV of it, with ffmpeg say: ffmpeg -i FILE -ar 16000 -ac 1 sound.wav"
ZERO_CROSSINGS = 16  # of the sinc on each side: the more, the sharper the edge of what is kept


def read_sound(path: Path) -> np.ndarray:
    """(n) float32, between -1 and 1, 16,000 a second."""
    source = Source(path)
    first = source.read(0, min(12, source.size)).tobytes()
    if first[:4] == b"RIFF" and first[8:] == b"WAVE":
        samples, rate = _wav(source)
    elif os.fspath(path).lower().endswith(".raw"):
        samples, rate = _numbers(source.read(0, source.size), 2)[:, None], RATE
    else:
        raise WeightsError(source.path, "is no WAV file", CONVERT)
    if not len(samples):
        raise WeightsError(source.path, "holds no sound", "name a file that does")
    if len(samples) > LONGEST * rate:
        raise WeightsError(source.path, f"lasts longer than {LONGEST // 3600} hours", "cut it into parts")
    return resampled(samples.mean(axis=1), rate)


def _wav(source: Source) -> tuple[np.ndarray, int]:
    """(samples, channels) and their rate. A WAV file is a list of parts: 4 letters, a length, content."""
    place, form = 12, None
    while place + 8 <= source.size:
        name, length = struct.unpack("<4sI", source.read(place, 8).tobytes())
        place += 8
        if name == b"fmt ":
            if length < 16:
                raise source.refused("does not say how its samples are written", CONVERT)
            form = source.read(place, min(length, 40)).tobytes()
        elif name == b"data":
            if form is None:
                raise source.refused("holds samples before it says how they are written", CONVERT)
            return _samples(source, form, place, length)
        place += length + length % 2
    raise source.refused("holds no samples", CONVERT)


def _samples(source: Source, form: bytes, place: int, length: int) -> tuple[np.ndarray, int]:
    kind, channels, rate, _, _, bits = struct.unpack("<HHIIHH", form[:16])
    if kind == EXTENSIBLE and len(form) >= 26:
        (kind,) = struct.unpack("<H", form[24:26])
    if kind != PCM or bits not in (8, 16, 24, 32):
        raise source.refused(f"is a WAV file of format {kind} with {bits} bits, expected whole numbers", CONVERT)
    if channels not in (1, 2) or not 1000 <= rate <= 384_000:
        raise source.refused(f"has {channels} channels of {rate:,} samples a second", CONVERT)
    step = channels * bits // 8
    length = min(length, source.size - place)  # recorders that are cut off leave a length that is not true
    content = source.read(place, length // step * step)
    return _numbers(content, bits // 8).reshape(-1, channels), rate


def _numbers(content: np.ndarray, width: int) -> np.ndarray:
    """Bytes as numbers between -1 and 1."""
    content = content[: len(content) // width * width]
    if width == 1:  # the only width without a sign
        return (content.astype(np.float32) - 128) / 128
    wide = np.zeros((len(content) // width, 4), np.uint8)
    wide[:, 4 - width :] = content.reshape(-1, width)  # the upper bytes of 32 bits
    return (wide.view("<i4")[:, 0] / 2.0**31).astype(np.float32)


def resampled(samples: np.ndarray, rate: int, wanted: int = RATE) -> np.ndarray:
    """The same sound with `wanted` samples a second: each is a mean of its neighbours, weighted by a sinc under a
    Hann window, which keeps what both rates can hold and drops what the lower one cannot.

    out[n] = Σ over m of samples[m] · c · sinc(c · (n · rate/wanted - m)),  c = min(1, wanted/rate)"""
    if rate == wanted:
        return samples.astype(np.float32)
    up, down = wanted // gcd(rate, wanted), rate // gcd(rate, wanted)
    cut = min(1.0, wanted / rate)
    reach = int(np.ceil(ZERO_CROSSINGS / cut))
    count = -(-len(samples) * up // down)
    padded = np.pad(samples.astype(np.float32), (reach, reach + down + 1))
    neighbours = np.lib.stride_tricks.sliding_window_view(padded, 2 * reach + 1)
    made = np.empty(count, np.float32)
    for phase in range(min(up, count)):  # places n = phase, phase + up, ... lie alike between their neighbours
        start, rest = divmod(phase * down, up)
        distance = rest / up - np.arange(-reach, reach + 1)
        weights = cut * np.sinc(cut * distance) * np.cos(np.pi * distance / (2 * (reach + 1))) ** 2
        mine = made[phase::up]
        rows = neighbours[start::down][: len(mine)]
        mine[:] = rows @ (weights / weights.sum()).astype(np.float32)
    return made
