"""What a file says of a model, asked with care: every answer is checked, and what is not known here is refused."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from minitransformer.errors import Path, WeightsError, excerpt

OTHER = "this engine has no such part; choose another model"
DAMAGED = "fetch or copy the file again"


class Description:
    """config.json, or the entries of a GGUF file."""

    def __init__(self, path: Path, entries: Mapping[str, Any]):
        self.path, self.entries = path, entries

    def get(self, name: str, default: Any = None) -> Any:
        return self.entries.get(name, default)

    def size(self, name: str, default: int | None = None) -> int:
        """A whole number from 1 on."""
        value = self.get(name)
        value = default if value is None else value
        if value is None or isinstance(value, bool) or int(value) != value or not 1 <= value < 2**31:
            raise WeightsError(self.path, f"{name} is {excerpt(value)}, expected a number from 1 on", DAMAGED)
        return int(value)

    def number(self, name: str, default: float | None = None) -> float:
        value = self.get(name)
        value = default if value is None else value
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < float("inf"):
            raise WeightsError(self.path, f"{name} is {excerpt(value)}, expected a number above 0", DAMAGED)
        return float(value)

    def expect(self, name: str, *known: Any) -> None:
        """None among the known values: the entry may be missing."""
        value = self.get(name)
        if value not in known:
            raise self.unknown(f"{name} {excerpt(value)}")

    def choice(self, name: str, known: Mapping[str, str], default: str | None = None) -> str:
        """Our word for one of theirs."""
        value = self.get(name, default)
        if value not in known:
            raise self.unknown(f"{name} {excerpt(value)}")
        return known[value]

    def unknown(self, what: str) -> WeightsError:
        return WeightsError(self.path, f"asks for {what}", OTHER)
