"""What the tests of the results share."""

import pytest


@pytest.fixture(autouse=True, scope="module")
def no_curves():
    """A picture of the losses takes longer to draw than these models take to train."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("minitransformer.app.training.run.draw_curve", lambda *_: None)
        yield
