"""A small model of every family with random weights: none of its sizes equals another, so that a mix-up shows."""

import numpy as np

from minitransformer.models import Bert, LanguageModel
from minitransformer.pretrained.families import bart, bert, gpt2, llama, whisper

V, C, H, G, F, L = 31, 24, 4, 2, 20, 2
STACK = {"vocab_size": V, "d_model": C, "n_heads": H, "n_layers": L, "d_ff": F, "max_len": 12}
PAIR = {"target_vocab": V, "d_model": C, "n_heads": H, "n_encoder": 2, "n_decoder": 1, "d_ff": F, "max_len": 12}

MAKERS = {
    "bert": lambda **more: Bert(**STACK, **bert.BLOCK, activation="gelu", norm_eps=1e-12, heads="none", **more),
    "bert-heads": lambda **more: Bert(**STACK, **bert.BLOCK, activation="gelu", norm_eps=1e-12, heads="deep", **more),
    "gpt2": lambda **more: LanguageModel(**STACK, **gpt2.BLOCK, activation="gelu_tanh", tie_weights=True, **more),
    "gpt2-untied": lambda **more: LanguageModel(**STACK, **gpt2.BLOCK, activation="gelu", tie_weights=False, **more),
    "llama": lambda **more: LanguageModel(**STACK, **llama.BLOCK, tie_weights=False, norm_eps=1e-6, **more),
    "llama-grouped": lambda **more: LanguageModel(
        **STACK, **llama.BLOCK, n_kv_heads=G, tie_weights=True, rotary_base=500.0, **more
    ),
    "whisper": lambda **more: whisper.Whisper(**PAIR, **whisper.BLOCK, mels=5, places=7, **more),
    "bart": lambda **more: bart.Bart(source_vocab=V, **PAIR, **bart.BLOCK, activation="gelu", **more),
}
IDS = np.random.default_rng(0).integers(4, V, (3, 7))
TARGET = np.random.default_rng(1).integers(4, V, (3, 5))
SOUND = np.random.default_rng(2).standard_normal((3, 14, 5))


def small(name: str, **more):
    """The model; no weight is 0 or 1 as at the start, where a mistake would not show."""
    model = MAKERS[name](**more).eval()
    rng = np.random.default_rng(7)
    state = {one: 0.3 * rng.standard_normal(array.shape) for one, array in model.state_dict().items()}
    if name == "whisper":  # it has no bias of the keys
        for one in state:
            if one.endswith("in_proj_bias"):
                state[one][C : 2 * C] = 0
    model.load_state_dict(state)
    return model


def outputs(model) -> list:
    """What a model answers to fixed input, as tensors."""
    if isinstance(model, whisper.Whisper):
        return [model(SOUND, TARGET)]
    if isinstance(model, bart.Bart):
        return [model(IDS, TARGET)]
    if isinstance(model, Bert):
        segments = np.arange(7) // 4 + np.zeros_like(IDS)
        return list(model(IDS, segments)) if model.config.heads == "deep" else [model.hidden(IDS, segments)]
    return [model(IDS)]
