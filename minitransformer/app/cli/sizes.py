"""The flags that say what a model is, made from the fields of Config."""

from __future__ import annotations

import argparse
import re
from dataclasses import fields
from typing import Any

from minitransformer.app.cli import numbers
from minitransformer.config import Config, field_named

STACKS = ("n_encoder", "n_decoder")  # a translator's, whose layers --n-layers counts alike
_LETTER = re.compile(r"([A-Z]): (.*)")  # help that begins with the size's letter in the legend of shapes


def add_sizes(parser: argparse.ArgumentParser, *kinds: str) -> None:
    """A flag for each setting of these kinds of models that a user may choose."""
    group = parser.add_argument_group("sizes of the model")
    for one in fields(Config):
        about = one.metadata
        both = one.name == "n_layers" and "Translator" in kinds
        if not about["flags"] or not (both or set(kinds) & set(about["models"])):
            continue
        shown, *former = about["flags"]
        how = _how(one.name)
        if both:
            how["help"] += ", of a translator those of each side"
        group.add_argument(shown, dest=one.name, default=None, **how)
        for name in former:
            group.add_argument(name, dest=one.name, default=None, **how | {"help": argparse.SUPPRESS})


def _how(name: str) -> dict[str, Any]:
    """The options of argparse for a setting."""
    about, default = field_named(name).metadata, field_named(name).default
    letter, text = match.groups() if (match := _LETTER.fullmatch(about["help"])) else ("N", about["help"])
    if about["among"]:
        return {"choices": about["among"], "help": text}
    if isinstance(default, bool):
        return {"action": argparse.BooleanOptionalAction, "help": text}
    if about["size"] or name == "n_kv_heads":
        return {"type": numbers.at_least_one, "metavar": letter, "help": text}
    if name == "dropout":
        return {"type": numbers.below_one, "metavar": "P", "help": text}
    return {"type": numbers.positive, "metavar": "X", "help": text}


def given_sizes(arguments: argparse.Namespace, kind: str) -> dict[str, Any]:
    """The settings that the user gave; --n-layers is for both stacks of a translator."""
    names = [one.name for one in fields(Config) if one.metadata["flags"]]
    given = {name: value for name in names if (value := vars(arguments).get(name)) is not None}
    if kind == "Translator" and (layers := given.pop("n_layers", None)) is not None:
        given = dict.fromkeys(STACKS, layers) | given
    return given
