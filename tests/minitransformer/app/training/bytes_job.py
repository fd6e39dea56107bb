"""One step of a language model on several ranks: what each of them has received for it."""

import numpy as np

from minitransformer import LanguageModel
from minitransformer.app.data import LanguageModelBatches
from minitransformer.app.tasks.measures import word_loss
from minitransformer.app.training.ranks.shares import Shares
from minitransformer.app.training.ranks.slices import SlicedSteps
from minitransformer.optim import Adam


def received_for_a_step(everybody):
    """numbers and arrays of the model; for each rank the bytes it has received, the buckets that left before backward
    had ended, the number of buckets, and the numbers of Adam's state that it keeps"""
    texts = [np.random.default_rng(i).integers(4, 300, 9) for i in range(8)]
    batch = next(LanguageModelBatches(texts, max_len=10, rows=8).epoch())
    model = LanguageModel(vocab_size=300, d_model=32, n_heads=2, n_layers=2, d_ff=50, max_len=12)
    message, Shares.message = Shares.message, 4096
    steps = SlicedSteps(model, Adam(model.named_parameters()), word_loss, 8, 0, 1.0, everybody)
    Shares.message = message
    steps.start()
    steps.step(0, batch, 1e-3, lambda what, value: None)  # in which the order of the buckets is agreed on
    before, early = everybody.received, steps.sending.early
    steps.step(1, batch, 1e-3, lambda what, value: None)
    mine = [everybody.received - before, steps.sending.early - early, len(steps.shares.buckets)]
    mine += [sum(array.size for kind in steps.own.optimizer.arrays.values() for array in kind.values())]
    found = [numbers.tolist() for numbers in everybody.gathered(np.array(mine))]
    return {"numbers": model.num_parameters(), "arrays": len(model.parameters()), "ranks": found}
