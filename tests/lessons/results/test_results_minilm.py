"""MiniLM on film reviews: what is read of a text, what is kept of it, what a cell trains; with a tiny network."""

import json
from types import SimpleNamespace

import numpy as np
import pytest

import kernels
from autograd import no_grad
from lessons.results import frozen, joined, minilm, real_weights
from minitransformer import Classifier, LanguageModel

pytestmark = pytest.mark.slow  # trainings of the results page, on toys

BERT = {"vocab_size": 60, "d_model": 16, "n_heads": 2, "n_layers": 6, "d_ff": 24, "max_len": 128, "causal": False,
        "norm_embedding": True, "tie_weights": True, "head_bias": False}  # fmt: skip


@pytest.fixture(autouse=True)
def numpy_backend():
    with kernels.use("numpy"):
        yield


@pytest.fixture
def tiny():
    """A network of MiniLM's form, and a tokenizer that takes letters for words."""
    codec = SimpleNamespace(
        encode=lambda text: [4 + ord(letter) % 50 for letter in text], tokenizer=SimpleNamespace(sos=0, pad=1)
    )
    return SimpleNamespace(model=LanguageModel(**BERT).eval(), codecs={"text": codec})


@pytest.fixture
def runs(tmp_path):
    """Reviews of many lengths whose letters tell their class; so does their last word."""
    rng = np.random.default_rng(0)
    (tmp_path / "imdb").mkdir()
    for part, count in {"train-1600": 24, "valid": 10, "test": 12}.items():
        lines = ["text\tlabel"]
        for number in range(count):
            letters = "abcde" if number % 2 else "vwxyz"
            text = "".join(rng.choice(list(letters), size=int(rng.integers(3, 400))))
            word = "good" if number % 2 else "bad"
            lines.append(f"{text} {word}\t{'positive' if number % 2 else 'negative'}")
        (tmp_path / "imdb" / f"{part}.tsv").write_text("\n".join(lines) + "\n")
    (tmp_path / "imdb" / "unlabelled.txt").write_text("one good word or another\nand a bad word\n")
    return str(tmp_path)


@pytest.mark.parametrize("length", [0, 1, 127, 128, 129, 253, 254, 255, 700])
def test_the_ends_of_a_text_are_read(length):
    """All of a text of up to 254 pieces, each once; of a longer one the first and the last 127."""
    ids = np.arange(10, 10 + length)
    windows = minilm.ends(ids, 0)
    assert all(window[0] == 0 and len(window) <= 128 for window in windows)
    inside = [piece for window in windows for piece in window[1:]]
    assert inside == ([*ids] if length <= 254 else [*ids[:127], *ids[-127:]])
    assert len(windows) == (1 if length < 128 else 2)


def test_a_batch_holds_every_window_and_its_share(runs, tiny):
    known = minilm.pieces(runs, "train-1600", tiny)
    assert len(known.labels) == 24 and len(known.owner) > 24  # some have two windows
    words, lengths, shares = known.batch(np.array([5, 0, 11]))
    np.testing.assert_allclose(shares.sum(axis=1), 1, rtol=1e-6)
    assert lengths.sum() == sum(known.lengths[known.owner == review].sum() for review in (5, 0, 11))
    for row, review in enumerate((5, 0, 11)):
        mine = np.flatnonzero(shares[row])
        held = np.concatenate([words[window, : lengths[window]] for window in mine])
        assert held.tolist() == np.concatenate(
            [known.words[known.starts[window] : known.starts[window + 1]]
             for window in np.flatnonzero(known.owner == review)]
        ).tolist()  # fmt: skip


def test_what_is_kept_leads_to_the_same_answers(runs, tiny):
    """Layers 3 and 4 on what the others made of the pieces, against all four of them; float16 in between."""
    known = minilm.pieces(runs, "valid", tiny)
    kept = minilm.read(tiny.model, known, "valid")
    inner = minilm.network("inner", tiny, seed=3).eval()
    whole = Classifier.from_language_model(tiny.model, 2, pooling="mean", seed=3).eval()
    whole.base.encoder.layers = whole.base.encoder.layers[:4]
    assert len(inner.base.encoder.layers) == 2
    reviews = np.arange(10)
    with no_grad():
        expected = minilm.logits(whole, *known.batch(reviews)).numpy()
        found = minilm.logits(inner, *kept.batch(reviews)).numpy()
        means = tiny.model.base.mean(*known.batch(reviews)[:2]).numpy()
    np.testing.assert_allclose(found, expected, atol=2**-10)  # of vectors of size 1, float16 keeps 11 bits
    assert np.abs(found - expected).max() > 0  # really by way of float16
    windows = np.concatenate([np.flatnonzero(known.owner == review) for review in reviews])
    np.testing.assert_allclose(kept.means[windows, -1], means, atol=1e-5)
    expected = known.batch(reviews)[2] @ means
    np.testing.assert_allclose(frozen.of_layers({"valid": kept}, [6])["valid"], expected, atol=1e-5)


def test_scratch_has_other_weights_and_inner_leaves_the_words_alone(runs, tiny):
    scratch, inner = (minilm.network(kind, tiny, seed=5) for kind in ("scratch", "inner"))
    assert isinstance(scratch, Classifier) and len(scratch.base.encoder.layers) == 4
    own, given = scratch.base.state_dict(), tiny.model.base.state_dict()
    assert all((own[name] != given[name]).any() for name in own if name.endswith("linear1.weight"))
    kept = minilm.read(tiny.model, minilm.pieces(runs, "train-1600", tiny), "train-1600")
    before = inner.state_dict()
    minilm.train(inner, kept, labels=8, seed=0, lr=1e-3, epochs=2)
    moved = {name for name, array in inner.state_dict().items() if (array != before[name]).any()}
    assert moved and not any(name.startswith("base.embedding.") for name in moved)
    assert any(name.startswith("base.encoder.layers.0.") for name in moved)
    minilm.train(inner, kept, labels=24, seed=0, lr=1e-2, epochs=20)
    assert minilm.accuracy(minilm.said(inner, kept), kept.labels) > 0.9  # letters tell the class


@pytest.mark.parametrize("labels", [16, 24])
def test_training_starts_from_the_frozen_read_out(runs, tiny, labels):
    """With steps next to nothing the network says what a linear read-out of its frozen fourth layer says."""
    kept = minilm.read(tiny.model, minilm.pieces(runs, "train-1600", tiny), "train-1600")
    inner = minilm.train(minilm.network("inner", tiny, seed=1), kept, labels, seed=0, lr=1e-12, epochs=1)
    rows = frozen.scaled(frozen.of_layers({"train-1600": kept}, [4]), labels)["train-1600"]
    weights, bias = frozen.read_out(rows[:labels], kept.labels[:labels], minilm.HELD_BACK)
    expected = rows @ weights + bias
    found = minilm.said(inner, kept)
    # float16 in between is off by 2**-11 of vectors of size 1, and the head is as steep as its weights are large
    steep = np.linalg.norm(inner.head.weight.numpy())
    np.testing.assert_allclose(found, expected, atol=2**-10 * steep)
    assert np.abs(expected).max() > 0.1  # it does say something


@pytest.mark.parametrize("shape", [(3, 40), (3, 40, 5)])
def test_half_of_the_words_are_left_out_in_a_step(shape):
    words, lengths = np.arange(np.prod(shape)).reshape(shape), np.array([40, 1, 31])
    fewer, left = minilm.thinned(words, lengths, np.random.default_rng(0))
    assert left[1] == 1
    assert 10 < left[0] < 30 and 8 < left[2] < 23  # by this seed; a quarter and three quarters
    for row, n in enumerate(left):
        places = [np.flatnonzero((words[row] == word).reshape(shape[1], -1).all(axis=1))[0] for word in fewer[row, :n]]
        assert places[0] == 0 and (np.diff(places) > 0).all() and places[-1] < lengths[row]  # in order, no padding


def test_two_voices_have_two_thirds_and_one_third_of_the_say():
    network = {"valid": np.array([4.0, -4.0]), "test": np.array([4.0, -4.0, 1.0])}
    words = {"valid": np.array([0.1, -0.1]), "test": np.array([-0.1, 0.1, -0.1])}
    np.testing.assert_allclose(joined.joined(network, words, "test"), [1 / 3, -1 / 3, 1 / 6 - 1 / 3], rtol=1e-12)


def test_a_cell_is_recorded_once_and_told(runs, tiny, monkeypatch, capsys):
    monkeypatch.setattr(minilm, "base_at", lambda source: tiny)
    arguments = ["--kinds", "inner", "scratch", "--labels", "100", "--seeds", "1", "--runs", runs]
    assert minilm.main([*arguments, "--try", "--lr", "1e-3", "--epochs", "2"]) == 0
    said = capsys.readouterr().out
    assert "of the validation texts" in said and "of the test texts" not in said  # trying does not look at the test
    names = {kind: minilm.KINDS[kind].name for kind in ("inner", "scratch")}
    monkeypatch.setitem(minilm.KINDS, "inner", minilm.Recipe(names["inner"], 3e-3, {100: 2}))
    monkeypatch.setitem(minilm.KINDS, "scratch", minilm.Recipe(names["scratch"], 1e-3, {100: 1}))
    assert minilm.main(arguments) == 0
    assert capsys.readouterr().out.count("of the test texts") == 2
    assert minilm.main(arguments) == 0 and capsys.readouterr().out == ""  # both are done
    assert frozen.main(["--runs", runs]) == 0
    assert joined.main(["--runs", runs]) == 0
    record = real_weights.gather({"runs": runs, "data": "data"}, {})
    cell = record["groups"][names["inner"]]["100"]["1"]
    assert 0 <= cell["accuracy"] <= 1 and (cell["lr"], cell["epochs"]) == (3e-3, 2)
    assert 0 <= record["groups"][joined.NAMES["inner"]]["100"]["1"]["accuracy"] <= 1
    assert set(record["groups"][frozen.LAST]) == {"100", "400", "1600"}
    again = real_weights.gather({"runs": runs + "/lost", "data": "data"}, json.loads(json.dumps(record)))
    assert again == record  # what was recorded outlives the runs


def test_a_recipe_of_ones_own_is_only_for_trying(runs, capsys):
    with pytest.raises(SystemExit):
        minilm.main(["--lr", "1e-3", "--runs", runs])
    assert "add --try" in capsys.readouterr().err


def test_a_read_out_finds_the_line_between_two_clouds():
    rng = np.random.default_rng(1)
    labels = np.arange(200) % 2
    x = rng.standard_normal((200, 3)) + 4 * labels[:, None] * [1, 0, 0]
    weights, bias = frozen.read_out(x, labels, 1e-3)
    assert ((x @ weights + bias > 0) == labels).mean() > 0.95
    assert abs(weights[0]) > 3 * abs(weights[1:]).max()


def test_turning_vectors_loses_nothing():
    """A read-out of 5 vectors of 12 numbers says the same of others as one in the space that the five span."""
    rng = np.random.default_rng(2)
    known, others, labels = rng.standard_normal((5, 12)), rng.standard_normal((7, 12)), np.array([0, 1, 1, 0, 1])
    rows = frozen.turned({minilm.PARTS[0]: np.concatenate([known, others[:2]]), "test": others}, 5)
    assert rows[minilm.PARTS[0]].shape == (7, 5) and rows["test"].shape == (7, 5)
    weights, bias = frozen.read_out(known, labels, 1e-2)
    turned_weights, turned_bias = frozen.read_out(rows[minilm.PARTS[0]][:5], labels, 1e-2)
    expected = others @ weights + bias
    np.testing.assert_allclose(
        rows["test"] @ turned_weights + turned_bias, expected, rtol=1e-5
    )  # Newton stops near 1e-8


def test_the_test_texts_have_no_say():
    """The choice is made on the validation texts: whatever stands in the test texts, the same is chosen."""
    rng = np.random.default_rng(3)
    answers = {part: np.arange(40) % 2 for part in minilm.PARTS}
    good, bad = ({part: rng.standard_normal((40, 4)) for part in minilm.PARTS} for _ in range(2))
    for part in minilm.PARTS[:2]:
        good[part][:, 0] += 6 * answers[part]
    bad["test"][:, 0] += 6 * answers["test"]  # of no use where it is learnt, and perfect in the test
    found, said = frozen.best_of({"bad": lambda labels: bad, "good": lambda labels: good}, 40, answers)
    assert found["read"] == "good" and found["accuracy"] < 0.8 < found["valid"]
    assert {part: minilm.accuracy(scores, answers[part]) for part, scores in said.items()} == {
        "valid": found["valid"], "test": found["accuracy"]
    }  # fmt: skip


def test_a_line_of_the_figure_goes_from_few_labels_to_many():
    """Cells are recorded as they come, the middle one first."""
    groups = {frozen.LAST: {labels: {"0": {"accuracy": 0.5}} for labels in ("400", "1600", "100")}}
    known = {"naive_bayes": {}, "groups": {real_weights.NONE: {}, real_weights.BAG: {}}}
    assert [*real_weights.accuracies({"groups": groups}, known)[frozen.LAST]] == ["100", "400", "1600"]
