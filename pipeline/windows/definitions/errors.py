"""The errors of invalid arguments, and one-line texts for errors of user-defined functions."""

from traceback import format_exception_only

#: The longest text of an error that is stored, in characters.
_MAX_ERROR_LENGTH = 1_000


class IllegalArgument(Exception):
    """Raised if a definition or a query is invalid. The message names the value and the fix.

    This is the base class of all errors of arguments: of windows, topologies, the test driver and
    its stores. Kafka Streams raises ``IllegalArgumentException`` in the same situations.

    Example:
        >>> try:
        ...     TimeWindows.of_size_with_no_grace(0)
        ... except IllegalArgument as error:
        ...     print(error)
        Window size must be larger than zero, but it is 0 ms
    """


class IllegalArgumentType(IllegalArgument, TypeError):
    """Raised if an argument has an invalid type, for example None as a key."""


def said(error: Exception) -> str:
    """Return the type and the text of an error in one line of valid UTF-8.

    Errors of user-defined functions can have several lines, half a surrogate pair, or no text.
    """
    line = " ".join("".join(format_exception_only(error)).split())
    return line[:_MAX_ERROR_LENGTH].encode("utf-8", "backslashreplace").decode()
