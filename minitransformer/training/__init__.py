"""Training: one loop for all models, which stops and resumes bit for bit.

from minitransformer.training import Options, train, warmup_cosine

result = train(
    model,
    optimiser,
    batches,                                     # .epoch(e, start) and .count(e)
    lambda model, batch: model.loss(batch.ids, batch.targets, ignore_index=batch.ignore),
    Options(max_epochs=2, clip=0.5, evaluate_every=500),
    schedule=warmup_cosine(warmup=200, total=6250),
    evaluate=lambda model: {"loss": ...},
    folder="runs/reviews",
    resume=False,
)
"""

from .errors import NotFiniteError, TrainingError
from .loop import train
from .options import Options
from .resume import resume_command
from .summary import Result

__all__ = ["NotFiniteError", "Options", "Result", "TrainingError", "resume_command", "train"]
