"""Errors that any part of this package may raise."""


class BackendError(RuntimeError):
    """A backend that is unknown, cannot work here, or met an array of another one."""
