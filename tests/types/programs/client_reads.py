"""Reads of a service as users write them, with the client that blocks."""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, assert_type

import pandas as pd
import polars as pl
import pyarrow as pa

from oriel.client import (
    Change,
    Client,
    KeyValueStoreClient,
    Page,
    Position,
    Removed,
    Results,
    Retries,
    Row,
    SessionStoreClient,
    SqlRows,
    StoreSummary,
    Version,
    VersionedStoreClient,
    Window,
    WindowStoreClient,
)


def clients() -> None:
    """Assert the types of a client."""
    assert_type(Client(), Client)
    retries = Retries(attempts=2, longest_pause_s=1)
    assert_type(retries, Retries)
    assert_type(retries.attempts, int)
    assert_type(retries.longest_pause_s, float)
    with Client(
        "http://127.0.0.1:8080", token=lambda: "secret", timeout_s=5, retries=retries, verify=False
    ) as client:
        assert_type(client, Client)
        assert_type(client.stores(), list[StoreSummary])
        assert_type(client.status(), dict[str, Any])
        assert_type(client.topology(), dict[str, Any])
        assert_type(client.sql("SELECT 1"), SqlRows)
        assert_type(client.sql("SELECT 1").rows, list[dict[str, Any]])
        assert_type(
            client.store("departures"),
            WindowStoreClient | SessionStoreClient | KeyValueStoreClient | VersionedStoreClient,
        )
        assert_type(client.window_store("departures"), WindowStoreClient)
        assert_type(client.session_store("visits"), SessionStoreClient)
        assert_type(client.key_value_store("totals"), KeyValueStoreClient)
        assert_type(client.versioned_store("prices"), VersionedStoreClient)
        assert_type(client.close(), None)


def windows(store: WindowStoreClient) -> None:
    """Reads of windows."""
    assert_type(store.name, str)
    assert_type(store.at_least(Position(version=3), wait_s=5), WindowStoreClient)
    assert_type(store.describe(), dict[str, Any])
    assert_type(store.position(), Position)
    assert_type(store.wait_for(Position(offsets={"flights": {0: 10}})), Position)
    assert_type(store.keys("E", limit=10), Results[str])
    assert_type(store.watch("EWR", after=3), Iterator[Change[Window]])
    assert_type(store.watch(columns=["n"], current=True), Iterator[Change[Window]])
    assert_type(store.fetch("EWR", 0, "2013-01-02", limit=20, final=True), Results[Window])
    assert_type(store.backward_fetch("EWR", time_to=datetime.now(UTC)), Results[Window])
    assert_type(store.covering("EWR", 10), Results[Window])
    assert_type(store.fetch_range("EWR", "JFK", columns=["departures"]), Results[Window])
    assert_type(store.backward_fetch_range(key_to="JFK", page_size=100), Results[Window])
    assert_type(store.fetch_all(0, 100), Results[Window])
    assert_type(store.backward_fetch_all(), Results[Window])
    assert_type(store.all(), Results[Window])
    assert_type(store.backward_all(limit=5), Results[Window])
    assert_type(store.latest_all(prefix="E"), Results[Window])
    assert_type(store.current_all("EWR", "JFK"), Results[Window])
    assert_type(store.merged("EWR", 0, step_ms=60_000, final=True), Results[Window])
    assert_type(store.merged_all(prefix="E", step_ms=60_000), Results[Window])
    assert_type(store.merged_of_keys(["EWR"], step_ms=60_000, limit=5), Results[Window])
    assert_type(store.latest_of_keys(["EWR", 7]), Results[Window])
    assert_type(store.current_of_keys(["EWR"]), Results[Window])
    assert_type(store.fetch_of_keys(["EWR"], 0, 100), Results[Window])
    assert_type(store.backward_fetch_of_keys(["EWR"], limit=5), Results[Window])
    assert_type(store.latest(("EWR", 42)), Window | None)
    assert_type(store.current("EWR", columns=["departures"]), Window | None)
    assert_type(store.window("EWR", 0), Window | None)


def sessions(store: SessionStoreClient) -> None:
    """Reads of sessions: those of windows, and by overlap."""
    assert_type(store.at_least(Position(version=3), wait_s=5), SessionStoreClient)
    assert_type(store.find_sessions("EWR", 0, 100), Results[Window])
    assert_type(store.backward_find_sessions("EWR"), Results[Window])
    assert_type(store.find_sessions_range("EWR", None, 0, 100), Results[Window])
    assert_type(store.backward_find_sessions_range(limit=5), Results[Window])
    assert_type(store.fetch_session("EWR", 0, 100), Window | None)


def rows(store: KeyValueStoreClient) -> None:
    """Reads of a store without windows."""
    assert_type(store.name, str)
    assert_type(store.at_least(Position(version=3), wait_s=5), KeyValueStoreClient)
    assert_type(store.describe(), dict[str, Any])
    assert_type(store.position(), Position)
    assert_type(store.wait_for(Position(offsets={"flights": {0: 10}})), Position)
    assert_type(store.keys("E", limit=10), Results[str])
    assert_type(store.watch("EWR", after=3), Iterator[Change[Row]])
    assert_type(store.get("EWR"), Row | None)
    assert_type(store.get_of_keys(["EWR", "JFK"]), Results[Row])
    assert_type(store.approximate_num_entries(), int)
    assert_type(store.range("EWR", None, limit=5), Results[Row])
    assert_type(store.reverse_range(), Results[Row])
    assert_type(store.prefix_scan("E"), Results[Row])
    assert_type(store.all(columns=["departures"]), Results[Row])
    assert_type(store.reverse_all(), Results[Row])


def versions(store: VersionedStoreClient) -> None:
    """Reads of versions, in addition to those of rows."""
    assert_type(store.at_least(Position(version=3), wait_s=5), VersionedStoreClient)
    assert_type(store.get_as_of("tea", 5, columns=["price"]), Version | None)
    assert_type(store.versions("tea", 0, "2013-01-02", limit=5), Results[Version])
    assert_type(store.backward_versions("tea", columns=["price"]), Results[Version])


def pages(results: Results[Window]) -> None:
    """All items of a read: one by one, in pages, as tables."""
    assert_type(results.list(), list[Window])
    assert_type(results.pages(), Iterator[Page[Window]])
    assert_type(results.bodies("text/csv"), Iterator[bytes])
    assert_type(results.page_unless(None), Page[Window] | None)
    assert_type(results.watch(every_s=2), Iterator[Page[Window]])
    # pyarrow ships no types.
    assert_type(results.to_arrow(), pa.Table)  # pyright: ignore[reportUnknownMemberType]
    assert_type(results.to_pandas(), pd.DataFrame)
    assert_type(results.to_polars(), pl.DataFrame)
    for window in results:
        assert_type(window, Window)


def items(
    window: Window,
    row: Row,
    version: Version,
    page: Page[Window],
    summary: StoreSummary,
    sql: SqlRows,
) -> None:
    """Assert the types of reads."""
    assert_type(sql.rows, list[dict[str, Any]])
    assert_type(sql.types, Mapping[str, str])
    assert_type(sql.positions, Mapping[str, Position])
    assert_type(sql.truncated, bool)
    assert_type(window["departures"], Any)
    assert_type(window.key, str)
    assert_type(window.start_ms, int)
    assert_type(window.end_ms, int)
    assert_type(window.timestamp_ms, int)
    assert_type(window.final, bool)
    assert_type(window.start, datetime)
    assert_type(window.end, datetime)
    assert_type(window.timestamp, datetime)
    assert_type(dict(window.aggregates), dict[str, Any])
    assert_type(dict(window), dict[str, Any])
    assert_type(list(window.keys()), list[str])
    assert_type(list(window.values()), list[Any])
    assert_type(list(window.items()), list[tuple[str, Any]])
    assert_type(row.key, str)
    assert_type(row["departures"], Any)
    assert_type(row.get("departures"), Any | None)
    assert_type(row.timestamp_ms, int)
    assert_type(row.timestamp, datetime)
    assert_type(dict(row.aggregates), dict[str, Any])
    assert_type(page.items, list[Window])
    assert_type(page.position, Position)
    assert_type(page.next_cursor, str | None)
    assert_type(page.etag, str | None)
    assert_type(version.valid_from_ms, int)
    assert_type(version.valid_to_ms, int | None)
    assert_type(version.valid_from, datetime)
    assert_type(version.valid_to, datetime | None)
    assert_type(summary.name, str)
    assert_type(summary.ready, bool)
    assert_type(summary.kind, str | None)
    assert_type(summary.aggregates, tuple[str, ...])
    assert_type(summary.position, Position | None)
    assert_type(summary.close_ms, int | None)


def changes(change: Change[Row], removed: Removed, position: Position) -> None:
    """Assert the types of a stream of changes."""
    assert_type(change.items, list[Row])
    assert_type(change.removed, list[Removed])
    assert_type(change.position, Position)
    assert_type(change.reset, str | None)
    assert_type(change.id, str)
    assert_type(removed.key, str)
    assert_type(removed.start_ms, int | None)
    assert_type(removed.end_ms, int | None)
    assert_type(position.version, int)
    assert_type(position.offsets["flights"][0], int)
    assert_type(position.history, str)
    assert_type(Position(), Position)
