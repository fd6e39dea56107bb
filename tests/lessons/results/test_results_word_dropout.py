"""Labelled texts that lose words: how many, which, and nothing else."""

import numpy as np
import pytest

from lessons.results.word_dropout import WordDropout
from minitransformer.app.data import ClassifierBatches

SOS, PAD, OOV, MASK = 0, 1, 3, 54


def corpus(n=80, seed=0):
    generator = np.random.default_rng(seed)
    return [generator.integers(4, 54, generator.integers(1, 60)).astype(np.int32) for _ in range(n)]


def labelled(**options):
    return ClassifierBatches(corpus(), [0] * 80, **{"rows": 8, "max_len": 48, "seed": 5} | options)


def thinned(rate, hidden=OOV, **options):
    return WordDropout(labelled(**options), rate, hidden)


def texts_of(made, epoch):
    return {
        int(i): ids[:n].tolist() for b in made.epoch(epoch) for i, ids, n in zip(b.index, b.ids, b.lengths, strict=True)
    }


def test_words_are_dropped_with_the_given_probability_and_nothing_else_changes():
    dropped = words = 0
    for epoch in range(4):
        plain, lost = texts_of(labelled(), epoch), texts_of(thinned(0.2, MASK), epoch)
        for number, row in plain.items():
            now = lost[number]
            assert len(now) == len(row) and now[0] == SOS
            assert all(b in (a, MASK) for a, b in zip(row, now, strict=True))
            dropped += now.count(MASK)
            words += len(row) - 1
    assert abs(dropped / words - 0.2) < 4 * np.sqrt(0.2 * 0.8 / words)  # 4 standard deviations
    for one, other in zip(labelled().epoch(1), thinned(0.2).epoch(1), strict=True):
        assert all(np.array_equal(getattr(one, name), getattr(other, name)) for name in ("lengths", "labels", "index"))
        assert ((one.ids == PAD) == (other.ids == PAD)).all()
        assert set(other.ids[one.ids != other.ids].tolist()) <= {OOV}


def test_dropped_words_depend_on_seed_epoch_and_row_alone():
    first = texts_of(thinned(0.3, rows=3), 2)
    assert first == texts_of(thinned(0.3, rows=11), 2)
    others = texts_of(thinned(0.3, rows=3), 3), texts_of(thinned(0.3, rows=3, seed=6), 2)
    for other in others:
        assert np.mean([first[i] == other[i] for i in first]) < 0.2  # the shortest may stay whole both times
    same = WordDropout(ClassifierBatches([np.full(40, 9)] * 30, [0] * 30, rows=30), 0.3, OOV)
    (batch,) = same.epoch()
    assert len({row.tobytes() for row in batch.ids}) == 30  # each row draws for itself


@pytest.mark.parametrize("value", [-0.1, 1, float("nan")])
def test_word_dropout_out_of_range(value):
    with pytest.raises(ValueError, match="from 0 to below 1"):
        thinned(value)


def test_resuming_gives_the_rest_of_the_epoch():
    made = thinned(0.2)
    whole = [batch.ids for batch in made.epoch(5)]
    assert len(whole) == made.count(5)
    for start in (0, 1, 7, len(whole)):
        rest = [batch.ids for batch in made.epoch(5, start=start)]
        assert len(rest) == len(whole) - start
        assert all(np.array_equal(a, b) for a, b in zip(rest, whole[start:], strict=True))
