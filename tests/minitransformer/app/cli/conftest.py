"""What the tests of commands share."""

import pytest


@pytest.fixture(autouse=True, scope="module")
def no_curves():
    """A picture of the losses takes longer to draw than these models take to train; test_progress.py looks at it, and
    test_results_runs.py at that of a command in a process of its own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("minitransformer.app.training.run.draw_curve", lambda *_: None)
        yield
