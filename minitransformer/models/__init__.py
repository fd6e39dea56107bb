"""The four models, built from one encoder layer and one decoder layer."""

from typing import Any

from minitransformer.config import PRESETS
from minitransformer.models.base import Model
from minitransformer.models.bert import Bert
from minitransformer.models.classifier import Classifier
from minitransformer.models.language_model import LanguageModel
from minitransformer.models.translator import Translator

MODELS: dict[str, type[Model]] = {model.__name__: model for model in (LanguageModel, Classifier, Translator, Bert)}

__all__ = ["MODELS", "Bert", "Classifier", "LanguageModel", "Model", "Translator", "build"]


def build(preset: str, head: str = "lm", **settings: Any) -> Model:
    """The model of that name, "lab", "lab-translator" or "base"; settings override its own (seed=None: to count)."""
    if preset not in PRESETS:
        raise ValueError(f"no preset is called {preset!r}; there are: {', '.join(PRESETS)}")
    if head not in PRESETS[preset]:
        raise ValueError(f"preset {preset!r} has no head {head!r}, only: {', '.join(PRESETS[preset])}")
    kind, config = PRESETS[preset][head]
    return MODELS[kind](config, **settings)
