"""Batches with hidden words: those of a masked language model, and word dropout of a classifier."""

import numpy as np
import pytest
from hidden_words import FIRST, OOV, OPTIONS, PAD, SOS, corpus, whole_epoch
from hypothesis import given
from hypothesis import strategies as st

from minitransformer.app.data import MaskedBatches, WordTokenizer
from minitransformer.app.data.batches.bert import hide

TOKENIZER = WordTokenizer([f"w{i}" for i in range(500)], extra_specials=["[OTHER]", "[MASK]"])
OTHER, MASK = TOKENIZER.special("[OTHER]"), TOKENIZER.special("[MASK]")
LAST = TOKENIZER.first_extra - 1


def batches(texts=None, **options):
    return MaskedBatches(corpus(LAST) if texts is None else texts, TOKENIZER, **(OPTIONS | options))


def restored(batch):
    return np.where(batch.targets >= 0, batch.targets, batch.ids)


def rows_of(made, epoch):
    """index → what the epoch holds of that document, without its padding"""
    return {
        int(i): (ids[:n].tolist(), targets[:n].tolist())
        for b in made.epoch(epoch)
        for i, ids, targets, n in zip(b.index, b.ids, b.targets, b.lengths, strict=True)
    }


# ---------------------------------------------------------------------------------------------------- masked batches

tokens = st.one_of(st.integers(FIRST, LAST), st.sampled_from([SOS, PAD, OOV, OTHER, MASK]))


@given(
    st.lists(st.lists(tokens, max_size=12), min_size=1, max_size=25),
    st.floats(0.01, 1),
    st.integers(2, 10),
    st.one_of(st.none(), st.integers(1, 7)),
    st.one_of(st.none(), st.integers(20, 60)),
    st.tuples(st.integers(0, 3), st.integers(0, 3)),
)
def test_every_text_with_a_word_comes_once_and_loses_only_words(texts, rate, max_len, rows, limit, where):
    seed, epoch = where
    cut = [[SOS, *text][:max_len] for text in texts]
    options = {"rate": rate, "max_len": max_len, "rows": rows, "tokens": limit, "seed": seed}
    made, seen = whole_epoch(batches, texts, cut, LAST, epoch, **options)
    assert made is None or len(seen) == made.count(epoch)
    for batch in seen:
        assert batch.ids.shape == batch.targets.shape == (len(batch.index), batch.lengths.max())
        assert (rows is None or len(batch.index) <= rows) and (limit is None or batch.ids.size <= limit)
        outside = np.arange(batch.ids.shape[1]) >= batch.lengths[:, None]
        assert (batch.ids[outside] == PAD).all() and (batch.targets[outside] == -1).all()
        for number, ids, targets, length in zip(
            batch.index, restored(batch), batch.targets, batch.lengths, strict=True
        ):
            assert ids[:length].tolist() == cut[number]
            words = sum(FIRST <= token <= LAST for token in cut[number])
            hidden = targets[targets >= 0]
            assert len(hidden) == min(words, max(1, int(rate * words + 0.5)))
            assert ((hidden >= FIRST) & (hidden <= LAST)).all()


def test_eighty_ten_ten():
    chosen = masked = kept = replaced = words = 0
    for epoch in range(6):
        for batch in batches(rate=0.3).epoch(epoch):
            hidden, originals = batch.targets >= 0, restored(batch)
            assert (batch.ids[~hidden] != MASK).all()
            new = batch.ids[hidden & (batch.ids != MASK)]
            assert ((new >= FIRST) & (new <= LAST)).all()
            words += int(batch.lengths.sum()) - len(batch.lengths)
            chosen += hidden.sum()
            masked += (batch.ids == MASK).sum()
            kept += (hidden & (batch.ids == originals)).sum()
            replaced += (hidden & (batch.ids != originals) & (batch.ids != MASK)).sum()
    assert abs(chosen / words - 0.3) < 0.01  # rounding to whole words a row
    for count, share in ((masked, 0.8), (replaced, 0.1), (kept, 0.1)):
        # 4 standard deviations of a share of n; a random piece equals the hidden one once in 500.
        assert abs(count / chosen - share) < 4 * np.sqrt(share * (1 - share) / chosen) + 1 / 500


def test_fifteen_percent_unless_told():
    assert batches().rate == 0.15
    (batch,) = batches([[7] * 40]).epoch()
    assert (batch.targets >= 0).sum() == 6


def test_masks_depend_on_seed_epoch_and_row_alone():
    small, large = batches(rows=3), batches(tokens=400)
    list(small.epoch(0))  # what was read before must not matter
    assert rows_of(small, 2) == rows_of(large, 2)
    assert rows_of(batches(shuffle=False), 2) == rows_of(small, 2)
    second, third, other = rows_of(small, 2), rows_of(small, 3), rows_of(batches(seed=6), 2)
    assert np.mean([second[i] == third[i] for i in second]) < 0.1 > np.mean([second[i] == other[i] for i in second])
    # the rest of the corpus does not matter either
    assert rows_of(batches(corpus(LAST)[:30]), 2) == {i: second[i] for i in range(30)}


def test_rows_of_one_text_are_hidden_apart():
    made = batches([np.arange(FIRST, FIRST + 40)] * 50)
    assert len({str(row) for row in rows_of(made, 0).values()}) == 50


def test_texts_of_like_length_share_a_batch():
    made = batches(corpus(LAST, 800), rows=8)
    assert made.padding_fraction() < 0.05 and (made.lengths() <= 48).all()


def test_both_kinds_of_batches_hide_by_one_rule():
    row = np.array([SOS, *corpus(LAST)[0]])
    ids, targets = hide(row, TOKENIZER, 0.4, -9, np.random.default_rng([5, 7, 2, 0]))
    (batch,) = batches([row[1:]], rate=0.4, max_len=64, ignore=-9).epoch(7)
    assert batch.ids[0].tolist() == ids.tolist() and batch.targets[0].tolist() == targets.tolist()


@pytest.mark.parametrize(
    ("options", "message"),
    [({"rate": 0}, "above 0"), ({"rate": 1.1}, "above 0"), ({"rate": float("nan")}, "above 0"), ({"max_len": 1}, "2")],
)
def test_refused(options, message):
    with pytest.raises(ValueError, match=message):
        batches(**options)


def test_a_tokenizer_without_mask_is_refused():
    with pytest.raises(ValueError, match=r"no special token \[MASK\]"):
        MaskedBatches([[4]], WordTokenizer(["a"]))
    with pytest.raises(ValueError, match="no documents"):
        MaskedBatches([], TOKENIZER).epoch()
