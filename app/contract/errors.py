"""Errors of a request that storage knows nothing of.

    ApiError
    |-- InvalidParameter        a parameter that can't be read or is out of its range
    |-- UnknownParameter        a parameter that this operation doesn't have
    |-- InvalidKey              the key in the path is not percent-encoded UTF-8
    |-- WrongStoreKind          a read that the store's window kind doesn't have
    |-- WindowNotFound          no such window or session
    |-- RowNotFound             the key has no row in a store without windows
    |-- UnknownRoute            no operation has this path
    `-- MethodNotAllowed        the path is known, the method isn't GET or HEAD

``oriel.app.contract.problems`` turns these and storage's errors into answers.
"""


class ApiError(Exception):
    """Base of all errors of this package."""


class InvalidParameter(ApiError):
    """A parameter can't be read or is out of range; the message names it and the range."""


class UnknownParameter(ApiError):
    """The operation has no such parameter; the message names those that it has."""


class InvalidKey(ApiError):
    """The path isn't percent-encoded UTF-8."""


class WrongStoreKind(ApiError):
    """The read doesn't fit the store's window kind; the message names the reads that do."""


class WindowNotFound(ApiError):
    """The key has no (such) window; it may have expired or not exist yet."""


class RowNotFound(ApiError):
    """The key has no row in a store without windows."""


class UnknownRoute(ApiError):
    """No operation has this path."""


class MethodNotAllowed(ApiError):
    """All operations are GET (and HEAD)."""
