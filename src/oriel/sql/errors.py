"""Errors of queries."""

from oriel.storage import StorageError


class InvalidQuery(StorageError):
    """The statement cannot be run. The message says why."""


class QueryLimit(StorageError):
    """The query exceeds a limit of time, memory or bytes. The message names the limit."""
