"""Define the parameters of queries and paths, for the readers and the OpenAPI document."""

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from typing import Any, TypedDict

from oriel.app.contract.limits import PAGE_ROWS_DEFAULT, PAGE_ROWS_MAX, RANKED_RECORDS_MAX
from oriel.app.contract.values import (
    BOOLEAN,
    HISTORY_ID,
    INT32_MAX,
    INT64,
    INT64_MAX,
    KEY_TEXT,
    LOWER_TIME,
    OFFSET_BOUND,
    TEXT,
    TIME,
    WORDS,
    Values,
    checked_text_of,
    choice,
    decode_path,
    integers,
    text_of,
)
from oriel.storage.table_store import READ_BYTES_MAX

#: Greatest `limit` of pages whose items are read one by one, or are large.
SHORT_LIMIT_MAX = 1000
WAIT_MS_MAX = 30_000
FOR_MS_MAX = 86_400_000
#: Greatest length of a merged range: 366 days.
STEP_MS_MAX = 366 * 86_400_000
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
        values: The values that it accepts.
        description: The description in the OpenAPI document.
        default: The value without the parameter, which the document names.
        absent: The value without the parameter if there is no default, for example no bound.
        repeatable: True if a request can repeat the parameter. Then, its value is a tuple.
        is_required: True if a request must have the parameter.
        is_bound: True if the parameter selects windows or keys. A cursor is valid only for the
            same bounds.
        example: An example value.
    """

    name: str
    values: Values
    description: str
    _: KW_ONLY
    default: Any = None
    absent: Any = None
    repeatable: bool = False
    is_required: bool = False
    is_bound: bool = False
    example: Any = None

    @property
    def schema(self) -> Mapping[str, Any]:
        """Return the JSON schema of a value."""
        default = {} if self.default is None else {"default": self.default}
        return {**self.values.schema, **default}

    def read(self, text: str) -> Any:
        """Parse a value, or raise ``InvalidParameter``."""
        return self.values.read(self.name, text)


@dataclass(frozen=True)
class PathParameter:
    """One part of the path, which an operation's path has as ``{name}``.

    Attributes:
        name: The name.
        values: The values that it accepts.
        description: The description in the OpenAPI document.
        example: An example value.
    """

    name: str
    values: Values
    description: str
    example: Any

    def read(self, raw: bytes) -> Any:
        """Parse the raw bytes of the part, or raise ``InvalidKey`` or ``InvalidParameter``."""
        return self.values.read(self.name, decode_path(raw))


#: The limits of reads that need the table instead of the index.
TABLE_READS = (
    f"A table read is limited to {TABLE_READ_SECONDS} s and {READ_BYTES_MAX >> 20} MiB of rows. "
    f"A process accepts at most {TABLE_READS_AT_ONCE + TABLE_READS_WAITING} table reads at a "
    "time."
)


FROM_MS = QueryParameter(
    "from_ms",
    LOWER_TIME,
    "Least window start in ms since the epoch or as ISO 8601, inclusive. A negative value counts "
    "as 0. Default: no bound.",
    absent=0,
    is_bound=True,
    example=1357034400000,
)
TO_MS = QueryParameter(
    "to_ms",
    TIME,
    "Greatest window start in ms since the epoch or as ISO 8601, inclusive. If it is less than "
    "from_ms, the list is empty. Default: no bound.",
    absent=INT64_MAX,
    is_bound=True,
    example=1357038000000,
)
STEP_MS = QueryParameter(
    "step_ms",
    integers(1, STEP_MS_MAX),
    "Length of a range in ms, a multiple of the size of the store's windows. Ranges start at "
    "multiples of it since the epoch, as tumbling windows of this size. Default: the size of the "
    "windows.",
    is_bound=True,
    example=3600000,
)
EARLIEST_END_MS = QueryParameter(
    "earliest_end_ms",
    LOWER_TIME,
    "Least end of a session in ms since the epoch or as ISO 8601, inclusive. Default: no bound.",
    absent=0,
    is_bound=True,
    example=1357034400000,
)
LATEST_START_MS = QueryParameter(
    "latest_start_ms",
    TIME,
    "Greatest start of a session in ms since the epoch or as ISO 8601, inclusive. If it is "
    "negative, the list is empty. Default: no bound.",
    absent=INT64_MAX,
    is_bound=True,
    example=1357038000000,
)
LIMIT = QueryParameter(
    "limit",
    integers(1, PAGE_ROWS_MAX),
    "Maximum number of items of one page. A page can contain fewer items, or none, although more "
    "items follow. See `x-oriel-limits`.",
    default=PAGE_ROWS_DEFAULT,
)
CURSOR = QueryParameter(
    "cursor",
    TEXT,
    "`next_cursor` of your previous page, an opaque string. All other parameters except `limit` "
    "must be unchanged. Each page is read from the newest version at that time, never from an "
    "older one. If the `position` of two pages differs, the store changed between them.",
)
MIN_VERSION = QueryParameter(
    "min_version",
    integers(0, INT64_MAX),
    "Least table version of the response. For monotonic reads, send the `version` of the "
    "previous response.",
    absent=-1,
    example=17,
)
MIN_OFFSET = QueryParameter(
    "min_offset",
    OFFSET_BOUND,
    "TOPIC:PARTITION:OFFSET, can be repeated. The response must include every record of this "
    "partition below this offset. To read your writes, send the size of the event log's file "
    "after the append.",
    absent=(),
    repeatable=True,
    example="flights:0:12345",
)
WAIT_MS = QueryParameter(
    "wait_ms",
    integers(0, WAIT_MS_MAX),
    "Maximum time to wait for the requested position, in ms. After that, the status code is 503.",
    default=0,
)
HISTORY = QueryParameter(
    "history",
    HISTORY_ID,
    "`history` of the position that the version in this request is from. If a restore replaced "
    "this version by another, the status code is 410. Then read the store again.",
    example="1a2b3c4d-99aabbcc",
)
AS_OF_VERSION = QueryParameter(
    "as_of_version",
    integers(0, INT64_MAX),
    "Read this version of the store's table, regardless of the state of the index, while Delta "
    f"still has it. You cannot combine it with the parameters of the position. {TABLE_READS}",
    is_bound=True,
    example=17,
)
AT_MS = QueryParameter(
    "at_ms",
    TIME,
    "Read the version that was valid at this event time, in ms since the epoch or as ISO 8601. "
    "Only for stores with versions. Default: the newest version.",
    is_bound=True,
    example=1357034400000,
)
VALID_FROM_MS = QueryParameter(
    "from_ms",
    LOWER_TIME,
    "Select the versions that were valid at this time or later, in ms since the epoch or as ISO "
    "8601. A negative value counts as 0. Default: no bound.",
    absent=0,
    is_bound=True,
    example=1357034400000,
)
VALID_TO_MS = QueryParameter(
    "to_ms",
    TIME,
    "Select the versions that were valid at this time or earlier, in ms since the epoch or as ISO "
    "8601. If it is less than from_ms, the list is empty. Default: no bound.",
    absent=INT64_MAX,
    is_bound=True,
    example=1357038000000,
)
AS_OF_MS = QueryParameter(
    "as_of_ms",
    TIME,
    "Read the newest version that was committed at or before this wall-clock time, in ms since "
    "the epoch. The limits are those of `as_of_version`.",
    is_bound=True,
    example=1357038000000,
)
TIMES = QueryParameter(
    "times",
    choice(MS_TIMES, ISO_TIMES),
    "Format of window times. `ms`: integers since the epoch in `window_start_ms`, "
    "`window_end_ms` and `timestamp_ms`. `iso`: ISO 8601 in UTC in `window_start`, `window_end` "
    "and `timestamp`. Arrow always has timestamps with the names of `iso`.",
    default=MS_TIMES,
)
SINCE_VERSION = QueryParameter(
    "since_version",
    integers(0, INT64_MAX),
    "List the changes after this version: `through_version` of the previous response, or the "
    "`version` of the position from which you read the store. Default: the newest version, "
    "which returns a version to begin with.",
    is_bound=True,
    example=17,
)
SHORT_LIMIT = QueryParameter(
    "limit",
    integers(1, SHORT_LIMIT_MAX),
    "Maximum number of items of one page.",
    default=PAGE_ROWS_DEFAULT,
)
PREFIX = QueryParameter(
    "prefix",
    TEXT,
    "List only keys with this prefix. For composite keys, a prefix contains whole components and "
    "ends with a comma. A store of 64-bit integers accepts no prefix.",
    default="",
    is_bound=True,
)

#: The point that a stream has reached: VERSION [.ROW] [-TABLE-DIGEST] (see oriel.app.push).
EVENT_ID_PATTERN = r"(\d{1,18})(?:\.(\d{1,18}))?(?:-([0-9a-f]{1,8})?-([0-9a-f]{1,8})?)?"

WATCHED_KEY = QueryParameter(
    "key",
    TEXT,
    "A key to watch. Can be repeated. Default: all keys.",
    absent=(),
    repeatable=True,
    example="EWR",
)
AFTER = QueryParameter(
    "after",
    text_of(EVENT_ID_PATTERN),
    "Send the changes after this point: the `id` of an event, or `VERSION-HISTORY` of the "
    "`position` of a response. Without the history, a restore since that response is not "
    "noticed. A header `Last-Event-ID`, which browsers send, has priority. Default: changes "
    "from now on.",
    example="17",
)
FOR_MS = QueryParameter(
    "for_ms",
    integers(1, FOR_MS_MAX),
    "End the stream after this many ms. Default: no end.",
    example=1000,
)
KEY_FROM = QueryParameter(
    "key_from",
    TEXT,
    "Least key, inclusive. Strings are ordered by their UTF-8 bytes, other keys by value. "
    "Default: no bound.",
    is_bound=True,
    example="E",
)
KEY_TO = QueryParameter(
    "key_to",
    TEXT,
    "Greatest key, inclusive. Strings are ordered by their UTF-8 bytes, other keys by value. If "
    "it is less than key_from, the list is empty. Default: no bound.",
    is_bound=True,
    example="F",
)
FINAL = QueryParameter(
    "final",
    BOOLEAN,
    "`true` selects final windows, which no record can change. `false` selects windows that a "
    "record can still change. Default: both.",
    is_bound=True,
)
COLUMNS = QueryParameter(
    "columns",
    WORDS,
    "Names of the aggregates that you need, separated by commas. Items have only these, their key, "
    "their times and `final`. Default: all aggregates.",
    is_bound=True,
)
WHERE = QueryParameter(
    "where",
    TEXT,
    "Select the items for which this condition is true, an expression of Spark SQL over the fields "
    "of an item. It can have comparisons, arithmetic, `AND`, `OR`, `NOT`, `IS NULL`, `IN`, "
    "`BETWEEN`, `LIKE`, and functions of numbers and strings. NaN and infinities are null.",
    is_bound=True,
    example="departures > 10",
)
ORDER_BY = QueryParameter(
    "order_by",
    WORDS,
    "Order the items by these fields, separated by commas. A minus before a field is the "
    "descending order. Items with equal values are ordered by key, start and end. The service "
    f"reads all items for each page, at most {RANKED_RECORDS_MAX:,}. Default: the order of the "
    "operation.",
    is_bound=True,
    example="-departures",
)
TOP = QueryParameter(
    "top",
    integers(1, PAGE_ROWS_MAX),
    "With `order_by`: return only this many items, in one page without a cursor. Then `limit` has "
    "no effect.",
    is_bound=True,
    example=10,
)

#: The parameters of merged ranges. ``columns`` has an example, because the aggregates of the
#: examples' store cannot all be merged.
RANGE_FROM_MS = replace(
    FROM_MS,
    description="Least start of a range in ms since the epoch or as ISO 8601, inclusive. A "
    "negative value counts as 0. Default: no bound.",
)
RANGE_TO_MS = replace(
    TO_MS,
    description="Greatest start of a range in ms since the epoch or as ISO 8601, inclusive. "
    "Default: no bound.",
)
MERGED_COLUMNS = replace(
    COLUMNS,
    description="Names of the aggregates to merge, separated by commas. They must be `count`, "
    "`sum`, `min` or `max`, or any aggregates that the store keeps with `mergeable=True`. Default: "
    "all aggregates of the store, which must all be such.",
    example="departures",
)
CURRENT = QueryParameter(
    "current",
    BOOLEAN,
    "`true` selects the current window of each key that changed, as `current` returns it. An event "
    "has at most one window per key. `removed` has the keys without a window, and "
    "`changed_from_ms` is the least start of the windows that changed.",
    default=False,
)

STORE = PathParameter(
    "store",
    text_of("[A-Za-z0-9][A-Za-z0-9._-]{0,127}"),
    "Name of the store.",
    example="departures",
)
KEY = PathParameter(
    "key",
    KEY_TEXT,
    "The key, which is the rest of the path as percent-encoded UTF-8. You can write a slash "
    "plain or as %2F. If the rest is empty, the key is empty. Nothing is normalized, so `..` "
    "and `a//b` are keys. For 64-bit integers, write the key in decimal. For composite keys, "
    "write a JSON array without spaces. See the store's `key_type`.",
    example="EWR",
)
WINDOW_START_MS = PathParameter(
    "window_start_ms",
    TIME,
    "Start of the window in ms since the epoch or as ISO 8601.",
    example=1357034400000,
)
WINDOW_END_MS = PathParameter(
    "window_end_ms",
    TIME,
    "End of the session in ms since the epoch or as ISO 8601, inclusive.",
    example=1357036140000,
)

INSTANT_MS = PathParameter(
    "instant_ms",
    TIME,
    "An instant in ms since the epoch or as ISO 8601.",
    example=1357036140000,
)

LABEL = PathParameter(
    "label", checked_text_of("[a-zA-Z_][a-zA-Z0-9_]*"), "Name of a label.", example="key"
)

#: Path parameters by their names in braces.
PATH_PARAMETERS: Mapping[str, PathParameter] = {
    parameter.name: parameter
    for parameter in (STORE, KEY, WINDOW_START_MS, WINDOW_END_MS, INSTANT_MS, LABEL)
}

#: A key as a JSON value: a string, an integer, or an array of components.
ListedKey = str | int | list[str | int]


class PathValues(TypedDict, total=False):
    """The values of the path of a read, after its name and in their order.

    A read of listed keys has the keys of its body instead. ``listed`` has them as JSON values, and
    ``keys`` as strings of the store's key type.
    """

    window_start_ms: int
    window_end_ms: int
    instant_ms: int
    key: str
    listed: tuple[ListedKey, ...]
    keys: tuple[str, ...]


def read_path(parameters: Sequence[PathParameter], rest: bytes) -> PathValues | None:
    """Return the values of path parameters. The last parameter is the whole rest of the path.

    Returns:
        The values, or None if the path has too few parts.
    """
    values: Any
    if len(parameters) == 1:
        # A fast path, because the most frequent reads have only the key.
        values = {parameters[0].name: parameters[0].read(rest)}
    else:
        parts = rest.split(b"/", len(parameters) - 1) if parameters else []
        if len(parts) < len(parameters):
            return None
        values = {p.name: p.read(part) for p, part in zip(parameters, parts, strict=True)}
    # No type checker can derive the types (tests/app/test_value_types.py).
    read: PathValues = values
    return read


ORDER = QueryParameter(
    "order",
    choice("newest", "oldest"),
    "Order of the dead letters. `newest`: from the newest batch to the oldest, then by topic, "
    "partition and offset in descending order. `oldest`: exactly the reverse order.",
    default="newest",
    is_bound=True,
)

_filter = partial(QueryParameter, is_bound=True)
#: Parameters that select dead letters, by column name.
DEAD_LETTER_FILTERS = (
    _filter("topic", TEXT, "Only records of this topic."),
    _filter("partition", integers(0, INT32_MAX), "Only records of this partition."),
    _filter("from_offset", INT64, "Least offset, inclusive."),
    _filter("to_offset", INT64, "Greatest offset, inclusive."),
    _filter("store", TEXT, "Only records that this store, but not every store, could not use."),
    _filter("reason", TEXT, "Only dead letters with this reason, for example not-json."),
    _filter(
        "replayed",
        BOOLEAN,
        "`true` selects dead letters whose record was replayed, `false` the others. Default: both.",
    ),
    _filter(
        "from_ms",
        TIME,
        "Least time of a record, inclusive. Records with an unknown time are left out.",
    ),
    _filter(
        "to_ms",
        TIME,
        "Greatest time of a record, inclusive. Records with an unknown time are left out.",
    ),
)
