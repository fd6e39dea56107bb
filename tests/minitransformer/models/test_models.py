"""The four models: sizes, state, what may and what must not influence what, and clear errors."""

import json
import subprocess
import sys

import numpy as np
import pytest

import autograd.functional as F
import kernels
from autograd import Tensor
from minitransformer.models import Bert, Classifier, LanguageModel, Translator, build
from minitransformer.optim import Adam

MODELS = {model.__name__: model for model in (LanguageModel, Classifier, Translator, Bert)}
SMALL = {"vocab_size": 13, "d_model": 8, "n_heads": 2, "n_layers": 2, "d_ff": 12, "max_len": 9}
SMALL_PAIR = {
    "source_vocab": 11, "target_vocab": 13, "d_model": 8, "n_heads": 2, "n_encoder": 2, "n_decoder": 2, "d_ff": 12,
    "max_len": 9,
}  # fmt: skip


def ids(*shape, high=11, seed=0):
    return np.random.default_rng(seed).integers(0, high, shape)


def small(kind, **options):
    return MODELS[kind](**(SMALL_PAIR if kind == "Translator" else SMALL) | options)


def loss_of(model):
    """Some loss of a model, whichever it is."""
    x, y = ids(2, 5), ids(2, 5, seed=1)
    if isinstance(model, LanguageModel):
        return model.loss(x, y)
    if isinstance(model, Classifier):
        return model.loss(x, [0, 1], [5, 3])
    if isinstance(model, Translator):
        return model.loss(x, y, ids(2, 5, seed=2), [5, 3])
    return model.loss(x, x % 2, y, [0, 1], [5, 3])


def same_bits(one, other):
    one, other = (m.state_dict() for m in (one, other))
    return one.keys() == other.keys() and all(one[n].tobytes() == other[n].tobytes() for n in one)


# ---------------------------------------------------------------------------------------------------- sizes


def test_the_labs_parameter_counts():
    assert build("lab", seed=None).num_parameters() == 21_018_401
    assert build("lab", "classifier", seed=None).num_parameters() == 10_968_602


def test_counts_follow_the_formula():
    V, C, width, L = 13, 8, 12, 2
    layer = 4 * C * C + 4 * C + 2 * C * width + width + C + 4 * C
    head = V * C + V
    assert small("LanguageModel").num_parameters() == V * C + L * layer + head
    assert small("LanguageModel", tie_weights=True).num_parameters() == V * C + L * layer + V
    assert small("LanguageModel", norm_first=True).num_parameters() == V * C + L * layer + head + 2 * C
    assert small("LanguageModel", positions="learned").num_parameters() == V * C + L * layer + head + 9 * C
    assert small("Classifier", n_classes=3).num_parameters() == V * C + L * layer + 3 * C + 3
    decoder = layer + 4 * C * C + 4 * C + 2 * C
    assert small("Translator").num_parameters() == 11 * C + V * C + L * layer + L * decoder + head
    shared = small("Translator", source_vocab=13, share_embedding=True, tie_weights=True)
    assert shared.num_parameters() == V * C + L * layer + L * decoder + V
    assert small("Bert").num_parameters() == V * C + 9 * C + 2 * C + 2 * C + L * layer + head + 2 * C + 2


def test_shapes(backend):
    assert small("LanguageModel")(ids(3, 5)).shape == (3, 5, 13)
    assert small("Classifier", n_classes=4)(ids(3, 5), [5, 1, 2]).shape == (3, 4)
    assert small("Translator")(ids(3, 5), ids(3, 4), [5, 1, 2]).shape == (3, 4, 13)
    words, following = small("Bert")(ids(3, 5), ids(3, 5, high=2), [5, 1, 2])
    assert words.shape == (3, 5, 13) and following.shape == (3, 2)


@pytest.mark.parametrize("kind", MODELS)
def test_every_weight_gets_a_gradient(kind, backend):
    model = small(kind)
    loss_of(model).backward()
    without = [name for name, p in model.named_parameters() if p.grad is None or not p.grad.numpy().any()]
    assert without == []


def test_the_loss_is_the_cross_entropy_of_the_logits(backend):
    model = small("LanguageModel", dtype="float64")
    x, y = ids(2, 5), ids(2, 5, high=13, seed=1)
    y[0, 3:] = 12
    logits = model(x).numpy()
    log_p = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    picked = np.take_along_axis(log_p, y[..., None], -1)[..., 0]
    kept = y != 12
    assert model.loss(x, y).item() == pytest.approx(-picked.mean(), rel=1e-12)
    assert model.loss(x, y, ignore_index=12).item() == pytest.approx(-picked[kept].mean(), rel=1e-12)
    smooth = -(0.9 * picked + 0.1 * log_p.mean(-1))[kept].mean()
    assert model.loss(x, y, ignore_index=12, label_smoothing=0.1).item() == pytest.approx(smooth, rel=1e-12)


def test_berts_losses_are_those_of_its_scores():
    model = small("Bert", dtype="float64")
    x, y, labels = ids(2, 5), ids(2, 5, seed=1), [0, 1]
    y[0, :3] = 12
    words, following = model(x, x % 2, [5, 3])
    expected = F.cross_entropy(words, y, ignore_index=12).item(), F.cross_entropy(following, labels).item()
    got = [part.item() for part in model.losses(x, x % 2, y, labels, [5, 3], ignore_index=12)]
    assert got == pytest.approx(expected, rel=1e-12)
    assert model.loss(x, x % 2, y, labels, [5, 3], ignore_index=12).item() == pytest.approx(sum(expected), rel=1e-12)


# ---------------------------------------------------------------------------------------------------- state


@pytest.mark.parametrize("kind", MODELS)
def test_config_and_state_make_the_same_model_again(kind):
    model = small(kind, dropout=0.1, norm_first=True, seed=4, dtype="float64")
    settings = json.loads(json.dumps(model.settings()))
    again = MODELS[kind](**settings)
    assert again.config == model.config and same_bits(again, model)
    assert same_bits(MODELS[kind](model.config), model)
    empty = MODELS[kind](model.config, seed=None)
    empty.load_state_dict(model.state_dict())
    assert same_bits(empty, model)
    assert loss_of(empty.eval()).item() == loss_of(model.eval()).item()
    loss_of(empty).backward()
    Adam(empty.parameters()).step()  # weights that were loaded can be changed


@pytest.mark.parametrize("kind", MODELS)
def test_numpy_sizes_are_taken(kind):
    model = small(kind, d_model=np.int64(8))
    json.dumps(model.settings())


@pytest.mark.parametrize("kind", MODELS)
def test_dropout_can_be_resumed_and_is_the_same_on_every_backend(kind):
    losses = {}
    for name in kernels.available():
        model = small(kind, dropout=0.3, dtype="float64").to(name)
        first = loss_of(model).item()
        state = json.loads(json.dumps(model.rng_state()))
        second = loss_of(model).item()
        assert first != second
        model.set_rng_state(state)
        assert loss_of(model).item() == second
        losses[name] = first, second
    # float64 in another order of operations; another mask would differ in the first digits
    np.testing.assert_allclose(list(losses.values()), [losses["numpy"]] * len(losses), rtol=1e-10)


@pytest.mark.parametrize("kind", MODELS)
def test_a_model_moves_between_backends(kind):
    model = small(kind, dtype="float64")
    values = []
    for name in (*kernels.available(), "numpy"):
        values.append(loss_of(model.to(name)).item())
    np.testing.assert_allclose(values, values[-1], rtol=1e-10)  # float64 in another order of operations
    assert values[0] == values[-1]  # numpy, and numpy again


def test_resumed_training_has_the_same_bits(backend):
    def steps(model, optimizer, count):
        for _ in range(count):
            optimizer.zero_grad()
            loss_of(model).backward()
            optimizer.step()

    whole = small("LanguageModel", dropout=0.2)
    steps(whole, Adam(whole.named_parameters(), 1e-2), 4)
    first = small("LanguageModel", dropout=0.2)
    optimizer = Adam(first.named_parameters(), 1e-2)
    steps(first, optimizer, 2)
    second = small("LanguageModel", dropout=0.2, seed=9)
    second.load_state_dict(first.state_dict())
    second.set_rng_state(first.rng_state())
    resumed = Adam(second.named_parameters(), 1)
    resumed.load_state_dict(optimizer.state_dict())
    steps(second, resumed, 2)
    assert same_bits(whole, second)


# ---------------------------------------------------------------------------------------------------- head swap


@pytest.mark.parametrize("tie", [False, True])
def test_the_head_is_swapped_and_the_base_kept(tie):
    lm = small("LanguageModel", tie_weights=tie, seed=3, norm_first=True, positions="learned")
    classifier = Classifier.from_language_model(lm, n_classes=5)
    assert same_bits(lm.base, classifier.base)
    assert classifier.head.weight.shape == (5, 8)
    before = lm.state_dict()
    loss_of(Classifier.from_language_model(lm, 2)).backward()
    loss_of(classifier).backward()
    Adam(classifier.parameters(), 0.1).step()
    assert all(before[n].tobytes() == v.tobytes() for n, v in lm.state_dict().items())  # the language model is safe
    assert not same_bits(lm.base, classifier.base)


def test_a_shared_base_is_the_same_object():
    lm = small("LanguageModel", dropout=0.5)
    classifier = Classifier.from_language_model(lm, share=True)
    assert classifier.base is lm.base
    loss_of(classifier)
    assert lm.rng_state() == classifier.rng_state() != small("LanguageModel").rng_state()


def test_a_copied_base_may_have_a_dropout_of_its_own():
    lm = LanguageModel(11, 8, 2, 1, 8, dropout=0.1)
    assert Classifier.from_language_model(lm).config.dropout == 0.1
    swapped = Classifier.from_language_model(lm, dropout=0.5)
    assert swapped.config.dropout == swapped.base.dropout.p == 0.5 and lm.base.dropout.p == 0.1
    with pytest.raises(ValueError, match="a shared base keeps its dropout"):
        Classifier.from_language_model(lm, share=True, dropout=0.5)


def test_heads_differ_by_seed_only():
    lm = small("LanguageModel")
    one, same, other = (Classifier.from_language_model(lm, seed=seed).head.weight.numpy() for seed in (1, 1, 2))
    assert np.array_equal(one, same) and not np.array_equal(one, other)


# ---------------------------------------------------------------------------------------------------- influence


@pytest.mark.parametrize("norm_first", [False, True])
def test_the_future_changes_no_bit_of_the_past(backend, norm_first):
    lm, nmt = small("LanguageModel", norm_first=norm_first), small("Translator", norm_first=norm_first)
    source = ids(2, 4)
    for run in (lm, lambda target: nmt(source, target)):
        x = ids(2, 7)
        for t in range(7):
            changed = x.copy()
            changed[:, t:] = (changed[:, t:] + 1) % 11
            one, other = run(x).numpy(), run(changed).numpy()
            assert one[:, :t].tobytes() == other[:, :t].tobytes()
            assert not np.array_equal(one[:, t], other[:, t])


def test_the_past_reaches_the_present():
    lm = small("LanguageModel")
    x = ids(1, 7)
    changed = x.copy()
    changed[0, 0] = (x[0, 0] + 1) % 11
    assert (lm(x).numpy()[0, 6] != lm(changed).numpy()[0, 6]).any()


@pytest.mark.parametrize("pooling", ["last", "mean"])
def test_padding_changes_no_bit_of_a_class(backend, pooling):
    model = small("Classifier", pooling=pooling)
    x, lengths = ids(3, 6), np.array([6, 1, 4])
    padded = np.where(np.arange(6) < lengths[:, None], x, (x + 1) % 11)
    assert model(x, lengths).numpy().tobytes() == model(padded, lengths).numpy().tobytes()


def test_the_labs_flaw_reads_the_padding():
    model = small("Classifier", pooling="last_column")
    x, lengths = ids(1, 6), [3]
    changed = x.copy()
    changed[0, 5] = (x[0, 5] + 1) % 11
    assert not np.array_equal(model(x, lengths).numpy(), model(changed, lengths).numpy())


@pytest.mark.parametrize("pooling", ["last", "mean"])
def test_a_row_is_classified_as_if_it_were_alone(backend, pooling):
    model = small("Classifier", pooling=pooling, dtype="float64")
    x, lengths = ids(3, 6), [6, 1, 4]
    together = model(x, lengths).numpy()
    for row, length in enumerate(lengths):
        alone = model(x[row : row + 1, :length]).numpy()[0]
        np.testing.assert_allclose(together[row], alone, rtol=1e-11, atol=1e-13)  # float64, other matrix sizes


def test_padding_of_the_source_changes_no_bit(backend):
    model = small("Translator")
    source, target, lengths = ids(3, 6), ids(3, 4, seed=1), np.array([6, 1, 4])
    padded = np.where(np.arange(6) < lengths[:, None], source, (source + 1) % 11)
    assert model(source, target, lengths).numpy().tobytes() == model(padded, target, lengths).numpy().tobytes()
    assert model(source, target).numpy().tobytes() != model(padded, target).numpy().tobytes()  # without lengths it does


def test_padding_changes_no_bit_of_bert(backend):
    model = small("Bert")
    x, lengths = ids(3, 6), np.array([6, 1, 4])
    padding = np.arange(6) >= lengths[:, None]
    changed = np.where(padding, (x + 1) % 11, x)
    (words, following), (words_2, following_2) = model(x, x % 2, lengths), model(changed, changed % 2, lengths)
    assert following.numpy().tobytes() == following_2.numpy().tobytes()
    assert words.numpy()[~padding].tobytes() == words_2.numpy()[~padding].tobytes()


def test_bert_sees_both_sides_segments_and_cls():
    model = small("Bert")
    x, segments = ids(1, 6), np.array([[0, 0, 0, 1, 1, 1]])
    words, following = (part.numpy() for part in model(x, segments))
    later = x.copy()
    later[0, 5] = (x[0, 5] + 1) % 11
    assert (model(later, segments)[0].numpy()[0, 0] != words[0, 0]).any()
    assert (model(x, 1 - segments)[1].numpy() != following).any()


# ---------------------------------------------------------------------------------------------------- errors

BAD_IDS = [
    ([1, 2, 3], ValueError, r"ids must have shape \(B, T\).*ids\[None\]"),
    ([[1, 13]], ValueError, r"ids\[0, 1\] is 13, outside 0 ... 12"),
    ([[1], [-1]], ValueError, r"ids\[1, 0\] is -1"),
    ([[1.0, 2.0]], TypeError, "ids must hold integers"),
    ([[1, 2], [1]], ValueError, "ids: the rows differ in length"),
    ([[]], ValueError, "ids must have shape"),
    (np.zeros((1, 10), int), ValueError, "ids has 10 positions, but the model was built for max_len = 9"),
    ([[True, False]], TypeError, "ids must hold integers"),
]


@pytest.mark.parametrize("bad, kind, message", BAD_IDS)
def test_bad_ids(bad, kind, message):
    for call in (small("LanguageModel"), small("Classifier"), lambda x: small("Bert")(x, x)):
        with pytest.raises(kind, match=message):
            call(bad)


def test_lists_arrays_and_tensors_are_ids():
    model, x = small("LanguageModel"), ids(2, 3)
    expected = model(x).numpy().tobytes()
    for same in (x.tolist(), x.astype(np.int16), x.astype(np.uint8), Tensor(x), tuple(map(tuple, x.tolist()))):
        assert model(same).numpy().tobytes() == expected


@pytest.mark.parametrize(
    "call, message",
    [
        (
            lambda: small("LanguageModel").loss(ids(2, 3), ids(2, 4)),
            r"targets has shape \(2, 4\), but ids has \(2, 3\)",
        ),
        (lambda: small("LanguageModel").loss(ids(2, 3), ids(2, 3) + 13), "targets"),
        (lambda: small("Classifier")(ids(2, 3), [3]), r"lengths must have shape \(2,\)"),
        (lambda: small("Classifier")(ids(2, 3), [3, 0]), r"lengths\[1\] is 0, outside 1 ... 3"),
        (lambda: small("Classifier")(ids(2, 3), [4, 1]), r"lengths\[0\] is 4, outside 1 ... 3"),
        (lambda: small("Classifier").loss(ids(2, 3), [0, 2]), r"labels\[1\] is 2, outside 0 ... 1"),
        (lambda: small("Classifier").loss(ids(2, 3), [0]), "labels has shape"),
        (lambda: small("Translator")(ids(2, 3), ids(3, 3)), "source has 2 rows, but target has 3"),
        (lambda: small("Translator")(ids(2, 3) + 11, ids(2, 3)), "source.*outside 0 ... 10"),
        (lambda: small("Translator")(ids(2, 3), ids(2, 3) + 13), "target.*outside 0 ... 12"),
        (lambda: small("Translator")(ids(2, 3), ids(2, 3), [1, 4]), r"source_lengths\[1\] is 4"),
        (lambda: small("Translator").loss(ids(2, 3), ids(2, 3), ids(2, 4)), "target_out has shape"),
        (lambda: small("Bert")(ids(2, 3), ids(2, 2)), "segments has shape"),
        (lambda: small("Bert")(ids(2, 3), ids(2, 3) + 2), "segments.*outside 0 ... 1"),
        (lambda: small("LanguageModel", n_heads=3), "a width of 8 cannot be divided among 3 heads"),
        (lambda: small("LanguageModel", d_ff=0), "d_ff must be a whole number, at least 1, not 0"),
        (lambda: small("LanguageModel", max_len=2.5), "max_len must be a whole number"),
        (lambda: small("LanguageModel", dropout=1.5), "dropout must be at least 0 and below 1"),
        (lambda: small("LanguageModel", activation="swish"), "activation must be one of"),
        (lambda: small("LanguageModel", positions="spiral"), "positions must be one of"),
        (lambda: small("Classifier", pooling="first"), "pooling must be one of"),
        (lambda: small("Translator", share_embedding=True), "share_embedding needs one vocabulary"),
        (lambda: build("giant"), "no preset is called 'giant'"),
    ],
)
def test_other_mistakes(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_importing_the_models_is_light():
    code = (
        "import sys, minitransformer.models, minitransformer.decoding, minitransformer.optim;"
        "print([m for m in ('numba', 'matplotlib', 'cupy', 'sentencepiece', 'torch') if m in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.strip() == "[]"


def test_training_lowers_the_loss(backend):
    """A few steps of training lower every model's loss: gradients point the right way."""
    for kind in MODELS:
        model = small(kind)
        optimizer = Adam(model.parameters(), 1e-2)
        first = loss_of(model).item()
        for _ in range(10):
            optimizer.zero_grad()
            loss_of(model).backward()
            optimizer.step()
        assert loss_of(model).item() < 0.8 * first, kind
