"""Errors of the window engine.

WindowsError
`-- IllegalArgument     a definition or a query that breaks a rule
"""

from traceback import format_exception_only


class WindowsError(Exception):
    """Base of all errors of this package."""


class IllegalArgument(WindowsError):
    """A definition or a query breaks a rule; the message says which and how to mend it.

    The name is Kafka Streams' word for the same situation (``IllegalArgumentException``).
    """


#: More of an error's text than this helps nobody.
_LONGEST = 1_000


def said(error: Exception) -> str:
    """Which error and what it says, in one line that UTF-8 can hold.

    Errors of a user's functions come in any shape: of several lines, with half a surrogate
    pair, or unable to tell anything.
    """
    line = " ".join("".join(format_exception_only(error)).split())
    return line[:_LONGEST].encode("utf-8", "backslashreplace").decode()
