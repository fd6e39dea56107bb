"""minitransformer: layers, models, text, training and decoding, on the engine of `autograd` and `kernels`."""

from __future__ import annotations

import importlib
import importlib.util
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from minitransformer.config import Config
    from minitransformer.models import Bert, Classifier, LanguageModel, Translator
    from minitransformer.positions import positional_encoding

PROJECT = "minitransformer"
__version__ = "0.2.0"
__all__ = ["Bert", "Classifier", "Config", "LanguageModel", "Translator", "positional_encoding"]


def refuse_foreign(name: str) -> None:
    """Other projects on PyPI are called `autograd` and `kernels` too; with one of them nothing here would work."""
    found = importlib.util.find_spec(name)
    file = (found and found.origin) or "no file"
    try:
        with open(file, encoding="utf-8") as source:  # it is read and not run: that would load NumPy
            ours = f'\nPROJECT = "{PROJECT}"' in source.read()
    except (OSError, UnicodeDecodeError):
        ours = False
    if not ours:
        raise ImportError(
            f"the package {name!r} that Python found ({file}) is not "
            f"minitransformer's: another project of that name is installed or lies first on the path. "
            f"Install minitransformer in an environment of its own (make does), or: pip uninstall {name}"
        )


refuse_foreign("kernels")
refuse_foreign("autograd")

_HOMES = {"Config": "config", "positional_encoding": "positions"}  # of the names above; the others are models


def __getattr__(name: str) -> Any:
    """Loaded when it is first asked for: NumPy takes a fifth of a second, and on several ranks someone has to watch
    over them before that (app/cli/start.py)."""
    if name in __all__:
        return getattr(importlib.import_module(f"minitransformer.{_HOMES.get(name, 'models')}"), name)
    if not name.startswith("_") and importlib.util.find_spec(f"minitransformer.{name}"):
        return importlib.import_module(f"minitransformer.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
