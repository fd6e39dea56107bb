"""One step of a language model on the ranks that mpiexec started: prints what each of them received for it."""

import json

import numpy as np

import kernels
from minitransformer import LanguageModel
from minitransformer.app import ranks
from minitransformer.app.data import LanguageModelBatches
from minitransformer.app.tasks.measures import word_loss
from minitransformer.app.training.shares import Shares
from minitransformer.app.training.slices import SlicedSteps
from minitransformer.optim import Adam

kernels.use("numpy")
everybody = ranks.world()
Shares.message = 4096
texts = [np.random.default_rng(i).integers(4, 300, 9) for i in range(8)]
batch = next(LanguageModelBatches(texts, max_len=10, rows=8).epoch())
model = LanguageModel(vocab_size=300, d_model=32, n_heads=2, n_layers=2, d_ff=50, max_len=12)
optimizer = Adam(model.named_parameters())
steps = SlicedSteps(model, optimizer, word_loss, 8, 0, 1.0, everybody)
steps.start()
steps.step(0, batch, 1e-3, lambda what, value: None)  # in which the order of the buckets is agreed on
before, early = everybody.received, steps.sending.early
steps.step(1, batch, 1e-3, lambda what, value: None)
mine = [everybody.received - before, steps.sending.early - early, len(steps.shares.buckets)]
mine += [sum(array.size for kind in steps.own.optimizer.arrays.values() for array in kind.values())]
found = [numbers.tolist() for numbers in everybody.gathered(np.array(mine))]
if everybody.rank == 0:
    print(json.dumps({"numbers": model.num_parameters(), "arrays": len(model.parameters()), "ranks": found}))
