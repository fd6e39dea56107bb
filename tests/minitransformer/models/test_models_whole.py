"""A language model of whole texts: it tells words that were taken away from the mean of those that are left."""

import numpy as np
import pytest

from minitransformer.models import Classifier, LanguageModel

SIZES = {"vocab_size": 13, "d_model": 8, "n_heads": 2, "n_layers": 2, "d_ff": 12, "max_len": 9, "norm_first": True}
LENGTHS = np.array([6, 1, 4])
X = np.random.default_rng(0).integers(0, 11, (3, 6))
BAGS = np.array([[4, 4, 7, 12], [5, 12, 12, 12], [12, 9, 12, 4]])  # 12 is no word
OTHER_PADDING = np.where(np.arange(6) >= LENGTHS[:, None], (X + 1) % 11, X)


def whole(**options):
    return LanguageModel(**SIZES | {"causal": False, "whole": True, "dtype": "float64"} | options)


def by_hand(model):
    """log p (B, V), text by text, from the sum of the real positions; no norm follows the layers."""
    rows = []
    for ids, length in zip(X, LENGTHS, strict=True):
        stream = model.base(ids[None, :length]).numpy()[0]
        logits = sum(stream) / length @ model.head.weight.numpy().T + model.head.bias.numpy()
        rows.append(logits - np.log(np.exp(logits).sum()))
    return np.array(rows)


@pytest.mark.parametrize("causal", [False, True])
def test_the_loss_is_what_the_definition_says(backend, causal):
    model = whole(causal=causal)
    assert model.base.encoder.norm is None
    expected = by_hand(model)
    words = [(row, word) for row, bag in enumerate(BAGS) for word in bag if word != 12]
    assert len(words) == 6
    loss = model.loss(X, BAGS, ignore_index=12, lengths=LENGTHS).item()
    assert loss == pytest.approx(-np.mean([expected[row, word] for row, word in words]), rel=1e-12)
    logits = model(X, LENGTHS).numpy()
    assert logits.shape == (3, 13)
    np.testing.assert_allclose(logits - np.log(np.exp(logits).sum(axis=1, keepdims=True)), expected, rtol=1e-12)


def test_padding_changes_no_bit_and_without_lengths_all_positions_count(backend):
    model = whole(dtype="float32")
    assert model(X, LENGTHS).numpy().tobytes() == model(OTHER_PADDING, LENGTHS).numpy().tobytes()
    assert model(X).numpy().tobytes() == model(X, [6, 6, 6]).numpy().tobytes()
    assert (model(X).numpy()[1] != model(X, LENGTHS).numpy()[1]).any()


def test_the_order_of_a_bag_does_not_matter(backend):
    model = whole()
    losses = [model.loss(X, bags, 12, lengths=LENGTHS).item() for bags in (BAGS, BAGS[:, ::-1], BAGS[:, [2, 0, 3, 1]])]
    assert losses[0] == pytest.approx(losses[1], rel=1e-14) and losses[0] == pytest.approx(losses[2], rel=1e-14)


@pytest.mark.parametrize("share", [False, True])
def test_the_head_swap_keeps_every_bit_of_the_base(share):
    lm = whole(dtype="float32")
    swapped = Classifier.from_language_model(lm, 3, pooling="stream", share=share)
    assert (swapped.base is lm.base) == share
    assert swapped.base.mean(X, LENGTHS).numpy().tobytes() == lm.base.mean(X, LENGTHS).numpy().tobytes()
    assert swapped(X, LENGTHS).shape == (3, 3) and swapped.config()["causal"] is False


def test_what_is_refused():
    with pytest.raises(ValueError, match="give norm_first=True"):
        whole(norm_first=False)
    model = whole()
    for targets, message in (
        (BAGS[:2], r"shape \(3, K\), a row for each text, not \(2, 4\)"),
        (BAGS[0], r"not \(4,\)"),
        (BAGS.astype(float), "must hold integers"),
        (np.full((3, 2), 12), "give a word to predict"),
        (np.full((3, 2), 13), "outside 0 ... 12"),
        (np.full((3, 2), -1), "outside 0 ... 12"),
    ):
        with pytest.raises((ValueError, TypeError), match=message):
            model.loss(X, targets, ignore_index=12)
    with pytest.raises(ValueError, match="label_smoothing"):
        model.loss(X, BAGS, label_smoothing=0.1)
    for pooling in ("last", "mean", "last_column"):
        with pytest.raises(ValueError, match="pooling='stream'"):
            Classifier.from_language_model(model, pooling=pooling)
