"""Tests of both clients with a real service: every read, pages, positions and tables."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from oriel.client import (
    AsyncClient,
    AsyncKeyValueStoreClient,
    AsyncSessionStoreClient,
    Client,
    InvalidRequest,
    KeyValueStoreClient,
    Position,
    PositionNotReached,
    SessionStoreClient,
    UnknownStore,
    WindowStoreClient,
    results,
)
from tests.client.conftest import HOSTILE_KEYS, Running
from tests.storage.waiting import wait_in_loop


def _with_async(running: Running, use: Callable[[AsyncClient], Awaitable[Any]]) -> Any:
    async def run() -> Any:
        async with AsyncClient(running.url) as client:
            return await use(client)

    return asyncio.run(run())


def test_windows_come_page_by_page(client: Client) -> None:
    """Windows are read page by page, in both directions, within bounds and up to a limit."""
    store = client.window_store("store")
    assert [w.start_ms for w in store.fetch("a", page_size=4)] == list(range(10, 260, 10))
    newest = store.backward_fetch("a", limit=7, page_size=3)
    assert [w.start_ms for w in newest] == list(range(250, 180, -10))
    assert [len(page.items) for page in newest.pages()] == [3, 3, 1]
    since = datetime(1970, 1, 1, microsecond=20_000, tzinfo=UTC)
    inside = store.fetch("a", since, "1970-01-01T00:00:00.040Z")
    assert [w["n"] for w in inside] == [2, 3, 4]
    assert store.fetch("nobody").list() == []


def test_windows_and_rows_are_selected(client: Client) -> None:
    """Conditions, orders and ``top`` select the items of paged and of listed reads."""
    store = client.window_store("store")
    chosen = store.fetch("a", where="n % 10 = 0", order_by=["-n"], page_size=1)
    assert [window["n"] for window in chosen] == [20, 10]
    of_two = "key IN ('a', 'big')"
    first = store.all(where=of_two, order_by=["mean", "-n"], top=2, columns=["n"])
    assert [(window.key, window["n"]) for window in first] == [("big", 2**63 - 1), ("a", 25)]
    listed = store.current_of_keys(["a", "big"], where="n < 100")
    assert [window.key for window in listed] == ["a"]
    totals = client.key_value_store("totals")
    assert [row["n"] for row in totals.get_of_keys(["a"], where="key LIKE 'a%'")] == [7]
    with pytest.raises(InvalidRequest, match="'m' does not exist"):
        store.all(where="m > 1").list()


def test_windows_are_merged(client: Client) -> None:
    """Ranges are windows of the step, in pages, of one key or of listed keys."""
    store = client.window_store("turns")
    ranges = store.merged("a", step_ms=100, columns=["n"], page_size=1).list()
    assert [(r.start_ms, r.end_ms, r["n"]) for r in ranges] == [
        (0, 100, 45), (100, 200, 145), (200, 300, 110),
    ]  # fmt: skip
    assert set(ranges[0]) == {"n"}
    inside = store.merged("a", 100, 199, step_ms=50, columns=["n"], order_by=["-n"])
    assert [r["n"] for r in inside] == [85, 60]
    listed = store.merged_of_keys(["none", "a"], step_ms=1000, columns=["n"])
    assert [(r.key, r["n"]) for r in listed] == [("a", 300)]
    assert [w["n"] for w in store.merged("a", columns=["n"], limit=3)] == [0, 1, 2]
    every = store.merged_all(key_to="a", step_ms=1000, columns=["n"])
    assert [(r.key, r["n"]) for r in every] == [("a", 300)]
    assert store.merged_all(prefix="b", columns=["n"]).list() == []
    with pytest.raises(InvalidRequest, match="Send columns=n"):
        store.merged("a", step_ms=100).list()
    with pytest.raises(InvalidRequest, match="multiple of 10"):
        store.merged("a", step_ms=15, columns=["n"]).list()


def test_one_window_is_there_or_none(client: Client) -> None:
    """A read of one window returns its aggregates and times, or None without such a window."""
    store = client.window_store("store")
    latest = store.latest("a")
    assert latest is not None
    assert (latest.key, latest.start_ms, latest.end_ms, latest["n"]) == ("a", 250, 260, 25)
    assert latest.start == datetime(1970, 1, 1, microsecond=250_000, tzinfo=UTC)
    assert latest.end > latest.start
    assert latest.timestamp.tzinfo is UTC
    assert set(latest) == {"n", "mean", "last", "all"}
    assert len(latest) == 4
    assert store.window("a", 250) == latest
    assert store.window("a", 251) is None
    assert store.latest("nobody") is None
    big = store.latest("big")
    assert big is not None
    assert (big["n"], big["mean"]) == (2**63 - 1, None)


@pytest.mark.parametrize("at", range(len(HOSTILE_KEYS)))
def test_every_key_can_be_read(client: Client, at: int) -> None:
    """Keys with any characters can be read, including parent paths and slashes."""
    found = client.window_store("store").latest(HOSTILE_KEYS[at])
    assert found is not None
    assert (found.key, found["n"]) == (HOSTILE_KEYS[at], at)


def test_keys_are_listed(client: Client) -> None:
    """Keys are listed in byte order, all or with a prefix."""
    store = client.window_store("store")
    keys = store.keys(page_size=2).list()
    assert keys == sorted(keys, key=str.encode)
    assert {*HOSTILE_KEYS, "a", "big"} <= set(keys)
    assert store.keys("a/").list() == ["a/../b", "a//b"]


def test_sessions_and_rows_have_their_own_stores(client: Client) -> None:
    """``store`` returns the class for the store's kind."""
    visits = client.store("visits")
    assert isinstance(visits, SessionStoreClient)
    assert [s.start_ms for s in visits.find_sessions("a", 20, 45)] == [10, 40]
    assert [s.start_ms for s in visits.backward_find_sessions("a", 21)] == [40]
    assert visits.fetch_session("a", 40, 91) is None
    session = visits.fetch_session("a", 40, 90)
    assert session is not None
    assert session.end_ms == 90
    totals = client.store("totals")
    assert isinstance(totals, KeyValueStoreClient)
    row = totals.get("a")
    assert row is not None
    assert (row["n"], totals.get("b")) == (7, None)
    assert type(client.store("store")) is WindowStoreClient


def test_stores_describe_themselves(client: Client) -> None:
    """The list and the description have the properties of a store."""
    listed = {store.name: store for store in client.stores()}
    assert {name: store.kind for name, store in listed.items()} == {
        "store": "sliding", "totals": "none", "turns": "tumbling", "visits": "session",
    }  # fmt: skip
    assert listed["totals"].aggregates == ("n", "mean", "last", "all")
    store = client.window_store("store")
    assert store.describe()["definition"]["name"] == store.name == "store"
    assert listed["store"].position == store.position()


def test_what_the_service_refuses_is_an_exception(client: Client) -> None:
    """A problem of the service becomes an exception of its code with the service's message."""
    with pytest.raises(
        UnknownStore, match="The stores are: store, totals, turns, visits"
    ) as unknown:
        client.store("nope")
    assert (unknown.value.code, unknown.value.status) == ("unknown-store", 404)
    assert unknown.value.instance == "/v1/stores/nope"
    with pytest.raises(InvalidRequest, match="Use one of: findSessions"):
        client.key_value_store("visits").get("a")
    with pytest.raises(InvalidRequest, match="from_ms must be an integer"):
        client.window_store("store").fetch("a", "yesterday").list()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"limit": 0}, "limit is 0. It must be at least 1"),
        ({"page_size": 10_001}, "page_size is 10001. It must be from 1 to 10,000"),
        ({"time_from": datetime(2013, 1, 1)}, "has no time zone"),  # noqa: DTZ001
    ],
)
def test_what_can_not_be_is_refused_here(
    client: Client, arguments: dict[str, Any], message: str
) -> None:
    """The client rejects invalid arguments before it sends a request."""
    with pytest.raises(ValueError, match=message):
        client.window_store("store").fetch("a", **arguments)


def test_a_writer_reads_what_it_wrote(client: Client, running: Running) -> None:
    """A client can wait for a position, and a position that is not reached is an exception."""
    store = client.window_store("store")
    version = running.table.commit([{"key": "written", "start": 10, "n": 1}])
    reached = store.wait_for(Position(version))
    assert reached.version >= version
    assert reached.offsets["events"][0] == 100 * version
    demanding = store.at_least(Position(offsets={"events": {0: 100 * version}}))
    assert demanding.latest("written") is not None
    with pytest.raises(PositionNotReached, match="has not reached the position"):
        store.wait_for(Position(version + 1_000), wait_s=0.05)
    with pytest.raises(PositionNotReached):
        store.at_least(Position(version + 1_000), wait_s=0).latest("written")


@pytest.mark.slow
def test_results_become_tables(client: Client) -> None:
    """Several pages become an Arrow, pandas or Polars table with the types of the store."""
    read = client.window_store("store").fetch("a", limit=20, page_size=6)
    table = read.to_arrow()
    assert table["n"].to_pylist() == list(range(1, 21))
    assert str(table.schema.field("window_start").type) == "timestamp[us, tz=UTC]"
    frame = read.to_pandas()
    assert (len(frame), str(frame["n"].dtype)) == (20, "int64")
    assert read.to_polars()["n"].to_list() == list(range(1, 21))
    assert client.window_store("store").fetch("nobody").to_arrow().num_rows == 0
    assert client.window_store("store").keys("b").to_pandas()["key"].tolist() == ["big"]
    of_keys = client.window_store("store").fetch_of_keys(["big", "a"], limit=20, page_size=6)
    assert of_keys.to_arrow()["n"].to_pylist() == [2**63 - 1, *range(1, 20)]


def test_integers_with_gaps_keep_all_digits(client: Client, running: Running) -> None:
    """64-bit integers with nulls keep all digits in pandas, instead of becoming doubles."""
    version = running.table.commit([
        {"key": "gaps", "start": 10, "n": 2**63 - 1}, {"key": "gaps", "start": 20, "n": None},
    ])  # fmt: skip
    store = client.window_store("store").at_least(Position(version))
    frame = store.fetch("gaps").to_pandas()
    assert frame["n"][0] == 2**63 - 1
    assert frame["n"].isna().tolist() == [False, True]


def test_watching_receives_changes(client: Client, running: Running) -> None:
    """Watching a page returns the current page, and then each changed page."""
    running.table.commit([{"key": "watched", "start": 10, "n": 1}])
    client.window_store("store").wait_for(Position(running.table.batch + 1))
    pages = client.window_store("store").backward_fetch("watched", limit=2).watch(every_s=0.01)
    assert [w["n"] for w in next(pages).items] == [1]
    running.table.commit([{"key": "watched", "start": 20, "n": 2}])
    assert [w["n"] for w in next(pages).items] == [2, 1]


def test_the_asynchronous_client_watches_too(
    client: Client, running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The asynchronous client requests the page again until it has changed."""
    sleep, sleeps = asyncio.sleep, list[float]()

    async def counted_sleep(seconds: float) -> None:
        sleeps.append(seconds)
        await sleep(seconds)

    monkeypatch.setattr(results, "asyncio", SimpleNamespace(sleep=counted_sleep))
    running.table.commit([{"key": "awaited", "start": 10, "n": 1}])
    client.window_store("store").wait_for(Position(running.table.batch + 1))

    async def watch(other: AsyncClient) -> list[Any]:
        pages = other.window_store("store").backward_fetch("awaited", limit=2).watch(every_s=0.01)
        first = await anext(pages)
        next_page = asyncio.ensure_future(anext(pages))
        await wait_in_loop(lambda: len(sleeps) > 2, "two requests after the first page")
        assert not next_page.done()
        running.table.commit([{"key": "awaited", "start": 20, "n": 2}])
        return [[window["n"] for window in page.items] for page in (first, await next_page)]

    assert _with_async(running, watch) == [[1], [2, 1]]


def test_the_asynchronous_client_reads_the_same(client: Client, running: Running) -> None:
    """Each read of the asynchronous client returns the same as the synchronous one."""

    async def read(other: AsyncClient) -> list[Any]:
        store = other.window_store("store")
        visits = await other.store("visits")
        totals = await other.store("totals")
        assert isinstance(visits, AsyncSessionStoreClient)
        assert isinstance(totals, AsyncKeyValueStoreClient)
        return [
            await other.stores(),
            [window async for window in store.fetch("a", page_size=4)],
            await store.backward_fetch("a", limit=3).list(),
            await store.latest("a"),
            await store.window("a", 11),
            await store.keys("b").list(),
            await visits.find_sessions("a", 20).list(),
            await visits.backward_find_sessions("a").list(),
            await visits.fetch_session("a", 10, 20),
            await totals.get("a"),
            await store.wait_for(Position(1)),
            (await store.fetch("a", page_size=9).to_arrow()).to_pylist(),
            (await store.fetch("a").to_pandas())["n"].tolist(),
            (await store.fetch("a").to_polars())["n"].to_list(),
            await anext(store.fetch("a", limit=2).watch()),
        ]

    store = client.window_store("store")
    visits, totals = client.session_store("visits"), client.key_value_store("totals")
    assert _with_async(running, read) == [
        client.stores(),
        store.fetch("a").list(),
        store.backward_fetch("a", limit=3).list(),
        store.latest("a"),
        None,
        ["big"],
        visits.find_sessions("a", 20).list(),
        visits.backward_find_sessions("a").list(),
        visits.fetch_session("a", 10, 20),
        totals.get("a"),
        store.position(),
        store.fetch("a").to_arrow().to_pylist(),
        store.fetch("a").to_pandas()["n"].tolist(),
        list(range(1, 26)),
        next(store.fetch("a", limit=2).watch()),
    ]


def test_long_responses_arrive_compressed(running: Running) -> None:
    """The client accepts gzip, decodes it, and can turn it off."""
    codings = []

    def note(response: httpx.Response) -> None:
        codings.append(response.headers.get("content-encoding"))

    pages = []
    for headers in ({}, {"Accept-Encoding": "identity"}):
        hooks = {"response": [note]}
        with Client(running.url, event_hooks=hooks, headers=headers) as client:
            pages.append(list(client.window_store("store").fetch("a")))
    assert codings == ["gzip", None]
    assert len(pages[0]) == 25
    assert pages[0] == pages[1]
