"""BERT's batches: which tokens are hidden, how, and which sentence follows which."""

import numpy as np
import pytest

from minitransformer.app.data import BERT_SPECIALS, BertBatches, WordTokenizer, bert_inputs, split_sentences

WORDS = [f"w{i}" for i in range(500)]
TOKENIZER = WordTokenizer(WORDS, extra_specials=BERT_SPECIALS)
CLS, SEP, MASK = (TOKENIZER.special(name) for name in BERT_SPECIALS)
PAD, OOV = 1, 3


def corpus(n_documents=60, seed=0):
    """Sentence s of document d begins with two tokens that say so: tests can tell who follows whom."""
    generator = np.random.default_rng(seed)
    return [
        [
            np.concatenate([[4 + d, 104 + s], generator.integers(204, 504, generator.integers(5, 30))])
            for s in range(generator.integers(1, 9))
        ]
        for d in range(n_documents)
    ]


def batches(**options):
    return BertBatches(corpus(), TOKENIZER, **{"rows": 8, "max_len": 64, "seed": 5, "ignore": -1} | options)


def restored(batch):
    return np.where(batch.masked_targets >= 0, batch.masked_targets, batch.ids)


def test_shape_of_a_row():
    for batch in batches(max_len=24).epoch():
        originals = restored(batch)
        assert batch.ids.shape == batch.segments.shape == batch.masked_targets.shape
        for ids, segments, length in zip(originals, batch.segments, batch.lengths, strict=True):
            assert length <= 24 and ids[0] == CLS and ids[length - 1] == SEP
            middle = int(np.flatnonzero(ids == SEP)[0])
            assert (ids == SEP).sum() == 2 and (ids == CLS).sum() == 1 and 1 < middle < length - 2
            assert (segments[: middle + 1] == 0).all() and (segments[middle + 1 : length] == 1).all()
            assert (ids[length:] == PAD).all() and (segments[length:] == 0).all()
        assert (batch.masked_targets[np.arange(originals.shape[1]) >= batch.lengths[:, None]] == -1).all()


def test_next_sentence_labels_tell_the_truth_and_are_balanced():
    labels = []
    for batch in batches().epoch(1):
        for ids, label in zip(restored(batch), batch.next_labels, strict=True):
            first, second = ids[1:3], ids[np.flatnonzero(ids == SEP)[0] + 1 :][:2]
            same_document, next_in_order = first[0] == second[0], second[1] == first[1] + 1
            assert (same_document and next_in_order) if label == 0 else not same_document
            labels.append(label)
    expected = sum(len(d) - 1 for d in corpus())
    assert len(labels) == expected
    # n fair coins: the share of heads stays within 4 standard deviations of a half.
    assert abs(np.mean(labels) - 0.5) < 4 * 0.5 / np.sqrt(expected)


def test_random_sentences_of_a_single_document_are_not_the_next_one():
    sentences = [[4 + i] * 3 for i in range(12)]
    made = BertBatches([sentences], TOKENIZER, rows=4)
    for epoch in range(20):
        second, labels = made.pairs(epoch)
        first = np.arange(11)
        assert (second[labels == 0] == first[labels == 0] + 1).all()
        drawn, of = second[labels == 1], first[labels == 1]
        assert (drawn != of + 1).all() and (drawn != of).all() and drawn.min() >= 0 and drawn.max() < 12


def test_fifteen_percent_and_eighty_ten_ten():
    chosen = masked = kept = replaced = ordinary = 0
    for epoch in range(4):
        for batch in batches().epoch(epoch):
            hidden = batch.masked_targets >= 0
            originals = restored(batch)
            special = np.isin(originals, [CLS, SEP, PAD, MASK])
            assert not (hidden & special).any()
            assert (batch.ids[~hidden] != MASK).all()
            assert (hidden.sum(axis=1) >= 1).all()
            per_row = (~special).sum(axis=1)
            assert (np.abs(hidden.sum(axis=1) - 0.15 * per_row) <= 0.5 + 1e-9).all()
            chosen += hidden.sum()
            ordinary += per_row.sum()
            masked += (hidden & (batch.ids == MASK)).sum()
            kept += (hidden & (batch.ids == originals)).sum()
            replaced += (hidden & (batch.ids != originals) & (batch.ids != MASK)).sum()
            assert not np.isin(batch.ids[hidden & (batch.ids != MASK)], [0, 1, 2, 3, CLS, SEP]).any()
    assert abs(chosen / ordinary - 0.15) < 0.01  # rounding to whole tokens a row
    for count, share in ((masked, 0.8), (replaced, 0.1), (kept, 0.1)):
        # 4 standard deviations of a share of n; a random piece equals the hidden one once in 500.
        assert abs(count / chosen - share) < 4 * np.sqrt(share * (1 - share) / chosen) + 1 / 500


def test_unknown_words_are_never_chosen():
    text = [[OOV] * 10, [OOV, 7, OOV], [OOV, OOV]]
    for batch in BertBatches([text, text], TOKENIZER, rows=2, ignore=-1).epoch():
        assert np.isin(batch.masked_targets, [-1, 7]).all()
        assert ((restored(batch) == OOV) == (batch.ids == OOV)).all()


def test_masks_do_not_depend_on_company_or_on_what_was_read_before():
    small, large = batches(rows=3), batches(rows=11)
    list(small.epoch(0))

    def rows(made, epoch):
        return {
            int(i): (ids[:n].tolist(), targets[:n].tolist())
            for b in made.epoch(epoch)
            for i, ids, targets, n in zip(b.index, b.ids, b.masked_targets, b.lengths, strict=True)
        }

    assert rows(small, 2) == rows(large, 2) != rows(small, 3)
    # A pair that stays together from one epoch to the next is masked anew.
    kept = np.flatnonzero((small.pairs(2)[1] == 0) & (small.pairs(3)[1] == 0))
    second, third = rows(small, 2), rows(small, 3)
    assert np.mean([second[i] == third[i] for i in kept]) < 0.1
    assert rows(batches(seed=6), 2) != rows(small, 2)
    tail = list(small.epoch(2, start=4))
    assert all(np.array_equal(a.ids, b.ids) for a, b in zip(tail, list(batches(rows=3).epoch(2))[4:], strict=True))


def test_reported_lengths_are_the_lengths_built():
    made = batches(max_len=20)
    lengths = made.lengths(3)
    for batch in made.epoch(3):
        assert (lengths[batch.index] == batch.lengths).all()


@pytest.mark.parametrize(
    ("a", "b", "kept"), [(3, 3, (3, 3)), (20, 2, (5, 2)), (2, 20, (2, 5)), (20, 20, (4, 3)), (4, 4, (4, 3))]
)
def test_the_longer_sentence_is_cut_first(a, b, kept):
    ids, segments = bert_inputs(TOKENIZER, [10] * a, [11] * b, max_len=10)
    assert ((ids == 10).sum(), (ids == 11).sum()) == kept
    assert len(ids) == len(segments) == sum(kept) + 3


def test_one_sentence_and_errors():
    ids, segments = bert_inputs(TOKENIZER, [10] * 9, max_len=6)
    assert ids.tolist() == [CLS, 10, 10, 10, 10, SEP] and segments.tolist() == [0] * 6
    with pytest.raises(ValueError, match="extra_specials"):
        bert_inputs(WordTokenizer(["a"]), [4])
    with pytest.raises(ValueError, match="longer documents"):
        BertBatches([[[4]], [[5]]], TOKENIZER)


def test_split_sentences():
    assert split_sentences(" Un. Deux ! Trois ?  Et… quatre") == ["Un.", "Deux !", "Trois ?", "Et…", "quatre"]
    assert split_sentences("v3.5 va") == ["v3.5 va"] and split_sentences(" ") == []
