"""The error of the window engine, and how errors of users' functions are put in a line."""

from traceback import format_exception_only

#: More of an error's text than this many characters helps nobody.
_MAX_ERROR_LENGTH = 1_000


class IllegalArgument(Exception):
    """A definition or a query breaks a rule; the message says which and how to mend it.

    The name is Kafka Streams' word for the same situation (``IllegalArgumentException``). It is the
    base of all errors of arguments: of definitions, topologies, the test driver and its stores.
    """


class IllegalArgumentType(IllegalArgument, TypeError):
    """An argument is of a type that has no sense there, as a key that is None."""


def said(error: Exception) -> str:
    """Which error and what it says, in one line that UTF-8 can hold.

    Errors of a user's functions come in any shape: of several lines, with half a surrogate
    pair, or unable to tell anything.
    """
    line = " ".join("".join(format_exception_only(error)).split())
    return line[:_MAX_ERROR_LENGTH].encode("utf-8", "backslashreplace").decode()
