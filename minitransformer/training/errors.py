"""What can go wrong in a run."""


class TrainingError(ValueError):
    """A run that cannot start or go on; the message says why and what to do, in one line."""


class NotFiniteError(TrainingError):
    """The loss, the gradient or a weight became infinite or not a number: going on would only destroy the model."""
