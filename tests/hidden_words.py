"""What the tests of batches with hidden words share: the first ids of a tokenizer of words, texts, and what holds for
every epoch."""

import numpy as np
import pytest

SOS, PAD, OOV, FIRST = 0, 1, 3, 4  # FIRST: the first that is a word
OPTIONS = {"rows": 8, "max_len": 48, "seed": 5, "ignore": -1}


def corpus(last: int, n: int = 80, seed: int = 0) -> list[np.ndarray]:
    """Texts of words up to the id `last`."""
    generator = np.random.default_rng(seed)
    return [generator.integers(FIRST, last + 1, generator.integers(1, 60)).astype(np.int32) for _ in range(n)]


def whole_epoch(make, texts, cut, last: int, epoch: int, **options) -> tuple:
    """What `make` makes of the texts, and the batches of an epoch: every text that has a word, once it is cut, comes
    once. If none has, that is said, and there are no batches."""
    usable = [number for number, row in enumerate(cut) if any(FIRST <= token <= last for token in row)]
    if not usable:
        with pytest.raises(ValueError, match="no document has a word to hide"):
            make(texts, **options)
        return None, []
    made = make(texts, **options)
    seen = list(made.epoch(epoch))
    assert sorted(int(i) for b in seen for i in b.index) == usable and made.dropped == len(texts) - len(usable)
    return made, seen
