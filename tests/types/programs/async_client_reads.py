"""Reads of a service as users write them, with the client for asyncio."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any, assert_type

import pandas as pd
import polars as pl
import pyarrow as pa

from oriel.client import (
    AsyncClient,
    AsyncKeyValueStoreClient,
    AsyncResults,
    AsyncSessionStoreClient,
    AsyncVersionedStoreClient,
    AsyncWindowStoreClient,
    Change,
    Page,
    Position,
    Retries,
    Row,
    SqlRows,
    StoreSummary,
    Version,
    Window,
)


async def clients() -> None:
    """Assert the types of a client."""
    assert_type(AsyncClient(), AsyncClient)
    retries = Retries(attempts=2, longest_pause_s=1)
    assert_type(retries, Retries)
    assert_type(retries.attempts, int)
    assert_type(retries.longest_pause_s, float)
    async with AsyncClient(
        "http://127.0.0.1:8080", token=lambda: "secret", timeout_s=5, retries=retries, verify=False
    ) as client:
        assert_type(client, AsyncClient)
        assert_type(await client.stores(), list[StoreSummary])
        assert_type(await client.status(), dict[str, Any])
        assert_type(await client.topology(), dict[str, Any])
        assert_type(await client.sql("SELECT 1", wait_s=1), SqlRows)
        assert_type(
            await client.store("departures"),
            AsyncWindowStoreClient
            | AsyncSessionStoreClient
            | AsyncKeyValueStoreClient
            | AsyncVersionedStoreClient,
        )
        assert_type(client.window_store("departures"), AsyncWindowStoreClient)
        assert_type(client.session_store("visits"), AsyncSessionStoreClient)
        assert_type(client.key_value_store("totals"), AsyncKeyValueStoreClient)
        assert_type(client.versioned_store("prices"), AsyncVersionedStoreClient)
        assert_type(await client.close(), None)


async def windows(store: AsyncWindowStoreClient) -> None:
    """Reads of windows."""
    assert_type(store.name, str)
    assert_type(store.at_least(Position(version=3), wait_s=5), AsyncWindowStoreClient)
    assert_type(await store.describe(), dict[str, Any])
    assert_type(await store.position(), Position)
    assert_type(await store.wait_for(Position(offsets={"flights": {0: 10}})), Position)
    assert_type(store.keys("E", limit=10), AsyncResults[str])
    assert_type(store.watch("EWR", after=3), AsyncIterator[Change[Window]])
    assert_type(store.fetch("EWR", 0, "2013-01-02", limit=20, final=True), AsyncResults[Window])
    assert_type(store.backward_fetch("EWR", time_to=datetime.now(UTC)), AsyncResults[Window])
    assert_type(store.covering("EWR", 10), AsyncResults[Window])
    assert_type(store.fetch_range("EWR", "JFK", columns=["departures"]), AsyncResults[Window])
    assert_type(store.backward_fetch_range(key_to="JFK", page_size=100), AsyncResults[Window])
    assert_type(store.fetch_all(0, 100), AsyncResults[Window])
    assert_type(store.backward_fetch_all(), AsyncResults[Window])
    assert_type(store.all(), AsyncResults[Window])
    assert_type(store.backward_all(limit=5), AsyncResults[Window])
    assert_type(store.latest_all(prefix="E"), AsyncResults[Window])
    assert_type(store.current_all("EWR", "JFK"), AsyncResults[Window])
    assert_type(store.merged("EWR", 0, step_ms=60_000, final=True), AsyncResults[Window])
    assert_type(store.merged_all(prefix="E", step_ms=60_000), AsyncResults[Window])
    assert_type(store.merged_of_keys(["EWR"], step_ms=60_000, limit=5), AsyncResults[Window])
    assert_type(store.latest_of_keys(["EWR", 7]), AsyncResults[Window])
    assert_type(store.current_of_keys(["EWR"]), AsyncResults[Window])
    assert_type(store.fetch_of_keys(["EWR"], 0, 100), AsyncResults[Window])
    assert_type(store.backward_fetch_of_keys(["EWR"], limit=5), AsyncResults[Window])
    assert_type(await store.latest(("EWR", 42)), Window | None)
    assert_type(await store.current("EWR", columns=["departures"]), Window | None)
    assert_type(await store.window("EWR", 0), Window | None)


async def sessions(store: AsyncSessionStoreClient) -> None:
    """Reads of sessions: those of windows, and by overlap."""
    assert_type(store.at_least(Position(version=3), wait_s=5), AsyncSessionStoreClient)
    assert_type(store.find_sessions("EWR", 0, 100), AsyncResults[Window])
    assert_type(store.backward_find_sessions("EWR"), AsyncResults[Window])
    assert_type(store.find_sessions_range("EWR", None, 0, 100), AsyncResults[Window])
    assert_type(store.backward_find_sessions_range(limit=5), AsyncResults[Window])
    assert_type(await store.fetch_session("EWR", 0, 100), Window | None)


async def rows(store: AsyncKeyValueStoreClient) -> None:
    """Reads of a store without windows."""
    assert_type(store.name, str)
    assert_type(store.at_least(Position(version=3), wait_s=5), AsyncKeyValueStoreClient)
    assert_type(await store.describe(), dict[str, Any])
    assert_type(await store.position(), Position)
    assert_type(await store.wait_for(Position(offsets={"flights": {0: 10}})), Position)
    assert_type(store.keys("E", limit=10), AsyncResults[str])
    assert_type(store.watch("EWR", after=3), AsyncIterator[Change[Row]])
    assert_type(await store.get("EWR"), Row | None)
    assert_type(store.get_of_keys(["EWR", "JFK"]), AsyncResults[Row])
    assert_type(await store.approximate_num_entries(), int)
    assert_type(store.range("EWR", None, limit=5), AsyncResults[Row])
    assert_type(store.reverse_range(), AsyncResults[Row])
    assert_type(store.prefix_scan("E"), AsyncResults[Row])
    assert_type(store.all(columns=["departures"]), AsyncResults[Row])
    assert_type(store.reverse_all(), AsyncResults[Row])


async def versions(store: AsyncVersionedStoreClient) -> None:
    """Reads of versions, in addition to those of rows."""
    assert_type(store.at_least(Position(version=3), wait_s=5), AsyncVersionedStoreClient)
    assert_type(await store.get_as_of("tea", 5, columns=["price"]), Version | None)
    assert_type(store.versions("tea", 0, "2013-01-02", limit=5), AsyncResults[Version])
    assert_type(store.backward_versions("tea", columns=["price"]), AsyncResults[Version])


async def pages(results: AsyncResults[Window]) -> None:
    """All items of a read: one by one, in pages, as tables."""
    assert_type(await results.list(), list[Window])
    assert_type(results.pages(), AsyncIterator[Page[Window]])
    assert_type(results.bodies("text/csv"), AsyncIterator[bytes])
    assert_type(await results.page_unless(None), Page[Window] | None)
    assert_type(results.watch(every_s=2), AsyncIterator[Page[Window]])
    # pyarrow ships no types.
    assert_type(await results.to_arrow(), pa.Table)  # pyright: ignore[reportUnknownMemberType]
    assert_type(await results.to_pandas(), pd.DataFrame)
    assert_type(await results.to_polars(), pl.DataFrame)
    async for window in results:
        assert_type(window, Window)
