"""How well can anyone tell two sources of sentences apart? The exact answer, from their automata.

A sentence comes from source 1 with probability w, from source 2 otherwise. Whoever knows both sources does
best by naming the likelier one, and is then right with probability

    sum over sentences of max(w P1(sentence), (1 - w) P2(sentence))

The sum runs over both automata in step. What happened so far matters only through the two nodes reached and
the ratio of the two prefix probabilities, so shared pasts are computed once.
"""

from __future__ import annotations

import math

from minitransformer.app.language.automaton import Automaton


def best_accuracy(automaton: Automaton, first: int, second: int, prior: float = 0.5) -> float:
    """The accuracy of the best decision between the sentences of two nodes; `prior` is that of the first."""
    arcs = automaton.arcs
    known: dict[tuple[int, int, float], float] = {}

    def gain(one: int, two: int, odds: float) -> float:
        """sum over continuations of max(P1, odds P2)."""
        if one == two:
            return max(1.0, odds)
        # 12 digits of the logarithm: equal pasts may differ by rounding, different ones never by so little
        key = one, two, round(math.log(odds), 12)
        if key not in known:
            mine, other = arcs[one], arcs[two]
            terms = [p for word, (p, _) in mine.items() if word not in other]
            terms += [odds * p for word, (p, _) in other.items() if word not in mine]
            for word, (p, target) in mine.items():
                if word in other:
                    q, goal = other[word]
                    terms.append(p * gain(target, goal, odds * q / p))
            known[key] = math.fsum(terms)
        return known[key]

    return prior * gain(first, second, (1 - prior) / prior)
