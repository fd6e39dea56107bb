"""What the tests of foreign models share: their files, and texts that are hard to tokenize."""

import os
import random
from pathlib import Path

import pytest

from minitransformer.download.wheels import NotFetched
from minitransformer.pretrained.byte_pair import BytePair
from minitransformer.pretrained.byte_pair_training import train
from minitransformer.pretrained.fetch import fetch

ROOT = Path(__file__).parents[3]
SHARED = Path(os.environ.get("MINITRANSFORMER_SHARED", ROOT.parent / "shared")) / "data"  # real texts


@pytest.fixture(scope="session")
def model_folder():
    """model_folder("smollm2"): the files of a known model in the user's cache, fetched where they are not there yet.

    Without a network such a test is left out."""

    def find(name: str) -> Path:
        try:
            return fetch(name)
        except NotFetched as error:
            pytest.skip(f"{name} is not in the cache, and {error}")

    return find


@pytest.fixture(scope="session")
def small() -> BytePair:
    """A tokenizer trained here in a moment, with special tokens as in a chat."""
    return train([TEXT], 400, special=["<|endoftext|>", "<|im_start|>", "<|im_end|>"])


@pytest.fixture(scope="session")
def hard_texts():
    """hard_texts(n, special, avoid): n texts made to go wrong, the same on every machine."""
    return make_hard_texts


TEXT = """The cat sat on the mat. It's what cats do, they've said; we'll see, he'd thought, I'm sure you're right.
Depuis un nombre innombrable d'hivers, c'est dans la maison de Norine qu'ont lieu les plus égayantes veillées.
    In 1984, 12,345 people   watched.\r\n\tdef f(x):\n\t\treturn x ** 2  # squared\n\n\n"Où ça ?" — « Là-bas ! »
Ещё не вечер. 東京は日本の首都です。 한국어 텍스트. שלום עולם. مرحبا بالعالم ١٢٣
naïve café Straße ΟΔΥΣΣΕΥΣ ①②③ Ⅷ ½ 👩‍👩‍👧‍👦 🇫🇷 👍🏽
"""
SPACES = (
    " \t\n\r\x0b\x0c\x1c\x1d\x1e\x1f\x85\xa0\u1680\u180e\u2000\u2003\u200a\u200b\u2028\u2029\u202f\u205f\u3000\ufeff"
)
PIECES = [
    "'s", "'S", "'ſ", "'ll", "'LL", "'re", "'", "’s", "don't", "I'VE", "##", "##ing", "a", "é", "e\u0301", "\u0301",
    "\u0345\u0323\u0307", "ǅ", "ß", "ẞ", "İ", "ı", "Σ", "ΑΣ", "ﬁ", "Å", "\u212b", "한", "\u1112\u1161\u11ab", "中",
    "文字", "\uf900", "\U0002f800", "\U00020000", "豈", "ひらがな", "カナ", "12", "3456789", "٣", "१२", "𝟘𝟙", "Ⅷ", "½",
    "①", "〇", "一", "👍", "👍🏽", "👩‍👩‍👧‍👦",
    "🇫🇷", "❤️", "\u200d", "\ufe0f", "\u200e", "\u202e", "\x00", "\x01", "\x7f", "\x80",
    "\xad", "\ufffd", "\ufffe", "\uffff", "\U0010ffff", "\ue000", "\U000f0000", "$", "€", "+", "=", "^", "~", "`", "|",
    "_", "¡", "·", "—", "…", "...", "?!", ")", "«", "http://a.b/c?d=e&f=1", "<tag>", "[", "]", "\\", "//", "the", "Cat",
    "UNAFFABLE", "x" * 99, "y" * 100, "z" * 101, "ab" * 300,
]  # fmt: skip


def make_hard_texts(count: int, special=(), avoid=frozenset()) -> list[str]:
    """Hand-picked pieces, odd spaces, special tokens, whole and broken, and characters drawn from all of Unicode."""
    rng = random.Random(0)

    def character(first: int, end: int) -> str:
        while True:
            code = rng.randrange(first, end)
            if not 0xD800 <= code < 0xE000 and code not in avoid:
                return chr(code)

    pieces = [piece for piece in PIECES if avoid.isdisjoint(map(ord, piece))]
    tokens = [*special, *(token[:-1] for token in special), *(token.swapcase() for token in special)]

    def one() -> str:
        kind = rng.random()
        if kind < 0.45 or (kind < 0.55 and not tokens):
            return rng.choice(pieces)
        if kind < 0.55:
            return rng.choice(tokens)
        if kind < 0.75:
            return rng.choice(SPACES if rng.random() < 0.5 else "  \n\t") * rng.choice((1, 1, 1, 2, 3, 7))
        if kind < 0.85:
            return "".join(character(0, 0x3000) for _ in range(rng.randint(1, 6)))
        end = rng.choice((0x10000, 0x20000, 0x34000, 0x110000))
        return "".join(character(0, end) for _ in range(rng.randint(1, 4)))

    texts = ["", " ", *pieces, *SPACES, *tokens, *TEXT.split("\n"), TEXT]
    return texts + ["".join(one() for _ in range(rng.randint(1, 12))) for _ in range(count - len(texts))]


@pytest.fixture(scope="session")
def real_texts() -> list[str]:
    """Lines of this project's own pages and lessons; where they have been brought along, also some 15,000 of French
    novels, of English and French pairs and of reviews, spread over all files."""
    own = sorted(path for pattern in ("*.md", "docs/*.md", "lessons/*.py") for path in ROOT.glob(pattern))
    lines = [line for path in own for line in path.read_text(encoding="utf-8").split("\n")]
    for name in ("french-novels/novels.txt", "tatoeba-eng-fra/train.tsv", "cls-books-fr/train.review.spm"):
        if (SHARED / name).is_file():
            found = (SHARED / name).read_text(encoding="utf-8").split("\n")
            lines += found[:: max(1, len(found) // 7000)]
    return lines
