"""The text of a kernel file, and the signatures of the kernels in it."""

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "gpu"  # where the engine's own kernel files lie
KERNEL = re.compile(r'extern\s+"C"\s+__global__\s+void\s+(?:__launch_bounds__\s*\([^)]*\)\s*)?(\w+)\s*\(([^)]*)\)')
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]+"([^"]+)"[^\n]*$', re.MULTILINE)
POINTERS = {
    "real": None, "long long": "int64", "unsigned int": "uint32", "unsigned long long": "uint64",
    "unsigned char": "uint8",
}  # fmt: skip
SCALARS = ("long long", "int", "unsigned int", "unsigned long long", "real")


class LaunchError(ValueError):
    """A launch that cannot work: says which kernel, which argument, what was given and what was expected."""


@dataclass(frozen=True)
class Parameter:
    """One argument of a kernel, as its signature declares it."""

    name: str
    type: str  # without const and *
    pointer: bool
    const: bool

    def __str__(self) -> str:
        return f"{'const ' if self.const else ''}{self.type}{'*' if self.pointer else ''} {self.name}"


def path_of(file: str) -> Path:
    """kernels/gpu/FILE.cu, or the path itself when one is given (tests and lessons bring their own kernels)."""
    return Path(file) if file.endswith(".cu") else FOLDER / f"{file}.cu"


@cache
def text_of(path: Path) -> str:
    """The file with its includes put in place, each once. The compiler then needs no include folder, and whoever keeps
    compiled code notices when a header changes. #line lets messages name the original files."""
    if not path.is_file():
        raise LaunchError(f"there is no kernel file {path}")
    return _expanded(path, set())


def _expanded(path: Path, seen: set[Path]) -> str:
    text = path.read_text(encoding="utf-8").replace("#pragma once", "")
    parts, position = [f'#line 1 "{path.name}"\n'], 0
    for match in INCLUDE.finditer(text):
        header = next((folder / match[1] for folder in (path.parent, FOLDER) if (folder / match[1]).is_file()), None)
        if header is None:
            raise LaunchError(f"{path.name} includes {match[1]!r}, which is neither beside it nor in {FOLDER}")
        parts.append(text[position : match.start()])
        if header not in seen:
            seen.add(header)
            parts.append(_expanded(header, seen))
        following = text.count("\n", 0, match.end()) + 2
        parts.append(f'\n#line {following} "{path.name}"')
        position = match.end()
    return "".join(parts) + text[position:]


@cache
def kernels_in(path: Path) -> dict[str, tuple[Parameter, ...]]:
    """Every kernel of a file with its parameters. Signatures must stand in the file as such, not inside a macro."""
    text = re.sub(r"//[^\n]*|/\*.*?\*/", " ", text_of(path), flags=re.DOTALL)
    return {
        name: tuple(_parameter(path, name, part) for part in _split(inside)) for name, inside in KERNEL.findall(text)
    }


def _split(inside: str) -> list[str]:
    return [part for part in (" ".join(part.split()) for part in inside.split(",")) if part not in ("", "void")]


def _parameter(path: Path, kernel: str, text: str) -> Parameter:
    words = text.replace("*", " * ").replace("__restrict__", " ").split()
    name, pointer, const = words[-1], "*" in words, "const" in words
    type_ = " ".join(word for word in words[:-1] if word not in ("*", "const"))
    if type_ not in (POINTERS if pointer else SCALARS):
        raise LaunchError(
            f"{path.name}: {kernel} has a parameter '{text}'; allowed are pointers to {', '.join(POINTERS)} "
            f"and scalars {', '.join(SCALARS)}"
        )
    return Parameter(name, type_, pointer, const)
