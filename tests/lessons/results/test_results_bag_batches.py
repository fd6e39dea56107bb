"""Batches of texts from which words were taken away: what is left, what is asked for, and how often."""

import numpy as np
import pytest
from hidden_words import FIRST, OOV, OPTIONS, PAD, SOS, corpus, whole_epoch
from hypothesis import given
from hypothesis import strategies as st

from lessons.results.bag_batches import BagBatches
from minitransformer.app.data import WordTokenizer

TOKENIZER = WordTokenizer([f"w{i}" for i in range(50)], extra_specials=["[OTHER]"])
OTHER = TOKENIZER.special("[OTHER]")
LAST = TOKENIZER.first_extra - 1


def batches(texts=None, **options):
    return BagBatches(corpus(LAST) if texts is None else texts, TOKENIZER, **(OPTIONS | {"common": 1.0} | options))


def rows_of(made, epoch):
    """index → what is left of that document, and what is asked for"""
    return {
        int(i): (ids[:n].tolist(), sorted(targets[targets >= 0].tolist()))
        for b in made.epoch(epoch)
        for i, ids, targets, n in zip(b.index, b.ids, b.targets, b.lengths, strict=True)
    }


tokens = st.one_of(st.integers(FIRST, LAST), st.sampled_from([SOS, PAD, OOV, OTHER]))


@given(
    st.lists(st.lists(tokens, max_size=12), min_size=1, max_size=25),
    st.floats(0.01, 1),
    st.integers(2, 10),
    st.one_of(st.none(), st.integers(1, 7)),
    st.tuples(st.integers(0, 3), st.integers(0, 3)),
)
def test_what_is_left_and_what_is_asked_for_make_up_the_text(texts, rate, max_len, rows, where):
    seed, epoch = where
    cut = [[SOS, *text][:max_len] for text in texts]
    options = {"rate": rate, "max_len": max_len, "rows": rows, "seed": seed}
    _, seen = whole_epoch(batches, texts, cut, LAST, epoch, **options)
    for batch in seen:
        assert batch.ids.shape == (len(batch.index), batch.lengths.max())
        outside = np.arange(batch.ids.shape[1]) >= batch.lengths[:, None]
        assert (batch.ids[outside] == PAD).all()
        for number, ids, targets, length in zip(batch.index, batch.ids, batch.targets, batch.lengths, strict=True):
            left, asked = ids[:length].tolist(), targets[targets >= 0].tolist()
            words = [token for token in cut[number] if FIRST <= token <= LAST]
            assert len(asked) == max(1, int(rate * len(words) + 0.5)) and left[0] == SOS
            assert sorted(left + asked) == sorted(cut[number])  # with common=1 all that is taken is asked for
            rest = iter(cut[number])
            assert all(token in rest for token in left)  # in their order


def test_half_unless_told():
    made = BagBatches([np.arange(FIRST, FIRST + 40)], TOKENIZER, common=1.0)
    (batch,) = made.epoch()
    assert made.rate == 0.5 and batch.lengths.tolist() == [21] and batch.targets.shape == (1, 20)


def test_common_words_are_asked_for_by_the_root_of_their_share():
    """Word FIRST is 3/4 of the text, FIRST + 1 the rest. With common = 3/16 the first is asked for half the times."""
    texts = [[FIRST, FIRST, FIRST + 1, FIRST] * 25] * 40
    made = batches(texts, common=3 / 16, max_len=101)
    asked, taken = np.zeros(2), np.zeros(2)
    for batch in made.epoch():
        for word in (0, 1):
            asked[word] += (batch.targets == FIRST + word).sum()
            taken[word] += 40 * (75, 25)[word] / 5 - (batch.ids == FIRST + word).sum()
    for word, share in enumerate((0.5, np.sqrt(3 / 4))):
        spread = 4 * np.sqrt(share * (1 - share) / taken[word])
        assert abs(asked[word] / taken[word] - share) < spread  # 4 standard deviations


def test_a_text_of_nothing_but_common_words_still_asks_for_some():
    made = batches([[FIRST] * 10] * 30, common=1e-9)
    assert all((batch.targets == FIRST).any(axis=1).all() for batch in made.epoch())


def test_what_is_taken_depends_on_seed_epoch_and_row_alone():
    small, large = batches(rows=3), batches(tokens=400)
    list(small.epoch(0))  # what was read before must not matter
    assert rows_of(small, 2) == rows_of(large, 2) == rows_of(batches(shuffle=False), 2)
    second, third, other = rows_of(small, 2), rows_of(small, 3), rows_of(batches(seed=6), 2)
    assert np.mean([second[i] == third[i] for i in second]) < 0.1 > np.mean([second[i] == other[i] for i in second])


def test_rows_of_one_text_lose_different_words():
    made = batches([np.arange(FIRST, FIRST + 40)] * 50)
    assert len({str(row) for row in rows_of(made, 0).values()}) == 50


def test_texts_of_like_length_share_a_batch():
    assert batches(corpus(LAST, 800)).padding_fraction() < 0.05


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rate": 0}, "above 0"), ({"rate": 1.1}, "above 0"), ({"rate": float("nan")}, "above 0"),
        ({"common": 0}, "above 0"), ({"common": float("nan")}, "above 0"), ({"max_len": 1}, "2"),
    ],
)  # fmt: skip
def test_refused(options, message):
    with pytest.raises(ValueError, match=message):
        batches(**options)
