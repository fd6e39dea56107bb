"""Models without a causal mask: what a word sees, what padding must not change, and what such a model cannot do."""

import numpy as np
import pytest

from minitransformer.decoding import Cache, beam_search, generate, stream
from minitransformer.layers import rows_at
from minitransformer.models import Classifier, LanguageModel

SIZES = {"vocab_size": 13, "d_model": 8, "n_heads": 2, "n_layers": 2, "d_ff": 12, "max_len": 9}
LENGTHS = np.array([6, 1, 4])
X = np.random.default_rng(0).integers(0, 11, (3, 6))
PADDING = np.arange(6) >= LENGTHS[:, None]
OTHER_PADDING = np.where(PADDING, (X + 1) % 11, X)


def masked(**options):
    return LanguageModel(**SIZES | {"causal": False} | options)


def classifier(**options):
    return Classifier(**SIZES | {"causal": False} | options)


# ---------------------------------------------------------------------------------------------------- who sees whom


@pytest.mark.parametrize("norm_first", [False, True])
def test_a_masked_model_sees_later_words_and_a_causal_one_does_not(backend, norm_first):
    both, past = masked(norm_first=norm_first), masked(norm_first=norm_first, causal=True)
    both.load_state_dict(past.state_dict())  # the mask is all that differs
    for later in range(1, 6):
        changed = X[:1].copy()
        changed[0, later] = (changed[0, later] + 1) % 11
        for t in range(later):
            assert (both(X[:1]).numpy()[0, t] != both(changed).numpy()[0, t]).any()
            assert past(X[:1]).numpy()[0, t].tobytes() == past(changed).numpy()[0, t].tobytes()


def test_lengths_change_nothing_behind_a_causal_mask(backend):
    model = masked(causal=True)
    assert model(X).numpy().tobytes() == model(X, LENGTHS).numpy().tobytes()
    targets = np.where(PADDING, 12, X)
    assert model.loss(X, targets, 12).item() == model.loss(X, targets, 12, lengths=LENGTHS).item()


@pytest.mark.parametrize("pooling", ["last", "mean"])
def test_every_real_word_reaches_the_class(pooling):
    model = classifier(pooling=pooling, n_layers=1)
    logits = model(X[:1], [4]).numpy()
    for t in range(6):
        changed = X[:1].copy()
        changed[0, t] = (changed[0, t] + 1) % 11
        assert (model(changed, [4]).numpy() != logits).any() == (t < 4)


# ---------------------------------------------------------------------------------------------------- padding


def test_padding_changes_no_bit_of_a_masked_model(backend):
    model = masked()
    one, other = model(X, LENGTHS).numpy(), model(OTHER_PADDING, LENGTHS).numpy()
    assert one[~PADDING].tobytes() == other[~PADDING].tobytes()
    assert model(X).numpy()[~PADDING].tobytes() != model(OTHER_PADDING).numpy()[~PADDING].tobytes()  # unless it is said
    targets = np.where(PADDING, 12, X)
    losses = [model.loss(x, targets, ignore_index=12, lengths=LENGTHS).item() for x in (X, OTHER_PADDING)]
    assert losses[0] == losses[1]


@pytest.mark.parametrize("pooling", ["last", "mean"])
def test_padding_changes_no_bit_of_a_class(backend, pooling):
    model = classifier(pooling=pooling)
    assert model(X, LENGTHS).numpy().tobytes() == model(OTHER_PADDING, LENGTHS).numpy().tobytes()


def test_the_labs_flaw_reads_padding_that_no_word_sees():
    """The last column is read although it is padding, yet as a key it stays hidden: other padding has no effect."""
    model, x = classifier(pooling="last_column"), X[2:]
    hidden_key, read_key = x.copy(), x.copy()
    hidden_key[0, 4], read_key[0, 5] = (x[0, 4] + 1) % 11, (x[0, 5] + 1) % 11
    logits = model(x, [4]).numpy()
    assert logits.tobytes() == model(hidden_key, [4]).numpy().tobytes() != model(read_key, [4]).numpy().tobytes()


@pytest.mark.parametrize("pooling", ["last", "mean"])
def test_a_row_is_classified_as_if_it_were_alone(backend, pooling):
    model = classifier(pooling=pooling, dtype="float64")
    together = model(X, LENGTHS).numpy()
    for row, length in enumerate(LENGTHS):
        alone = model(X[row : row + 1, :length]).numpy()[0]
        np.testing.assert_allclose(together[row], alone, rtol=1e-11, atol=1e-13)  # float64, other matrix sizes


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("causal", [False, True])
def test_one_position_alone_is_what_it_is_among_all(backend, causal, norm_first):
    base = masked(causal=causal, norm_first=norm_first, dtype="float64").base
    for places in (LENGTHS - 1, [2, 0, 0]):
        alone = base(X, only=np.array(places), lengths=LENGTHS).numpy()
        among = rows_at(base(X, lengths=LENGTHS), np.array(places)).numpy()
        np.testing.assert_allclose(alone, among, rtol=1e-11, atol=1e-13)  # float64, other matrix sizes


def test_the_mean_is_over_real_words_alone():
    model = classifier(pooling="mean", dtype="float64")
    hidden = model.base(X, lengths=LENGTHS).numpy()
    means = np.stack([row[:length].mean(axis=0) for row, length in zip(hidden, LENGTHS, strict=True)])
    expected = means @ model.head.weight.numpy().T + model.head.bias.numpy()
    np.testing.assert_allclose(model(X, LENGTHS).numpy(), expected, rtol=1e-12)  # eight products of float64


# ---------------------------------------------------------------------------------------------------- swap, decoding


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("share", [False, True])
def test_the_head_swap_keeps_the_direction(causal, share):
    lm = masked(causal=causal, tie_weights=True)
    swapped = Classifier.from_language_model(lm, share=share)
    assert swapped.config.causal is lm.config.causal is swapped.base.causal is causal
    assert swapped.base(X, lengths=LENGTHS).numpy().tobytes() == lm.base(X, lengths=LENGTHS).numpy().tobytes()


@pytest.mark.parametrize("use_cache", [False, True])
def test_a_masked_model_does_not_write(use_cache):
    options = {"max_new_tokens": 2, "eos": 2, "use_cache": use_cache}
    for write in (generate, beam_search, lambda *a, **o: list(stream(*a, **o))):
        with pytest.raises(ValueError, match="fills in hidden words") as error:
            write(masked(), X[:1, :3], **options)
        assert "\n" not in str(error.value)
    with pytest.raises(ValueError, match="has no cache"):
        masked().base(X, cache=Cache(2, 3, 9))


@pytest.mark.parametrize(("lengths", "message"), [([6, 1], r"shape \(3,\)"), ([6, 0, 4], "is 0"), ([7, 1, 4], "is 7")])
def test_lengths_are_checked(lengths, message):
    for call in (masked(), masked().base.forward, masked(causal=True)):
        with pytest.raises(ValueError, match=message):
            call(X, lengths=lengths)
