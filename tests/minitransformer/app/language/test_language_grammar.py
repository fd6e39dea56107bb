"""The exact algorithms against the slow way: list every derivation and add up."""

import itertools
import math
from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minitransformer.app.language.automaton import END, Automaton
from minitransformer.app.language.contact import english_contact, french_contact, join
from minitransformer.app.language.decision import best_accuracy
from minitransformer.app.language.grammar import (
    Choice,
    Parser,
    Text,
    choice,
    derivation_entropy,
    derivations,
    draw,
    maybe,
    one_of,
    seq,
    text,
)
from minitransformer.app.language.hidden import masked_entropies
from minitransformer.app.language.language import Language

# Sums of at most a few thousand doubles: 1e-16 each, so 1e-12 leaves room; the automaton merges at 12
# decimals.
TOL = 1e-10


def listed(node):
    """Every derivation as (probability, first tape, second tape)."""
    if isinstance(node, Text):
        return [(1.0, *node.tapes)]
    if isinstance(node, Choice):
        return [(p * q, one, two) for p, option in node.options for q, one, two in listed(option)]
    found = []
    for parts in itertools.product(*(listed(part) for part in node.parts)):
        one = tuple(word for _, words, _ in parts for word in words)
        two = tuple(word for index in node.second for word in parts[index][2])
        found.append((math.prod(p for p, _, _ in parts), one, two))
    return found


def distribution(node):
    table = defaultdict(float)
    for p, one, _ in listed(node):
        table[one] += p
    return dict(table)


# Few words, so that different derivations often give the same sentence: the ambiguous case is the hard one.
leaves = st.tuples(st.sampled_from(["", "a", "b", "a b", "c", "b a"]), st.sampled_from(["", "x", "y", "x y"])).map(
    lambda pair: text(*pair)
)


def _bigger(children):
    options = st.lists(st.tuples(st.integers(1, 5), children), min_size=2, max_size=3)

    @st.composite
    def sequences(draw_from):
        parts = draw_from(st.lists(children, min_size=1, max_size=3))
        return seq(*parts, second=draw_from(st.permutations(range(len(parts)))))

    return st.one_of(options.map(lambda chosen: choice(*chosen)), sequences())


# never empty, and at least two choices in a row
fork = st.lists(st.tuples(st.integers(1, 5), st.recursive(leaves, _bigger, max_leaves=5)), min_size=2, max_size=3)
grammars = st.lists(fork, min_size=2, max_size=3).map(
    lambda forks: seq(text("s", "t"), *(choice(*options) for options in forks))
)
few = settings(max_examples=60, deadline=None)


@few
@given(grammars)
def test_probabilities_entropy_length_and_size(grammar):
    truth, language = distribution(grammar), Language.of(grammar)
    assert {words: pytest.approx(p, abs=TOL) for words, p in truth.items()} == dict(language.sentences())
    for words, p in truth.items():
        assert language.log_probability(words) == pytest.approx(math.log(p), abs=TOL)
    surprise = {words: -math.log(p) for words, p in truth.items()}
    mean = sum(p * surprise[words] for words, p in truth.items())
    second = sum(p * surprise[words] ** 2 for words, p in truth.items())
    assert language.entropy() == pytest.approx(mean, abs=TOL)
    assert language.surprise_moments()[1] == pytest.approx(second - mean**2, abs=1e-8)  # cancellation of squares
    assert language.expected_length() == pytest.approx(sum(p * (len(w) + 1) for w, p in truth.items()), abs=TOL)
    assert language.size() == len(truth)
    assert language.vocabulary() == sorted({word for words in truth for word in words})


@few
@given(grammars)
def test_next_word_and_causal_entropies(grammar):
    truth, language = distribution(grammar), Language.of(grammar)
    closed = {(*words, END): p for words, p in truth.items()}
    losses = defaultdict(float)
    for prefix in {words[:t] for words in closed for t in range(len(words))}:
        mass = sum(p for words, p in closed.items() if words[: len(prefix)] == prefix)
        table = defaultdict(float)
        for words, p in closed.items():
            if words[: len(prefix)] == prefix:
                table[words[len(prefix)]] += p / mass
        assert language.next_word_distribution(prefix) == pytest.approx(dict(table), abs=TOL)
        assert language.prefix_log_probability(prefix) == pytest.approx(math.log(mass), abs=TOL)
        losses[len(prefix)] -= mass * sum(q * math.log(q) for q in table.values())
    for t, entropy in enumerate(language.causal_entropies()):
        assert entropy == pytest.approx(losses[t] / sum(p for w, p in closed.items() if len(w) > t), abs=TOL)


@few
@given(grammars, st.data())
def test_hidden_words(grammar, data):
    truth, language = distribution(grammar), Language.of(grammar)
    words = data.draw(st.sampled_from(sorted(truth)))
    hidden = data.draw(st.lists(st.integers(0, len(words) - 1), min_size=1, max_size=3, unique=True))
    fits = {
        other: p
        for other, p in truth.items()
        if len(other) == len(words)
        and all(a == b for i, (a, b) in enumerate(zip(words, other, strict=True)) if i not in hidden)
    }
    shown = tuple("?" if i in hidden else word for i, word in enumerate(words))  # what is hidden is not looked at
    tables = language.masked_word_distribution(shown, hidden)
    for position, table in zip(hidden, tables, strict=True):
        wanted = defaultdict(float)
        for other, p in fits.items():
            wanted[other[position]] += p / sum(fits.values())
        assert table == pytest.approx(dict(wanted), abs=TOL)
    alone = language.masked_word_distribution(words, hidden[0])
    assert [alone] == language.masked_word_distribution(words, hidden[:1])


@few
@given(grammars)
def test_masked_entropies_are_the_mean_loss_of_the_masked_distribution(grammar):
    language = Language.of(grammar)
    found = list(language.sentences())
    for t, entropy in enumerate(masked_entropies(language)):
        reach = [(words, p) for words, p in found if len(words) > t]
        loss = -sum(p * math.log(language.masked_word_distribution(words, t)[words[t]]) for words, p in reach)
        assert entropy == pytest.approx(loss / sum(p for _, p in reach), abs=TOL)


@few
@given(grammars)
def test_two_tapes(grammar):
    joint = defaultdict(float)
    for p, one, two in listed(grammar):
        joint[one, two] += p
    parser = Parser(grammar)
    for english in {one for one, _ in joint}:
        found = parser.second_tapes(english)
        assert found == pytest.approx({two: p for (one, two), p in joint.items() if one == english}, abs=TOL)
    assert parser.second_tapes(("never", "said")) == {}
    assert derivations(grammar) == len(listed(grammar))
    assert derivation_entropy(grammar) == pytest.approx(-sum(p * math.log(p) for p, _, _ in listed(grammar)), abs=TOL)
    second = defaultdict(float)
    for (_, two), p in joint.items():
        second[two] += p
    assert dict(Language.of(grammar, tape=1).sentences()) == pytest.approx(dict(second), abs=TOL)
    numbers = np.random.default_rng(0)
    assert all(draw(grammar, numbers.random) in joint for _ in range(20))


@few
@given(grammars, grammars, st.sampled_from([0.5, 0.2, 0.7]))
def test_best_accuracy(one, two, prior):
    automaton = Automaton()
    first, second = (automaton.compile(grammar) for grammar in (one, two))
    p, q = distribution(one), distribution(two)
    wanted = sum(max(prior * p.get(w, 0), (1 - prior) * q.get(w, 0)) for w in p.keys() | q.keys())
    assert best_accuracy(automaton, first, second, prior) == pytest.approx(wanted, abs=TOL)


@pytest.mark.parametrize("tape, contact", [(0, english_contact), (1, french_contact)])
def test_contacts_inside_the_automaton_and_on_a_finished_sentence_agree(tape, contact):
    noun = choice((2, text("apple", "arbre")), (1, text("car", "jardin")), (3, text("owl", "hibou")), (1, text("", "")))
    grammar = seq(
        one_of(text("near", "près de"), text("x", "de"), text("y", "je ne")),
        one_of(text("a", "le"), text("the", "la"), text("", ""), text("", "les")),
        maybe(1, 2, text("old", "vieux+")),
        noun,
        text(".", "."),
    )
    truth = defaultdict(float)
    for p, *tapes in listed(grammar):
        truth[join(tapes[tape], contact)] += p
    automaton = Automaton()
    language = Language(automaton, automaton.compile(grammar, tape, contact))
    assert dict(language.sentences()) == pytest.approx(dict(truth), abs=TOL)


def test_a_contraction_waits_for_the_elision_after_it():
    assert join(["près", "de", "le", "jardin"], french_contact) == tuple(["près", "du", "jardin"])
    assert join(["près", "de", "le", "arbre"], french_contact) == tuple(["près", "de", "l'", "arbre"])
    assert join(["je", "ne", "ai", "pas"], french_contact) == tuple(["je", "n'", "ai", "pas"])


def test_mixtures_that_differ_little_are_kept_apart():
    automaton = Automaton()
    one, two = automaton.compile(text("a")), automaton.compile(text("b"))
    close = [Language(automaton, automaton.mix([(p, one), (1 - p, two)])) for p in (0.3, 0.3 + 1e-9)]
    gap = close[1].next_word_distribution("")["a"] - close[0].next_word_distribution("")["a"]
    assert gap == pytest.approx(1e-9, rel=1e-6)  # 0.3 is known to 1e-16, so the gap to 1e-7 of itself


def test_sampling_frequencies():
    grammar = seq(one_of("a", "b"), choice((3, "c d"), (1, "c e"), (2, "c")), maybe(1, 2, "c"))
    language, n = Language.of(grammar), 40_000
    drawn = defaultdict(int)
    for words in language.sample(n, seed=5):
        drawn[words] += 1
    truth = dict(language.sentences())
    assert set(drawn) == set(truth)
    for (
        words,
        p,
    ) in truth.items():  # binomial counts: 5 standard deviations, 1 false alarm in 10^5 over 12 sentences
        assert abs(drawn[words] - n * p) < 5 * math.sqrt(n * p * (1 - p))


def test_sample_is_a_function_of_the_seed():
    language = Language.of(seq(one_of(*"abcdefgh"), one_of(*"abcdefgh")))
    assert language.sample(50, seed=1) == language.sample(50, seed=1) != language.sample(50, seed=2)
    assert language.sample(0, seed=1) == []


def test_impossible_sentences():
    language = Language.of(seq("a", one_of("b", "c")))
    for sentence in ("a", "a b c", "b", "a zebra", ("a", "b", END), END):
        assert language.log_probability(sentence) == -math.inf
    assert language.log_probability("a b") == language.log_probability(["a", "b"]) == pytest.approx(math.log(0.5))


@pytest.mark.parametrize(
    "call, error, words",
    [
        (lambda g: g.log_probability(""), ValueError, "empty"),
        (lambda g: g.log_probability(["a", 3]), TypeError, "sequence of words"),
        (lambda g: g.log_probability(7), TypeError, "int"),
        (lambda g: g.next_word_distribution("z"), ValueError, "'z' has probability 0"),
        (lambda g: g.masked_word_distribution("a b", 2), ValueError, "position is 2: .* 0 to 1"),
        (lambda g: g.masked_word_distribution("a b", -1), ValueError, "position is -1"),
        (lambda g: g.masked_word_distribution("a b", []), ValueError, "at least one position"),
        (lambda g: g.masked_word_distribution("z b", 1), ValueError, "no sentence fits"),
        (lambda g: g.masked_word_distribution("a", 0), ValueError, "no sentence fits"),
        (lambda g: g.sample(-1, 0), ValueError, "n is -1"),
        (lambda g: g.sample(1, 0.5), ValueError, "seed is 0.5"),
        (lambda g: g.sentences(limit=1), ValueError, "2 sentences"),
        (lambda g: choice(), ValueError, "no option"),
        (lambda g: choice((0, "a")), ValueError, "weight 0"),
        (lambda g: seq("a", "b", second=(0, 0)), ValueError, "each index"),
    ],
)
def test_errors_say_what_to_do(call, error, words):
    with pytest.raises(error, match=words) as caught:
        call(Language.of(seq("a", one_of("b", "c"))))
    assert "\n" not in str(caught.value)
