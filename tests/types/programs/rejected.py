"""Calls that both type checkers reject.

Each comment names the rule that rejects the call: mypy's, then pyright's. A checker reports a
comment that is not needed, so a wrong call that it accepts fails.
"""
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false

from oriel import (
    EmitStrategy,
    KGroupedStream,
    KStream,
    KTable,
    SessionWindows,
    StreamsBuilder,
    TimeWindows,
    count,
)
from oriel.client import (
    AsyncResults,
    AsyncWindowStoreClient,
    Client,
    KeyValueStoreClient,
    Position,
    Results,
    Window,
    WindowStoreClient,
)
from oriel.testing import DriverWindowStore, Record, TopologyTestDriver


def topologies(builder: StreamsBuilder, stream: KStream, other: KStream, table: KTable) -> None:
    """Steps that do not fit."""
    builder.stream("flights", 5)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    builder.table("airports")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    builder.add_state_store("airports")  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]
    stream.filter(5)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    stream.map_values(5)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    stream.windowed_by(TimeWindows.of_size_with_no_grace(1))  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]
    stream.join(other, 60_000)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    stream.left_join(table, foreign_key="origin")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    stream.outer_join(table)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    stream.merge(table)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    stream.peek(count)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    stream.split()["early"]  # type: ignore[index]  # pyright: ignore[reportArgumentType]
    stream.to(5)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    table.materialize(5)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    table.to("topic", True)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    table.suppress(TimeWindows)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def groupings(grouped: KGroupedStream) -> None:
    """Aggregations that do not fit."""
    grouped.windowed_by(60_000)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    grouped.emit("on_window_close")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    grouped.aggregate(flights="count")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    grouped.reduce(lambda one: one)  # type: ignore[arg-type,misc]  # pyright: ignore[reportArgumentType]
    grouped.cogroup(flights=1)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def windows(windows: SessionWindows) -> None:
    """Windows that do not exist."""
    TimeWindows.of_size_with_no_grace("1 minute")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    TimeWindows.of(60_000)  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]
    windows.advance_by(10)  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]
    windows.grace_ms = 5  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]
    EmitStrategy.on_window_close(5)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]


def driver(driver: TopologyTestDriver, table: KTable, store: DriverWindowStore) -> None:
    """Tests that do not fit."""
    TopologyTestDriver(StreamsBuilder())  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    Record("EWR", 5, 0)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    Record(7, {}, 0)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    driver.pipe_input("flights", {"delay": 4})  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    driver.pipe_inputs([record := Record("EWR", None, 0)])  # type: ignore[list-item]  # pyright: ignore[reportArgumentType]
    driver.create_output_reader(table)  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType, reportCallIssue]
    driver.get_window_store("departures")  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]
    store.fetch("EWR")  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]
    store.get("EWR")  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]
    record.timestamp_ms = 5  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]


def client(store: WindowStoreClient, rows: KeyValueStoreClient, window: Window) -> None:
    """Reads that do not fit."""
    Client(8080)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    store.latest(1.5)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    store.fetch("EWR", limit="5")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    store.fetch("EWR", last=5)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    store.find_sessions("EWR")  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]
    store.at_least(3)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    store.get("EWR")  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]
    rows.fetch("EWR")  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]
    rows.all(final=True)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    rows.get()  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    Position(offsets={"flights": 10})  # type: ignore[dict-item]  # pyright: ignore[reportArgumentType]
    window.final = True  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]


async def pages(
    store: AsyncWindowStoreClient, results: Results[Window], later: AsyncResults[Window]
) -> None:
    """Results that are read by the other client's words."""
    assert store.latest("EWR").key  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]
    assert [window.key async for window in results]  # type: ignore[attr-defined]  # pyright: ignore[reportGeneralTypeIssues]
    assert [*later]  # type: ignore[misc]  # pyright: ignore[reportGeneralTypeIssues]
    assert (await later.list()).items  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]
