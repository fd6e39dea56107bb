"""From argparse's Namespace to a dataclass, whose fields a type checker knows."""

from __future__ import annotations

import argparse
from dataclasses import dataclass, fields
from typing import Any, TypeVar

AnyOptions = TypeVar("AnyOptions")


@dataclass(frozen=True)
class JsonOptions:
    """Of the commands that print a table, or the same as JSON."""

    json: bool = False


def named(kind: type, arguments: argparse.Namespace) -> dict[str, Any]:
    """Of the arguments those that have the name of a field of this dataclass, and a value."""
    names = {one.name for one in fields(kind)}
    return {name: value for name, value in vars(arguments).items() if name in names and value is not None}


def options_of(kind: type[AnyOptions], arguments: argparse.Namespace) -> AnyOptions:
    """The dataclass with what the user gave; the rest has its defaults."""
    return kind(**named(kind, arguments))
