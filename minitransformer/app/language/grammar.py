"""Grammars as expressions: words, sequences and weighted choices, over one or two languages at once.

An expression is finite, without recursion, built from three pieces:

    text("the car", "la voiture")       words, and their counterpart on the second tape where there is one
    seq(a, b, c, second=(0, 2, 1))      parts in order; `second` is their order on the second tape
    choice((3, a), (1, b))              one alternative, with probability proportional to its weight

The parts of a sequence are drawn independently; whatever must agree (number, gender, label) is decided by a
choice above them.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

Words = tuple[str, ...]
T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Text:
    tapes: tuple[Words, Words]


@dataclass(frozen=True, eq=False)
class Seq:
    parts: tuple[Expression, ...]
    second: tuple[int, ...]  # second tape: place -> index into parts


@dataclass(frozen=True, eq=False)
class Choice:
    options: tuple[tuple[float, Expression], ...]
    cumulative: tuple[float, ...]  # running sums of the probabilities, the last one left out


Expression = Text | Seq | Choice


def text(first: str, second: str = "") -> Text:
    """Words separated by spaces, on one or both tapes; `text("")` says nothing."""
    return Text((tuple(first.split()), tuple(second.split())))


def _expression(value: Expression | str) -> Expression:
    return text(value) if isinstance(value, str) else value


def seq(*parts: Expression | str, second: Sequence[int] | None = None) -> Seq:
    """The parts one after the other; `second` reorders them on the second tape."""
    order = tuple(range(len(parts))) if second is None else tuple(second)
    if sorted(order) != list(range(len(parts))):
        raise ValueError(f"seq got second={order} for {len(parts)} parts: give each index exactly once")
    return Seq(tuple(_expression(part) for part in parts), order)


def choice(*options: tuple[int, Expression | str]) -> Choice:
    """One of the options, with probability weight / sum of weights."""
    if not options:
        raise ValueError("choice got no option: give at least one (weight, expression)")
    for weight, _ in options:
        if not isinstance(weight, int) or weight <= 0:
            raise ValueError(f"choice got the weight {weight!r}: give positive integers")
    total = sum(weight for weight, _ in options)
    cumulative = tuple(sum(w for w, _ in options[: i + 1]) / total for i in range(len(options) - 1))
    return Choice(tuple((weight / total, _expression(option)) for weight, option in options), cumulative)


def one_of(*options: Expression | str) -> Choice:
    """One of the options, all equally likely."""
    return choice(*((1, option) for option in options))


def maybe(weight: int, against: int, option: Expression | str) -> Choice:
    """The option with probability weight / (weight + against), else nothing."""
    return choice((weight, option), (against, ""))


def fold(
    expression: Expression,
    at_text: Callable[[Text], T],
    at_seq: Callable[[Seq, list[T]], T],
    at_choice: Callable[[Choice, list[T]], T],
) -> T:
    """Evaluate an expression bottom-up, each shared sub-expression once."""
    known: dict[int, T] = {}

    def visit(node: Expression) -> T:
        if id(node) not in known:
            if isinstance(node, Text):
                known[id(node)] = at_text(node)
            elif isinstance(node, Seq):
                known[id(node)] = at_seq(node, [visit(part) for part in node.parts])
            else:
                known[id(node)] = at_choice(node, [visit(option) for _, option in node.options])
        return known[id(node)]

    return visit(expression)


def derivations(expression: Expression) -> int:
    """How many derivations there are: sums over choices, products over sequences."""
    return fold(expression, lambda _: 1, lambda _, parts: math.prod(parts), lambda _, options: sum(options))


def derivation_entropy(expression: Expression) -> float:
    """Entropy of the derivation in nats: H(sequence) = sum H(part), H(choice) = sum p (H(option) - ln p)."""
    return fold(
        expression,
        lambda _: 0.0,
        lambda _, parts: math.fsum(parts),
        lambda node, h: math.fsum(p * (h[i] - math.log(p)) for i, (p, _) in enumerate(node.options)),
    )


def draw(expression: Expression, uniform: Callable[[], float]) -> tuple[Words, Words]:
    """One derivation, read on both tapes; `uniform` supplies numbers in [0, 1)."""
    while isinstance(expression, Choice):
        expression = expression.options[bisect_right(expression.cumulative, uniform())][1]
    if isinstance(expression, Text):
        return expression.tapes
    drawn = [draw(part, uniform) for part in expression.parts]
    first = tuple(word for words, _ in drawn for word in words)
    return first, tuple(word for index in expression.second for word in drawn[index][1])


class Parser:
    """Every derivation of a first-tape sentence, read on the second tape.

    Parsing is a descent from the top with two savings: results are remembered per (expression, place), and an
    alternative whose first word cannot match is never entered.
    """

    def __init__(self, expression: Expression) -> None:
        self.expression = expression
        self._starts: dict[int, frozenset[str] | None] = {}  # None: may be empty, so any word may follow
        self._start(expression)

    def _start(self, node: Expression) -> frozenset[str] | None:
        if id(node) in self._starts:
            return self._starts[id(node)]
        found: frozenset[str] | None
        if isinstance(node, Text):
            found = frozenset(node.tapes[0][:1]) or None
        elif isinstance(node, Seq):
            sets = [self._start(part) for part in node.parts]
            solid = next((i for i, words in enumerate(sets) if words is not None), None)
            found = None if solid != 0 else sets[0]
        else:
            sets = [self._start(option) for _, option in node.options]
            found = None if None in sets else frozenset().union(*(words for words in sets if words))
        self._starts[id(node)] = found
        return found

    def second_tapes(self, words: Words) -> dict[Words, float]:
        """Second-tape sentence -> joint probability of the pair, summed over derivations; empty if none."""
        known: dict[tuple[int, int], dict[tuple[int, Words], float]] = {}

        def parse(node: Expression, at: int) -> dict[tuple[int, Words], float]:
            key = id(node), at
            if key not in known:
                known[key] = descend(node, at)
            return known[key]

        def descend(node: Expression, at: int) -> dict[tuple[int, Words], float]:
            start = self._starts[id(node)]
            if start is not None and (at == len(words) or words[at] not in start):
                return {}
            if isinstance(node, Text):
                mine, other = node.tapes
                return {(at + len(mine), other): 1.0} if words[at : at + len(mine)] == mine else {}
            found: dict[tuple[int, Words], float] = {}
            if isinstance(node, Choice):
                for p, option in node.options:
                    for result, q in parse(option, at).items():
                        found[result] = found.get(result, 0.0) + p * q
                return found
            partial: dict[tuple[int, tuple[Words, ...]], float] = {(at, ()): 1.0}
            for part in node.parts:
                longer: dict[tuple[int, tuple[Words, ...]], float] = {}
                for (place, pieces), p in partial.items():
                    for (end, piece), q in parse(part, place).items():
                        reached = end, (*pieces, piece)
                        longer[reached] = longer.get(reached, 0.0) + p * q
                partial = longer
            for (end_at, pieces), p in partial.items():
                whole = end_at, tuple(word for index in node.second for word in pieces[index])
                found[whole] = found.get(whole, 0.0) + p
            return found

        return {other: p for (end, other), p in parse(self.expression, 0).items() if end == len(words)}
