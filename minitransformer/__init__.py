"""minitransformer: layers, models, text, training and decoding, on the engine of `autograd` and `kernels`."""

import importlib

PROJECT = "minitransformer"
__version__ = "0.2.0"


def refuse_foreign(name: str) -> None:
    """Other projects on PyPI are called `autograd` and `kernels` too; with one of them nothing here would work."""
    module = importlib.import_module(name)
    if getattr(module, "PROJECT", None) != PROJECT:
        raise ImportError(
            f"the package {name!r} that Python found ({getattr(module, '__file__', None) or 'no file'}) is not "
            f"minitransformer's: another project of that name is installed or lies first on the path. "
            f"Install minitransformer in an environment of its own (make does), or: pip uninstall {name}"
        )


refuse_foreign("kernels")
refuse_foreign("autograd")

from minitransformer.config import Config  # noqa: E402
from minitransformer.models import Bert, Classifier, LanguageModel, Translator  # noqa: E402 - after the check above
from minitransformer.positions import positional_encoding  # noqa: E402

__all__ = ["Bert", "Classifier", "Config", "LanguageModel", "Translator", "positional_encoding"]
