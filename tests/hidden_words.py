"""What the tests of batches with hidden words share: the first ids of a tokenizer of words, texts and options."""

import numpy as np

SOS, PAD, OOV, FIRST = 0, 1, 3, 4  # FIRST: the first that is a word
OPTIONS = {"rows": 8, "max_len": 48, "seed": 5, "ignore": -1}


def corpus(last: int, n: int = 80, seed: int = 0) -> list[np.ndarray]:
    """Texts of words up to the id `last`."""
    generator = np.random.default_rng(seed)
    return [generator.integers(FIRST, last + 1, generator.integers(1, 60)).astype(np.int32) for _ in range(n)]
