"""Drawing many sentences at once from an automaton."""

from __future__ import annotations

import itertools

import numpy as np

from minitransformer.app.language.automaton import Automaton
from minitransformer.app.language.grammar import Words


class Sampler:
    """Draws many sentences at once: all of them take one step in the automaton together."""

    def __init__(self, automaton: Automaton, order: list[int]) -> None:
        index = {node: i for i, node in enumerate(order)}  # the root comes first
        arcs = [
            (i, word, p, index[target])
            for node, i in index.items()
            for word, (p, target) in automaton.arcs[node].items()
        ]
        counts = np.bincount([i for i, *_ in arcs], minlength=len(index))
        self.first = np.cumsum(counts) - counts  # first arc of each node
        self.last = self.first + counts - 1
        self.words = [word for _, word, _, _ in arcs]
        self.target = np.array([t for *_, t in arcs])
        self.end = index[0]
        # node number + running sum of its probabilities: one sorted array, so one binary search serves all
        # nodes
        running = list(
            itertools.chain.from_iterable(
                itertools.accumulate(p for p, _ in automaton.arcs[node].values()) for node in index
            )
        )
        self.key = np.array([i for i, *_ in arcs]) + np.array(running)

    def draw(self, n: int, generator: np.random.Generator) -> list[Words]:
        at = np.zeros(n, dtype=np.int64)
        alive, steps = np.arange(n), []
        while len(alive):
            node = at[alive]
            arc = np.searchsorted(self.key, node + generator.random(len(alive)), side="right")
            arc = np.clip(arc, self.first[node], self.last[node])
            steps.append((alive, arc))
            at[alive] = self.target[arc]
            alive = alive[at[alive] != self.end]
        sentences: list[list[str]] = [[] for _ in range(n)]
        words = self.words
        for who, arc in steps:
            for i, a in zip(who.tolist(), arc.tolist(), strict=True):
                sentences[i].append(words[a])
        return [tuple(sentence[:-1]) for sentence in sentences]  # END is not part of the sentence
