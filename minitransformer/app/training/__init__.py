"""Training: one loop for all models, which stops and resumes bit for bit (on the same machine with the same software;
otherwise it says that it does not).

Everything here surrounds these fourteen lines, which need nothing but the model and its optimizer:

```python
import numpy as np
from minitransformer import LanguageModel
from minitransformer.optim import Adam, clip_grad_norm

text = np.frombuffer(b"to be, or not to be, that is the question: " * 6, dtype=np.uint8)
model = LanguageModel(vocab_size=256, d_model=32, n_heads=2, n_layers=2, d_ff=64, max_len=16)
optimizer = Adam(model.parameters(), lr=3e-3)
for step in range(100):
    rows = text[step : step + 8 * 17].reshape(8, 17)  # a batch: 8 rows of 17 letters
    loss = model.loss(rows[:, :-1], rows[:, 1:])  # each letter is to predict the next one
    optimizer.zero_grad()
    loss.backward()
    clip_grad_norm(model.parameters(), 1.0)
    optimizer.step()
    print(step, loss.item())
```

`train` makes the same steps, and also shows progress, evaluates, saves, and goes on where it was stopped:

```python
from minitransformer.app.data import LanguageModelBatches
from minitransformer.app.training import Options, train
from minitransformer.optim import warmup_cosine

batches = LanguageModelBatches([text], max_len=16, rows=8, windows=True)
result = train(
    model,
    optimizer,
    batches,
    lambda model, batch: model.loss(batch.ids, batch.targets, ignore_index=batch.ignore),
    Options(max_epochs=4, clip=0.5),
    schedule=warmup_cosine(warmup=2, total=4 * batches.count()),
    folder="runs/question",
    resume=False,
)
```

On several processes, `mpiexec -n N python program.py` with `train(..., ranks=minitransformer.app.ranks.world())`, or
`mpiexec -n N minitransformer pretrain ...`, leaves the same files for every N, times apart: batches are then cut into 8
slices. A run without mpiexec takes its batches whole, unless told otherwise (`Options(slices=8)`, `--slices 8`); the
two differ in their last bits and in their dropout masks. Slices are computed one after the other and their gradients
accumulate: many of them allow for batches that memory does not hold.

loop.py        the steps, and between them evaluation and limits
run.py         where a run stands; starting, resuming, saving it
metrics.py     its numbers: averaged, written down, drawn
options.py     how long to train, how often to look
interrupts.py  Ctrl-C and a closed terminal as polite requests
environment.py what decides about the last bits: versions, processor, BLAS
checkpoints/   what is saved, and how it is read with suspicion
ranks/         the steps on several ranks (mpiexec), the same bytes for any number of them
"""

from minitransformer.app.training.loop import train
from minitransformer.app.training.options import Options
from minitransformer.app.training.run import Result, resume_command

__all__ = ["Options", "Result", "resume_command", "train"]
