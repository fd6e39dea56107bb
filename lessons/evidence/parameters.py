"""What lesson 7 measures: how many weights a model's parts have, and how long the base model takes for a step."""

import time
from typing import NamedTuple

import numpy as np

import kernels
from autograd import tape
from kernels.contract import CONTRACT
from minitransformer import Classifier, LanguageModel
from minitransformer.app.cli.params import count_parts
from minitransformer.app.tables import table
from minitransformer.models import build
from minitransformer.optim import Adam, clip_grad_norm

# Part by part


def parts(model):
    """Part → (how many times, weights altogether)."""
    return {part.strip(): (times, number) for part, times, number in count_parts(model)}


def table_of_parts(model):
    """For the screen: each part, how many times, the weights of one, and the share of all together."""
    total = model.num_parameters()
    rows = [
        (
            part.replace("encoder layers: ", ""),
            f"{times} × {n // times:,}" if times > 1 else f"{n:,}",
            f"{n / total:.1%}",
        )
        for part, times, n in count_parts(model)
    ]
    return table(("part", "weights", "share"), [*rows, ("together", f"{total:,}", "")], right=(1, 2))


MODELS = {  # kind of model → its preset
    "lab's classifier": ("lab", "classifier"),
    "lab's language model": ("lab", "lm"),
    "base model of 2017": ("base", "lm"),
}


def embeddings_layers_head(*preset):
    """Weights of these three, for a model of the engine's presets."""
    found = parts(build(*preset, seed=None))
    return [sum(n for part, (_, n) in found.items() if ":" not in part and word in part)
            for word in ("embedding", "layers", "head")]  # fmt: skip


EXPECTED = {  # of the lab's models: part → (how many times, weights altogether), as claimed
    "embedding": (1, 10_000_200),
    "encoder layers": (4, 968_000),
    "encoder layers: self-attention": (4, 4 * 160_800),
    "encoder layers: feed-forward": (4, 4 * 80_400),
    "encoder layers: norms": (4, 4 * 800),
}


def used_weights(model):
    """How many weights belong to a tensor that a loss sends a gradient to."""
    model.loss(np.array([[1, 2, 3]]), np.array([[2, 3, 4]])).backward()
    return sum(p.size for p in model.parameters() if p.grad is not None and bool((p.grad.numpy() != 0).any()))


def head_size(**sizes):
    """Weights of a classifier's head."""
    sizes = {"vocab_size": 50, "d_model": 200, "n_heads": 1, "n_layers": 4, "d_ff": 8, "n_classes": 2} | sizes
    return parts(Classifier(**sizes, seed=None))["head"][1]


# Formulas


def random_sizes(random):
    """(arguments of a model, number of classes); small numbers are frequent, and the heads divide the width."""
    V, n, L, F, classes = (int(2 ** random.uniform(0, top)) for top in (14, 7, 3, 9, 5))
    heads = random.choice([h for h in range(1, n + 1) if n % h == 0])
    return {"vocab_size": V, "d_model": n, "n_heads": int(heads), "n_layers": L, "d_ff": F}, classes


def both_counts(sizes, classes):
    """Weights of a language model and of a classifier."""
    return (
        LanguageModel(**sizes, seed=None).num_parameters(),
        Classifier(**sizes, n_classes=classes, seed=None).num_parameters(),
    )


def at_random_sizes(tries, formula, for_any_width):
    """How many choices of sizes the formula gets right, for both models, when the feed-forward part is as wide as the
    model; how many it gets right for another width; and how many of these the other formula gets right."""
    random, right, right_elsewhere, others = np.random.default_rng(7), 0, 0, 0
    for _ in range(tries):
        sizes, classes = random_sizes(random)
        V, n, L, F = (sizes[name] for name in ("vocab_size", "d_model", "n_layers", "d_ff"))
        F += n == F
        by_formula = formula(V, n, L, V), formula(V, n, L, classes)
        right += both_counts(sizes | {"d_ff": n}, classes) == by_formula
        free = both_counts(sizes | {"d_ff": F}, classes)
        right_elsewhere += free == by_formula
        others += free == tuple(for_any_width(V, n, L, outputs, F) for outputs in (V, classes))
    return right, right_elsewhere, others


def bracket_moved(V, n, L, outputs):
    """What the loose formula may have meant: V n + L (3 n² + 2 (n² + n)) + n V + V"""
    return V * n + L * (3 * n**2 + 2 * (n**2 + n)) + n * outputs + outputs


def forgotten(name):
    """Weights of a layer that have no term in the loose formula, bracket moved or not."""
    return "self_attn.out_proj" in name or "self_attn.in_proj_bias" in name or ".norm" in name


# The base model

D, WIDE, N, WORDS = 512, 2048, 6, 37000
LISTED = {  # the terms of the claim
    "two embeddings": 2 * WORDS * D,
    "feed-forward, 2 N d d_ff": 2 * N * D * WIDE,
    "projections, 3 N d²": 3 * N * D * D,
    "final layer": WORDS * D,
}
TABLE, FORWARD, PROJECTIONS = (
    "word tables (one; the list has three)",
    "feed-forward, encoder",
    "queries, keys, values: encoder",
)
IN_THE_LIST = {  # a term of the model → what the list has in its place
    TABLE: LISTED["two embeddings"] + LISTED["final layer"],
    FORWARD: LISTED["feed-forward, 2 N d d_ff"],
    PROJECTIONS: LISTED["projections, 3 N d²"],
}


def terms_of(model):
    """The base model's weights, sorted by what they do."""
    own, across = "queries, keys, values: decoder", "queries, keys, values: decoder to encoder"
    outputs, rest = "output matrices of attention", "biases and norms"
    terms = dict.fromkeys((TABLE, FORWARD, "feed-forward, decoder", PROJECTIONS, own, across, outputs, rest), 0)
    for name, weight in model.named_parameters():
        decoder = "decoder" in name
        if weight.ndim == 1:
            term = rest
        elif "linear" in name:
            term = "feed-forward, decoder" if decoder else FORWARD
        elif "out_proj" in name:
            term = outputs
        elif "attn" in name:
            term = across if "multihead" in name else own if decoder else PROJECTIONS
        else:
            term = TABLE
        terms[term] += weight.size
    return terms


def balance_of(terms):
    """The list, less the two tables that do not exist, plus the terms that it leaves out; and the weights of two of
    these: attention to the encoder, and output matrices."""
    added = sum(size for term, size in terms.items() if term not in IN_THE_LIST)
    forgotten = terms["queries, keys, values: decoder to encoder"] + terms["output matrices of attention"]
    return sum(LISTED.values()) - 2 * WORDS * D + added, forgotten


SENTENCES, LENGTH, PAPER_WORDS = 4, 32, 25_000  # of a small step; words on either side in a step of the paper


def operations_of(loss):
    """Those of the matrix products and attentions, forward and backward: all but a few hundredths of the work."""
    calls = tape.calls(loss, backward=True)
    heavy = ("linear", "feed_forward", "attention")
    return sum(CONTRACT[name].cost(*arguments).flops for name, arguments in calls if name.startswith(heavy))


def steps_of_the_base_model(steps=2):
    """Losses on one batch, operations of a step, seconds for the gradients and for the update."""
    model, random = build("base", seed=0, dropout=0.0), np.random.default_rng(0)  # so that the losses compare
    source, target = random.integers(0, WORDS, (2, SENTENCES, LENGTH))
    optimizer, losses, times = Adam(model.parameters(), lr=5e-4), [], []
    for step in range(steps + 1):
        start = time.perf_counter()
        optimizer.zero_grad()
        loss = model.loss(source, target[:, :-1], target[:, 1:])
        losses.append(loss.item())
        loss.backward(retain_graph=step == 0)
        if step == 0:
            operations = operations_of(loss)
        middle = time.perf_counter()
        clip_grad_norm(model.parameters(), 1.0)
        optimizer.step()
        times.append((middle - start, time.perf_counter() - middle))
        del loss
    return losses, operations, *np.min(times[1:], axis=0)


class Training(NamedTuple):
    """A few steps of the base model, and what follows for 100,000 of them."""

    backend: str
    losses: list[float]
    operations: int  # of a step
    gradients: float  # seconds of a step
    update: float
    words = SENTENCES * LENGTH

    @property
    def small(self):
        """Days for 100,000 such steps."""
        return 1e5 * (self.gradients + self.update) / 86400

    @property
    def paper(self):
        """Days for 100,000 steps with as many words as the paper's."""
        return 1e5 * (self.gradients * PAPER_WORDS / self.words + self.update) / 86400

    @property
    def paper_operations(self):
        return 1e5 * self.operations * PAPER_WORDS / self.words

    @property
    def rate(self):
        """Operations a second, here."""
        return self.operations / self.gradients

    def in_words(self):
        return (
            f"a step of {SENTENCES} × {LENGTH} words on {self.backend}: {self.gradients:.2f} s for the gradients, "
            f"{self.update:.2f} s for the update\n"
            f"{self.operations / 1e9:.0f} billion operations a step, {self.rate / 1e9:.0f} billion a second\n"
            f"100,000 such steps: {self.small:.1f} days; of {PAPER_WORDS:,} words each: {self.paper:,.0f} days"
        )


def training_of_the_base_model(steps):
    """`steps` is steps_of_the_base_model, or remembers it. An emulator's times would say nothing about training."""
    backend = kernels.current().name
    backend = "numpy" if backend == "emulated" else backend
    with kernels.use(backend):
        return Training(backend, *steps())
