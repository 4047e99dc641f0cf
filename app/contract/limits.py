"""Define the limits of one worker process, and of one request and its page.

The options of ``oriel serve``, ``x-oriel-limits`` of the OpenAPI document and the guards that
enforce the limits use these fields.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, NamedTuple

from oriel.storage import KEY_BYTES_MAX


class LimitField(NamedTuple):
    """One limit of a worker.

    Attributes:
        name: The name, which ends with its unit or with the things that it counts.
        default: The default value.
        meaning: The description, which is also the help of the option.
        most: The greatest allowed value.
    """

    name: str
    default: int
    meaning: str
    most: int


#: httptools cannot parse a longer URL.
_URL_BYTES_MAX = 65_535


def _limit(default: int, meaning: str, most: int = 2**31) -> Any:
    return field(default=default, metadata={"meaning": meaning, "most": most})


@dataclass(frozen=True)
class Limits:
    """The limits of one worker. Beyond them, it responds with a problem and queues nothing."""

    connections: int = _limit(
        4_000,
        "open connections. If more open, the worker closes the connection that is idle for "
        "longest, or otherwise the one whose client reads or sends slowest",
    )
    requests: int = _limit(
        500,
        "requests in progress, except streams and requests that wait for a position. Beyond it, "
        "the worker responds with 503",
    )
    long_reads: int = _limit(
        64,
        "long reads in progress, for example of a whole store or of many keys. Beyond it, "
        "the worker responds with 503",
    )
    waiting_requests: int = _limit(
        2_000, "requests that wait for a position. Beyond it, the worker responds with 503"
    )
    streams: int = _limit(1_000, "open event streams. Beyond it, the worker responds with 503")
    watched_keys: int = _limit(
        100_000,
        "keys that all open event streams watch, counted per stream. Beyond it, the "
        "worker responds with 503",
    )
    unsent_bytes: int = _limit(
        256 * 1024 * 1024,
        "all long responses that clients have not read completely. If a new one does not fit, "
        "the worker closes connections that read less than 64 KB in the last second, or "
        "otherwise responds with 503",
    )
    sql_queries: int = _limit(
        2, "SQL queries in progress. Beyond it, the worker responds with 429", 64
    )
    sql_seconds: int = _limit(10, "time of a SQL query. Beyond it, the response is 400", 3600)
    sql_rows: int = _limit(10_000, "rows of the response to a SQL query. Other rows are cut")
    sql_memory_bytes: int = _limit(
        512 * 1024 * 1024,
        "memory of a SQL query. If it needs more, it writes temporary files",
        2**40,
    )
    sql_temporary_bytes: int = _limit(
        1024 * 1024 * 1024,
        "temporary files of a SQL query. Beyond it, the response is 400",
        2**40,
    )
    header_bytes: int = _limit(
        64 * 1024, "header fields of a request. Beyond it, the worker responds with 431"
    )
    url_bytes: int = _limit(
        _URL_BYTES_MAX,
        "path and query of a request, at most 65,535. Beyond it, the worker responds with 414",
        _URL_BYTES_MAX,
    )
    body_bytes: int = _limit(
        4 * 1024 * 1024, "body of a request. Beyond it, the worker responds with 413"
    )
    arriving_bodies: int = _limit(
        1_000,
        "requests whose body has not arrived completely. If more arrive, the worker refuses the "
        "request that waits longest with 503",
    )
    arriving_bytes: int = _limit(
        64 * 1024 * 1024,
        "all bodies that the worker receives or that wait for a response. If they have more, the "
        "worker refuses the request that waits longest for its body with 503",
    )
    queued_requests: int = _limit(
        16,
        "requests on one connection that wait for the response before them. If more follow and "
        "still wait after header_seconds, the worker closes the connection",
    )
    header_seconds: int = _limit(10, "from a request's first byte to the end of its header")
    body_seconds: int = _limit(30, "from the end of a request's header to the end of its body")
    request_seconds: int = _limit(
        60,
        "until a response begins, including the wait for a "
        "position. Beyond it, the worker responds with 503",
    )
    send_seconds: int = _limit(
        60,
        "during which a client can read nothing of a response. Beyond it, the worker closes "
        "the connection",
    )
    idle_seconds: int = _limit(60, "during which a connection can be idle between two requests")

    def named(self) -> Mapping[str, int]:
        """Return the value of each limit by its name."""
        return asdict(self)


#: Every limit, in the order of the documentation.
LIMIT_FIELDS = tuple(
    LimitField(one.name, getattr(Limits, one.name), one.metadata["meaning"], one.metadata["most"])
    for one in fields(Limits)
)

#: Most windows, rows or keys of one page, and the number without `limit`.
PAGE_ROWS_MAX = 10_000
PAGE_ROWS_DEFAULT = 100
#: A page ends with the item that brings it to this many bytes.
PAGE_BYTES_MAX = 4 << 20
#: A page ends after it has read this many windows, rows or keys.
SCAN_RECORDS_MAX = 100_000
#: A read with `order_by` fails if it has to read more windows or rows than this.
RANKED_RECORDS_MAX = 2_000_000
#: Most windows of one merged range.
MERGED_WINDOWS_MAX = 10_000
#: A query of Prometheus' API fails if it has to read more windows, or has more series or values.
QUERY_WINDOWS_MAX = 1_000_000
QUERY_SERIES_MAX = 20_000
QUERY_VALUES_MAX = 1_000_000
#: Most times of a range query, as in Prometheus.
QUERY_TIMES_MAX = 11_000
#: Most operators, calls and parentheses of a query.
QUERY_OPERATORS_MAX = 100
#: Most series, labels or values of one list of Prometheus' API.
SERIES_LISTED_MAX = 10_000
#: Most characters of a SQL query, and bytes of its response.
SQL_CHARACTERS_MAX = 100_000
SQL_RESPONSE_BYTES_MAX = 16 << 20
#: Most keys of a body.
LISTED_KEYS_MAX = 1_000


class Limit(NamedTuple):
    """A limit as the OpenAPI document lists it."""

    value: int
    unit: str
    description: str


LIMITS = {
    "page_rows_max": Limit(PAGE_ROWS_MAX, "items", "Greatest `limit` of a page."),
    "page_rows_default": Limit(
        PAGE_ROWS_DEFAULT, "items", "`limit` if the request does not set it."
    ),
    "page_bytes_max": Limit(
        PAGE_BYTES_MAX,
        "bytes",
        "A page ends with the item that brings it to this many bytes of JSON. Its cursor "
        "continues after this item.",
    ),
    "scan_records_max": Limit(
        SCAN_RECORDS_MAX,
        "records",
        "A page ends after the service has read this many windows, rows or keys, even if it "
        "found no item. Its cursor continues there.",
    ),
    "ranked_records_max": Limit(
        RANKED_RECORDS_MAX,
        "records",
        "Most windows or rows that a read with `order_by` reads. If it has more, the request is "
        "rejected.",
    ),
    "merged_windows_max": Limit(
        MERGED_WINDOWS_MAX,
        "windows",
        "Most windows of a range of `merged`: `step_ms` divided by the size of the windows.",
    ),
    "query_windows_max": Limit(
        QUERY_WINDOWS_MAX, "windows", "Most windows that a query of Prometheus' API reads."
    ),
    "query_series_max": Limit(
        QUERY_SERIES_MAX, "series", "Most series that a query of Prometheus' API selects."
    ),
    "query_values_max": Limit(
        QUERY_VALUES_MAX,
        "values",
        "Most values that a query of Prometheus' API computes: its series, multiplied by its "
        "times.",
    ),
    "query_times_max": Limit(
        QUERY_TIMES_MAX, "times", "Most times of one range query of Prometheus' API."
    ),
    "query_operators_max": Limit(
        QUERY_OPERATORS_MAX,
        "operators",
        "Most operators, calls and parentheses of a query of Prometheus' API.",
    ),
    "series_listed_max": Limit(
        SERIES_LISTED_MAX,
        "items",
        "Most series, labels or values of one list of Prometheus' API.",
    ),
    "sql_characters_max": Limit(
        SQL_CHARACTERS_MAX, "characters", "Most characters of a SQL query."
    ),
    "sql_response_bytes_max": Limit(
        SQL_RESPONSE_BYTES_MAX, "bytes", "Most bytes of the response to a SQL query."
    ),
    "listed_keys_max": Limit(LISTED_KEYS_MAX, "keys", "Most keys in the body of one POST."),
    "key_bytes_max": Limit(
        KEY_BYTES_MAX,
        "bytes",
        "Most UTF-8 bytes of a key. A record with a longer key is a dead letter.",
    ),
}
