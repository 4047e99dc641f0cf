"""Errors of the window engine.

WindowsError
`-- IllegalArgument     a definition that breaks a rule of semantics section 6
"""


class WindowsError(Exception):
    """Base of all errors of this package."""


class IllegalArgument(WindowsError):
    """A window or aggregate definition breaks a rule; the message says which and how to mend it.

    The name is Kafka Streams' word for the same situation (``IllegalArgumentException``).
    """
