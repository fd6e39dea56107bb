"""What the commands that use models of others have in common."""

from __future__ import annotations

import os
import sys
from typing import Any

from minitransformer.errors import UserError, excerpt
from minitransformer.pretrained.fetch import fetch
from minitransformer.pretrained.known import KNOWN

SOURCES = "a name that `minitransformer models` lists, a folder of Hugging Face's files, or a GGUF file"


def is_borrowed(source: str) -> bool:
    """Whether this names a model of others, rather than a run of ours."""
    if os.path.exists(source):
        return source.endswith(".gguf") or os.path.isfile(os.path.join(source, "config.json"))
    return source.partition("/")[0] in KNOWN


def borrow(source: str, able: str, advice: str) -> tuple[Any, Any]:
    """A model and its tokenizer; `able` is the method that a fitting model has, and `advice` names one."""
    from minitransformer.pretrained import load

    first = source.partition("/")[0]
    if not os.path.exists(source) and first in KNOWN:
        fetch(first)  # with its progress, before anything else is said
    print(f"loading {source} ...", file=sys.stderr, flush=True)
    model, tokenizer = load(source)
    if not hasattr(model, able):
        raise UserError(f"{excerpt(source)} is a {type(model).__name__}, which cannot do this; {advice}")
    if tokenizer is None:
        raise UserError(f"{excerpt(source)} comes without a tokenizer, so it cannot read text; {advice}")
    return model, tokenizer
