"""What a compiled library knows about its source: which line an instruction comes from, where shared variables lie."""

import ctypes
import re
import shutil
import subprocess
from functools import cache
from typing import NamedTuple

SECTION = "emulator_shared"


class Variable(NamedTuple):
    """A __shared__ variable: its place in the section."""

    name: str
    offset: int
    bytes: int


class _Where(ctypes.Structure):
    """Dl_info of dlfcn.h."""

    _fields_ = [
        ("file", ctypes.c_char_p),
        ("base", ctypes.c_void_p),
        ("symbol", ctypes.c_char_p),
        ("address", ctypes.c_void_p),
    ]


def line_of(code: int) -> str:
    """`common.cuh:52, called from layer_norm.cu:31` for the address of an instruction."""
    where = _Where()
    if not ctypes.CDLL(None).dladdr(ctypes.c_void_p(code), ctypes.byref(where)) or shutil.which("addr2line") is None:
        return f"instruction {code:#x} (addr2line, which knows the line, is not installed)"
    file = where.file.decode()
    output = _output("addr2line", "-i", "-s", "-e", file, hex(code - where.base))
    lines = [line.split(" ")[0] for line in output.splitlines()]
    return ", called from ".join(lines)


@cache
def shared_variables(file: str) -> tuple[Variable, ...]:
    """Every __shared__ variable of a library, from its table of symbols."""
    symbols = []
    begin = 0
    for line in _output("nm", "-C", "-S", file).splitlines():
        match = re.fullmatch(r"([0-9a-f]+)(?: ([0-9a-f]+))? \w (.*)", line)
        if match and match[3] == f"__start_{SECTION}":
            begin = int(match[1], 16)
        elif match and match[2] and "::" in match[3]:
            symbols.append((match[3], int(match[1], 16), int(match[2], 16)))
    end = begin + _section_size(file)
    return tuple(
        Variable(name.rpartition("::")[2], address - begin, size)
        for name, address, size in sorted(symbols, key=lambda symbol: symbol[1])
        if begin <= address < end and "emulator_gap_" not in name
    )


def _section_size(file: str) -> int:
    for line in _output("readelf", "-S", "-W", file).splitlines():
        words = line.replace("[ ", "[").split()
        if len(words) > 5 and words[1] == SECTION:
            return int(words[5], 16)
    return 0


def _output(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout
