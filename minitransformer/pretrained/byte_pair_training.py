"""Training byte-pair encoding: which pairs are merged, and in which order, is read off a text.

Start with the 256 bytes. Count how often each two symbols stand side by side, make the most frequent pair a symbol of
its own, and repeat. "low lower lowest" merges l+o, lo+w, then the space with low, as two of the three words have it:

    >>> tokenizer = train(["low lower lowest"], vocab_size=259)
    >>> sorted(tokenizer.tokens, key=tokenizer.tokens.get)[256:]
    [b'lo', b'low', b' low']

Two ideas make it fast. A text has far fewer different words than words, so each is kept once, with its count. And a
merge changes only the words that hold the pair, so only their pairs are counted again. Of pairs that are equally
frequent the one whose symbols are oldest wins: the same text gives the same tokenizer everywhere.
"""

import heapq
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from itertools import pairwise

from minitransformer.errors import UserError
from minitransformer.pretrained.byte_pair import BYTE_CHARACTERS, PATTERNS, BytePair, pairs_of_merges
from minitransformer.pretrained.unicode_patterns import UnicodePattern


def train(
    texts: Iterable[str],
    vocab_size: int,
    *,
    pattern: str = "gpt2",
    special: Sequence[str] = (),
    min_count: int = 1,
) -> BytePair:
    """A tokenizer of `vocab_size` tokens: the special ones, the bytes, then merges of pairs met `min_count` times.

    There are fewer tokens where the text runs out of such pairs."""
    first = len(special)
    if vocab_size < first + 256:
        raise UserError(f"vocab_size is {vocab_size}, but 256 bytes and {first} special tokens need {first + 256}")
    split = UnicodePattern(PATTERNS.get(pattern, pattern)).findall
    words = Counter(word for text in texts for word in split(text))
    tokens = {bytes([byte]): first + i for i, byte in enumerate(BYTE_CHARACTERS)}
    symbols = [[tokens[bytes([byte])] for byte in word.encode("utf-8")] for word in words]
    merges = _learn(symbols, list(words.values()), tokens, vocab_size - first, max(min_count, 1))
    return BytePair(
        tokens,
        pairs_of_merges(tokens, merges),
        {name: i for i, name in enumerate(special)},
        pattern=pattern,
    )


def _learn(
    words: list[list[int]], counts: list[int], tokens: dict[bytes, int], size: int, min_count: int
) -> list[tuple[bytes, bytes]]:
    """The merges in their order; `tokens` grows to `size` with them, `words` end as the tokenizer would cut them."""
    first = min(tokens.values())
    parts = {i: token for token, i in tokens.items()}
    pair_counts: Counter[tuple[int, int]] = Counter()
    holders: dict[tuple[int, int], set[int]] = defaultdict(set)  # pair → words that hold it, or once did
    for w, word in enumerate(words):
        for pair in pairwise(word):
            pair_counts[pair] += counts[w]
            holders[pair].add(w)
    heap = [(-count, pair) for pair, count in pair_counts.items()]
    heapq.heapify(heap)
    merges = []
    while heap and len(tokens) < size:
        count, pair = heapq.heappop(heap)
        if -count != pair_counts[pair]:  # fewer since then: back into the line
            if pair_counts[pair] > 0:
                heapq.heappush(heap, (-pair_counts[pair], pair))
            continue
        if -count < min_count:
            break
        left, right = parts[pair[0]], parts[pair[1]]
        new = tokens[left + right] = first + len(tokens)
        parts[new] = left + right
        merges.append((left, right))
        changed: Counter[tuple[int, int]] = Counter()
        for w in holders.pop(pair):
            word, words[w] = words[w], _replace(words[w], pair, new)
            for old in pairwise(word):
                changed[old] -= counts[w]
            for now in pairwise(words[w]):
                changed[now] += counts[w]
                if new in now:
                    holders[now].add(w)
        for neighbour, change in changed.items():
            pair_counts[neighbour] += change
            if change > 0:
                heapq.heappush(heap, (-pair_counts[neighbour], neighbour))
    return merges


def _replace(word: list[int], pair: tuple[int, int], new: int) -> list[int]:
    """The word with every occurrence of the pair, from the left, as one symbol."""
    result, i = [], 0
    while i < len(word):
        if i + 1 < len(word) and (word[i], word[i + 1]) == pair:
            result.append(new)
            i += 2
        else:
            result.append(word[i])
            i += 1
    return result
