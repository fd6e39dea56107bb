"""Book reviews: the label is in the meaning, not in the words, and the exact figures agree with samples."""

import hashlib
import math

import numpy as np
import pytest

from minitransformer.app.language import Language, detokenize, reviews, split_sentences
from minitransformer.app.language.review_grammar import BAD, GOOD, KINDS

SAMPLES = 10_000


@pytest.fixture(scope="module")
def language():
    return reviews()


@pytest.fixture(scope="module")
def drawn(language):
    return language.sample_labelled(SAMPLES, seed=7)


def naive_bayes(language, train, test):
    """Binarised (Bernoulli) Naive Bayes with add-one smoothing; returns its accuracy."""
    index = {word: i for i, word in enumerate(language.vocabulary())}

    def presence(reviews):
        table = np.zeros((len(reviews), len(index)))
        for row, review in zip(table, reviews, strict=True):
            row[[index[word] for word in review.words]] = 1
        return table

    x, y = presence(train), np.array([review.label for review in train])
    z, truth = presence(test), np.array([review.label for review in test])
    score = []
    for label in (0, 1):
        p = (x[y == label].sum(0) + 1) / ((y == label).sum() + 2)
        score.append(z @ np.log(p) + (1 - z) @ np.log1p(-p) + math.log((y == label).mean()))
    return np.mean((score[1] > score[0]) == truth)


def test_counting_words_does_not_solve_it(language, drawn):
    accuracy = naive_bayes(language, drawn[:1600], drawn[1600:5600])
    # 4,000 test reviews: standard error below 0.7 %, so the band of 70 to 85 % is a statement about the
    # grammar
    assert 0.70 < accuracy < 0.85
    assert language.best_accuracy() > 0.97
    right = np.mean([(language.label_posterior(r.words) > 0.5) == r.label for r in drawn])
    best = language.best_accuracy()
    assert abs(right - best) < 4.5 * math.sqrt(best * (1 - best) / SAMPLES)  # binomial; 1 false alarm in 10^5


@pytest.mark.parametrize(
    "review, positive",
    [
        ("this novel is superb . i will quote it .", 1.0),
        ("this novel is not superb . i will not quote it .", 0.0),
        ("this novel is hardly boring . i will never forget it .", 1.0),
        ("the author is charming , but this novel is dull .", 0.0),
        ("although the author is charming , this novel is dull .", 0.0),
        ("this novel is dull , even if the author is charming .", 0.0),
        ("granted , the author is dull ; still , this novel is charming .", 1.0),
        ("i read this cookbook by mistake . nobody could dislike her soups .", 1.0),
        ("i read this cookbook by mistake . i do not adore the soups .", 0.0),
        ("i read this cookbook by mistake . my dentist finds it superb .", 0.5),
        ("i read this cookbook by mistake .", 0.5),
    ],
)
def test_meaning_decides(language, review, positive):
    assert language.label_posterior(review) == pytest.approx(positive, abs=1e-9)  # rounding of two log-probabilities


def test_posteriors_are_calibrated(drawn, language):
    # an undecided review must be positive half of the time; a decided one must not be wrong even once
    undecided = [r.label for r in drawn if language.label_posterior(r.words) == pytest.approx(0.5)]
    assert len(undecided) > 100
    assert abs(np.mean(undecided) - 0.5) < 4.5 * 0.5 / math.sqrt(len(undecided))
    decided = [(language.label_posterior(r.words), r.label) for r in drawn[:3000]]
    assert all(abs(p - label) < 1e-9 for p, label in decided if abs(p - 0.5) > 0.1)


def test_mixture_of_the_labels(language, drawn):
    for r in drawn[:200]:
        halves = [math.exp(given.log_probability(r.words)) / 2 for given in language.given]
        assert language.log_probability(r.words) == pytest.approx(math.log(sum(halves)), abs=1e-9)


def test_entropy_and_length_against_sampling(language, drawn):
    mean, variance = language.surprise_moments()
    sampled = np.mean([-language.log_probability(r.words) for r in drawn])
    assert abs(sampled - mean) < 4.5 * math.sqrt(variance / SAMPLES)  # exact variance, 1 false alarm in 10^5
    lengths = np.array([len(r.words) + 1 for r in drawn])
    assert abs(lengths.mean() - language.expected_length()) < 4.5 * lengths.std() / math.sqrt(SAMPLES)
    assert language.best_loss() == pytest.approx(mean / language.expected_length())


def test_next_words_multiply_to_the_sentence(language, drawn):
    for r in drawn[:30]:
        tables = [language.next_word_distribution(r.words[:t]) for t in range(len(r.words))]
        assert all(sum(table.values()) == pytest.approx(1, abs=1e-9) for table in tables)
        total = sum(math.log(table[word]) for table, word in zip(tables, r.words, strict=True))
        end = language.next_word_distribution(r.words)["</s>"]
        assert total + math.log(end) == pytest.approx(language.log_probability(r.words), abs=1e-9)


def test_hidden_words_by_trying_every_word(language, drawn):
    numbers = np.random.default_rng(3)
    for r in drawn[:20]:
        t = int(numbers.integers(len(r.words)))
        tried = {}
        for word in language.vocabulary():
            p = language.log_probability(r.words[:t] + (word,) + r.words[t + 1 :])
            if p > -math.inf:
                tried[word] = math.exp(p)
        wanted = {word: p / sum(tried.values()) for word, p in tried.items()}
        assert language.masked_word_distribution(r.words, t) == pytest.approx(wanted, abs=1e-9)


def test_the_text_holds_together(drawn):
    plural = {name.rstrip("+"): name.endswith("+") for kind in KINDS for pair in kind.aspects for name in pair}
    names = {kind.name for kind in KINDS}
    for r in drawn:
        words = set(r.words)
        sentences = split_sentences(r.words)
        assert 1 <= len(sentences) <= 4 and 5 <= len(r.words) <= 75
        assert len(words & names) == 1 and words & names <= set(sentences[0])
        assert not (words & {"he", "his"} and words & {"she", "her"}), detokenize(r.words)
        for noun, verb in zip(r.words, r.words[1:], strict=False):
            assert noun not in plural or verb not in ("is", "are") or (verb == "are") == plural[noun]
        discussed = [word for word in r.words if word in plural]
        assert len(discussed) == len(set(discussed))  # nothing is discussed twice


def test_good_and_bad_are_mirror_images():
    # equal weights on both sides: no word count, length or rank tells the labels apart
    assert list(GOOD.values()) == list(BAD.values())
    assert all(len(kind.good) == len(kind.bad) for kind in KINDS)


def test_labels_and_determinism(language, drawn):
    labels = np.array([r.label for r in drawn])
    assert abs(labels.mean() - 0.5) < 4.5 * 0.5 / math.sqrt(SAMPLES)
    assert {r.label for r in language.sample_labelled(20, seed=1, label=1)} == {1}
    assert language.sample_labelled(300, seed=1) == language.sample_labelled(300, seed=1)
    assert language.sample(5, seed=1) != language.sample(5, seed=2)
    text = "\n".join(f"{r.label} {' '.join(r.words)}" for r in language.sample_labelled(200, seed=0))
    text += "\n".join(" ".join(words) for words in language.sample(200, seed=0))
    # the text itself is part of the contract: a change of grammar or generator must be seen
    assert hashlib.sha256(text.encode()).hexdigest()[:16] == "3cb47fdc318590ee"


def test_neighbours_are_the_sentences_of_real_reviews(language, drawn):
    pairs = []
    for r in drawn:
        sentences = split_sentences(r.words)
        pairs.append([one + two for one, two in zip(sentences, sentences[1:], strict=False)])
    counts = np.array([len(found) for found in pairs])

    def agrees(exact, measure):
        """A mean over all pairs is a ratio of two sums over reviews; allow 4.5 of its standard errors."""
        sums = np.array([sum(map(measure, found)) for found in pairs])
        ratio = sums.sum() / counts.sum()
        return abs(ratio - exact) < 4.5 * np.std(sums - ratio * counts) / counts.mean() / math.sqrt(SAMPLES)

    neighbours = language.neighbours
    assert agrees(neighbours.entropy(), lambda words: -neighbours.log_probability(words))
    # where in a review the pairs come from shows in their first words: only the first sentence says "this"
    for word, p in neighbours.next_word_distribution("").items():
        assert agrees(p, lambda words, word=word: words[0] == word), word


def test_next_sentence_prediction(language):
    n = 6000
    pairs = language.sentence_pairs(n, seed=2)
    posterior = np.array([language.next_sentence_posterior(p.first, p.second) for p in pairs])
    truth = np.array([p.is_next for p in pairs])
    best = language.best_next_sentence_accuracy()
    assert 0.8 < best < 0.95
    # the confidence of the best classifier averages to its accuracy; so does its success
    sure = np.maximum(posterior, 1 - posterior)
    assert abs(sure.mean() - best) < 4.5 * sure.std() / math.sqrt(n)
    assert abs(np.mean((posterior > 0.5) == truth) - best) < 4.5 * math.sqrt(best * (1 - best) / n)
    assert abs(truth.mean() - 0.5) < 4.5 * 0.5 / math.sqrt(n)
    assert language.sentence_pairs(20, seed=2) != language.sentence_pairs(20, seed=3)


def test_next_sentence_examples(language):
    follows = language.next_sentence_posterior
    assert follows("this novel is superb .", "the opening is charming .") > 0.9  # same book, same opinion
    assert follows("this novel is superb .", "the soups are charming .") == 0  # another book
    assert follows("this novel is superb .", "the opening is dull .") == 0  # another opinion


@pytest.mark.parametrize(
    "call, words",
    [
        (lambda r: r.label_posterior(""), "review is empty"),
        (lambda r: r.label_posterior("this zebra is dull ."), "has probability 0"),
        (lambda r: r.sample_labelled(3, seed=0, label=2), "label is 2"),
        (lambda r: r.sample_labelled(-3, seed=0), "n is -3"),
        (lambda r: r.next_sentence_posterior("the soups are", "i will quote it ."), "never occur"),
        (lambda r: r.next_sentence_posterior("", "i will quote it ."), "first sentence is empty"),
    ],
)
def test_errors_say_what_to_do(language, call, words):
    with pytest.raises(ValueError, match=words):
        call(language)


def test_vocabulary(language):
    words = language.vocabulary()
    assert words == sorted(set(words)) and 200 < len(words) < 1000
    assert isinstance(language, Language) and language.log_probability("an unknown word") == -math.inf
