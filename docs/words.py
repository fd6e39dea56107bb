"""The glossary in the book: Sphinx's own, so that the search knows its words; and in the lessons a link where a word is
first met."""

import re
from pathlib import Path

GLOSSARY = Path(__file__).parent / "glossary.md"
# too common to be linked where they are met
EVERYDAY = {"piece", "key", "value", "score", "layer", "function", "claim", "labs"}

_LIST = re.compile(r"^- \*\*.*?(?=\n\n|\Z)", re.DOTALL | re.MULTILINE)
_ENTRY = re.compile(r"^- \*\*([^*]+)\*\*: (.*?)(?=\n- |\Z)", re.DOTALL | re.MULTILINE)
# Where no word is linked: blocks of code, formulas, headings, rows of tables, code, links
_CLOSED = re.compile(
    r"^```.*?^```|\$\$.*?\$\$|^#.*?$|^\|.*?$|`[^`]*`|\$[^$]*\$|\[[^\]]*\]\([^)]*\)", re.DOTALL | re.MULTILINE
)


def entries() -> dict[str, str]:
    """Word in small letters → word. An entry may have several: **float32, float64**."""
    text = "\n\n".join(_LIST.findall(GLOSSARY.read_text(encoding="utf-8")))
    names = [name for names, _ in _ENTRY.findall(text) for name in names.split(", ")]
    return {name.lower(): name for name in names}


def page(text: str) -> str:
    """The lists of the glossary as Sphinx wants them: each word on a line, what it means indented below."""

    def as_glossary(found: re.Match) -> str:
        lines = [
            "\n".join([*names.split(", "), "  " + " ".join(linked(meaning).split())])
            for names, meaning in _ENTRY.findall(found[0])
        ]
        return "```{glossary}\n" + "\n\n".join(lines) + "\n```"

    known = entries()

    def linked(meaning: str) -> str:
        return re.sub(r"\*([^*]+)\*", lambda found: _link(found[1], known), meaning)

    return _LIST.sub(as_glossary, text)


def _link(shown: str, known: dict[str, str]) -> str:
    """A link to the entry of a word that may stand there in the plural; the word itself, if it has none."""
    word = " ".join(shown.lower().split())
    found = next((known[one] for one in (word, word.removesuffix("s"), word.removesuffix("es")) if one in known), "")
    return f"{{term}}`{shown} <{found}>`" if found else shown


class Linker:
    """Links words of the glossary in the prose of one page, each where it is first met."""

    def __init__(self) -> None:
        self.known = entries()
        words = sorted(map(re.escape, self.known.keys() - EVERYDAY), key=len, reverse=True)
        self.word = re.compile(rf"\b({'|'.join(words)})(s?)\b", re.IGNORECASE)
        self.met: set[str] = set()

    def __call__(self, prose: str) -> str:
        parts, end = [], 0
        for closed in _CLOSED.finditer(prose):
            parts += [self.word.sub(self._first, prose[end : closed.start()]), closed[0]]
            end = closed.end()
        return "".join([*parts, self.word.sub(self._first, prose[end:])])

    def _first(self, found: re.Match) -> str:
        if found[1].lower() in self.met:
            return found[0]
        self.met.add(found[1].lower())
        return _link(found[0], self.known)
