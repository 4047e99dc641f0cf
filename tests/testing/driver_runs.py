"""Helpers that define a topology, pipe records into it and return the rows of its stores."""

from collections.abc import Callable, Sequence
from typing import Any

from oriel import (
    EmitStrategy,
    SessionWindows,
    SlidingWindows,
    StreamsBuilder,
    TimeWindows,
    collect_list,
    count,
)
from oriel.pipeline.language.grouped import KGroupedStream
from oriel.pipeline.language.tables import KTable
from oriel.pipeline.language.windowed import TimeWindowedKStream
from oriel.pipeline.windows import Windows
from oriel.testing import Record, TopologyTestDriver, WindowedValue

#: ``t`` is the record's own time, ``s`` a string.
SCHEMA = "t BIGINT, s STRING"

#: Windows as (key, start, end) with the times of their records.
MemberTimes = dict[tuple[str, int, int], list[int]]

tumbling = TimeWindows.of_size_and_grace
sliding = SlidingWindows.of_time_difference_and_grace
sessions = SessionWindows.of_inactivity_gap_and_grace


def hopping(size: int, advance: int, grace: int = 0) -> TimeWindows:
    """Return hopping windows."""
    return tumbling(size, grace).advance_by(advance)


def grouped(builder: StreamsBuilder, topic: str = "t", schema: str = SCHEMA) -> KGroupedStream:
    """Return a topic grouped by its records' own keys."""
    return builder.stream(topic, schema).group_by_key()


def driver_of(define: Callable[[StreamsBuilder], object]) -> TopologyTestDriver:
    """Return a driver of the topology that ``define`` adds to the builder."""
    builder = StreamsBuilder()
    define(builder)
    return TopologyTestDriver(builder.build(), collect_function_errors=True)


def driver_with(
    aggregated: Callable[[KGroupedStream | TimeWindowedKStream], KTable],
    windows: Windows | None = None,
    *,
    closed: bool = False,
    schema: str = SCHEMA,
) -> TopologyTestDriver:
    """Return a driver of one store ``s`` over topic ``t``. ``closed`` emits final windows only."""

    def define(builder: StreamsBuilder) -> None:
        stream: KGroupedStream | TimeWindowedKStream = grouped(builder, schema=schema)
        if windows is not None:
            assert isinstance(stream, KGroupedStream)
            stream = stream.windowed_by(windows)
        if closed:
            assert isinstance(stream, TimeWindowedKStream)
            stream = stream.emit(EmitStrategy.on_window_close())
        aggregated(stream).materialize("s")

    return driver_of(define)


def times_driver(windows: Windows | None = None, *, closed: bool = False) -> TopologyTestDriver:
    """Return a driver whose store collects the times of each window's records."""
    return driver_with(
        lambda stream: stream.aggregate(n=count(), times=collect_list("t")), windows, closed=closed
    )


def records(text: str) -> list[Record]:
    """Return the records of a string of ``KEY:TIME`` or ``KEY:TIME=WORD`` items.

    The default key is ``k``. ``*`` is a record without a key.
    """
    found = []
    for entry in text.split():
        place, _, word = entry.partition("=")
        key, _, time = place.rpartition(":")
        value = {"t": int(time), "s": word or None}
        found.append(Record(None if key == "*" else key or "k", value, int(time)))
    return found


def pipe(
    driver: TopologyTestDriver,
    piped: str | Sequence[Record],
    *,
    topic: str = "t",
    partition: int = 0,
    one_by_one: bool = True,
) -> list[list[dict[str, Any]]]:
    """Pipe records in one batch each, or all in one batch.

    Returns:
        The rows that each batch wrote to store ``s``.
    """
    batch = records(piped) if isinstance(piped, str) else list(piped)
    outputs = []
    for part in [[record] for record in batch] if one_by_one else [batch]:
        driver.pipe_input(topic, part, partition)
        outputs.append(driver.read_output("s"))
    return outputs


def windows_of(driver: TopologyTestDriver, kind: str) -> list[WindowedValue]:
    """Return all windows or sessions of store ``s``."""
    if kind == "session":
        return driver.session_store("s").all()
    return driver.window_store("s").all()


def member_times(found: Sequence[WindowedValue]) -> MemberTimes:
    """Return the times of each window's records, by key and bounds."""
    return {(w.key, w.window_start_ms, w.window_end_ms): w.value["times"] for w in found}


def row_times(rows: Sequence[dict[str, Any]]) -> MemberTimes:
    """Return the times of each written row's records, without the deleted rows."""
    return {
        (row["key"], row["window_start_ms"], row["window_end_ms"]): row["times"]
        for row in rows
        if not row["deleted"]
    }


def held(driver: TopologyTestDriver, kind: str) -> list[Any]:
    """Return the aggregates and timestamps of all rows."""
    if kind == "none":
        return [(row.value, row.timestamp_ms) for row in driver.key_value_store("s").all()]
    return [(row.value, row.timestamp_ms) for row in windows_of(driver, kind)]
