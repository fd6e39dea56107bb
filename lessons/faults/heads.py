"""The heads of attention share what is theirs, or bring what is not."""

import numpy as np

import autograd.functional as F
from lessons.harness.engine import Engine, without
from minitransformer.layers import MultiheadAttention
from minitransformer.module import Init


def heads_tied(engine: Engine) -> None:
    """all heads look where the first one looks"""

    def change(attention):
        return lambda q, k, v, **o: attention(*(x[:, np.zeros(q.shape[1], int)] for x in (q, k)), v, **o)

    engine.replace(F, "attention", change)


def head_in_two_halves(engine: Engine) -> None:
    """a single head has a softmax for each half of its width"""

    def split(x):
        return x.reshape(*x.shape[:1], x.shape[2], 2, -1).transpose(0, 2, 1, 3)

    def change(attention):
        def run(q, k, v, **options):
            if q.shape[1] > 1:
                return attention(q, k, v, **options)
            return attention(split(q), split(k), split(v)).transpose(0, 2, 1, 3).reshape(q.shape)

        return run

    engine.replace(F, "attention", change)


def bias_for_each_head(engine: Engine) -> None:
    """every head brings d weights of its own"""

    def change(init):
        def greedy(self, embed_dim, num_heads, *rest, **options):
            init(self, embed_dim, num_heads, *rest, **options)
            self.more = Init().constant(0, num_heads, embed_dim)

        return greedy

    engine.replace(MultiheadAttention, "__init__", change)


def every_head_projects_all(engine: Engine) -> None:
    """each head computes the projections of all heads and keeps its own: the same numbers, for more work"""

    def change(project):
        def wasteful(self, *arguments):
            copies = [project(self, *arguments) for _ in range(self.num_heads)]
            return [
                F.concatenate([c[:, h : h + 1] for h, c in enumerate(q)], axis=1) for q in zip(*copies, strict=True)
            ]

        return wasteful

    engine.replace(MultiheadAttention, "_project", change)


def no_output_projection(engine: Engine) -> None:
    """the heads are joined without an output projection"""

    engine.replace(MultiheadAttention, "__init__", without("out_proj"))
