"""Training: one loop for all models, which stops and resumes bit for bit.

from minitransformer.app.training import Options, train, warmup_cosine

result = train(
    model,
    optimizer,
    batches,                                     # .epoch(e, start) and .count(e)
    lambda model, batch: model.loss(batch.ids, batch.targets, ignore_index=batch.ignore),
    Options(max_epochs=2, clip=0.5, evaluate_every=500),
    schedule=warmup_cosine(warmup=200, total=6250),
    evaluate=lambda model: {"loss": ...},
    folder="runs/reviews",
    resume=False,
)
"""

from minitransformer.app.training.loop import train
from minitransformer.app.training.options import Options
from minitransformer.app.training.resume import resume_command
from minitransformer.app.training.summary import Result
from minitransformer.errors import NotFiniteError, TrainingError

__all__ = ["NotFiniteError", "Options", "Result", "TrainingError", "resume_command", "train"]
