"""What is measured: the sizes, the arithmetic they imply, and the ratio we mean to reach."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from minitransformer.config import BASE, LAB, LAB_TRANSLATOR, LLAMA, Config


@dataclass(frozen=True)
class Case:
    """One line of the benchmark. `kind` names the function in ours.py and torch_peer.py that builds the work."""

    name: str
    title: str
    kind: str
    sizes: dict[str, Any] = field(default_factory=dict)
    target: float | None = None  # PyTorch's time / ours
    rounds: int = 7
    repeats: int = 1  # units of work timed in a round
    flops: Callable[[dict], float] | None = None  # matrix products of one unit of work
    peers: tuple[str, ...] = ("torch",)


def step_flops(s: dict) -> float:
    """Products of one training step of the labs' model: forward 2 flops a weight and token, backward twice that."""
    d, f, layers = LAB.d_model, LAB.d_ff, LAB.n_layers
    tokens, T = s["B"] * s["T"], s["T"]
    assert LAB.vocab_size is not None
    weights = layers * (4 * d * d + 2 * d * f) + d * LAB.vocab_size
    attention = layers * s["B"] * (T * (T + 1) / 2) * d * (4 + 10)
    return 6 * tokens * weights + attention


def classifier_flops(s: dict) -> float:
    """The same without the vocabulary. Only one position of a row is read, so the last layer needs no more than the
    keys and values of the others."""
    d, f, layers = LAB.d_model, LAB.d_ff, LAB.n_layers - 1
    weights = layers * (4 * d * d + 2 * d * f) + 2 * d * d
    attention = layers * s["B"] * (s["T"] * (s["T"] + 1) / 2) * d * (4 + 10)
    return 6 * s["B"] * s["T"] * weights + attention


def translator_flops(s: dict) -> float:
    """The same for an encoder-decoder with source and target of T words."""
    m = s["model"]
    d, f, n = m.d_model, m.d_ff, s["B"] * s["T"]
    encoder, decoder = m.n_encoder * (4 * d * d + 2 * d * f), m.n_decoder * (8 * d * d + 2 * d * f)
    pairs = m.n_encoder + m.n_decoder * 1.5  # full, half (causal) and full (cross) squares of T × T
    return 6 * n * (encoder + decoder + d * m.target_vocab) + pairs * s["B"] * s["T"] ** 2 * d * 14


def llama_flops(s: dict) -> float:
    """The same for a Llama-type model: keys and values of G heads, three matrices in a feed-forward layer."""
    m = s["model"]
    C, tokens = m.d_model, s["B"] * s["T"]
    weights = m.n_layers * (2 * C * C + 2 * C * C * m.n_kv_heads // m.n_heads + 3 * C * m.d_ff) + C * m.vocab_size
    attention = m.n_layers * s["B"] * (s["T"] * (s["T"] + 1) / 2) * C * 14
    return 6 * tokens * weights + attention


def encoder_flops(s: dict) -> float:
    """Products of MiniLM's encoder, forward only; every word sees all others."""
    C, tokens = MINILM.d_model, s["B"] * s["T"]
    return MINILM.n_layers * (2 * tokens * (4 * C * C + 2 * C * MINILM.d_ff) + s["B"] * s["T"] ** 2 * C * 4)


def attention_flops(s: dict) -> float:
    return s["B"] * s["H"] * s["T"] * (s["T"] + 1) / 2 * s["D"] * 14


def _attention(B: int, H: int, T: int, D: int, target: float, rounds: int, repeats: int) -> Case:
    sizes = {"B": B, "H": H, "T": T, "D": D}
    title = f"attention, causal, forward + backward, ({B}, {H}, {T}, {D})"
    return Case(f"attention-{T}", title, "attention", sizes, target, rounds, repeats, attention_flops)


def _layer_norm(N: int, C: int, repeats: int) -> Case:
    return Case(
        f"layer-norm-{C}",
        f"layer norm, forward + backward, {N} × {C}",
        "layer_norm",
        {"N": N, "C": C},
        1.2,
        15,
        repeats,
    )


def _rms_norm(N: int, C: int, repeats: int) -> Case:
    title = f"RMS norm, forward + backward, {N} × {C}"
    return Case(f"rms-norm-{C}", title, "rms_norm", {"N": N, "C": C}, 1.2, 15, repeats)


def _rotary(B: int, H: int, T: int, D: int, repeats: int) -> Case:
    """As many numbers as a norm has."""
    sizes = {"B": B, "H": H, "T": T, "D": D}
    title = f"rotary positions, forward + backward, ({B}, {H}, {T}, {D})"
    return Case(f"rotary-{H * D}", title, "rotary", sizes, 1.2, 15, repeats)


def _encoder(B: int, T: int, target: float, rounds: int, repeats: int) -> Case:
    title = f"MiniLM's encoder, inference, {B} × {T} words"
    sizes = {"B": B, "T": T}
    return Case(f"encoder-{B}x{T}", title, "encoder", sizes, target, rounds, repeats, encoder_flops, ("torch", "onnx"))


MINILM = Config.of(
    "Bert", vocab_size=30522, d_model=384, n_heads=12, n_layers=6, d_ff=1536, max_len=512, norm_eps=1e-12, heads="none"
)
DEEP = replace(LAB, vocab_size=5000, n_layers=12)  # of a step's memory, activations are the most
SMALL = replace(LAB, vocab_size=255, d_model=64, n_heads=4, n_layers=2, d_ff=128, max_len=32)  # as lessons train

LLAMA_STEP = replace(
    LLAMA, vocab_size=32000, d_model=512, n_heads=8, n_kv_heads=2, n_layers=4, d_ff=1376, max_len=256,
    rotary_base=10000.0,
)  # fmt: skip

_CASES = [
    Case("lm", "labs' language model, training step, 8 × 256", "language_model", {"B": 8, "T": 256, "model": LAB}, 2.0,
         7, 1, step_flops, ("torch", "compiled")),
    Case("lm-padded", "the same, 16 reviews of different lengths, padded", "padded_language_model", {"B": 16}, 2.5, 5),
    Case("classifier", "labs' classifier, training step, 8 × 256, clip 0.5", "classifier",
         {"B": 8, "T": 256, "classes": 2}, 1.5, 7, 4, classifier_flops),
    Case("translator", "labs' translator, training step, 64 pairs of 24 words", "translator",
         {"B": 64, "T": 24, "model": LAB_TRANSLATOR}, 1.3, 7, 3, translator_flops),
    Case("base", "the paper's base model (65 M), training step, 4 × 128", "translator",
         {"B": 4, "T": 128, "model": BASE}, 1.2, 5, 1, translator_flops),
    Case("llama", "Llama-type model (width 512, 8 heads on 2, 4 layers), training step, 8 × 256", "llama",
         {"B": 8, "T": 256, "model": LLAMA_STEP}, 1.3, 5, 1, llama_flops),
    Case("deep", "12 layers of the labs' width, 5,000 words, training step, 8 × 256", "language_model",
         {"B": 8, "T": 256, "model": DEEP}, 1.2, 5),
    Case("recompute", "the same, each layer computed again in backward (PyTorch: checkpoint)", "language_model",
         {"B": 8, "T": 256, "model": DEEP, "recompute": True}, 1.2, 5),
    _attention(8, 2, 256, 100, 1.2, 11, 10),
    _attention(8, 2, 512, 100, 1.2, 11, 4),
    _attention(16, 4, 24, 64, 1.2, 15, 40),
    _attention(1, 8, 2048, 64, 1.0, 7, 1),
    _attention(1, 8, 4096, 64, 1.0, 5, 1),
    Case("attention-grouped", "attention, causal, forward + backward, 8 heads on 2, (1, 8, 2048, 64)", "attention",
         {"B": 1, "H": 8, "G": 2, "T": 2048, "D": 64}, 1.0, 7, 1, attention_flops),
    _layer_norm(2048, 200, 50),
    _layer_norm(4096, 512, 20),
    _layer_norm(8192, 1024, 5),
    _rms_norm(2048, 200, 50),
    _rms_norm(4096, 512, 20),
    _rms_norm(8192, 1024, 5),
    _rotary(8, 2, 256, 100, 50),
    _rotary(8, 8, 512, 64, 20),
    _rotary(8, 16, 1024, 64, 5),
    Case("adam", "Adam, 11 million parameters", "adam", {"N": 11_000_000}, 1.0, 11, 10),
    _encoder(1, 16, 1.2, 15, 20),
    _encoder(1, 128, 1.2, 11, 8),
    _encoder(32, 128, 1.2, 5, 1),
    _encoder(8, 512, 1.0, 5, 1),
    Case("small", "small language model (width 64, 2 layers), training step, 16 × 32, clip 1", "language_model",
         {"B": 16, "T": 32, "model": SMALL, "clip": 1.0}, 2.0, 15, 20),
    Case("generate-8", "labs' model writes 8 texts of 200 words, one word at a time, cached", "generate",
         {"B": 8, "words": 200}, 2.5, 5),
    Case("generate", "labs' model writes 200 words, one at a time, cached", "generate", {"B": 1, "words": 200}, 2.5, 5),
]  # fmt: skip
CASES = {case.name: case for case in _CASES}
# What tells most in two minutes: a whole step, large and small, its largest parts, reading and writing
QUICK = ("lm", "small", "attention-256", "layer-norm-200", "adam", "encoder-1x16", "encoder-1x128", "generate")
