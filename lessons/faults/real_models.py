"""Real weights in an engine that uses them otherwise than they were trained."""

import numpy as np

import autograd.functional as F
from autograd import Tensor
from lessons.harness.engine import Engine
from minitransformer import Translator, layers
from minitransformer.models.base import TokenEmbedding
from minitransformer.positions import Positions
from minitransformer.pretrained import speech
from minitransformer.pretrained.families.whisper import Whisper


def words_off_by_one(engine: Engine) -> None:
    """the table of words is read one row too low: every word gets its neighbour's vector"""

    def change(forward):
        return lambda self, ids, *rest: forward(self, np.minimum(np.asarray(ids) + 1, self.vocab_size - 1), *rest)

    engine.replace(TokenEmbedding, "forward", change)


def words_alone(engine: Engine) -> None:
    """attention hands each word its own value: nobody looks at anybody"""
    engine.replace(F, "attention", lambda _: lambda q, k, v, **options: v)


def layers_idle(engine: Engine) -> None:
    """the layers hand on what they are given"""
    engine.replace(layers.EncoderLayer, "forward", lambda _: lambda self, x, *arguments, **options: x)


def places_off(engine: Engine) -> None:
    """the vectors of the places are zero: no word knows where it stands"""
    engine.replace(Positions, "forward", lambda forward: lambda self, *rest: forward(self, *rest) * 0.0)


def heads_dealt_out(engine: Engine) -> None:
    """a head gets every twelfth column of queries, keys and values instead of a block of neighbours"""

    def change(project):
        def dealt(self, x, first, last):
            found = []
            for part in project(self, x, first, last):  # (B, H, T, D)
                B, H, T, D = part.shape
                whole = part.transpose(0, 2, 1, 3).reshape(B, T, D, H)
                found.append(whole.transpose(0, 3, 1, 2))
            return found

        return dealt

    engine.replace(layers.MultiheadAttention, "_project", change)


def keys_of_another_head(engine: Engine) -> None:
    """each head is shown the keys of the next one"""

    def change(project):
        def turned(self, x, first, last):
            parts = list(project(self, x, first, last))
            if (first, last) == (0, 3):
                parts[1] = parts[1][:, np.roll(np.arange(self.num_heads), -1)]
            return parts

        return turned

    engine.replace(layers.MultiheadAttention, "_project", change)


def questions_as_keys(engine: Engine) -> None:
    """queries and keys change places: who is asked asks"""
    engine.replace(F, "attention", lambda attend: lambda q, k, v, **options: attend(k, q, v, **options))


def eps_of_pytorch(engine: Engine) -> None:
    """layer norm takes 1e-5, PyTorch's usual eps, whatever the file says"""
    engine.replace(F, "layer_norm", lambda norm: lambda x, weight, bias, eps=1e-5: norm(x, weight, bias, 1e-5))


def eps_forgotten(engine: Engine) -> None:
    """layer norm takes 1e-12, whatever it is told"""
    engine.replace(F, "layer_norm", lambda norm: lambda x, weight, bias, eps=1e-5: norm(x, weight, bias, 1e-12))


def eps_outside_the_root(engine: Engine) -> None:
    """eps is added to the standard deviation, not to the variance below the root"""

    def norm(x, weight, bias, eps=1e-5):
        off = x - x.mean(axis=-1, keepdims=True)
        return off / ((off * off).mean(axis=-1, keepdims=True).sqrt() + eps) * weight + bias

    engine.replace(F, "layer_norm", lambda _: norm)


def sound_unheard(engine: Engine) -> None:
    """the decoder is given silence, whatever was said"""
    engine.replace(Whisper, "encode", lambda encode: lambda self, *source: encode(self, *source) * 0.0)


def sound_backwards(engine: Engine) -> None:
    """the places of the sound are handed to the decoder from the last to the first"""
    engine.replace(Whisper, "encode", lambda encode: lambda self, *source: encode(self, *source)[:, ::-1])


def sound_places_off(engine: Engine) -> None:
    """the vectors of the moments are not added to the sound: no moment knows when it was"""

    def change(encode):
        def run(self, *source):
            kept = self.places
            self.places = kept * 0.0
            try:
                return encode(self, *source)
            finally:
                self.places = kept

        return run

    engine.replace(Whisper, "encode", change)


def no_window(engine: Engine) -> None:
    """the 25 milliseconds under a column are cut out sharply, without fading in and out"""
    engine.replace(speech.np, "hanning", lambda _: lambda n: np.ones(n))


def half_the_rate(engine: Engine) -> None:
    """the sound is read as if it had half as many samples a second"""

    def change(spectrogram):
        return lambda samples, filters: spectrogram(np.repeat(samples, 2), filters)

    engine.replace(speech, "spectrogram", change)


def bands_upside_down(engine: Engine) -> None:
    """the lowest band stands where the highest belongs"""

    def change(spectrogram):
        return lambda samples, filters: spectrogram(samples, filters)[:, ::-1]

    engine.replace(speech, "spectrogram", change)


def moments_numbered(engine: Engine) -> None:
    """the decoder adds a number to each moment of the sound, in the order in which it is handed over"""

    def change(decode):
        def run(self, target, memory, *rest, **options):
            numbers = np.linspace(-1, 1, memory.shape[1], dtype=memory.dtype)[None, :, None]
            return decode(self, target, memory + Tensor(numbers), *rest, **options)

        return run

    engine.replace(Translator, "decode", change)


def late_moments_fade(engine: Engine) -> None:
    """attention counts what comes late in the sound less"""

    def change(attention):
        def run(q, k, v, **options):
            if k.shape[2] > q.shape[2]:  # to the source
                v = v * Tensor(np.linspace(1.0, 0.0, k.shape[2], dtype=v.dtype)[:, None])
            return attention(q, k, v, **options)

        return run

    engine.replace(F, "attention", change)
