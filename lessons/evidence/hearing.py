"""What lesson 18 measures: pictures of sound, what Whisper writes, and where its decoder looks while it writes.

Rounding of a shuffled memory. Attention sums 1,500 values by their weights; in another order a float32 sum of n terms
differs by at most n eps of the sum of their sizes, here 1,500 * 6e-8 = 9e-5 of it (in the engine's blocks far less). So
scores of words, of size 20, may differ by 2e-3 for one layer, by 8e-3 for four."""

import numpy as np

from autograd import Tensor, no_grad
from minitransformer.layers import MultiheadAttention
from minitransformer.pretrained import load, speech
from minitransformer.pretrained.fetch import fetch
from minitransformer.pretrained.sound_file import RATE, read_sound

PLACE = 0.02  # seconds between the places that the decoder looks at: two columns of the picture
BETWEEN = 1.2  # seconds: the pause between "go forward" and "ten meters" in the recording
SMOOTH = 9  # places over which a gaze is averaged before its peak is looked for: 0.18 s, shorter than a word


def opened():
    """The model, its tokenizer, the table of bands, and a recording."""
    model, pieces = load("whisper")
    filters = speech.mel_filters(fetch("whisper") / "mel_filters.npz", model.mels)
    return model.eval(), pieces, filters, read_sound(fetch("speech") / "goforward.raw")


# ------------------------------------------------------------------------------------------------- the picture


def tone(hertz, seconds=1.0):
    return 0.5 * np.sin(2 * np.pi * hertz * np.arange(int(seconds * RATE)) / RATE)


def mel(hertz):
    """Pitch as the ear counts it: in steps of 66.7 Hz up to 1,000 Hz, then in steps of 7.1 %."""
    hertz = np.asarray(hertz, dtype=np.float64)
    return np.where(hertz < 1000, 3 * hertz / 200, 15 + 27 * np.log(np.maximum(hertz, 1) / 1000) / np.log(6.4))


def hertz_of(mels):
    return np.where(mels < 15, 200 * mels / 3, 1000 * 6.4 ** ((mels - 15) / 27))


def band_edges(bands=80):
    """Where each band begins, peaks and ends: equal steps for the ear.   → (bands + 2) in Hz"""
    return hertz_of(np.linspace(0, mel(8000), bands + 2))


def bands_by_formula(bands=80):
    """Triangles between the edges, of equal area, at the 201 frequencies of a window.   → (bands, 201)"""
    low, middle, high = (band_edges(bands)[i : bands + i, None] for i in range(3))
    hertz = np.arange(201) * RATE / 400
    return (
        np.maximum(0, np.minimum((hertz - low) / (middle - low), (high - hertz) / (high - middle))) * 2 / (high - low)
    )


def loudness(samples, filters):
    """The power in each band, on average over the columns of the picture, undone from its logarithm.   → (bands)"""
    picture = speech.spectrogram(samples, filters)[5:-5].astype(np.float64)  # the ends are mirrored
    return (10 ** (4 * picture - 4)).mean(axis=0)


def lit(hertz, filters):
    """→ the brightest band of a tone, and the part of its power in that band and its two neighbours"""
    power = loudness(tone(hertz), filters)
    best = int(power.argmax())
    return best, power[max(best - 1, 0) : best + 2].sum() / power.sum()


def expected_bands(hertz):
    """The bands whose triangle holds this frequency: two neighbours, one going down and one going up."""
    edges = band_edges()
    return [band for band in range(80) if edges[band] < hertz < edges[band + 2]]


# ---------------------------------------------------------------------------------------------------- hearing


def window(samples):
    """Samples with silence behind them, 30 seconds in all."""
    return np.pad(samples, (0, speech.WINDOW - len(samples)))


def heard(model, pieces, filters, samples, changed=lambda memory: memory):
    """→ the words written, as pieces of text; where the decoder looked for each (layers, H, words, places); and the
    scores of the words (words, V). changed: what is done to the encoder's output before the decoder sees it"""
    end, start, plain = (pieces.special[f"<|{name}|>"] for name in ("endoftext", "startoftranscript", "notimestamps"))
    marks = [i for i in pieces.special.values() if i != end]
    layers = [part for name, part in model.decoder.named_modules() if isinstance(part, MultiheadAttention)][1::2]
    with no_grad():
        memory = changed(model.encode(speech.spectrogram(window(samples), filters)[None]))
        ids = [start, plain]
        while len(ids) < 40 and ids[-1] != end:
            scores = model.head(model.decode(np.array([ids]), memory)[:, -1:]).numpy()[0, 0].copy()
            scores[marks] = -np.inf
            ids.append(int(scores.argmax()))
        try:
            for layer in layers:
                layer.watched = []
            scores = model.head(model.decode(np.array([ids[:-1]]), memory)).numpy()[0, 1:]
            weights = np.stack([layer.watched[0][0] for layer in layers])[:, :, 1:]
        finally:
            for layer in layers:
                layer.watched = None
    words = [pieces.decode([i]) for i in ids[2:-1]]
    return words, weights[:, :, : len(words)], scores[: len(words)]


def peaks(weights):
    """When each word is looked at most, in seconds: mean over the heads of the last two layers, smoothed.

    weights (layers, H, words, places)"""
    mean = weights[-2:].mean(axis=(0, 1))
    kernel = np.ones(SMOOTH) / SMOOTH
    return np.array([np.convolve(row, kernel, mode="same").argmax() for row in mean]) * PLACE


def later(samples, seconds):
    return np.pad(samples, (round(seconds * RATE), 0))


def halves_swapped(samples):
    """The second half first, a moment of silence, then the first."""
    cut = round(BETWEEN * RATE)
    return np.concatenate([samples[cut:], np.zeros(RATE // 5, samples.dtype), samples[:cut]])


def shuffled(memory, seed=0):
    """The same places in another order.   memory (B, S, C)"""
    order = np.random.default_rng(seed).permutation(memory.shape[1])
    return memory[:, order]


def as_translator(model):
    """The layers of the decoder and the methods that run them, by the classes they come from."""
    return {type(layer).__name__ for layer in model.decoder.layers}, type(model).decode.__qualname__


def cross_attention_by_hand(model, memory, x):
    """The first decoder layer's look at the sound, from its matrices, in float64: four products and a softmax.

    → by hand and by the engine, (1, T, C) each"""
    layer = model.decoder.layers[0].multihead_attn
    C, H = model.config.d_model, model.config.n_heads
    weight, bias = (p.numpy().astype(np.float64) for p in (layer.in_proj_weight, layer.in_proj_bias))
    source, target = memory.numpy().astype(np.float64)[0], x.astype(np.float64)[0]

    def heads(rows, part):
        made = rows @ weight[part * C : (part + 1) * C].T + bias[part * C : (part + 1) * C]
        return made.reshape(len(rows), H, -1).swapaxes(0, 1)

    q, k, v = heads(target, 0), heads(source, 1), heads(source, 2)
    scores = q @ k.swapaxes(1, 2) / np.sqrt(C // H)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    mixed = (weights / weights.sum(axis=-1, keepdims=True) @ v).swapaxes(0, 1).reshape(len(target), C)
    by_hand = mixed @ layer.out_proj.weight.numpy().astype(np.float64).T + layer.out_proj.bias.numpy()
    with no_grad():
        return by_hand, layer(Tensor(x), memory).numpy()[0]
