"""Parameters of the query and the path: described once, for reading them and for OpenAPI.

An unknown parameter of the query is an error, because a typing error (``from`` for ``from_ms``)
would otherwise silently give other windows than were asked for.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import unquote_to_bytes

from oriel.app.contract.page_limits import PAGE_ROWS_DEFAULT, PAGE_ROWS_MAX
from oriel.app.contract.problems import InvalidKey, InvalidParameter, UnknownParameter
from oriel.storage import KEY_BYTES_MAX, parse_offset_bound
from oriel.storage.table_store import READ_BYTES_MAX

#: Of pages whose items are looked up one by one, or are large.
SHORT_LIMIT_MAX = 1000
WAIT_MS_MAX = 30_000
FOR_MS_MAX = 86_400_000
#: Most values of one repeatable parameter.
REPEATS_MAX = 1_000
#: Reads of tables that one process does at a time, and those that wait for their turn.
TABLE_READS_AT_ONCE = 2
TABLE_READS_WAITING = 14
#: Seconds that a read of a table may take, waiting included.
TABLE_READ_SECONDS = 10
MS_TIMES, ISO_TIMES = "ms", "iso"
_INT64_MIN, _INT64_MAX = -(2**63), 2**63 - 1
_INT32_MAX = 2**31 - 1

_INTEGER = re.compile(r"-?\d{1,19}", re.ASCII)
#: A time as text, its fraction not finer than a millisecond (ISO 8601; RFC 3339 has the same).
_ISO_TIME = re.compile(
    r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d{1,3})?)?(?:Z|[+-]\d\d:\d\d)?)?", re.ASCII
)
_ISO_TIME_LENGTH_MAX = len("2013-01-01T10:00:00.000+00:00")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_BROKEN_ESCAPE = re.compile(rb"%(?![0-9A-Fa-f]{2})")


@dataclass(frozen=True)
class QueryParameter:
    """One parameter of the query: its name, JSON schema, meaning, and how its text is read.

    ``read`` raises ``InvalidParameter``. A repeatable parameter gives a tuple of values. A bound
    says which windows or keys are meant, so a cursor holds for the same bounds only.
    """

    name: str
    schema: Mapping[str, Any]
    description: str
    read: Callable[[str], Any]
    default: Any = None
    repeatable: bool = False
    is_bound: bool = False
    example: Any = None


@dataclass(frozen=True)
class PathParameter:
    """One part of the path, which ``{name}`` stands for in an operation's path.

    ``read`` is given the raw bytes of the part. It raises ``InvalidKey``, and for times
    ``InvalidParameter``.
    """

    name: str
    schema: Mapping[str, Any]
    description: str
    read: Callable[[bytes], Any]
    example: Any


def decode_path(raw: bytes) -> str:
    """Decode one part of a raw path (``%2F`` is a slash of the key, not of the path).

    Raises:
        InvalidKey: a broken escape, or bytes that are not UTF-8.
    """
    # unquote_to_bytes leaves a broken escape as it is: two spellings would be one key.
    broken = _BROKEN_ESCAPE.search(raw) if b"%" in raw else None
    if broken:
        message = f"byte {broken.start()} of the path part: '%' must begin two hex digits (%25)"
        raise InvalidKey(message)
    try:
        return (unquote_to_bytes(raw) if b"%" in raw else raw).decode()
    except UnicodeDecodeError as error:
        message = f"the path part is not UTF-8 after percent-decoding: {error.reason}"
        raise InvalidKey(message) from error


def _read_key(raw: bytes) -> str:
    """Decode the key of a path.

    Raises:
        InvalidKey: a broken escape, bytes that are not UTF-8, or too many of them.
    """
    key = decode_path(raw)
    if len(raw) > KEY_BYTES_MAX and len(key.encode()) > KEY_BYTES_MAX:
        message = f"the key has {len(key.encode())} bytes; no key has more than {KEY_BYTES_MAX}"
        raise InvalidKey(message)
    return key


def _integer_reader(name: str, low: int, high: int) -> Callable[[str], int]:
    """Make a reader of integers from ``low`` to ``high``, both inclusive."""

    def read(text: str) -> int:
        if _INTEGER.fullmatch(text) and low <= int(text) <= high:
            return int(text)
        message = f"{name} must be an integer from {low} to {high}, not {text[:80]!r}"
        raise InvalidParameter(message)

    return read


def _time_reader(name: str) -> Callable[[str], int]:
    """Make a reader of times: ms since the epoch, from all that 64 bits hold, or ISO 8601."""

    def read(text: str) -> int:
        if _INTEGER.fullmatch(text) and _INT64_MIN <= int(text) <= _INT64_MAX:
            return int(text)
        time_ms = _iso_time_ms(text)
        if time_ms is not None:
            return time_ms
        message = (
            f"{name} must be an integer from {_INT64_MIN} to {_INT64_MAX}, or a time like "
            f"2013-01-01T10:00:00Z, not {text[:80]!r}"
        )
        raise InvalidParameter(message)

    return read


def _iso_time_ms(text: str) -> int | None:
    """Read an ISO 8601 time, without an offset UTC; None when it is none."""
    # The search below takes the square of the length: no time is so long.
    if len(text) > _ISO_TIME_LENGTH_MAX:
        return None
    # The plus of an offset, written plain in a query, has become a space.
    text = re.sub(r"(T.*) (\d\d:\d\d)$", r"\1+\2", text.upper())
    if not _ISO_TIME.fullmatch(text):
        return None
    try:
        time = datetime.fromisoformat(text)
    except ValueError:  # the 30th of February
        return None
    if time.tzinfo is None:
        time = time.replace(tzinfo=UTC)
    return (time - _EPOCH) // timedelta(milliseconds=1)


def _lower_bound_reader(name: str) -> Callable[[str], int]:
    """Make a reader of lower bounds in ms, which reads what is below 0 as 0.

    No record has a time below 0 (semantics 1.2), so no window is lost; and requests that mean the
    same share their cursors.
    """
    read = _time_reader(name)
    return lambda text: max(read(text), 0)


def _choice_reader(name: str, *choices: str) -> Callable[[str], str]:
    """Make a reader of one of several words."""

    def read(text: str) -> str:
        if text in choices:
            return text
        message = f"{name} must be one of {', '.join(choices)}, not {text[:80]!r}"
        raise InvalidParameter(message)

    return read


def _path_time_reader(name: str) -> Callable[[bytes], int]:
    read = _time_reader(name)
    return lambda raw: read(decode_path(raw))


def _read_offset_bound(text: str) -> Any:
    bound = parse_offset_bound(text)
    if bound is None:
        message = (
            f"min_offset must be TOPIC:PARTITION:OFFSET, for example flights:0:12345, "
            f"not {text[:80]!r}"
        )
        raise InvalidParameter(message)
    return bound


#: The limits of reads that the index does not answer, for people.
TABLE_READS = (
    f"Such a read takes {TABLE_READ_SECONDS} s and holds {READ_BYTES_MAX >> 20} MiB of rows at "
    f"most, and a process accepts {TABLE_READS_AT_ONCE + TABLE_READS_WAITING} at a time."
)


def _text_bound(name: str, description: str) -> QueryParameter:
    """A parameter of any text, without a default."""
    return QueryParameter(name, {"type": "string"}, description, str, is_bound=True)


def _integer_bound(name: str, description: str) -> QueryParameter:
    """A parameter of any 64-bit integer, without a default."""
    return QueryParameter(
        name, {"type": "integer", "format": "int64"}, description,
        _integer_reader(name, _INT64_MIN, _INT64_MAX), is_bound=True,
    )  # fmt: skip


def _read_boolean(text: str) -> bool:
    if text not in ("true", "false"):
        message = f"final must be true or false, not {text[:80]!r}"
        raise InvalidParameter(message)
    return text == "true"


_TIME_SCHEMA = {
    "anyOf": [{"type": "integer", "format": "int64"}, {"type": "string", "format": "date-time"}]
}

FROM_MS = QueryParameter(
    "from_ms",
    _TIME_SCHEMA,
    "Least window start in ms since the epoch, or ISO 8601, inclusive. Below 0 is read as 0. "
    "Default: no bound.",
    _lower_bound_reader("from_ms"),
    default=0,
    is_bound=True,
    example=1357034400000,
)
TO_MS = QueryParameter(
    "to_ms",
    _TIME_SCHEMA,
    "Greatest window start in ms since the epoch, or ISO 8601, inclusive. Less than from_ms: "
    "no windows, no error. Default: no bound.",
    _time_reader("to_ms"),
    default=_INT64_MAX,
    is_bound=True,
    example=1357038000000,
)
EARLIEST_END_MS = QueryParameter(
    "earliest_end_ms",
    _TIME_SCHEMA,
    "Least end of a session in ms since the epoch, or ISO 8601, inclusive. Default: no bound.",
    _lower_bound_reader("earliest_end_ms"),
    default=0,
    is_bound=True,
    example=1357034400000,
)
LATEST_START_MS = QueryParameter(
    "latest_start_ms",
    _TIME_SCHEMA,
    "Greatest start of a session in ms since the epoch, or ISO 8601, inclusive. Below 0: no "
    "sessions, no error. Default: no bound.",
    _time_reader("latest_start_ms"),
    default=_INT64_MAX,
    is_bound=True,
    example=1357038000000,
)
LIMIT = QueryParameter(
    "limit",
    {"type": "integer", "minimum": 1, "maximum": PAGE_ROWS_MAX, "default": PAGE_ROWS_DEFAULT},
    "Most items of one page. A page may have fewer, even none, while there is a next one: see "
    "x-oriel-limits.",
    _integer_reader("limit", 1, PAGE_ROWS_MAX),
    default=PAGE_ROWS_DEFAULT,
)
CURSOR = QueryParameter(
    "cursor",
    {"type": "string"},
    "`next_cursor` of the page before; opaque. All other parameters but `limit` must be those of "
    "that page. The next page is read from the then newest version, never from an older one; where "
    "the `position` of two pages differs, the store moved between them.",
    str,
)
MIN_VERSION = QueryParameter(
    "min_version",
    {"type": "integer", "minimum": 0},
    "Least table version that the answer may come from (monotonic reads: send the `version` of "
    "the last answer).",
    _integer_reader("min_version", 0, _INT64_MAX),
    default=-1,
    example=17,
)
MIN_OFFSET = QueryParameter(
    "min_offset",
    {"type": "string", "pattern": r"^[^:]+:\d{1,9}:\d{1,18}$"},
    "TOPIC:PARTITION:OFFSET, repeatable: the answer must include every record of that partition "
    "below that offset (read your writes: the event log's file size after the append).",
    _read_offset_bound,
    default=(),
    repeatable=True,
    example="flights:0:12345",
)
WAIT_MS = QueryParameter(
    "wait_ms",
    {"type": "integer", "minimum": 0, "maximum": WAIT_MS_MAX, "default": 0},
    "How long to wait for the position asked for, in ms, before giving up with 503.",
    _integer_reader("wait_ms", 0, WAIT_MS_MAX),
    default=0,
)
AS_OF_VERSION = QueryParameter(
    "as_of_version",
    {"type": "integer", "minimum": 0},
    "Answer as of this version of the store's table, however the index fares, while Delta still "
    f"has it; not together with the parameters of the position. {TABLE_READS}",
    _integer_reader("as_of_version", 0, _INT64_MAX),
    is_bound=True,
    example=17,
)
AS_OF_MS = QueryParameter(
    "as_of_ms",
    _TIME_SCHEMA,
    "The same for the newest version that was committed at or before this time of wall clock, in "
    "ms since the epoch.",
    _time_reader("as_of_ms"),
    is_bound=True,
    example=1357038000000,
)
TIMES = QueryParameter(
    "times",
    {"type": "string", "enum": [MS_TIMES, ISO_TIMES], "default": MS_TIMES},
    "How times of windows are written: `ms`, integers since the epoch in `window_start_ms`, "
    "`window_end_ms` and `timestamp_ms`; `iso`, ISO 8601 in UTC in `window_start`, `window_end` "
    "and `timestamp`. Arrow has timestamps by these names always.",
    _choice_reader("times", MS_TIMES, ISO_TIMES),
    default=MS_TIMES,
)
SINCE_VERSION = QueryParameter(
    "since_version",
    {"type": "integer", "minimum": 0},
    "Changes of later versions than this, exclusive: `through_version` of the last answer, or the "
    "`version` of the position from which a store was read. Default: the newest, which says where "
    "to begin.",
    _integer_reader("since_version", 0, _INT64_MAX),
    is_bound=True,
    example=17,
)
SHORT_LIMIT = QueryParameter(
    "limit",
    {"type": "integer", "minimum": 1, "maximum": SHORT_LIMIT_MAX, "default": PAGE_ROWS_DEFAULT},
    "Most items of one page.",
    _integer_reader("limit", 1, SHORT_LIMIT_MAX),
    default=PAGE_ROWS_DEFAULT,
)
PREFIX = QueryParameter(
    "prefix",
    {"type": "string", "default": ""},
    "Only keys that begin with this.",
    str,
    default="",
    is_bound=True,
)

WATCHED_KEY = QueryParameter(
    "key",
    {"type": "string"},
    "A key to watch; repeatable. Default: all keys.",
    str,
    default=(),
    repeatable=True,
    example="EWR",
)
AFTER = QueryParameter(
    "after",
    {"type": "string", "pattern": r"^\d{1,18}"},
    "Tell what came after this: the `id` of an event, or the `version` of an answer. A header "
    "`Last-Event-ID`, as browsers send it, counts before it. Default: from now on.",
    str,
    example="17",
)
FOR_MS = QueryParameter(
    "for_ms",
    {"type": "integer", "minimum": 1, "maximum": FOR_MS_MAX},
    "End the stream after so many ms. Default: never.",
    _integer_reader("for_ms", 1, FOR_MS_MAX),
    example=1000,
)
KEY_FROM = QueryParameter(
    "key_from",
    {"type": "string"},
    "Least key by UTF-8 bytes, inclusive. Default: no bound.",
    str,
    is_bound=True,
    example="E",
)
KEY_TO = QueryParameter(
    "key_to",
    {"type": "string"},
    "Greatest key by UTF-8 bytes, inclusive. Less than key_from: nothing, no error. Default: no "
    "bound.",
    str,
    is_bound=True,
    example="F",
)
FINAL = QueryParameter(
    "final",
    {"type": "boolean"},
    "true: only windows that no record can change any more; false: only those that one still can. "
    "Default: both.",
    _read_boolean,
    is_bound=True,
)
COLUMNS = QueryParameter(
    "columns",
    {"type": "string"},
    "Names of aggregates, separated by commas: items have only these beside their key, times and "
    "`final`. Default: all.",
    lambda text: tuple(text.split(",")) if text else (),
    is_bound=True,
)

STORE = PathParameter(
    "store",
    {"type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$"},
    "Name of the store",
    decode_path,
    example="departures",
)
KEY = PathParameter(
    "key",
    {"type": "string"},
    "The key: all the rest of the path, percent-encoded UTF-8. A slash may be "
    "written plain or as %2F; the empty key is the empty rest. Nothing is normalised: `..` and "
    "`a//b` are keys like others.",
    _read_key,
    example="EWR",
)
WINDOW_START_MS = PathParameter(
    "window_start_ms",
    _TIME_SCHEMA,
    "Start of the window in ms since the epoch, or ISO 8601",
    _path_time_reader("window_start_ms"),
    example=1357034400000,
)
WINDOW_END_MS = PathParameter(
    "window_end_ms",
    _TIME_SCHEMA,
    "End of the session in ms since the epoch, or ISO 8601, inclusive",
    _path_time_reader("window_end_ms"),
    example=1357036200000,
)

INSTANT_MS = PathParameter(
    "instant_ms",
    _TIME_SCHEMA,
    "An instant in ms since the epoch",
    _path_time_reader("instant_ms"),
    example=1357036140000,
)

#: By the name that stands in braces in a path.
PATH_PARAMETERS: Mapping[str, PathParameter] = {
    parameter.name: parameter
    for parameter in (STORE, KEY, WINDOW_START_MS, WINDOW_END_MS, INSTANT_MS)
}


class Query:
    """The query parameters that one operation has."""

    def __init__(self, *parameters: QueryParameter) -> None:
        """Name the parameters, in the order in which messages list them."""
        self.parameters = parameters
        self.bounds = tuple(parameter.name for parameter in parameters if parameter.is_bound)
        self._by_name = {parameter.name: parameter for parameter in parameters}
        self._defaults = {parameter.name: parameter.default for parameter in parameters}
        self._repeatable = {parameter.name for parameter in parameters if parameter.repeatable}

    def read(self, query_string: bytes) -> Mapping[str, Any]:
        """The value of each parameter, its default where the request has none.

        Raises:
            UnknownParameter: there is no parameter of that name.
            InvalidParameter: a value can't be read, or a parameter is there twice.
        """
        if not query_string:
            return self._defaults
        values = dict(self._defaults)
        seen: set[str] = set()
        for part in query_string.split(b"&"):
            if part:
                self._read_part(part, values, seen)
        # Collected in lists: a tuple that grew by one each time would cost the square of them.
        for name in self._repeatable & seen:
            values[name] = tuple(values[name])
        return values

    def _read_part(self, part: bytes, values: dict[str, Any], seen: set[str]) -> None:
        raw_name, _, raw_value = part.partition(b"=")
        name = _decode_query(raw_name)
        parameter = self._by_name.get(name)
        if parameter is None:
            known = ", ".join(self._by_name) or "none"
            message = f"no parameter {name[:80]!r} here; the parameters are: {known}"
            raise UnknownParameter(message)
        value = parameter.read(_decode_query(raw_value))
        if parameter.repeatable:
            if name not in seen:
                values[name] = []
            elif len(values[name]) == REPEATS_MAX:
                message = f"{name} may be there {REPEATS_MAX} times at most"
                raise InvalidParameter(message)
            values[name].append(value)
        elif name in seen:
            message = f"{name} is there twice; give it once"
            raise InvalidParameter(message)
        else:
            values[name] = value
        seen.add(name)


def _decode_query(raw: bytes) -> str:
    """Decode a name or value of the query (``+`` is a space there)."""
    try:
        return unquote_to_bytes(raw.replace(b"+", b" ")).decode()
    except UnicodeDecodeError as error:
        message = f"the query is not UTF-8 after percent-decoding: {error.reason}"
        raise InvalidParameter(message) from error


ORDER = QueryParameter(
    "order",
    {"type": "string", "enum": ["newest", "oldest"], "default": "newest"},
    "Which letters come first: those of the newest batch, then by topic, partition and offset from "
    "the greatest down; or exactly the other way round.",
    _choice_reader("order", "newest", "oldest"),
    default="newest",
    is_bound=True,
)

#: Which dead letters are meant, by the names of the columns.
_LETTERS = (
    _text_bound("topic", "Only records of this topic."),
    QueryParameter(
        "partition",
        {"type": "integer", "minimum": 0, "maximum": _INT32_MAX},
        "Only records of this partition.",
        _integer_reader("partition", 0, _INT32_MAX),
        is_bound=True,
    ),
    _integer_bound("from_offset", "Least offset, inclusive."),
    _integer_bound("to_offset", "Greatest offset, inclusive."),
    _text_bound("store", "Only records that this store alone can't use."),
    _text_bound("reason", "Only letters of this reason, like not-json."),
    _integer_bound("from_ms", "Least time of a record, inclusive; not those of unknown time."),
    _integer_bound("to_ms", "Greatest time of a record, inclusive; not those of unknown time."),
)

_POSITION = (MIN_VERSION, MIN_OFFSET, WAIT_MS, AS_OF_VERSION, AS_OF_MS)
_EVERY_READ = (TIMES, *_POSITION)

_KEYS = (KEY_FROM, KEY_TO)
_STARTS = (FROM_MS, TO_MS)
_OVERLAP = (EARLIEST_END_MS, LATEST_START_MS)
_PAGE = (LIMIT, CURSOR)
_WINDOWS = (FINAL, COLUMNS)

#: The queries that operations have.
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
WATCH_QUERY = Query(WATCHED_KEY, AFTER, FOR_MS)
CHANGES_QUERY = Query(SINCE_VERSION, SHORT_LIMIT, CURSOR)
LETTERS_QUERY = Query(*_LETTERS, ORDER, SHORT_LIMIT, CURSOR)
LETTER_COUNTS_QUERY = Query(*_LETTERS)
