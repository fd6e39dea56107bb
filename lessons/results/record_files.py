"""What the experiments of this folder share: records in JSON, and figures."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import kernels
from minitransformer.app.bench import machine
from minitransformer.app.training.checkpoints.files import replacing
from minitransformer.errors import UserError

PACKAGES = ("numpy", "numba", "torch")
NUMBERS = re.compile(r"\[\s+(-?\d[^\[\]{}\"]*?)\s+\]")  # a list of nothing but numbers, as json.dumps spreads it


def environment() -> dict[str, Any]:
    """On what the figures were found: the machine, the backend, the versions."""
    versions = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            versions[name] = "not installed"
    return {"machine": machine.description(), "backend": kernels.current().name, "versions": versions}


def load() -> float | None:
    """How many threads of all programs want to run, on average over the last minute; None where nobody counts."""
    return os.getloadavg()[0] if hasattr(os, "getloadavg") else None


def rounded(value: Any, digits: int = 5) -> Any:
    """The same with every float cut to so many significant digits."""
    if isinstance(value, float):
        return float(f"{value:.{digits}g}")
    if isinstance(value, Mapping):
        return {name: rounded(part, digits) for name, part in value.items()}
    return [rounded(part, digits) for part in value] if isinstance(value, list | tuple) else value


def save_record(record: Mapping[str, Any], path: Path) -> None:
    """Indented JSON with each list of numbers on one line, so that people can read the rest."""
    text = json.dumps(record, indent=2, ensure_ascii=False, allow_nan=False)
    text = NUMBERS.sub(lambda found: f"[{' '.join(found[1].split())}]", text)
    with replacing(path) as file:
        file.write(f"{text}\n".encode())


def load_record(path: Path) -> dict[str, Any]:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(f"{path}: there is no record yet; run the experiment first, without --draw") from None
    except ValueError as error:
        raise UserError(f"{path}: not a record ({error}); run the experiment again") from None


def save_figure(figure: Any, path: Path) -> Path:
    """Writes it and closes it."""
    import matplotlib.pyplot as plt

    with replacing(path) as file:
        figure.savefig(file, format="png", dpi=160)
    plt.close(figure)
    return path
