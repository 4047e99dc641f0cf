"""Define the query parameters of the operations, and read a query string.

An unknown parameter is an error, because a typing error (``from`` for ``from_ms``) would otherwise
silently return other windows.
"""

from collections.abc import Mapping
from typing import Any

from oriel.app.contract.parameters import (
    AFTER,
    AS_OF_MS,
    AS_OF_VERSION,
    COLUMNS,
    CURRENT,
    CURSOR,
    DEAD_LETTER_FILTERS,
    EARLIEST_END_MS,
    FINAL,
    FOR_MS,
    FROM_MS,
    HISTORY,
    KEY_FROM,
    KEY_TO,
    LATEST_START_MS,
    LIMIT,
    MIN_OFFSET,
    MIN_VERSION,
    ORDER,
    PREFIX,
    REPEATS_MAX,
    SHORT_LIMIT,
    SINCE_VERSION,
    TIMES,
    TO_MS,
    WAIT_MS,
    WATCHED_KEY,
    QueryParameter,
)
from oriel.app.contract.problems import InvalidParameter, UnknownParameter
from oriel.app.contract.values import decode_query


class Query:
    """The query parameters that one operation has."""

    def __init__(self, *parameters: QueryParameter) -> None:
        """Set the parameters, in the order in which messages list them."""
        self.parameters = parameters
        self.bounds = tuple(parameter.name for parameter in parameters if parameter.is_bound)
        self._by_name = {parameter.name: parameter for parameter in parameters}
        self._defaults = {
            parameter.name: parameter.absent if parameter.default is None else parameter.default
            for parameter in parameters
        }
        self._repeatable = {parameter.name for parameter in parameters if parameter.repeatable}

    def read(self, query_string: bytes) -> Mapping[str, Any]:
        """Return the value of each parameter, or its default.

        Raises:
            UnknownParameter: The operation does not have the parameter.
            InvalidParameter: A value cannot be parsed, or the request has a parameter twice.
        """
        if not query_string:
            return self._defaults
        values = dict(self._defaults)
        seen: set[str] = set()
        for part in query_string.split(b"&"):
            if part:
                self._read_part(part, values, seen)
        # Values are collected in lists, because appending to a tuple has a quadratic cost.
        for name in self._repeatable & seen:
            values[name] = tuple(values[name])
        return values

    def _read_part(self, part: bytes, values: dict[str, Any], seen: set[str]) -> None:
        raw_name, _, raw_value = part.partition(b"=")
        name = decode_query(raw_name)
        parameter = self._by_name.get(name)
        if parameter is None:
            known = ", ".join(self._by_name) or "none"
            message = f"{name[:80]!r} is not a parameter of this operation. Use one of: {known}."
            raise UnknownParameter(message)
        value = parameter.read(decode_query(raw_value))
        if parameter.repeatable:
            if name not in seen:
                values[name] = []
            elif len(values[name]) == REPEATS_MAX:
                message = f"{name} must be sent at most {REPEATS_MAX} times."
                raise InvalidParameter(message)
            values[name].append(value)
        elif name in seen:
            message = f"{name} must be sent once, but the request has it twice."
            raise InvalidParameter(message)
        else:
            values[name] = value
        seen.add(name)


_POSITION = (MIN_VERSION, MIN_OFFSET, WAIT_MS, AS_OF_VERSION, AS_OF_MS, HISTORY)
_EVERY_READ = (TIMES, *_POSITION)

_KEYS = (KEY_FROM, KEY_TO)
_STARTS = (FROM_MS, TO_MS)
_OVERLAP = (EARLIEST_END_MS, LATEST_START_MS)
_PAGE = (LIMIT, CURSOR)
_WINDOWS = (FINAL, COLUMNS)

#: The queries of the operations.
NO_QUERY = Query()
POSITION_QUERY = Query(*_EVERY_READ)
ONE_QUERY = Query(COLUMNS, *_EVERY_READ)
RANGE_QUERY = Query(*_STARTS, *_PAGE, *_WINDOWS, *_EVERY_READ)
SESSIONS_QUERY = Query(*_OVERLAP, *_PAGE, *_WINDOWS, *_EVERY_READ)
COVERING_QUERY = Query(*_PAGE, *_WINDOWS, *_EVERY_READ)
KEYS_QUERY = Query(PREFIX, LIMIT, CURSOR, *_POSITION)
KEY_RANGE_QUERY = Query(*_KEYS, *_STARTS, *_PAGE, *_WINDOWS, *_EVERY_READ)
KEY_RANGE_SESSIONS_QUERY = Query(*_KEYS, *_OVERLAP, *_PAGE, *_WINDOWS, *_EVERY_READ)
EACH_KEY_QUERY = Query(PREFIX, *_KEYS, *_PAGE, COLUMNS, *_EVERY_READ)
ALL_QUERY = Query(*_PAGE, *_WINDOWS, *_EVERY_READ)
ALL_ROWS_QUERY = Query(*_PAGE, COLUMNS, *_EVERY_READ)
ROWS_QUERY = Query(*_KEYS, *_PAGE, COLUMNS, *_EVERY_READ)
LISTED_QUERY = Query(CURSOR, COLUMNS, *_EVERY_READ)
LISTED_RANGE_QUERY = Query(*_STARTS, *_PAGE, COLUMNS, *_EVERY_READ)
PREFIX_QUERY = Query(PREFIX, *_PAGE, COLUMNS, *_EVERY_READ)
WATCH_QUERY = Query(WATCHED_KEY, CURRENT, COLUMNS, AFTER, FOR_MS)
CHANGES_QUERY = Query(SINCE_VERSION, HISTORY, SHORT_LIMIT, CURSOR)
DEAD_LETTERS_QUERY = Query(*DEAD_LETTER_FILTERS, ORDER, SHORT_LIMIT, CURSOR)
DEAD_LETTER_COUNTS_QUERY = Query(*DEAD_LETTER_FILTERS)
