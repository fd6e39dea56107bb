"""What a file says of a model, asked with care: every answer is checked, and what is not known here is refused."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from minitransformer.errors import Path, WeightsError, excerpt

OTHER = "this engine has no such part; choose another model"
DAMAGED = "fetch or copy the file again"
LAYERS = ("n_layers", "n_encoder", "n_decoder")
# the sizes of models with encoder and decoder, ours → theirs; the decoder's heads and width are the encoder's
TWO_SIDES = {
    "target_vocab": "vocab_size", "d_model": "d_model", "n_heads": "encoder_attention_heads",
    "n_encoder": "encoder_layers", "n_decoder": "decoder_layers", "d_ff": "encoder_ffn_dim",
}  # fmt: skip
SECOND_SIDE = {"n_heads": "decoder_attention_heads", "d_ff": "decoder_ffn_dim"}


class Description:
    """config.json, or the entries of a GGUF file."""

    def __init__(self, path: Path, entries: Mapping[str, Any]):
        self.path, self.entries = path, entries

    def get(self, name: str, default: Any = None) -> Any:
        return self.entries.get(name, default)

    def __bool__(self) -> bool:
        return bool(self.entries)

    def part(self, name: str) -> Description:
        """Entries that stand together under one name; none, where there is no such name."""
        entries = self.get(name) or {}
        if not isinstance(entries, dict):
            raise WeightsError(self.path, f"{name} is {excerpt(entries)}, expected names and values", DAMAGED)
        return Description(self.path, entries)

    def size(self, name: str, default: int | None = None, most: int = 2**31 - 1) -> int:
        """A whole number from 1 on."""
        value = self.get(name)
        value = default if value is None else value
        if not isinstance(value, int | np.integer) or isinstance(value, bool) or not 1 <= value <= most:
            expected = f"expected a whole number between 1 and {most:,}"
            raise WeightsError(self.path, f"{name} is {excerpt(value)}, {expected}", DAMAGED)
        return int(value)

    def layers(self, name: str) -> int:
        """The deepest published models have some hundred; a damaged number must not build millions."""
        return self.size(name, most=1000)

    def sizes(self, names: Mapping[str, str]) -> dict[str, int]:
        """Several of them: our name of each → the file's."""
        return {ours: (self.layers if ours in LAYERS else self.size)(theirs) for ours, theirs in names.items()}

    def two_sides(self) -> dict[str, int]:
        """Those of a model with encoder and decoder, which must be equally wide."""
        sizes = self.sizes(TWO_SIDES)
        for ours, theirs in SECOND_SIDE.items():
            self.expect(theirs, sizes[ours])
        return sizes

    def number(self, name: str, default: float | None = None) -> float:
        value = self.get(name)
        value = default if value is None else value
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < float("inf"):
            raise WeightsError(self.path, f"{name} is {excerpt(value)}, expected a number above 0", DAMAGED)
        return float(value)

    def expect(self, name: str, *known: Any) -> None:
        """None among the known values: the entry may be missing."""
        value = self.get(name)
        if not any(value == one and type(value) is type(one) for one in known):
            raise self.unknown(f"{name} {excerpt(value)}")

    def choice(self, name: str, known: Mapping[str, str], default: str | None = None) -> str:
        """Our word for one of theirs."""
        value = self.get(name, default)
        if not isinstance(value, str) or value not in known:
            raise self.unknown(f"{name} {excerpt(value)}")
        return known[value]

    def unknown(self, what: str) -> WeightsError:
        return WeightsError(self.path, f"asks for {what}", OTHER)


def described(config: Any, architecture: str, kind: str, *sizes: Mapping[str, str], **more: Any) -> dict[str, Any]:
    """config.json for a model of ours: its sizes under their names, and what else they say."""
    renamed = {theirs: getattr(config, ours) for names in sizes for ours, theirs in names.items()}
    return {"architectures": [architecture], "model_type": kind, **renamed, **more, "torch_dtype": "float32"}


def their_word(known: Mapping[str, str], ours: str) -> str:
    """The way back from `Description.choice`."""
    return next(theirs for theirs, our_word in known.items() if our_word == ours)
