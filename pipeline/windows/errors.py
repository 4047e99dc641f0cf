"""Errors of the window engine.

WindowsError
`-- IllegalArgument     a definition or a query that breaks a rule
"""


class WindowsError(Exception):
    """Base of all errors of this package."""


class IllegalArgument(WindowsError):
    """A definition or a query breaks a rule; the message says which and how to mend it.

    The name is Kafka Streams' word for the same situation (``IllegalArgumentException``).
    """
