"""In the place of matplotlib, whose import takes most of a second, for lessons of the tests that draw nothing."""

rcParams: dict = {}  # noqa: N816 - its name there


def use(_backend: str) -> None:
    """There is nothing to choose."""
