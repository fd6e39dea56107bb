"""What lesson 7 measures: how many weights a model's parts have, and how long the base model takes for a step."""

import time

import numpy as np

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
    rows = [(part, f"{times} × {n // times:,}" if times > 1 else f"{n:,}", f"{n / total:.1%}")
            for part, (times, n) in parts(model).items()]  # fmt: skip
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


def forgotten(name):
    """Weights of a layer that have no term in the loose formula, brackets moved or not."""
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


SENTENCES, LENGTH, PAPER_WORDS = 4, 32, 25_000  # of a small step; words on either side in a step of the paper


def operations_of(loss):
    """Those of the matrix products and attentions, forward and backward: all but a few hundredths of the work."""
    calls = [call for node in tape.functions(loss) for call in node.kernels.calls]
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
