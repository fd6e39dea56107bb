"""Batches: nothing lost, nothing leaked, little padding, and the same again from the same seed."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minitransformer.app.data import (
    ClassifierBatches,
    LanguageModelBatches,
    MaskedBatches,
    TranslationBatches,
    WordTokenizer,
    batch_order,
    padding_fraction,
)

SOS, PAD, EOS = 0, 1, 2


def documents(n, seed=0, longest=40):
    generator = np.random.default_rng(seed)
    return [generator.integers(4, 100, generator.integers(0, longest)).astype(np.int32) for _ in range(n)]


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 30), st.integers(1, 30)), min_size=1, max_size=120),
    st.one_of(st.none(), st.integers(1, 17)),
    st.one_of(st.none(), st.integers(60, 300)),
    st.integers(0, 3),
    st.integers(0, 3),
    st.booleans(),
    st.integers(1, 4),
)
def test_order_is_a_partition_within_the_limits(lengths, rows, tokens, seed, epoch, shuffle, bucket):
    if rows is None and tokens is None:
        rows = 5
    lengths = np.array(lengths)
    options = dict(rows=rows, tokens=tokens, seed=seed, epoch=epoch, shuffle=shuffle, bucket_batches=bucket)
    order = batch_order(lengths, **options)
    assert sorted(np.concatenate(order).tolist()) == list(range(len(lengths)))
    for batch in order:
        assert len(batch) > 0
        assert rows is None or len(batch) <= rows
        assert tokens is None or len(batch) * lengths[batch].max(axis=0).sum() <= tokens
    if tokens is None:
        assert len(order) == -(-len(lengths) // rows)
    if tokens is not None and not shuffle:  # no batch stops early: the next document would have been too much
        for batch, following in pairwise(order):
            fuller = np.append(batch, following[0])
            positions = len(fuller) * lengths[fuller].max(axis=0).sum()
            assert positions > tokens or len(batch) == rows
    again = batch_order(lengths, **options)
    assert all(np.array_equal(a, b) for a, b in zip(order, again, strict=True))
    assert 0 <= padding_fraction(lengths, order) < 1


def test_order_changes_with_seed_and_epoch_in_company_and_place():
    lengths = np.random.default_rng(0).integers(1, 200, 1000)
    orders = [batch_order(lengths, rows=8, seed=s, epoch=e) for s, e in ((0, 0), (0, 1), (1, 0))]
    groups = [{frozenset(batch.tolist()) for batch in order} for order in orders]
    assert len(groups[0] & groups[1]) < 20 and len(groups[0] & groups[2]) < 20
    # Batches must not come shortest first: the loss curve would show lengths, not learning.
    means = [lengths[batch].mean() for batch in orders[0]]
    assert abs(np.corrcoef(means, np.arange(len(means)))[0, 1]) < 0.3  # 125 batches: 3.4 standard deviations


def test_sorting_by_length_saves_padding():
    lengths = np.random.default_rng(0).geometric(0.01, 4000)
    by_length = padding_fraction(lengths, batch_order(lengths, rows=16, bucket_batches=50))
    as_they_come = padding_fraction(lengths, [np.arange(i, i + 16) for i in range(0, 4000, 16)])
    # A sorted batch pads at most rows * (its longest - its shortest), and inside a bucket these differences
    # add up to no more than the bucket's longest - shortest; here are 5 buckets of 50 batches.
    most = 5 * 16 * (lengths.max() - lengths.min())
    assert by_length <= most / (most + lengths.sum()) < 0.2 < as_they_come
    # Both sides of a pair count: sorting by one of them alone leaves the other ragged.
    pairs = np.stack([lengths % 20 + 1, np.random.default_rng(1).integers(1, 21, 4000)], axis=1)
    by_both = padding_fraction(pairs, batch_order(pairs, rows=16, bucket_batches=250))
    by_one = padding_fraction(pairs, batch_order(pairs[:, 1], rows=16, bucket_batches=250))
    assert by_both < 0.5 * by_one


def test_padding_fraction_by_hand():
    assert padding_fraction(np.array([3, 1, 2]), [np.array([0, 1]), np.array([2])]) == pytest.approx(1 - 6 / 8)
    assert padding_fraction(np.array([[3, 1], [1, 1]]), [np.array([0, 1])]) == pytest.approx(1 - 6 / 8)


@pytest.mark.parametrize(
    "options",
    [{}, {"rows": 0}, {"tokens": 0}, {"rows": 2, "seed": -1}, {"rows": 2, "epoch": -1}, {"tokens": 4}],
)
def test_order_refuses(options):
    with pytest.raises(ValueError):
        batch_order(np.array([5, 2]), **options)


def test_language_model_form():
    batches = LanguageModelBatches([[10, 11, 12, 13, 14], [20], []], max_len=4, rows=3, shuffle=False, ignore=-7)
    (batch,) = batches.epoch()
    assert batch.index.tolist() == [2, 1, 0] and batch.lengths.tolist() == [1, 2, 4]
    assert batch.ids.tolist() == [[SOS, PAD, PAD, PAD], [SOS, 20, PAD, PAD], [SOS, 10, 11, 12]]
    # Unlike the labs' batches, a document that is left in the middle does not claim to end there.
    assert batch.targets.tolist() == [[EOS, -7, -7, -7], [20, EOS, -7, -7], [10, 11, 12, 13]]
    assert batch.ignore == -7 and batch.ids.dtype == batch.targets.dtype == np.int64


@pytest.mark.parametrize("n", range(0, 14))
def test_windows_predict_every_piece_once(n):
    batches = LanguageModelBatches([list(range(10, 10 + n))], max_len=4, rows=1, windows=True)
    seen = sorted((b for b in batches.epoch()), key=lambda b: b.ids[0, 0] if b.ids[0, 0] != SOS else -1)
    stream = [SOS, *range(10, 10 + n), EOS]
    assert [i for b in seen for i in b.ids[0]] == stream[:-1]
    assert [t for b in seen for t in b.targets[0]] == stream[1:]
    assert all(len(b.ids[0]) <= 4 and b.index.tolist() == [0] for b in seen)


@pytest.mark.parametrize("windows", [False, True])
def test_targets_are_inputs_shifted_and_padding_is_ignored(windows):
    texts = documents(200)
    batches = LanguageModelBatches(texts, max_len=16, tokens=256, windows=windows, ignore=-1)
    pieces = 0
    for batch in batches.epoch(2):
        for ids, targets, length in zip(batch.ids, batch.targets, batch.lengths, strict=True):
            assert (ids[1:length] == targets[: length - 1]).all()
            assert (ids[length:] == PAD).all() and (targets[length:] == -1).all()
            assert (targets[:length] >= 0).all()
            pieces += length
    assert pieces == sum(len(t) + 1 if windows else min(len(t) + 1, 16) for t in texts)


def all_kinds():
    texts = documents(101)
    labels = [len(t) % 2 for t in texts]
    words = WordTokenizer([f"w{i}" for i in range(96)], extra_specials=["[MASK]"])
    return {
        "lm": LanguageModelBatches(texts, max_len=32, rows=4, seed=3),
        "windows": LanguageModelBatches(texts, max_len=8, tokens=64, seed=3, windows=True),
        "classifier": ClassifierBatches(texts, labels, max_len=32, rows=4, seed=3),
        "masked": MaskedBatches(texts, words, max_len=32, tokens=128, seed=3),
        "translation": TranslationBatches(texts, documents(101, 1), max_len=32, tokens=256, seed=3),
    }


def same(a, b):
    return all(np.array_equal(vars(a)[key], vars(b)[key]) for key in vars(a))


@pytest.mark.parametrize("kind", all_kinds())
def test_resuming_gives_the_rest_of_the_epoch(kind):
    whole = list(all_kinds()[kind].epoch(5))
    batches = all_kinds()[kind]
    list(batches.epoch(0))  # what came before must not matter
    assert len(whole) == batches.count(5)
    for start in (0, 1, 7, len(whole)):
        rest = list(batches.epoch(5, start=start))
        assert len(rest) == len(whole) - start
        assert all(same(a, b) for a, b in zip(rest, whole[start:], strict=True))
    assert not all(same(a, b) for a, b in zip(batches.epoch(6), whole, strict=False))
    with pytest.raises(ValueError, match="has"):
        batches.epoch(5, start=len(whole) + 1)


@pytest.mark.parametrize("kind", ["lm", "windows", "classifier", "masked"])
def test_reported_padding_is_what_the_arrays_hold(kind):
    batches = all_kinds()[kind]
    ids = [b for b in batches.epoch(1)]
    padding = sum((b.ids == PAD).sum() for b in ids) / sum(b.ids.size for b in ids)
    assert batches.padding_fraction(1) == pytest.approx(padding)


def test_classifier_batches_keep_labels_with_their_texts():
    texts = [[4 + i] * (i % 7) for i in range(50)]
    batches = ClassifierBatches(texts, list(range(50)), max_len=5, rows=8, seed=1)
    seen = []
    for batch in batches.epoch(0):
        assert (batch.labels == batch.index).all() and (batch.ids[:, 0] == SOS).all()
        for ids, length, label in zip(batch.ids, batch.lengths, batch.labels, strict=True):
            assert ids[1:length].tolist() == texts[label][:4] and (ids[length:] == PAD).all()
            seen.append(label)
    assert sorted(seen) == list(range(50))
    with pytest.raises(ValueError, match="one label each"):
        ClassifierBatches(texts, [0])


def test_translation_form():
    batches = TranslationBatches([[10, 11], [12] * 9], [[20], [21, 22]], max_len=4, rows=2, shuffle=False, ignore=-1)
    (batch,) = batches.epoch()
    assert batch.source.tolist() == [[10, 11, EOS, PAD], [12, 12, 12, EOS]]
    assert batch.target_in.tolist() == [[SOS, 20, PAD], [SOS, 21, 22]]
    assert batch.target_out.tolist() == [[20, EOS, -1], [21, 22, EOS]]
    assert batch.source_lengths.tolist() == [3, 4] and batch.target_lengths.tolist() == [2, 3]
    short = TranslationBatches([[12] * 9, [10, 11]], [[21, 22], [20]], max_len=4, rows=2, drop_long=True)
    (batch,) = short.epoch()
    assert short.dropped == 1 and batch.index.tolist() == [1] and batch.source.tolist() == [[10, 11, EOS]]
    with pytest.raises(ValueError, match="every pair is longer"):
        TranslationBatches([[1] * 9], [[1]], max_len=4, drop_long=True)
    with pytest.raises(ValueError, match="give pairs"):
        TranslationBatches([[4]], [])


def test_no_documents():
    with pytest.raises(ValueError, match="no documents"):
        LanguageModelBatches([]).epoch()
    with pytest.raises(ValueError, match="max_len"):
        LanguageModelBatches([[4]], max_len=1)
