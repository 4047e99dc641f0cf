"""Define the query parameters of the operations, and read a query string.

An unknown parameter is an error, because a typing error (``from`` for ``from_ms``) would otherwise
silently return other windows.
"""

from collections.abc import Mapping
from typing import Any, Generic, TypedDict, TypeVar

from oriel.app.contract.parameters import (
    AFTER,
    AS_OF_MS,
    AS_OF_VERSION,
    AT_MS,
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
    MERGED_COLUMNS,
    MIN_OFFSET,
    MIN_VERSION,
    ORDER,
    ORDER_BY,
    PREFIX,
    RANGE_FROM_MS,
    RANGE_TO_MS,
    REPEATS_MAX,
    SHORT_LIMIT,
    SINCE_VERSION,
    STEP_MS,
    TIMES,
    TO_MS,
    TOP,
    VALID_FROM_MS,
    VALID_TO_MS,
    WAIT_MS,
    WATCHED_KEY,
    WHERE,
    QueryParameter,
)
from oriel.app.contract.problems import InvalidParameter, UnknownParameter
from oriel.app.contract.values import decode_query
from oriel.storage import OffsetBound


class ReadValues(TypedDict, total=False):
    """The query parameters of reads. No read has all parameters."""

    limit: int
    cursor: str | None
    prefix: str
    key_from: str | None
    key_to: str | None
    from_ms: int
    to_ms: int
    step_ms: int | None
    earliest_end_ms: int
    latest_start_ms: int
    final: bool | None
    columns: tuple[str, ...] | None
    where: str | None
    order_by: tuple[str, ...] | None
    top: int | None
    times: str
    min_version: int
    min_offset: tuple[OffsetBound, ...]
    wait_ms: int
    as_of_version: int | None
    as_of_ms: int | None
    at_ms: int | None
    since_version: int | None
    history: str | None


Parsed = TypeVar("Parsed")


class Query(Generic[Parsed]):
    """The query parameters that one operation has. ``Parsed`` is the type of their values."""

    _ignores_unknown = False

    def __init__(self, *parameters: QueryParameter) -> None:
        """Set the parameters, in the order in which messages list them."""
        self.parameters = parameters
        self.bounds = tuple(parameter.name for parameter in parameters if parameter.is_bound)
        self._by_name = {parameter.name: parameter for parameter in parameters}
        self._defaults: Any = {
            parameter.name: parameter.absent if parameter.default is None else parameter.default
            for parameter in parameters
        }
        self._repeatable = {parameter.name for parameter in parameters if parameter.repeatable}
        self._required = [parameter.name for parameter in parameters if parameter.is_required]

    def read(self, query_string: bytes) -> Parsed:
        """Return the value of each parameter, or its default.

        No type checker can derive ``Parsed`` from the parameters. So
        tests/app/test_value_types.py compares the two.

        Raises:
            UnknownParameter: The operation does not have the parameter.
            InvalidParameter: A value cannot be parsed, the request has a parameter twice, or a
                required parameter is missing.
        """
        values: Any = self._defaults
        if not query_string and not self._required:
            defaults: Parsed = values
            return defaults
        values = dict(values)
        seen: set[str] = set()
        for part in query_string.split(b"&"):
            if part:
                self._read_part(part, values, seen)
        # Values are collected in lists, because appending to a tuple has a quadratic cost.
        for name in self._required:
            if name not in seen:
                message = f"{name} is missing. Send the parameter {name}."
                raise InvalidParameter(message)
        for name in self._repeatable & seen:
            values[name] = tuple(values[name])
        read: Parsed = values
        return read

    def _read_part(self, part: bytes, values: dict[str, Any], seen: set[str]) -> None:
        raw_name, _, raw_value = part.partition(b"=")
        name = decode_query(raw_name)
        parameter = self._by_name.get(name)
        if parameter is None:
            if self._ignores_unknown:
                return
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


class ReadQuery(Query[ReadValues]):
    """The query parameters of a read."""


class OtherQuery(Query[Mapping[str, Any]]):
    """The query parameters of an operation that is not a read of a store."""


class FormQuery(OtherQuery):
    """The parameters of an operation of Prometheus' API. Unknown parameters are ignored."""

    _ignores_unknown = True


_POSITION = (MIN_VERSION, MIN_OFFSET, WAIT_MS, AS_OF_VERSION, AS_OF_MS, HISTORY)
_EVERY_READ = (TIMES, *_POSITION)

_KEYS = (KEY_FROM, KEY_TO)
_STARTS = (FROM_MS, TO_MS)
_RANGES = (RANGE_FROM_MS, RANGE_TO_MS, STEP_MS)
_OVERLAP = (EARLIEST_END_MS, LATEST_START_MS)
_PAGE = (LIMIT, CURSOR)
_CHOSEN = (COLUMNS, WHERE, ORDER_BY, TOP)
_WINDOWS = (FINAL, *_CHOSEN)

#: The queries of the operations.
NO_QUERY = OtherQuery()
POSITION_QUERY = ReadQuery(*_EVERY_READ)
ONE_QUERY = ReadQuery(COLUMNS, *_EVERY_READ)
GET_QUERY = ReadQuery(AT_MS, COLUMNS, *_EVERY_READ)
VERSIONS_QUERY = ReadQuery(VALID_FROM_MS, VALID_TO_MS, *_PAGE, COLUMNS, *_EVERY_READ)
RANGE_QUERY = ReadQuery(*_STARTS, *_PAGE, *_WINDOWS, *_EVERY_READ)
MERGED_QUERY = ReadQuery(
    *_RANGES, *_PAGE, FINAL, MERGED_COLUMNS, WHERE, ORDER_BY, TOP, *_EVERY_READ
)
MERGED_ALL_QUERY = ReadQuery(
    PREFIX, *_KEYS, *_RANGES, *_PAGE, FINAL, MERGED_COLUMNS, WHERE, ORDER_BY, TOP, *_EVERY_READ
)
SESSIONS_QUERY = ReadQuery(*_OVERLAP, *_PAGE, *_WINDOWS, *_EVERY_READ)
COVERING_QUERY = ReadQuery(*_PAGE, *_WINDOWS, *_EVERY_READ)
KEYS_QUERY = ReadQuery(PREFIX, LIMIT, CURSOR, *_POSITION)
KEY_RANGE_QUERY = ReadQuery(*_KEYS, *_STARTS, *_PAGE, *_WINDOWS, *_EVERY_READ)
KEY_RANGE_SESSIONS_QUERY = ReadQuery(*_KEYS, *_OVERLAP, *_PAGE, *_WINDOWS, *_EVERY_READ)
EACH_KEY_QUERY = ReadQuery(PREFIX, *_KEYS, *_PAGE, *_CHOSEN, *_EVERY_READ)
ALL_QUERY = ReadQuery(*_PAGE, *_WINDOWS, *_EVERY_READ)
ALL_ROWS_QUERY = ReadQuery(*_PAGE, *_CHOSEN, *_EVERY_READ)
ROWS_QUERY = ReadQuery(*_KEYS, *_PAGE, *_CHOSEN, *_EVERY_READ)
LISTED_QUERY = ReadQuery(CURSOR, *_CHOSEN, *_EVERY_READ)
LISTED_RANGE_QUERY = ReadQuery(*_STARTS, *_PAGE, *_CHOSEN, *_EVERY_READ)
PREFIX_QUERY = ReadQuery(PREFIX, *_PAGE, *_CHOSEN, *_EVERY_READ)
WATCH_QUERY = OtherQuery(WATCHED_KEY, CURRENT, COLUMNS, AFTER, FOR_MS)
CHANGES_QUERY = ReadQuery(SINCE_VERSION, HISTORY, SHORT_LIMIT, CURSOR)
DEAD_LETTERS_QUERY = OtherQuery(*DEAD_LETTER_FILTERS, ORDER, SHORT_LIMIT, CURSOR)
DEAD_LETTER_COUNTS_QUERY = OtherQuery(*DEAD_LETTER_FILTERS)
