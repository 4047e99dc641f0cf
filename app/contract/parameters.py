"""Define the parameters of queries and paths, for the readers and the OpenAPI document."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from oriel.app.contract.limits import PAGE_ROWS_DEFAULT, PAGE_ROWS_MAX
from oriel.app.contract.texts import (
    INT32_MAX,
    INT64_MAX,
    INT64_MIN,
    boolean_reader,
    choice_reader,
    decode_path,
    integer_reader,
    lower_bound_reader,
    path_time_reader,
    read_history,
    read_key,
    read_offset_bound,
    time_reader,
)
from oriel.storage import HISTORY_PATTERN
from oriel.storage.table_store import READ_BYTES_MAX

#: Greatest `limit` of pages whose items are read one by one, or are large.
SHORT_LIMIT_MAX = 1000
WAIT_MS_MAX = 30_000
FOR_MS_MAX = 86_400_000
#: Most values of one repeatable parameter.
REPEATS_MAX = 1_000
#: Table reads that one process runs at a time, and the ones that wait for their turn.
TABLE_READS_AT_ONCE = 2
TABLE_READS_WAITING = 14
#: Limit of the duration of a table read in seconds, including its wait.
TABLE_READ_SECONDS = 10
MS_TIMES, ISO_TIMES = "ms", "iso"


@dataclass(frozen=True)
class QueryParameter:
    """One parameter of the query.

    Attributes:
        name: The name.
        schema: The JSON schema of a value.
        description: The description in the OpenAPI document.
        read: A function that parses a value. It raises ``InvalidParameter``.
        default: The value if the request does not have the parameter.
        repeatable: True if a request can repeat the parameter. Then, its value is a tuple.
        is_bound: True if the parameter selects windows or keys. A cursor is valid only for the
            same bounds.
        example: An example value.
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
    """One part of the path, which an operation's path has as ``{name}``.

    Attributes:
        name: The name.
        schema: The JSON schema of the value.
        description: The description in the OpenAPI document.
        read: A function that parses the raw bytes of the part. It raises ``InvalidKey``, and for
            times ``InvalidParameter``.
        example: An example value.
    """

    name: str
    schema: Mapping[str, Any]
    description: str
    read: Callable[[bytes], Any]
    example: Any


#: The limits of reads that need the table instead of the index.
TABLE_READS = (
    f"A table read is limited to {TABLE_READ_SECONDS} s and {READ_BYTES_MAX >> 20} MiB of rows. "
    f"A process accepts at most {TABLE_READS_AT_ONCE + TABLE_READS_WAITING} table reads at a "
    "time."
)


_INT64_SCHEMA = {
    "type": "integer", "format": "int64", "minimum": INT64_MIN, "maximum": INT64_MAX,
}  # fmt: skip


def _text_bound(name: str, description: str) -> QueryParameter:
    """Return a parameter of any string, without a default."""
    return QueryParameter(name, {"type": "string"}, description, str, is_bound=True)


def _integer_bound(name: str, description: str) -> QueryParameter:
    """Return a parameter of any 64-bit integer, without a default."""
    return QueryParameter(
        name, _INT64_SCHEMA, description,
        integer_reader(name, INT64_MIN, INT64_MAX), is_bound=True,
    )  # fmt: skip


#: ISO 8601 with at most milliseconds, because no window has a finer time.
_TIME_SCHEMA = {
    "anyOf": [
        _INT64_SCHEMA,
        {"type": "string", "format": "date-time", "pattern": r"^[^.]*(\.\d{1,3}\D.*)?$"},
    ]
}


def _time_bound(name: str, description: str) -> QueryParameter:
    """Return a parameter of any time, without a default."""
    return QueryParameter(name, _TIME_SCHEMA, description, time_reader(name), is_bound=True)


FROM_MS = QueryParameter(
    "from_ms",
    _TIME_SCHEMA,
    "Least window start in ms since the epoch or as ISO 8601, inclusive. A negative value counts "
    "as 0. Default: no bound.",
    lower_bound_reader("from_ms"),
    default=0,
    is_bound=True,
    example=1357034400000,
)
TO_MS = QueryParameter(
    "to_ms",
    _TIME_SCHEMA,
    "Greatest window start in ms since the epoch or as ISO 8601, inclusive. If it is less than "
    "from_ms, the list is empty. Default: no bound.",
    time_reader("to_ms"),
    default=INT64_MAX,
    is_bound=True,
    example=1357038000000,
)
EARLIEST_END_MS = QueryParameter(
    "earliest_end_ms",
    _TIME_SCHEMA,
    "Least end of a session in ms since the epoch or as ISO 8601, inclusive. Default: no bound.",
    lower_bound_reader("earliest_end_ms"),
    default=0,
    is_bound=True,
    example=1357034400000,
)
LATEST_START_MS = QueryParameter(
    "latest_start_ms",
    _TIME_SCHEMA,
    "Greatest start of a session in ms since the epoch or as ISO 8601, inclusive. If it is "
    "negative, the list is empty. Default: no bound.",
    time_reader("latest_start_ms"),
    default=INT64_MAX,
    is_bound=True,
    example=1357038000000,
)
LIMIT = QueryParameter(
    "limit",
    {"type": "integer", "minimum": 1, "maximum": PAGE_ROWS_MAX, "default": PAGE_ROWS_DEFAULT},
    "Maximum number of items of one page. A page can contain fewer items, or none, although more "
    "items follow. See `x-oriel-limits`.",
    integer_reader("limit", 1, PAGE_ROWS_MAX),
    default=PAGE_ROWS_DEFAULT,
)
CURSOR = QueryParameter(
    "cursor",
    {"type": "string"},
    "`next_cursor` of your previous page, an opaque string. All other parameters except `limit` "
    "must be unchanged. Each page is read from the newest version at that time, never from an "
    "older one. If the `position` of two pages differs, the store changed between them.",
    str,
)
MIN_VERSION = QueryParameter(
    "min_version",
    {**_INT64_SCHEMA, "minimum": 0},
    "Least table version of the response. For monotonic reads, send the `version` of the "
    "previous response.",
    integer_reader("min_version", 0, INT64_MAX),
    default=-1,
    example=17,
)
MIN_OFFSET = QueryParameter(
    "min_offset",
    {"type": "string", "pattern": r"^[^:]+:\d{1,9}:\d{1,18}$"},
    "TOPIC:PARTITION:OFFSET, can be repeated. The response must include every record of this "
    "partition below this offset. To read your writes, send the size of the event log's file "
    "after the append.",
    read_offset_bound,
    default=(),
    repeatable=True,
    example="flights:0:12345",
)
WAIT_MS = QueryParameter(
    "wait_ms",
    {"type": "integer", "minimum": 0, "maximum": WAIT_MS_MAX, "default": 0},
    "Maximum time to wait for the requested position, in ms. After that, the status code is 503.",
    integer_reader("wait_ms", 0, WAIT_MS_MAX),
    default=0,
)
HISTORY = QueryParameter(
    "history",
    {"type": "string", "pattern": f"^{HISTORY_PATTERN}$"},
    "`history` of the position that the version in this request is from. If a restore replaced "
    "this version by another, the status code is 410. Then read the store again.",
    read_history,
    example="1a2b3c4d-99aabbcc",
)
AS_OF_VERSION = QueryParameter(
    "as_of_version",
    {**_INT64_SCHEMA, "minimum": 0},
    "Read this version of the store's table, regardless of the state of the index, while Delta "
    f"still has it. You cannot combine it with the parameters of the position. {TABLE_READS}",
    integer_reader("as_of_version", 0, INT64_MAX),
    is_bound=True,
    example=17,
)
AS_OF_MS = QueryParameter(
    "as_of_ms",
    _TIME_SCHEMA,
    "Read the newest version that was committed at or before this wall-clock time, in ms since "
    "the epoch. The limits are those of `as_of_version`.",
    time_reader("as_of_ms"),
    is_bound=True,
    example=1357038000000,
)
TIMES = QueryParameter(
    "times",
    {"type": "string", "enum": [MS_TIMES, ISO_TIMES], "default": MS_TIMES},
    "Format of window times. `ms`: integers since the epoch in `window_start_ms`, "
    "`window_end_ms` and `timestamp_ms`. `iso`: ISO 8601 in UTC in `window_start`, `window_end` "
    "and `timestamp`. Arrow always has timestamps with the names of `iso`.",
    choice_reader("times", MS_TIMES, ISO_TIMES),
    default=MS_TIMES,
)
SINCE_VERSION = QueryParameter(
    "since_version",
    {**_INT64_SCHEMA, "minimum": 0},
    "List the changes after this version: `through_version` of the previous response, or the "
    "`version` of the position from which you read the store. Default: the newest version, "
    "which returns a version to begin with.",
    integer_reader("since_version", 0, INT64_MAX),
    is_bound=True,
    example=17,
)
SHORT_LIMIT = QueryParameter(
    "limit",
    {"type": "integer", "minimum": 1, "maximum": SHORT_LIMIT_MAX, "default": PAGE_ROWS_DEFAULT},
    "Maximum number of items of one page.",
    integer_reader("limit", 1, SHORT_LIMIT_MAX),
    default=PAGE_ROWS_DEFAULT,
)
PREFIX = QueryParameter(
    "prefix",
    {"type": "string", "default": ""},
    "List only keys with this prefix. For composite keys, a prefix contains whole components and "
    "ends with a comma. A store of 64-bit integers accepts no prefix.",
    str,
    default="",
    is_bound=True,
)

#: The point that a stream has reached: VERSION [.ROW] [-TABLE-DIGEST] (see oriel.app.push).
EVENT_ID_PATTERN = r"(\d{1,18})(?:\.(\d{1,18}))?(?:-([0-9a-f]{1,8})?-([0-9a-f]{1,8})?)?"

WATCHED_KEY = QueryParameter(
    "key",
    {"type": "string"},
    "A key to watch. Can be repeated. Default: all keys.",
    str,
    default=(),
    repeatable=True,
    example="EWR",
)
AFTER = QueryParameter(
    "after",
    {"type": "string", "pattern": f"^{EVENT_ID_PATTERN}$"},
    "Send the changes after this point: the `id` of an event, or `VERSION-HISTORY` of the "
    "`position` of a response. Without the history, a restore since that response is not "
    "noticed. A header `Last-Event-ID`, which browsers send, has priority. Default: changes "
    "from now on.",
    str,
    example="17",
)
FOR_MS = QueryParameter(
    "for_ms",
    {"type": "integer", "minimum": 1, "maximum": FOR_MS_MAX},
    "End the stream after this many ms. Default: no end.",
    integer_reader("for_ms", 1, FOR_MS_MAX),
    example=1000,
)
KEY_FROM = QueryParameter(
    "key_from",
    {"type": "string"},
    "Least key, inclusive. Strings are ordered by their UTF-8 bytes, other keys by value. "
    "Default: no bound.",
    str,
    is_bound=True,
    example="E",
)
KEY_TO = QueryParameter(
    "key_to",
    {"type": "string"},
    "Greatest key, inclusive. Strings are ordered by their UTF-8 bytes, other keys by value. If "
    "it is less than key_from, the list is empty. Default: no bound.",
    str,
    is_bound=True,
    example="F",
)
FINAL = QueryParameter(
    "final",
    {"type": "boolean"},
    "`true` selects final windows, which no record can change. `false` selects windows that a "
    "record can still change. Default: both.",
    boolean_reader("final"),
    is_bound=True,
)
COLUMNS = QueryParameter(
    "columns",
    {"type": "string"},
    "Names of the aggregates that you need, separated by commas. Items have only these, their key, "
    "their times and `final`. Default: all aggregates.",
    lambda text: tuple(text.split(",")) if text else (),
    is_bound=True,
)
CURRENT = QueryParameter(
    "current",
    {"type": "boolean", "default": False},
    "`true` selects the current window of each key that changed, as `current` returns it. An event "
    "has at most one window per key. `removed` has the keys without a window, and "
    "`changed_from_ms` is the least start of the windows that changed.",
    boolean_reader("current"),
    default=False,
)

STORE = PathParameter(
    "store",
    {"type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$"},
    "Name of the store.",
    decode_path,
    example="departures",
)
KEY = PathParameter(
    "key",
    {"type": "string"},
    "The key, which is the rest of the path as percent-encoded UTF-8. You can write a slash "
    "plain or as %2F. If the rest is empty, the key is empty. Nothing is normalized, so `..` "
    "and `a//b` are keys. For 64-bit integers, write the key in decimal. For composite keys, "
    "write a JSON array without spaces. See the store's `key_type`.",
    read_key,
    example="EWR",
)
WINDOW_START_MS = PathParameter(
    "window_start_ms",
    _TIME_SCHEMA,
    "Start of the window in ms since the epoch or as ISO 8601.",
    path_time_reader("window_start_ms"),
    example=1357034400000,
)
WINDOW_END_MS = PathParameter(
    "window_end_ms",
    _TIME_SCHEMA,
    "End of the session in ms since the epoch or as ISO 8601, inclusive.",
    path_time_reader("window_end_ms"),
    example=1357036140000,
)

INSTANT_MS = PathParameter(
    "instant_ms",
    _TIME_SCHEMA,
    "An instant in ms since the epoch or as ISO 8601.",
    path_time_reader("instant_ms"),
    example=1357036140000,
)

#: Path parameters by their names in braces.
PATH_PARAMETERS: Mapping[str, PathParameter] = {
    parameter.name: parameter
    for parameter in (STORE, KEY, WINDOW_START_MS, WINDOW_END_MS, INSTANT_MS)
}


ORDER = QueryParameter(
    "order",
    {"type": "string", "enum": ["newest", "oldest"], "default": "newest"},
    "Order of the dead letters. `newest`: from the newest batch to the oldest, then by topic, "
    "partition and offset in descending order. `oldest`: exactly the reverse order.",
    choice_reader("order", "newest", "oldest"),
    default="newest",
    is_bound=True,
)

#: Parameters that select dead letters, by column name.
DEAD_LETTER_FILTERS = (
    _text_bound("topic", "Only records of this topic."),
    QueryParameter(
        "partition",
        {"type": "integer", "minimum": 0, "maximum": INT32_MAX},
        "Only records of this partition.",
        integer_reader("partition", 0, INT32_MAX),
        is_bound=True,
    ),
    _integer_bound("from_offset", "Least offset, inclusive."),
    _integer_bound("to_offset", "Greatest offset, inclusive."),
    _text_bound("store", "Only records that this store, but not every store, could not use."),
    _text_bound("reason", "Only dead letters with this reason, for example not-json."),
    QueryParameter(
        "replayed",
        {"type": "boolean"},
        "`true` selects dead letters whose record was replayed, `false` the others. Default: both.",
        boolean_reader("replayed"),
        is_bound=True,
    ),
    _time_bound(
        "from_ms", "Least time of a record, inclusive. Records with an unknown time are left out."
    ),
    _time_bound(
        "to_ms", "Greatest time of a record, inclusive. Records with an unknown time are left out."
    ),
)
