"""Errors of the demo."""


class DemoError(Exception):
    """The demo cannot continue. The message has the reason and what to do."""


class CheckFailed(DemoError):
    """A response of the service differs from the plain recomputation."""
