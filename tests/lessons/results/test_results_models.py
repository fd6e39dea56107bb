"""A language model of whole texts: it tells words that were taken away from the mean of those that are left."""

import numpy as np
import pytest

from autograd import gradcheck
from lessons.results.models import BagModel, QuietClassifier, QuietStreamClassifier, StreamClassifier
from minitransformer import Classifier, LanguageModel

pytestmark = pytest.mark.slow  # trainings of the results page, on toys

SIZES = {"vocab_size": 13, "d_model": 8, "n_heads": 2, "n_layers": 2, "d_ff": 12, "max_len": 9, "norm_first": True}
LENGTHS = np.array([6, 1, 4])
X = np.random.default_rng(0).integers(0, 11, (3, 6))
BAGS = np.array([[4, 4, 7, 12], [5, 12, 12, 12], [12, 9, 12, 4]])  # 12 is no word
OTHER_PADDING = np.where(np.arange(6) >= LENGTHS[:, None], (X + 1) % 11, X)


def whole(**options):
    return BagModel(**SIZES | {"causal": False, "dtype": "float64"} | options)


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
    swapped = StreamClassifier.from_language_model(lm, 3, share=share)
    assert (swapped.base is lm.base) == share
    assert swapped.base.mean(X, LENGTHS).numpy().tobytes() == lm.base.mean(X, LENGTHS).numpy().tobytes()
    assert swapped(X, LENGTHS).shape == (3, 3) and swapped.config.causal is False


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
    with pytest.raises(ValueError, match="give norm_first=True"):
        StreamClassifier(**SIZES | {"norm_first": False})
    with pytest.raises(ValueError, match="needs the norm"):
        StreamClassifier.from_language_model(LanguageModel(**SIZES), share=True)


def check_gradients(model, loss):
    """Every weight against differences of the loss; gradcheck works on copies, which are put into the model."""
    weights = model.named_parameters()
    owners = [[(m, a) for m in model.modules() for a, held in vars(m).items() if held is old] for _, old in weights]

    def function(*copies):
        for places, copy in zip(owners, copies, strict=True):
            for module, attribute in places:
                setattr(module, attribute, copy)
        return loss()

    report = gradcheck(function, [weight for _, weight in weights], directions=2, full_jacobian=0)
    assert report.entries == 2 * len(weights)


TINY = {"vocab_size": 5, "d_model": 4, "n_heads": 2, "n_layers": 2, "d_ff": 3, "max_len": 6, "norm_first": True}
TINY |= {"dtype": "float64", "activation": "gelu", "causal": False}
TEXTS = np.array([[1, 4, 2, 1], [3, 0, 2, 2]])


@pytest.mark.slow_on("emulated")
@pytest.mark.parametrize("tie_weights", [False, True])
def test_gradients_of_bags(tie_weights, backend):
    model = BagModel(**TINY, tie_weights=tie_weights)
    check_gradients(model, lambda: model.loss(TEXTS, [[1, 3, 3], [2, 0, 0]], ignore_index=0, lengths=[4, 2]))


@pytest.mark.slow_on("emulated")
@pytest.mark.parametrize("kind", [StreamClassifier, QuietStreamClassifier])
def test_gradients_of_classifiers(kind, backend):
    model = kind(**TINY)
    check_gradients(model, lambda: model.loss(TEXTS, [0, 1], [4, 2]))


def ids(*shape):
    return np.random.default_rng(0).integers(0, 11, shape)


def test_in_the_stream_a_word_can_be_louder_than_the_others(backend):
    """Enlarge one word's embedding a thousandfold: the class of the text is moved as many times farther, where a norm
    before the mean makes the word weigh what every word weighs."""
    x, loud = ids(1, 6), ids(1, 6)[0, 2]
    assert (x == loud).sum() == 1
    moved = {}
    for kind in (QuietClassifier, QuietStreamClassifier):
        model = kind(**SIZES, pooling="mean", dtype="float64")
        logits = []
        for factor in (1, 10, 10_000):
            weights = model.state_dict()
            weights["base.embedding.weight"][loud] *= factor
            model.load_state_dict(weights)
            logits.append(model(x).numpy()[0])
        moved[kind] = np.abs(logits[2] - logits[1]).max() / np.abs(logits[1] - logits[0]).max()
    assert moved[QuietStreamClassifier] > 1000 and moved[QuietClassifier] < 10


def test_the_stream_is_what_the_layers_sum_up():
    model = StreamClassifier(**SIZES, dtype="float64")
    x = ids(1, 5)
    stream = model.base.embedding(x)
    for layer in model.base.encoder.layers:
        stream = layer(stream, is_causal=True)
    expected = stream.numpy()[0].mean(axis=0) @ model.head.weight.numpy().T + model.head.bias.numpy()
    np.testing.assert_allclose(model(x).numpy()[0], expected, rtol=1e-11)  # float64


def test_the_stream_of_a_language_model_is_taken_without_its_closing_norm():
    lm = LanguageModel(**SIZES)
    model = StreamClassifier.from_language_model(lm)
    own, base = model.base.state_dict(), lm.base.state_dict()
    assert base.keys() - own.keys() == {"encoder.norm.weight", "encoder.norm.bias"}
    assert all(np.array_equal(own[name], base[name]) for name in own)


def test_a_quiet_start_makes_words_and_sublayers_small_and_nothing_else():
    loud, quiet = (kind(**SIZES) for kind in (Classifier, QuietClassifier))
    for name, weight in loud.state_dict().items():
        factor = {"embedding.weight": 0.01, "out_proj.weight": 0.05, "linear2.weight": 0.05}
        expected = next((f for end, f in factor.items() if name.endswith(end)), 1.0)
        np.testing.assert_allclose(quiet.state_dict()[name], weight * expected, rtol=1e-6, err_msg=name)
    x = ids(1, 4)
    places = loud.base.embedding.positions(4).numpy()
    words, less = (model.base.embedding(x).numpy() - places for model in (loud, quiet))
    np.testing.assert_allclose(less, words / 10, atol=1e-6)  # positions of size 1 were added and taken away again
    assert QuietClassifier(**SIZES, seed=None).num_parameters() == loud.num_parameters()
