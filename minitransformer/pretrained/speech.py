"""Sound to what Whisper reads, and what it writes to text.

A window of 30 seconds becomes a picture: 100 columns a second, each the loudness of 80 bands of pitch that are as wide
as the ear's own (mels), on a logarithmic scale. Silence fills what is left of the last window."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from minitransformer.decoding.sampling import generate
from minitransformer.errors import Path
from minitransformer.pretrained.byte_pair import BytePair
from minitransformer.pretrained.open_weights import open_weights
from minitransformer.pretrained.sound_file import RATE
from minitransformer.pretrained.tokenizer_lists import read_ranks

WINDOW = 30 * RATE
LATEST_CUT, PAUSE = 5 * RATE, RATE // 5  # longer sound is cut within the last 5 seconds of a window, in a pause
SPAN, HOP = 400, 160  # samples under each column of the picture, and between columns
LANGUAGES, TIMES = 99, 1501
NAMED = ("<|translate|>", "<|transcribe|>", "<|startoflm|>", "<|startofprev|>", "<|nospeech|>", "<|notimestamps|>")


def tokenizer(ranks: Path) -> BytePair:
    """GPT-2's pieces, and the marks of the English models."""
    marks = ["<|endoftext|>", "<|startoftranscript|>", *(f"<|language {i}|>" for i in range(LANGUAGES)), *NAMED]
    return read_ranks(ranks, [*marks, *(f"<|{i / 50:.2f}|>" for i in range(TIMES))])


def spectrogram(samples: np.ndarray, filters: np.ndarray) -> np.ndarray:
    """samples (n), between -1 and 1; filters (mels, 201) → (n / 160, mels)"""
    padded = np.pad(samples, SPAN // 2, mode="reflect")
    wave = np.hanning(SPAN + 1)[:-1]
    columns = np.lib.stride_tricks.sliding_window_view(padded, SPAN)[::HOP][: len(samples) // HOP]
    power = np.abs(np.fft.rfft(columns * wave)) ** 2  # (columns, 201)
    bands = np.log10(np.maximum(power @ filters.T, 1e-10))
    return ((np.maximum(bands, bands.max() - 8) + 4) / 4).astype(np.float32)


def windows(samples: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
    """Where each window begins, and its 30 seconds: cut where it is quietest, and filled up with silence."""
    start = 0
    while start < max(len(samples), 1):
        end = start + WINDOW
        if end < len(samples):
            end -= LATEST_CUT - _quietest(samples[end - LATEST_CUT : end])
        part = samples[start:end]
        yield start, np.pad(part, (0, WINDOW - len(part)))
        start = end


def _quietest(samples: np.ndarray) -> int:
    """The middle of the fifth of a second in which least is heard: no word is cut in two there."""
    sums = np.cumsum(np.pad(samples.astype(np.float64) ** 2, (1, 0)))
    return int((sums[PAUSE:] - sums[:-PAUSE]).argmin()) + PAUSE // 2


def transcribe(model: Any, pieces: BytePair, samples: np.ndarray, filters: np.ndarray) -> Iterator[tuple[int, str]]:
    """Where each window of at most 30 seconds begins, and its text.   samples (n), 16,000 a second, between -1 and 1"""
    end, start, plain = (pieces.special[f"<|{name}|>"] for name in ("endoftext", "startoftranscript", "notimestamps"))
    marks = [i for i in pieces.special.values() if i != end]
    for begin, window in windows(samples):
        picture = spectrogram(window, filters)[None]
        (ids,) = generate(model, picture, sos=[start, plain], eos=end, suppress=marks)
        yield begin, pieces.decode(ids).strip()


def mel_filters(path: Path, mels: int) -> np.ndarray:
    """The table of bands that comes with the weights.   → (mels, 201)"""
    return open_weights(path)[f"mel_{mels}"]
