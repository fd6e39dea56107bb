r"""Regular expressions that know Unicode's categories, which Python's own `re` does not.

Byte-level tokenizers publish the expression by which they cut a text into words, and write \p{L} for "a letter of any
script" and \p{N} for "a number". Here those become plain lists of characters, made from the tables of `unicodedata`:

    >>> UnicodePattern(r" ?\p{L}+|\p{N}|\s+").findall("À l'été 1985")
    ['À', ' l', 'été', ' ', '1', '9', '8', '5']

(The apostrophe matched nothing and is left out.) Two differences to `re` besides \p: \s means Unicode's white space,
so not U+001C ... U+001F, and parentheses never capture. A character that this Python's Unicode does not know yet is in
no category.
"""

import re
import sys
import unicodedata
from functools import cache
from itertools import groupby

WHITE_SPACE = "\t-\r \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"  # to stand between [ and ]

# what must be rewritten, or must be recognised so that it is left alone (an escaped bracket opens nothing)
_PARTS = re.compile(r"\\p\{(?P<category>\w+)\}|\\.|\[\^?|\]|\((?!\?)", re.DOTALL)


class UnicodePattern:
    """An expression compiled twice: for text of the first 65,536 characters, as nearly all is, and for the rest.

    The first one is four times as fast, because `re` looks such characters up in a table and walks through a list for
    the others. Each is compiled when a text first needs it."""

    def __init__(self, pattern: str):
        self.pattern = pattern
        self._compiled: dict[int, re.Pattern[str]] = {}
        self.compiled(0xFFFF)  # an expression that cannot be read is told at once

    def compiled(self, last: int) -> re.Pattern[str]:
        """The expression for texts whose characters go up to `last`."""
        if last not in self._compiled:
            self._compiled[last] = re.compile(translate(self.pattern, last))
        return self._compiled[last]

    def findall(self, text: str) -> list[str]:
        beyond = len(text.encode("utf-16-le")) > 2 * len(text)  # such characters take four bytes instead of two
        return self.compiled(sys.maxunicode if beyond else 0xFFFF).findall(text)


def translate(pattern: str, last: int = sys.maxunicode) -> str:
    r"""An expression with \p{..} in the words of `re`; re.error for what cannot be said there."""
    bracket = False

    def rewrite(part: re.Match[str]) -> str:
        nonlocal bracket
        found = part.group()
        if found[0] == "[" and not bracket:
            bracket = True
        elif found == "]":
            bracket = False
        elif found == "(" and not bracket:
            return "(?:"
        elif part["category"]:
            return characters(part["category"], last) if bracket else f"[{characters(part['category'], last)}]"
        elif found == r"\s":
            return WHITE_SPACE if bracket else f"[{WHITE_SPACE}]"
        elif found == r"\S" and not bracket:
            return f"[^{WHITE_SPACE}]"
        elif found[1:] in list("SpPwWbB"):
            raise re.error(f"{found} is not known here")
        return found

    return _PARTS.sub(rewrite, pattern)


@cache
def characters(category: str, last: int) -> str:
    """All characters of a category ("L": letters, "Lu": capitals) as ranges to stand between [ and ]."""
    ranges = [(first, end) for name, first, end in _runs(last) if name.startswith(category)]
    if not ranges:
        raise re.error(f"Unicode has no category {category}")
    return "".join(f"{re.escape(chr(first))}-{re.escape(chr(end))}" for first, end in ranges)


@cache
def _runs(last: int) -> list[tuple[str, int, int]]:
    """(category, first, last) of every run of neighbours in the same category; a quarter of a second for all."""
    runs, first = [], 0
    for category, run in groupby(map(unicodedata.category, map(chr, range(last + 1)))):
        end = first + len(list(run)) - 1
        runs.append((category, first, end))
        first = end + 1
    return runs
