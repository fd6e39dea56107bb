"""Whisper hears a window of 30 seconds and writes, beside PyTorch (the model of `transformers`) and CTranslate2 with
the same weights, where they are installed.

All have as many threads as Numba, the same sound (noise: it takes as long as speech), float32, and write WORDS pieces,
the likeliest each time; none may end before. The first part is the encoder, the second the decoder word by word. What
comes before, the spectrogram, is no part of it."""

import importlib.util
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import kernels
from minitransformer.app.bench.two_parts import Run, serve

WORDS, ROUNDS = 100, 5
GET_PEERS = 'pip install "torch>=2.4" transformers; pip install ctranslate2'
PACKAGES = {"torch": ("torch", "transformers"), "ctranslate2": ("ctranslate2",)}


def sides() -> list[str]:
    """Those that can run here."""
    found = [name for name, needed in PACKAGES.items() if all(importlib.util.find_spec(one) for one in needed)]
    return ["ours", *found]


def _model() -> tuple[Any, dict[str, int], list[int], int]:
    """The model, its marks, those that its text begins with, and the one that would end it."""
    from minitransformer.pretrained import load

    model, pieces = load("whisper")
    marks: dict[str, int] = pieces.special
    end, *start = (marks[f"<|{name}|>"] for name in ("endoftext", "startoftranscript", "notimestamps"))
    return model, marks, start, end


def _sound() -> np.ndarray:
    """A spectrogram.   → (1, 3000, 80)"""
    return np.random.default_rng(0).standard_normal((1, 3000, 80), dtype=np.float32)


Parts = tuple[Callable[[], Any], Callable[[Any], list[int]]]


def ours(_threads: int) -> Parts:
    """Two functions, as every side has them: one that hears, one that writes what was heard."""
    from minitransformer.decoding import Session

    model, _, start, end = _model()
    sound = _sound()

    def write(session: Session) -> list[int]:
        for _ in range(WORDS):
            scores = session.next_scores()[0]
            scores[end] = -np.inf
            session.append([int(scores.argmax())])
        return session.new_words(0)

    return lambda: Session(model, sound, max_new_tokens=WORDS, sos=start), write


def in_pytorch(threads: int) -> Parts:
    import torch
    from transformers import WhisperForConditionalGeneration

    from minitransformer.pretrained.loading import save_pretrained

    torch.set_num_threads(threads)
    with kernels.use("numpy"), tempfile.TemporaryDirectory() as folder:  # no Numba in a peer's process
        model, _, start, end = _model()
        save_pretrained(model, folder)
        whisper: Any = WhisperForConditionalGeneration.from_pretrained(folder).eval()
    sound = torch.from_numpy(_sound()).transpose(1, 2).contiguous()

    @torch.inference_mode()
    def write(heard: Any) -> list[int]:
        words, ids, kept = [], torch.tensor([start]), None
        for _ in range(WORDS):
            step = whisper(encoder_outputs=heard, decoder_input_ids=ids, past_key_values=kept, use_cache=True)
            scores, kept = step.logits[0, -1], step.past_key_values
            scores[end] = -torch.inf
            words.append(int(scores.argmax()))
            ids = torch.tensor([words[-1:]])
        return words

    return torch.inference_mode()(lambda: whisper.model.encoder(sound)), write


def in_ctranslate2(threads: int) -> Parts:
    import ctranslate2

    with kernels.use("numpy"), tempfile.TemporaryDirectory() as folder:
        model, marks, start, end = _model()
        _specification(model, marks).save(folder)
        whisper = ctranslate2.models.Whisper(folder, device="cpu", compute_type="float32", intra_threads=threads)
    sound = ctranslate2.StorageView.from_array(np.ascontiguousarray(_sound().transpose(0, 2, 1)))
    # it writes half of max_length at most
    options = {"beam_size": 1, "max_length": 2 * WORDS, "suppress_blank": False, "suppress_tokens": [end]}
    return lambda: whisper.encode(sound), lambda heard: whisper.generate(heard, [start], **options)[0].sequences_ids[0]


def _specification(model: Any, marks: dict[str, int]) -> Any:
    """Our weights under CTranslate2's names."""
    import ctranslate2

    config, C, state = model.config, model.config.d_model, model.state_dict()
    sizes = config.n_encoder, config.n_heads, config.n_decoder, config.n_heads
    made = ctranslate2.specs.WhisperSpec(*sizes)

    def fill(place: Any, name: str, rows: slice = slice(None)) -> None:
        place.weight, place.bias = state[f"{name}.weight"][rows], state[f"{name}.bias"][rows]

    def fill_norm(place: Any, name: str) -> None:
        place.gamma, place.beta = state[f"{name}.weight"], state[f"{name}.bias"]

    def fill_attention(place: Any, name: str, cuts: list[slice]) -> None:
        for linear, rows in zip(place.linear, cuts, strict=False):
            linear.weight, linear.bias = state[f"{name}.in_proj_weight"][rows], state[f"{name}.in_proj_bias"][rows]
        fill(place.linear[-1], f"{name}.out_proj")

    for conv in ("conv1", "conv2"):
        place, matrix = getattr(made.encoder, conv), state[f"{conv}.weight"]
        place.weight = np.ascontiguousarray(matrix.reshape(len(matrix), 3, -1).transpose(0, 2, 1))
        place.bias = state[f"{conv}.bias"]
    made.encoder.position_encodings.encodings = state["places"]
    made.decoder.position_encodings.encodings = state["target_embedding.positions.weight"]
    made.decoder.embeddings.weight = made.decoder.projection.weight = state["target_embedding.weight"]
    for side, parts in (("encoder", made.encoder), ("decoder", made.decoder)):
        fill_norm(parts.layer_norm, f"{side}.norm")
        for i, layer in enumerate(parts.layer):
            name = f"{side}.layers.{i}"
            fill_attention(layer.self_attention, f"{name}.self_attn", [slice(None)])
            fill_norm(layer.self_attention.layer_norm, f"{name}.norm1")
            if side == "decoder":
                fill_attention(layer.attention, f"{name}.multihead_attn", [slice(C), slice(C, None)])
                fill_norm(layer.attention.layer_norm, f"{name}.norm2")
            fill_norm(layer.ffn.layer_norm, f"{name}.norm{2 if side == 'encoder' else 3}")
            fill(layer.ffn.linear_0, f"{name}.linear1")
            fill(layer.ffn.linear_1, f"{name}.linear2")
    names = {number: name for name, number in marks.items()}  # it looks for some of them
    made.register_vocabulary([names.get(i, str(i)) for i in range(config.target_vocab)])
    made.validate()
    made.optimize(quantization="float32")
    return made


SIDES = {"ours": ours, "torch": in_pytorch, "ctranslate2": in_ctranslate2}


def _run(hear: Callable[[], Any], write: Callable[[Any], list[int]]) -> Run:
    def run() -> tuple[float, float]:
        start = time.perf_counter()
        heard = hear()
        between = time.perf_counter()
        write(heard)
        return between - start, time.perf_counter() - between

    return run


if __name__ == "__main__":
    serve(_run(*SIDES[sys.argv[1]](int(sys.argv[2]))))
