"""The exact machine behind a grammar: an acyclic automaton with one path per sentence.

A node is a probability distribution over sentences, seen from the next word on: a table

    word -> (probability of that word, node that describes what follows)

with END as the word that closes a sentence. A weighted mixture of two distributions is again one, so mixing
nodes keeps the automaton deterministic: where both offer a word, the probabilities add and the continuations
are mixed with their posterior weights (the subset construction, with weights). Hidden choices (a label, a
topic) thus disappear into the nodes, and the sum over all derivations of a sentence becomes a walk along a
single path.

Equal tables are stored once; "equal" means to 12 decimals, far above rounding noise and far below any
difference that a grammar with small integer weights makes. Were two equal tables missed, only memory would be
lost.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

from minitransformer.app.language.grammar import Expression, Seq, Text

END = "</s>"
DECIMALS = 12
Arcs = dict[str, tuple[float, int]]
Branches = dict[str, list[tuple[float, int]]]
Contact = Callable[[str, str], tuple[str, ...] | None]


class Automaton:
    """A store of nodes. Nodes are integers; `arcs[node]` is the table of a node; node 0 is the end."""

    def __init__(self) -> None:
        self.arcs: list[Arcs] = [{}]
        self._known: dict[frozenset[tuple[str, float, int]], int] = {frozenset(): 0}
        self._mixed: dict[frozenset[tuple[int, float]], int] = {}
        self.stop = self.node({END: (1.0, 0)})

    def node(self, arcs: Arcs) -> int:
        """The node with this table; the same integer for equal tables."""
        key = frozenset([(word, round(p, DECIMALS), target) for word, (p, target) in arcs.items()])
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = len(self.arcs)
            self.arcs.append(dict(sorted(arcs.items())))
        return found

    def mix(self, parts: Iterable[tuple[float, int]]) -> int:
        """The mixture sum_i w_i node_i, with the weights scaled to sum to 1."""
        weights: dict[int, float] = {}
        for weight, node in parts:
            weights[node] = weights.get(node, 0.0) + weight
        if len(weights) == 1:
            return next(iter(weights))
        total = sum(weights.values())
        key = frozenset([(node, round(weight / total, DECIMALS)) for node, weight in weights.items()])
        found = self._mixed.get(key)
        if found is None:
            branches: Branches = {}
            for node, weight in weights.items():
                for word, (p, target) in self.arcs[node].items():
                    branches.setdefault(word, []).append((weight / total * p, target))
            found = self._mixed[key] = self._join(branches)
        return found

    def _join(self, branches: Branches) -> int:
        """The node that says each word with the sum of its branches, then mixes where they lead."""
        arcs: Arcs = {}
        for word, ways in branches.items():
            arcs[word] = ways[0] if len(ways) == 1 else (sum(p for p, _ in ways), self.mix(ways))
        return self.node(arcs)

    def say(self, words: Sequence[str], following: int, contact: Contact | None = None) -> int:
        """The node that says these words and goes on with `following`.

        `contact(left, right)` gives the words that two neighbours become when they meet ("le", "arbre": "l'",
        "arbre"), or None where nothing happens.
        """
        for word in reversed(words):
            branches: Branches = {}
            for right, (p, target) in self.arcs[following].items() if contact else ():
                met = contact(word, right) if contact else None
                if met is None:
                    ahead = self.node({right: (1.0, target)})
                    branches.setdefault(word, []).append((p, ahead))
                else:
                    branches.setdefault(met[0], []).append((p, self.say(met[1:], target)))
            if set(branches) <= {word}:  # no contact: the whole of what follows stays as it is
                following = self.node({word: (1.0, following)})
            else:
                following = self._join(branches)
        return following

    @contextmanager
    def growing(self) -> Iterator[None]:
        """For the time in which a large machine is built: Python would look again and again through hundreds of
        thousands of tuples for garbage, of which there is none. It takes two thirds of the time without that."""
        was_on = gc.isenabled()
        gc.disable()
        try:
            yield
        finally:
            if was_on:
                gc.enable()

    def compile(self, expression: Expression, tape: int = 0, contact: Contact | None = None) -> int:
        """The node of an expression read on one tape."""
        known: dict[tuple[int, int], int] = {}

        def build(node: Expression, following: int) -> int:
            key = id(node), following
            if key in known:
                return known[key]
            if isinstance(node, Text):
                target = self.say(node.tapes[tape], following, contact)
            elif isinstance(node, Seq):
                target = following
                for index in reversed(node.second if tape else range(len(node.parts))):
                    target = build(node.parts[index], target)
            else:
                branches: Branches = {}
                for p, option in node.options:
                    if contact is None and isinstance(option, Text) and option.tapes[tape]:
                        word, *rest = option.tapes[tape]
                        branches.setdefault(word, []).append((p, self.say(rest, following)))
                    else:
                        for word, (q, goal) in self.arcs[build(option, following)].items():
                            branches.setdefault(word, []).append((p * q, goal))
                target = self._join(branches)
            known[key] = target
            return target

        return build(expression, self.stop)

    def order(self, root: int) -> list[int]:
        """All nodes that can be reached from the root, each before the nodes it leads to."""
        seen, done = {root}, []
        stack = [(root, iter(self.arcs[root].values()))]
        while stack:
            node, targets = stack[-1]
            for _, target in targets:
                if target not in seen:
                    seen.add(target)
                    stack.append((target, iter(self.arcs[target].values())))
                    break
            else:
                done.append(node)
                stack.pop()
        return done[::-1]

    def visits(self, root: int) -> dict[int, float]:
        """Expected number of visits of each node in a random sentence."""
        mass = dict.fromkeys(self.order(root), 0.0)
        mass[root] = 1.0
        for node in mass:
            for p, target in self.arcs[node].values():
                mass[target] += mass[node] * p
        return mass
