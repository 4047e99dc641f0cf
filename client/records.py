"""Define the content of responses: windows, rows, positions and stores, all frozen."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Generic, TypeVar

T = TypeVar("T")

#: A time in a call: ms since the epoch, a datetime with a time zone, or ISO 8601 text (UTC without
#: an offset).
Time = int | datetime | str

Json = Mapping[str, Any]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Position:
    """The table version and the source offsets of a response, or the ones that it must include.

    Attributes:
        version: version of the store's table, -1 for any version.
        offsets: topic -> partition -> offset. Every record below the offset is included.
        history: identifies the history of the version, which a restore of an older backup
            changes. If you request a version that a restore replaced, the client raises ``Gone``.

    Example:
        >>> Position(offsets={"flights": {0: 12345}})
        Position(version=-1, offsets={'flights': {0: 12345}}, history='')
    """

    version: int = -1
    offsets: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    history: str = ""


@dataclass(frozen=True)
class Row(Mapping[str, Any]):
    """The row of a key in a store without windows, as a mapping of its aggregates.

    An aggregate is an int, float, str, bool, a list of such values, or None. NaN and infinity are
    None, because JSON does not have them.

    Attributes:
        key: the key as text.
        timestamp_ms: greatest record time of the key, in ms since the epoch.
        aggregates: value of each aggregate by its name.

    Example:
        >>> row = totals.get("EWR")
        >>> row["departures"], row.timestamp.isoformat()
        (1201, '2013-01-01T10:29:00+00:00')
    """

    key: str
    timestamp_ms: int
    aggregates: Mapping[str, Any]

    def __getitem__(self, name: str) -> Any:
        return self.aggregates[name]

    def __iter__(self) -> Iterator[str]:
        """Yield the names of the aggregates, in the order of the store."""
        return iter(self.aggregates)

    def __len__(self) -> int:
        return len(self.aggregates)

    @property
    def timestamp(self) -> datetime:
        """Return the greatest record time, in UTC."""
        return datetime_of(self.timestamp_ms)


@dataclass(frozen=True)
class Window(Row):
    """One window or session of one key, as a mapping of its aggregates like a ``Row``.

    Attributes:
        start_ms: start in ms since the epoch, inclusive.
        end_ms: end in ms since the epoch. It is inclusive for sliding windows and sessions, and
            exclusive for tumbling and hopping windows.
        final: True if no record can change the window.

    Example:
        >>> window = departures.latest("EWR")
        >>> window.key, window.start.isoformat(), window["departures"], window.final
        ('EWR', '2013-01-01T10:30:00+00:00', 7, False)
    """

    start_ms: int
    end_ms: int
    final: bool

    @property
    def start(self) -> datetime:
        """Return the start of the window, in UTC."""
        return datetime_of(self.start_ms)

    @property
    def end(self) -> datetime:
        """Return the end of the window, in UTC."""
        return datetime_of(self.end_ms)


@dataclass(frozen=True)
class Version(Row):
    """One version of the row of a key, as a mapping of its columns like a ``Row``.

    Attributes:
        valid_from_ms: time from which the version is valid in ms since the epoch, inclusive.
        valid_to_ms: time of the next version or deletion in ms since the epoch, exclusive. None for
            the newest version.

    Example:
        >>> version = prices.get_as_of("tea", "2013-01-01T10:01Z")
        >>> version["price"], version.valid_from.isoformat(), version.valid_to is None
        (3, '2013-01-01T10:00:00+00:00', False)
    """

    valid_from_ms: int
    valid_to_ms: int | None

    @property
    def valid_from(self) -> datetime:
        """Return the time from which the version is valid, in UTC."""
        return datetime_of(self.valid_from_ms)

    @property
    def valid_to(self) -> datetime | None:
        """Return the time of the next version or deletion, in UTC."""
        return None if self.valid_to_ms is None else datetime_of(self.valid_to_ms)


@dataclass(frozen=True)
class Page(Generic[T]):
    """Items of one table version, in their order.

    Attributes:
        items: the windows, rows or keys.
        position: the position of the store for this page.
        next_cursor: the cursor of the next page, None on the last page.
        etag: the entity tag of the response, which changes if the items change.

    Example:
        >>> [page.items for page in departures.keys(page_size=1).pages()]
        [['EWR'], ['JFK']]
    """

    items: list[T]
    position: Position
    next_cursor: str | None
    etag: str | None


@dataclass(frozen=True)
class Removed:
    """A removed window, for example a session that was merged, or a removed row.

    Attributes:
        key: the key as text.
        start_ms: start in ms since the epoch, None for a row and with ``watch(current=True)``.
        end_ms: end in ms since the epoch, None for a row and with ``watch(current=True)``.

    Example:
        >>> Removed("EWR", None, None).key
        'EWR'
    """

    key: str
    start_ms: int | None
    end_ms: int | None


@dataclass(frozen=True)
class Change(Generic[T]):
    """One event of a stream of changes.

    Attributes:
        items: the changed windows or rows, with their values at ``position``.
        removed: the removed windows or rows.
        position: the position of the store after the changes.
        reset: None, or the reason for which single changes are not available. Then read the store
            again.
        id: send it as ``watch(after=...)`` to resume after this event.

    Example:
        >>> first = next(departures.watch("EWR"))
        >>> first.items, first.reset
        ([], None)
    """

    items: list[T]
    removed: list[Removed]
    position: Position
    reset: str | None
    id: str


@dataclass(frozen=True)
class SqlRows:
    """The rows of a SQL query.

    Attributes:
        rows: one dictionary per row, by the names of the columns. Times are ISO 8601 text, and
            NaN and infinity are None.
        types: the name of DuckDB's type of each column, in their order.
        positions: the position of each store of the query.
        truncated: True if the query has more rows, which the service cut.

    Example:
        >>> rows = client.sql("SELECT key FROM totals ORDER BY key LIMIT 1")
        >>> rows.rows, rows.types, rows.positions["totals"].version
        ([{'key': 'EWR'}], {'key': 'VARCHAR'}, 1)
    """

    rows: list[dict[str, Any]]
    types: Mapping[str, str]
    positions: Mapping[str, Position]
    truncated: bool


@dataclass(frozen=True)
class StoreSummary:
    """One store of the service.

    Attributes:
        name: name of the store.
        ready: whether you can query the store.
        kind: window kind: ``tumbling``, ``hopping``, ``sliding``, ``session``, or ``none`` for a
            store with one row per key. None if the store is not ready.
        aggregates: names of the aggregates, empty if the store is not ready.
        position: position of the store, None if the store is not ready.
        close_ms: every window that ends before this time is final. None before the first batch.

    Example:
        >>> [(store.name, store.kind) for store in client.stores()][:2]
        [('bursts', 'session'), ('departures', 'tumbling')]
    """

    name: str
    ready: bool
    kind: str | None
    aggregates: tuple[str, ...]
    position: Position | None
    close_ms: int | None


def datetime_of(time_ms: int) -> datetime:
    """Return a time in ms as a datetime in UTC.

    Raises:
        OverflowError: the time is after the year 9999, the last year of Python's datetimes.
    """
    return _EPOCH + timedelta(milliseconds=time_ms)


def time_text(time: Time) -> str:
    """Return a time as the service reads it.

    Raises:
        ValueError: the datetime has no time zone.
    """
    if isinstance(time, datetime):
        if time.tzinfo is None:
            message = f"{time!r} has no time zone. Add one, for example tzinfo=datetime.UTC"
            raise ValueError(message)
        return str((time - _EPOCH) // timedelta(milliseconds=1))
    return str(time)


def window_of(item: Json) -> Window:
    """Return the window of a JSON object."""
    rest = dict(item)
    return Window(
        key=rest.pop("key"),
        timestamp_ms=rest.pop("timestamp_ms"),
        start_ms=rest.pop("window_start_ms"),
        end_ms=rest.pop("window_end_ms"),
        final=rest.pop("final"),
        aggregates=rest,
    )


def json_of(window: Window) -> Json:
    """Return a window as the JSON object of the service."""
    return {
        "key": window.key,
        "window_start_ms": window.start_ms,
        "window_end_ms": window.end_ms,
        **window.aggregates,
        "timestamp_ms": window.timestamp_ms,
        "final": window.final,
    }


def row_of(item: Json) -> Row:
    """Return the row of a JSON object."""
    rest = dict(item)
    return Row(rest.pop("key"), rest.pop("timestamp_ms"), rest)


def version_of(item: Json) -> Version:
    """Return the version of a JSON object."""
    rest = dict(item)
    return Version(
        key=rest.pop("key"),
        timestamp_ms=rest.pop("timestamp_ms"),
        valid_from_ms=rest.pop("valid_from_ms"),
        valid_to_ms=rest.pop("valid_to_ms"),
        aggregates=rest,
    )


def position_of(document: Json) -> Position:
    """Return the position of a JSON object."""
    offsets = {
        topic: {int(partition): offset for partition, offset in partitions.items()}
        for topic, partitions in document["offsets"].items()
    }
    # A service of an earlier version does not name a history.
    return Position(document["version"], offsets, document.get("history", ""))


def sql_rows_of(document: Json) -> SqlRows:
    """Return the rows of a SQL query."""
    return SqlRows(
        rows=document["rows"],
        types={column["name"]: column["type"] for column in document["columns"]},
        positions={name: position_of(one) for name, one in document["positions"].items()},
        truncated=document["truncated"],
    )


def summary_of(document: Json) -> StoreSummary:
    """Return the store of a JSON object in the list."""
    window, position = document["window"], document["position"]
    return StoreSummary(
        name=document["store"],
        ready=document["ready"],
        kind=None if window is None else window["kind"],
        aggregates=tuple(aggregate["name"] for aggregate in document["aggregates"]),
        position=None if position is None else position_of(position),
        close_ms=document["close_ms"],
    )
