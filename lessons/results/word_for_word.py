"""English film reviews in French, word for word: python -m lessons.results.word_for_word DATA IMDB FOLDER

There are 1,600 French reviews of books to learn from, and 18,901 English ones of films. A lexicon, learnt from pairs
of sentences, turns each word of the latter into a French one. What comes out is no French, but which words keep company
can be learnt from it. FOLDER gets

  texts.txt              one text a line: the film reviews in such French, and the 1,600 reviews of books
  train.tsv, valid.tsv   the labelled reviews of books as plain text

DATA holds cls-books-fr and tatoeba-eng-fra, IMDB is the folder that `minitransformer data imdb` makes.
"""

from __future__ import annotations

import os
import random
import sys
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from minitransformer.app.cli.main import orderly
from minitransformer.app.data import WordTokenizer, read_documents, read_labelled, read_pairs
from minitransformer.app.training.checkpoints.files import replacing
from minitransformer.errors import UserError

ROUNDS = 6
PROBABLE = 0.05  # translations that are less so are left out
MOST = 5  # translations of a word

Lexicon = dict[str, tuple[list[str], list[float]]]  # English word → French ones and their probabilities, best first

cut = WordTokenizer(["-"], lower=True).cut


def lexicon(pairs: Sequence[tuple[str, str]], rounds: int = ROUNDS) -> Lexicon:
    """Which French words translate an English one, from pairs of sentences alone (Brown and others, 1993: model 1).

    Every French word of a pair is taken to come from one of the English words beside it, or from none. How probably
    from which one is first a guess, all alike; counted over all pairs, the guesses give probabilities t(french |
    english), and these better guesses: "livre" stands beside "the" often and beside "book" nearly always."""
    sides = [[cut(pair[side]) for pair in pairs] for side in (0, 1)]
    english, french = (sorted(Counter(word for words in side for word in words)) for side in sides)
    number = [{word: i for i, word in enumerate(words)} for words in (english, french)]
    nobody = len(english)
    sources = [np.array([nobody, *(number[0][word] for word in words)]) for words in sides[0]]
    targets = [np.array([number[1][word] for word in words]) for words in sides[1]]
    # an entry for each English word (or nobody) beside each French word: which two words, and which French place
    met = [np.repeat(e, len(f)) * len(french) + np.tile(f, len(e)) for e, f in zip(sources, targets, strict=True)]
    words, which = np.unique(np.concatenate(met), return_inverse=True)
    ends = np.cumsum([len(f) for f in targets])
    place = np.concatenate(
        [np.tile(np.arange(end - len(f), end), len(e)) for e, f, end in zip(sources, targets, ends, strict=True)]
    )
    source = words // len(french)
    t = np.ones(len(words))
    for _ in range(rounds):
        guess = t[which]
        counts = np.bincount(which, guess / np.bincount(place, guess)[place])
        t = counts / np.bincount(source, counts)[source]
    found: Lexicon = {}
    for entry in np.lexsort((-t, source)):
        if source[entry] == nobody or t[entry] < PROBABLE:
            continue
        translations, probabilities = found.setdefault(english[source[entry]], ([], []))
        if len(translations) < MOST:
            translations.append(french[words[entry] % len(french)])
            probabilities.append(float(t[entry]))
    return found


def turned(text: str, known: Mapping[str, tuple[list[str], list[float]]], draw: random.Random) -> str:
    """Each word as one of its translations, by their probabilities; a word without any is left out, a mark stays."""
    words = (draw.choices(*known[w])[0] if w in known else w for w in cut(text) if w in known or not w.isalpha())
    return " ".join(words)


def plain(pieces: str) -> str:
    """Text that was cut into sentencepiece's pieces, put together again."""
    return "".join(pieces.split()).replace("▁", " ").strip()


def write(data: str, imdb: str, folder: str) -> dict[str, int]:
    """Writes the three files, and returns how many texts each has."""
    known = lexicon(read_pairs(os.path.join(data, "tatoeba-eng-fra", "train.tsv")))
    draw = random.Random(0)
    texts = [turned(text, known, draw) for text in read_documents(os.path.join(imdb, "unlabelled.txt"))]
    os.makedirs(folder, exist_ok=True)
    counts = {}
    for name in ("train", "valid"):
        reviews = read_labelled(os.path.join(data, "cls-books-fr", f"{name}.review.spm"))
        # a quote as apostrophes: spreadsheets and others take it for the beginning of a cell
        lines = [plain(pieces).replace("\t", " ").replace('"', "''") for pieces in reviews.texts]
        labels = [reviews.names[label] for label in reviews.labels]
        rows = [f"{text}\t{label}" for text, label in zip(lines, labels, strict=True)]
        counts[f"{name}.tsv"] = _written(os.path.join(folder, f"{name}.tsv"), ["text\tlabel", *rows]) - 1
        texts += lines if name == "train" else []
    counts["texts.txt"] = _written(os.path.join(folder, "texts.txt"), texts)
    return counts


def _written(path: str, lines: Sequence[str]) -> int:
    with replacing(path) as file:
        file.write("".join(f"{line}\n" for line in lines).encode())
    return len(lines)


def main(arguments: list[str]) -> int:
    if len(arguments) != 3:
        raise UserError("give the folder of texts, that of the film reviews and the one to write to")
    print("learning a lexicon from the pairs, then translating (a minute) ...", flush=True)
    for name, texts in write(*arguments).items():
        print(f"{name}: {texts:,} texts")
    return 0


if __name__ == "__main__":
    sys.exit(orderly("word_for_word", lambda: main(sys.argv[1:])))
