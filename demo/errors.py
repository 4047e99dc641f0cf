"""What can go wrong in the demo."""


class DemoError(Exception):
    """The demo cannot go on; the message says why and what to do."""


class CheckFailed(DemoError):
    """A served answer differs from the plain recomputation."""
