"""What answers hold: windows, rows, positions, stores; all frozen."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Generic, TypeVar

T = TypeVar("T")

#: A time in a call: ms since the epoch, a datetime with a zone, or ISO 8601 text (without an
#: offset UTC).
Time = int | datetime | str

Json = Mapping[str, Any]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Position:
    """How far into its source an answer reaches; as a demand, how far it has to reach.

    ``version`` is that of the store's table. ``offsets`` are topic -> partition -> offset: every
    record below the offset is included. What a demand leaves out it doesn't demand.

    ``history`` identifies the history of the version: a restore of an older backup starts another
    one. If a demand has it, a version that a restore replaced raises ``Gone``.
    """

    version: int = -1
    offsets: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    history: str = ""


@dataclass(frozen=True)
class Row(Mapping[str, Any]):
    """The row of a key in a store without windows; ``row["name"]`` is an aggregate.

    An aggregate is an int, float, str, bool, a list of these, or None (also for NaN and the
    infinities, which JSON lacks).
    """

    key: str
    timestamp_ms: int
    aggregates: Mapping[str, Any]

    def __getitem__(self, name: str) -> Any:
        """The aggregate of that name."""
        return self.aggregates[name]

    def __iter__(self) -> Iterator[str]:
        """The names of the aggregates, in the store's order."""
        return iter(self.aggregates)

    def __len__(self) -> int:
        """The number of aggregates."""
        return len(self.aggregates)

    @property
    def timestamp(self) -> datetime:
        """The greatest record time, in UTC."""
        return datetime_of(self.timestamp_ms)


@dataclass(frozen=True)
class Window(Row):
    """One window of one key; ``window["name"]`` is an aggregate, as in a ``Row``.

    The end is inclusive for sliding windows and sessions, exclusive for tumbling and hopping ones.
    ``final``: no record can change the window any more.
    """

    start_ms: int
    end_ms: int
    final: bool

    @property
    def start(self) -> datetime:
        """The window's start, in UTC."""
        return datetime_of(self.start_ms)

    @property
    def end(self) -> datetime:
        """The window's end, in UTC."""
        return datetime_of(self.end_ms)


@dataclass(frozen=True)
class Page(Generic[T]):
    """Items of one table version, in their order; ``next_cursor`` None: there are no more."""

    items: list[T]
    position: Position
    next_cursor: str | None
    etag: str | None


@dataclass(frozen=True)
class Removed:
    """A window that is no more, like a session that was merged; a row has no times."""

    key: str
    start_ms: int | None
    end_ms: int | None


@dataclass(frozen=True)
class Change(Generic[T]):
    """What one event of a stream tells.

    ``items`` are windows (or rows) as they are from ``position`` on, ``removed`` those that are no
    more. ``reset`` is None, or why changes can't be told one by one: read anew what you keep. With
    ``id`` a later ``watch(after=...)`` goes on behind this event.
    """

    items: list[T]
    removed: list[Removed]
    position: Position
    reset: str | None
    id: str


@dataclass(frozen=True)
class StoreSummary:
    """One store in the list: ``kind`` is ``none`` for a store of one row a key.

    A store that is not ``ready`` has neither kind, aggregates nor position yet.
    """

    name: str
    ready: bool
    kind: str | None
    aggregates: tuple[str, ...]
    position: Position | None
    close_ms: int | None


def datetime_of(time_ms: int) -> datetime:
    """A time in ms as a datetime in UTC.

    Raises:
        OverflowError: the time is behind the year 9999, where Python's datetimes end.
    """
    return _EPOCH + timedelta(milliseconds=time_ms)


def time_text(time: Time) -> str:
    """A time as the service reads it.

    Raises:
        ValueError: a datetime without a zone.
    """
    if isinstance(time, datetime):
        if time.tzinfo is None:
            message = f"{time!r} has no time zone. Add one, for example tzinfo=datetime.UTC"
            raise ValueError(message)
        return str((time - _EPOCH) // timedelta(milliseconds=1))
    return str(time)


def window_of(item: Json) -> Window:
    """A window out of its JSON."""
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
    """A window as the service writes it."""
    return {
        "key": window.key,
        "window_start_ms": window.start_ms,
        "window_end_ms": window.end_ms,
        **window.aggregates,
        "timestamp_ms": window.timestamp_ms,
        "final": window.final,
    }


def row_of(item: Json) -> Row:
    """A row out of its JSON."""
    rest = dict(item)
    return Row(rest.pop("key"), rest.pop("timestamp_ms"), rest)


def position_of(document: Json) -> Position:
    """A position out of its JSON."""
    offsets = {
        topic: {int(partition): offset for partition, offset in partitions.items()}
        for topic, partitions in document["offsets"].items()
    }
    # A service of an earlier version names no history.
    return Position(document["version"], offsets, document.get("history", ""))


def summary_of(document: Json) -> StoreSummary:
    """A store of the list out of its JSON."""
    window, position = document["window"], document["position"]
    return StoreSummary(
        name=document["store"],
        ready=document["ready"],
        kind=None if window is None else window["kind"],
        aggregates=tuple(aggregate["name"] for aggregate in document["aggregates"]),
        position=None if position is None else position_of(position),
        close_ms=document["close_ms"],
    )
