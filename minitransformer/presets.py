"""Models that others can name: the labs' and the paper's, as constructor arguments."""

from typing import Any

from minitransformer.models import Classifier, LanguageModel, Model, Translator

LAB: dict[str, Any] = {
    "vocab_size": 50001, "d_model": 200, "n_heads": 2, "n_layers": 4, "d_ff": 200, "dropout": 0.0, "max_len": 512,
}  # fmt: skip
LAB_TRANSLATOR: dict[str, Any] = {
    "source_vocab": 5282, "target_vocab": 7460, "d_model": 256, "n_heads": 4, "n_encoder": 2, "n_decoder": 2,
    "d_ff": 512, "dropout": 0.0, "max_len": 24, "scale_embedding": False,
}  # fmt: skip
BASE: dict[str, Any] = {
    "source_vocab": 37000, "target_vocab": 37000, "d_model": 512, "n_heads": 8, "n_encoder": 6, "n_decoder": 6,
    "d_ff": 2048, "dropout": 0.1, "max_len": 1024, "share_embedding": True, "tie_weights": True,
}  # fmt: skip

# preset → head → model and arguments; the first head is the default
PRESETS: dict[str, dict[str, tuple[type[Model], dict[str, Any]]]] = {
    "lab": {"lm": (LanguageModel, LAB), "classifier": (Classifier, LAB | {"n_classes": 2})},
    "base": {"lm": (Translator, BASE)},
    "lab-translator": {"lm": (Translator, LAB_TRANSLATOR)},
}


def build(preset: str, head: str = "lm", **options: Any) -> Model:
    """The model of that name; options override its arguments (seed=None: to count only)."""
    if preset not in PRESETS:
        raise ValueError(f"no preset is called {preset!r}; there are: {', '.join(PRESETS)}")
    if head not in PRESETS[preset]:
        raise ValueError(f"preset {preset!r} has no head {head!r}, only: {', '.join(PRESETS[preset])}")
    model, arguments = PRESETS[preset][head]
    return model(**arguments | options)
