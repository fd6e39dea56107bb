"""The language whose right context decides: both limits against their closed forms."""

import math

import pytest

from minitransformer.app.language import masked_entropies, right_context


@pytest.mark.parametrize("tools", [2, 5, 8, 12])
@pytest.mark.parametrize("exceptions", [0, 20, 100])
def test_limits(tools, exceptions):
    language = right_context(tools, exceptions)
    assert language.causal_entropy() == pytest.approx(math.log(tools), abs=1e-12)  # all tools are equally likely
    # given the purpose, its own tool has probability 1 - e + e/K, each other one e/K
    e = exceptions / 100
    posterior = [1 - e + e / tools] + [e / tools] * (tools - 1)
    limit = -sum(p * math.log(p) for p in posterior if p)
    assert language.masked_entropy() == pytest.approx(limit, abs=1e-9)  # a sum over some 3,000 sentences
    assert masked_entropies(language)[language.position] == language.masked_entropy()


def test_the_tool_is_unknown_before_and_known_after():
    language = right_context()
    for words in language.sample(50, seed=4):
        before = language.next_word_distribution(words[: language.position])
        assert len(before) == 8 and set(before.values()) == {1 / 8}
        assert language.masked_word_distribution(words, language.position) == {words[language.position]: 1.0}
        assert len(words) == 10


@pytest.mark.parametrize("tools, exceptions", [(1, 0), (13, 0), (8, -1), (8, 101), (2.5, 0), (True, 0)])
def test_errors(tools, exceptions):
    with pytest.raises(ValueError, match="give an integer from"):
        right_context(tools, exceptions)
