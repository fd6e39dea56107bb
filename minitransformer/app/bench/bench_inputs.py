"""The same numbers for both sides."""

from pathlib import Path

import numpy as np

from minitransformer.errors import UserError

PAD = 1  # of the labs' dictionary


def words(rows: int, length: int, vocabulary: int) -> np.ndarray:
    return np.random.default_rng(0).integers(4, vocabulary, (rows, length))


def normal(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape, dtype=np.float32)


def attention(sizes: dict) -> list[np.ndarray]:
    """Queries, keys, values and the gradient of the result; G heads of keys and values where the sizes have a G."""
    shape = tuple(sizes[letter] for letter in "BHTD")
    q, k, v, dout = np.random.default_rng(0).standard_normal((4, *shape), dtype=np.float32)
    groups = sizes.get("G", sizes["H"])
    return [q, k[:, :groups].copy(), v[:, :groups].copy(), dout]


def layer_norm(sizes: dict) -> list[np.ndarray]:
    N, C = sizes["N"], sizes["C"]
    return [normal(N, C), normal(C), normal(C), normal(N, C)]


def rms_norm(sizes: dict) -> list[np.ndarray]:
    N, C = sizes["N"], sizes["C"]
    return [normal(N, C), normal(C), normal(N, C)]


def rotary(sizes: dict) -> tuple[np.ndarray, np.ndarray]:
    """Heads to turn, and the gradient of the result."""
    shape = tuple(sizes[letter] for letter in "BHTD")
    return normal(*shape), normal(*shape)


def lengths(rows: int, data: str | None) -> list[int]:
    """How many pieces each review has, cut at 511: of real reviews, or drawn from a distribution much like theirs."""
    if data is None:
        drawn = np.random.default_rng(0).lognormal(4.6, 0.8, rows)  # median 100, some four times as long
        return [int(n) for n in np.clip(drawn, 5, 511)]
    file = Path(data) / "cls-books-fr" / "train.review.spm"
    try:
        lines = file.read_text(encoding="utf-8").splitlines()[:rows]
    except OSError as error:
        raise UserError(
            f"cannot read {file}: {error.strerror}; --data names the folder that holds cls-books-fr"
        ) from None
    return [min(511, len(line.split())) for line in lines]


def reviews(rows: int, data: str | None) -> tuple[np.ndarray, np.ndarray]:
    """A right-padded batch and its targets: <sos> and the words; the words and <eos>."""
    sizes = lengths(rows, data)
    text = words(rows, max(sizes), 50001)
    ids, targets = (np.full((rows, max(sizes) + 1), PAD) for _ in range(2))
    for row, n in enumerate(sizes):
        ids[row, 0], ids[row, 1 : n + 1] = 0, text[row, :n]
        targets[row, :n], targets[row, n] = text[row, :n], 2
    return ids, targets
