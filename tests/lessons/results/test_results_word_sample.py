"""A sample of the words in place of all of them: what is estimated, and that it is learnt from."""

import numpy as np
import pytest

import kernels
from autograd import Tensor, gradcheck
from lessons.results.models import head_loss, sampled_loss
from lessons.results.word_sample import WordSample
from minitransformer import LanguageModel
from minitransformer.layers import Head
from minitransformer.module import Init
from minitransformer.optim import Adam

pytestmark = pytest.mark.slow  # trainings of the results page, on toys

RANDOM = np.random.default_rng(0)
COUNTS = np.maximum(0, 3000 // np.arange(1, 201) - 20)  # Zipf's law, with a tail of words that never come


@pytest.fixture(autouse=True)
def numpy_backend():
    with kernels.use("numpy"):
        yield


def test_the_sample_has_about_the_size_asked_for_and_every_target():
    sample, targets = WordSample(COUNTS, 60), np.array([3, 199, 3, 150])
    drawn = [sample.draw(targets, seed) for seed in range(300)]
    # 200 independent words: the mean of 300 sizes is within 4 · √(200 · 1/4 / 300) of 60 + at most 3 targets
    assert 60 - 1.7 < np.mean([len(one.words) for one in drawn]) < 63 + 1.7
    for one in drawn:
        assert (np.diff(one.words) > 0).all() and np.isin(targets, one.words).all()
        assert (one.words[one.places[targets]] == targets).all() and len(one.log_q) == len(one.words)
    assert (sample.draw(targets, 7).words == drawn[7].words).all()
    assert (drawn[8].words[:50] != drawn[7].words[:50]).any()


def test_a_sample_is_smaller_than_the_vocabulary():
    for size in (0, 200, 300):
        with pytest.raises(ValueError, match="fewer than all 200"):
            WordSample(COUNTS, size)


def test_the_sum_over_all_words_is_estimated_without_bias():
    """Targets that come as often as the counts say; without the division by q it would be a third of Z."""
    sample, scores = WordSample(COUNTS, 60), RANDOM.normal(size=200)
    estimates = []
    for seed in range(2000):
        targets = np.random.default_rng([1, seed]).choice(200, size=20, p=sample.frequency)
        one = sample.draw(targets, seed)
        estimates.append(np.exp(scores[one.words] - one.log_q).sum())
    error = np.std(estimates) / np.sqrt(len(estimates))
    assert abs(np.mean(estimates) - np.exp(scores).sum()) < 4 * error < 0.02 * np.exp(scores).sum()


def test_the_loss_is_the_definitions():
    """Against a loop; of rows that are to be ignored nothing is seen."""
    head, sample = Head(6, 200, init=Init(1, "float64")), WordSample(COUNTS, 60)
    x, targets = RANDOM.normal(size=(2, 3, 6)), np.array([[5, 1, 190], [1, 0, 1]])
    one = sample.draw(np.array([5, 190, 0]), 9)
    expected = []
    for row, target in ((x[0, 0], 5), (x[0, 2], 190), (x[1, 1], 0)):
        scores = [head.weight.numpy()[word] @ row - log_q for word, log_q in zip(one.words, one.log_q, strict=True)]
        expected.append(np.log(np.exp(scores).sum()) - head.weight.numpy()[target] @ row)
    found = head_loss(head, Tensor(x), targets, sample, 9, ignore_index=1)
    assert float(found) == pytest.approx(np.mean(expected), rel=1e-12)


def test_the_same_on_every_backend():
    """Forward and backward in float64, where tiers differ by the order of their sums only."""
    sample, x, targets = WordSample(COUNTS, 60), RANDOM.normal(size=(9, 6)), RANDOM.integers(0, 200, 9)
    found = {}
    for name in kernels.available():
        with kernels.use(name):
            head = Head(6, 200, init=Init(1, "float64"))
            loss = head_loss(head, Tensor(x), targets, sample, 4)
            loss.backward()
            found[name] = float(loss), head.weight.grad.numpy(), head.bias.grad.numpy()
    assert len(found) > 1
    for values in found.values():
        for one, other in zip(values, found["numpy"], strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-11, atol=1e-14)


def test_gradients():
    """Of the hidden vectors, and of the rows of the head that are in the sample; the others have none."""
    sample, targets = WordSample(COUNTS, 20), np.array([0, 3, 199])
    head = Head(4, 200, init=Init(2, "float64"))
    x = Tensor(RANDOM.normal(size=(3, 4)), requires_grad=True)
    gradcheck(lambda x: head_loss(head, x, targets, sample, 5), (x,))

    def of_weight(weight):
        head.weight = weight
        return head_loss(head, x.detach(), targets, sample, 5)

    weight = Tensor(head.weight.numpy(), requires_grad=True)
    gradcheck(of_weight, (weight,))
    of_weight(weight).backward()
    touched = np.flatnonzero(np.abs(weight.grad.numpy()).sum(axis=1))
    assert touched.tolist() == sample.draw(targets, 5).words.tolist()


def test_what_is_learnt_are_the_probabilities_of_all_words():
    """A head that can only learn how often each word comes. Left uncorrected, the rare words ended 2.6 times too
    probable, and the four frequent ones at a quarter to a half of what they are."""
    counts = np.array([1000, 500, 200, 100, *[4] * 200])
    truth = counts / counts.sum()
    head, sample, random = Head(2, 204, init=Init(0, "float64")), WordSample(counts, 20), np.random.default_rng(3)
    optimizer, x = Adam([("bias", head.bias)], lr=0.02), Tensor(np.zeros((8, 2)))
    for step in range(3000):
        optimizer.lr = 0.02 * (1 - step / 3000)
        head_loss(head, x, random.choice(204, size=8, p=truth), sample, step).backward()
        optimizer.step()
        optimizer.zero_grad()
    learnt = np.exp(head.bias.numpy())
    learnt /= learnt.sum()
    # noise of training: up to 8 % in three seeds
    assert learnt[4:].sum() == pytest.approx(truth[4:].sum(), rel=0.15)
    np.testing.assert_allclose(learnt[:4], truth[:4], rtol=0.15)


def test_a_language_model_draws_anew_each_time_and_the_same_again_after_its_state_is_restored():
    model, sample = LanguageModel(200, 8, 2, 1, 8, max_len=5, seed=0), WordSample(COUNTS, 60)
    ids = RANDOM.integers(0, 200, (2, 5))
    state = model.rng_state()
    first, second = (float(sampled_loss(model, ids, ids, sample)) for _ in range(2))
    assert first != second
    model.set_rng_state(state)
    assert float(sampled_loss(model, ids, ids, sample)) == first
    full = float(model.loss(ids, ids))
    # one sample of some 65 words; without the targets' own log q the estimate was 1.1 lower than the loss
    assert full - 0.2 < first < full + 0.5
