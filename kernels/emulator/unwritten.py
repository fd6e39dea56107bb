"""Local variables that nobody wrote hold NaN (and integers -1), so that a kernel which reads one shows it.

Compilers can fill locals with a pattern. GCC's consists of bytes 0xfe: a huge but finite number, which a product with
zero hides. Ones in every bit are NaN, as in the emulator's shared memory. GCC has no choice of pattern, but in the
assembly that it writes its own is easy to find: constants of two widths, and vectors as rows of bytes. Where a compiler
writes them otherwise (GCC for ARM), or has computed with constants alone (two added, one widened), its own pattern
stays.
"""

import re

FLAG = "-ftrivial-auto-var-init=pattern"  # GCC 12, Clang 8 (which fills floats with NaN by itself)
_CONSTANTS = re.compile(r"(\$|\.long\s+|\.quad\s+)-(?:16843010|72340172838076674)\b")  # 0xfefefefe, and twice as long
_BYTES = re.compile(r"(?:^\s*\.byte\s+-2\n){4,}", re.MULTILINE)


def filled_with_nan(assembly: str) -> str:
    """The same with ones in every bit of what GCC filled."""
    assembly = _CONSTANTS.sub(r"\1-1", assembly)
    return _BYTES.sub(lambda row: row[0].replace("-2", "-1"), assembly)
