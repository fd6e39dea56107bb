"""Expressions with Unicode's categories: every character in its place."""

import doctest
import re
import sys
import unicodedata

import pytest

from minitransformer.pretrained import unicode_patterns
from minitransformer.pretrained.unicode_patterns import UnicodePattern, translate

ASSIGNED = [*range(0xD800), *range(0xE000, 0x34000), *range(0xE0000, 0xE0200), sys.maxunicode]  # and some that are not
EVERYTHING = "".join(map(chr, ASSIGNED))
BASIC = EVERYTHING[: 0x10000 - 0x800]


def test_the_example_in_the_text():
    assert doctest.testmod(unicode_patterns).failed == 0


@pytest.mark.parametrize("text", [BASIC, EVERYTHING], ids=["first 65,536", "all"])
@pytest.mark.parametrize("category", ["L", "N", "Lu", "M", "P", "Zs"])
def test_a_category_holds_its_characters_and_no_other(category, text):
    inside = [c for c in text if unicodedata.category(c).startswith(category)]
    outside = [c for c in text if not unicodedata.category(c).startswith(category)]
    assert UnicodePattern(rf"\p{{{category}}}").findall(text) == inside
    assert UnicodePattern(rf"[^\p{{{category}}}]").findall(text) == outside


def test_white_space_is_unicodes():
    spaces = UnicodePattern(r"\s").findall(EVERYTHING)
    assert set(spaces) == {c for c in EVERYTHING if c.isspace()} - set("\x1c\x1d\x1e\x1f")
    assert len(UnicodePattern(r"\S").findall(EVERYTHING)) == len(EVERYTHING) - len(spaces)


def test_escapes_brackets_and_groups():
    assert UnicodePattern(r"\[\p{L}+\]|[\]\p{N}]+|(x|y)z").findall("[ab] 1]2 xz c") == ["[ab]", "1]2", "xz"]
    assert translate(r"\\p\(a\)[(]") == r"\\p\(a\)[(]"


@pytest.mark.parametrize("pattern", [r"\p{Han}", r"\w+", r"\p", r"[\S]", r"\bword", "(", r"\P{L}", "[a"])
def test_what_cannot_be_said_is_refused(pattern):
    with pytest.raises(re.error):
        UnicodePattern(pattern)
