"""Sound files of every width, rate and number of channels, damaged ones, and the cutting of long recordings."""

import struct
import wave

import numpy as np
import pytest

from minitransformer.errors import WeightsError
from minitransformer.pretrained import speech
from minitransformer.pretrained.sound_file import RATE, read_sound, resampled


def tone(rate: int, seconds: float = 0.5, pitch: float = 440.0) -> np.ndarray:
    return 0.5 * np.sin(2 * np.pi * pitch * np.arange(int(rate * seconds)) / rate)


def write(path, samples, rate=RATE, width=2):
    """samples (n, channels), between -1 and 1, as Python's own module writes them."""
    whole = np.round(samples * (2.0 ** (8 * width - 1) - 1)).astype(np.int64)
    if width == 1:
        content = (whole + 128).astype(np.uint8).tobytes()
    else:
        content = whole.astype("<i4").reshape(-1, 1).view(np.uint8)[:, :width].tobytes()
    with wave.open(str(path), "wb") as file:
        file.setnchannels(samples.shape[1]), file.setsampwidth(width), file.setframerate(rate)
        file.writeframes(content)
    return path


@pytest.mark.parametrize("width", [1, 2, 3, 4])
@pytest.mark.parametrize("channels", [1, 2])
def test_widths_and_channels(tmp_path, width, channels):
    sides = np.stack([tone(RATE), 0.5 * tone(RATE)], 1)[:, :channels]
    found = read_sound(write(tmp_path / "x.wav", sides, width=width))
    assert found.dtype == np.float32
    # a step of the whole numbers, and float32's own
    np.testing.assert_allclose(found, sides.mean(axis=1), atol=2.0 ** (1 - 8 * width) * 1.5 + 1e-7)


@pytest.mark.parametrize("rate", [8000, 11_025, 22_050, 32_000, 44_100, 48_000, 96_000])
def test_rates(tmp_path, rate):
    found = read_sound(write(tmp_path / "x.wav", tone(rate)[:, None], rate))
    assert abs(len(found) - RATE // 2) <= 1
    inner = slice(200, 7800)  # at the ends half of the neighbours are missing
    np.testing.assert_allclose(found[inner], tone(RATE)[:8000][inner], atol=1e-3)  # the window's ripple


def test_what_the_lower_rate_cannot_hold_is_dropped():
    """Left in, 11 kHz would be heard as 5 kHz."""
    high = resampled(tone(48_000, pitch=11_000), 48_000)
    assert np.abs(high[200:-200]).max() < 2e-3  # of 0.5


def test_constant_sound_stays_constant_at_every_phase():
    for rate in (11_025, 44_100, 12_345):
        np.testing.assert_allclose(resampled(np.ones(3000), rate)[100:-100], 1, atol=1e-5)


def test_a_rate_of_our_own_changes_nothing():
    samples = np.random.default_rng(0).standard_normal(1000).astype(np.float32)
    assert resampled(samples, RATE).tobytes() == samples.tobytes()


def test_bare_samples(tmp_path):
    (tmp_path / "x.raw").write_bytes(struct.pack("<4h", 0, 16384, -32768, 1) + b"\x01")
    assert read_sound(tmp_path / "x.raw").tolist() == [0, 0.5, -1, 1 / 32768]


def riff(*parts: tuple[bytes, bytes]) -> bytes:
    content = b"".join(name + struct.pack("<I", len(part)) + part + b"\0" * (len(part) % 2) for name, part in parts)
    return b"RIFF" + struct.pack("<I", len(content) + 4) + b"WAVE" + content


def form(kind=1, channels=1, rate=RATE, bits=16, extra=b"") -> tuple[bytes, bytes]:
    step = channels * bits // 8
    return b"fmt ", struct.pack("<HHIIHH", kind, channels, rate, rate * step, step, bits) + extra


def test_other_parts_are_passed_over_and_the_long_description_is_read(tmp_path):
    extra = struct.pack("<HHIH", 22, 16, 4, 1) + bytes(14)
    content = riff(
        (b"LIST", b"odd"), form(0xFFFE, extra=extra), (b"fact", bytes(4)), (b"data", struct.pack("<h", 8192))
    )
    (tmp_path / "x.wav").write_bytes(content)
    assert read_sound(tmp_path / "x.wav").tolist() == [0.25]


def test_a_recording_that_was_cut_off_is_read_as_far_as_it_goes(tmp_path):
    path = write(tmp_path / "x.wav", tone(RATE)[:, None])
    path.write_bytes(path.read_bytes()[:-1001])
    assert len(read_sound(path)) == 8000 - 501


@pytest.mark.parametrize(
    "content, words",
    [
        (b"", "is no WAV file"),
        (b"ID3 some music", "is no WAV file"),
        (riff(), "holds no samples"),
        (riff((b"data", bytes(8))), "before it says how"),
        (riff((b"fmt ", bytes(8)), (b"data", bytes(8))), "how its samples are written"),
        (riff(form(3, bits=32), (b"data", bytes(8))), "format 3 with 32 bits"),
        (riff(form(bits=12), (b"data", bytes(8))), "12 bits"),
        (riff(form(channels=6), (b"data", bytes(12))), "6 channels"),
        (riff(form(rate=0), (b"data", bytes(8))), "1 channels of 0 samples"),
        (riff(form(), (b"data", b"")), "holds no sound"),
    ],
)
def test_what_is_no_sound(tmp_path, content, words):
    (tmp_path / "x.wav").write_bytes(content)
    with pytest.raises(WeightsError, match=words) as caught:
        read_sound(tmp_path / "x.wav")
    assert "\n" not in str(caught.value)


def test_no_mutant_does_worse_than_an_error(tmp_path):
    path = write(tmp_path / "x.wav", tone(RATE, 0.01)[:, None])
    good, rng = path.read_bytes(), np.random.default_rng(0)
    for _ in range(500):
        bad = bytearray(good[: rng.integers(len(good)) if rng.random() < 0.3 else None])
        for _ in range(rng.integers(1, 4)):
            if bad:
                bad[rng.integers(min(len(bad), 48))] = rng.integers(256)
        path.write_bytes(bad)
        try:
            read_sound(path)
        except WeightsError:
            continue


# ------------------------------------------------------------------------------------------------------------ windows


def test_long_sound_is_cut_in_pauses_and_nothing_is_lost():
    rng = np.random.default_rng(0)
    samples = rng.standard_normal(75 * RATE).astype(np.float32)
    samples[27 * RATE : 28 * RATE] = 0
    found = list(speech.windows(samples))
    starts = [start for start, _ in found]
    assert starts[0] == 0 and 27 * RATE < starts[1] < 28 * RATE and len(found) == 3
    ends = [*starts[1:], len(samples)]
    for (start, window), end in zip(found, ends, strict=True):
        assert len(window) == speech.WINDOW and (25 * RATE <= end - start <= 30 * RATE or end == len(samples))
        assert np.array_equal(window[: end - start], samples[start:end]) and not window[end - start :].any()


@pytest.mark.parametrize("seconds", [0.1, 29.99, 30])
def test_short_sound_is_one_window(seconds):
    samples = np.ones(int(seconds * RATE), np.float32)
    ((start, window),) = speech.windows(samples)
    assert start == 0 and window.sum() == len(samples)
