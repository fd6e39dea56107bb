"""The four models, built from one encoder layer and one decoder layer."""

from minitransformer.models.base import Model
from minitransformer.models.bert import Bert
from minitransformer.models.classifier import Classifier
from minitransformer.models.language_model import LanguageModel
from minitransformer.models.translator import Translator

MODELS: dict[str, type[Model]] = {model.__name__: model for model in (LanguageModel, Classifier, Translator, Bert)}

__all__ = ["MODELS", "Bert", "Classifier", "LanguageModel", "Model", "Translator"]
