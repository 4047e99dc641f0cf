"""Tests of event streams of current windows, and of selected columns."""

import asyncio
import random
import string
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from oriel.app.push import current as push_current
from oriel.app.push import streams as push_streams
from oriel.app.server import Service
from oriel.storage import WindowSpec
from oriel.storage.shards import Shard
from tests.app.api_client import ApiClient, Served, index_store, served
from tests.app.problem_shape import assert_problem
from tests.app.test_event_streams import ROOT, Event, events_of
from tests.storage.store_tables import (
    NONE,
    SESSION,
    SLIDING,
    TUMBLING,
    Row,
    StoreTable,
    make_definition,
)


def _watch(store: Served, query: str, after: str | None = None) -> list[Event]:
    """Return all events that a stream has to send at the moment."""
    headers = [] if after is None else [("Last-Event-ID", after)]
    response = store.get(f"{ROOT}/watch?for_ms=1{query}", headers)
    assert response.status == 200, response.body
    return events_of(response.body)


def _current_all(store: Served, query: str = "") -> list[Any]:
    windows: list[Any] = store.get(f"{ROOT}/currentAll?limit=1000{query}").json["windows"]
    return windows


def _rows(chance: random.Random, window: WindowSpec) -> list[Row]:
    """Return random changed and removed windows, each window once."""
    rows: dict[tuple[str, int, int], Row] = {}
    for _ in range(chance.randrange(12)):
        key, start = chance.choice(string.ascii_letters), chance.randrange(40)
        end = start + (chance.randrange(20) if window.kind.is_session else window.size_ms)
        last = end if window.kind.is_session else chance.randrange(start, end)
        rows[key, start, end] = {
            "key": key, "start": start, "end": end, "timestamp": last,
            "n": chance.randrange(1_000), "deleted": chance.random() < 0.4,
        }  # fmt: skip
    return list(rows.values())


@pytest.mark.parametrize("window", [SLIDING, TUMBLING, SESSION])
@pytest.mark.parametrize("seed", range(2))
def test_a_client_that_applies_current_windows_has_those_of_current_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, window: WindowSpec, seed: int
) -> None:
    """After any commits and reconnects, a client's windows equal the result of `currentAll`."""
    monkeypatch.setattr(push_streams, "_EVENT_BYTES", 300)
    monkeypatch.setattr(push_streams, "_VERSIONS_MAX", 2)
    monkeypatch.setattr(push_current, "CACHE_BYTES", 3_000)
    chance = random.Random(seed)
    columns = "" if seed % 2 else "&columns=n,last"
    with served(tmp_path, window=window) as made:
        made.commit(*_rows(chance, window))
        known = {one["key"]: one for one in _current_all(made, columns)}
        at = _watch(made, "&current=true")[0].id
        for is_last in (False,) * 8 + (True,):
            for _ in range(chance.randrange(4)):
                made.table.commit(_rows(chance, window))
            made.index()
            events = _watch(made, f"&current=true{columns}", at)
            received = len(events) if is_last else chance.randrange(len(events) + 1)
            for event in events[:received]:
                keys = [one["key"] for one in (*event.data["windows"], *event.data["removed"])]
                assert len(set(keys)) == len(keys)
                known |= {one["key"]: one for one in event.data["windows"]}
                for one in event.data["removed"]:
                    known.pop(one["key"], None)
                at = event.id
        assert [known[key] for key in sorted(known)] == _current_all(made, columns)
        assert _watch(made, "&current=true", at) == []


def test_versions_in_between_become_one_event(changing: Served) -> None:
    """Several versions become one event with one window per changed key, from the newest one."""
    (begin,) = _watch(changing, "&current=true")
    for n in range(3):
        changing.commit({"key": "b", "start": 60 + n, "n": n}, {"key": "a", "start": 70, "n": n})
    (event,) = _watch(changing, "&current=true", begin.id)
    assert (event.name, event.data["position"]["version"]) == ("change", 4)
    assert sorted(event.data["windows"], key=lambda one: str(one["key"])) == _current_all(changing)
    assert event.data["removed"] == []
    (only,) = _watch(changing, "&current=true&key=b&key=x", begin.id)
    assert [(one["key"], one["n"]) for one in only.data["windows"]] == [("b", 2)]


def test_an_event_has_the_least_start_of_the_changed_windows(tmp_path: Path) -> None:
    """`changed_from_ms` is the least start of the watched windows that any version changed."""
    with served(tmp_path, window=TUMBLING) as store:
        store.commit(*({"key": key, "start": start} for key in "ab" for start in (10, 20, 30)))
        store.commit({"key": "a", "start": 30, "n": 2}, {"key": "b", "start": 10, "n": 2})
        store.commit({"key": "a", "start": 20, "deleted": True})
        for query, least in (("", 10), ("&key=a", 20), ("&key=b", 10)):
            *_, event = _watch(store, f"&current=true{query}", after="1")
            assert event.data["changed_from_ms"] == least


def test_a_key_without_a_window_is_removed(tmp_path: Path) -> None:
    """If the newest session of a key is removed, an older one is current, or the key is removed."""
    with served(tmp_path, window=SESSION) as made:
        first, second = ({"key": "a", "start": start, "end": start + 2} for start in (10, 50))
        made.commit(first, second)
        (begin,) = _watch(made, "&current=true")
        made.commit({**second, "deleted": True})
        (older,) = _watch(made, "&current=true", begin.id)
        assert [one["window_start_ms"] for one in older.data["windows"]] == [10]
        made.commit({**first, "deleted": True})
        (removal,) = _watch(made, "&current=true", older.id)
        assert (removal.data["windows"], removal.data["removed"]) == ([], [{"key": "a"}])


def test_columns_select_the_aggregates_of_a_stream(changing: Served) -> None:
    """Windows of a stream only have the aggregates in `columns`, also in events with removals."""
    (begin,) = _watch(changing, "&columns=n")
    changing.commit({"key": "a", "start": 60, "n": 7}, {"key": "b", "start": 10, "deleted": True})
    fixed = {"key", "window_start_ms", "window_end_ms", "timestamp_ms", "final"}
    for query, names in (("&columns=n", {"n"}), ("&columns=mean,n", {"mean", "n"}),
                         ("&columns=", set[str]())):  # fmt: skip
        (event,) = _watch(changing, query, begin.id)
        assert [set(window) for window in event.data["windows"]] == [fixed | names]
        assert [one["key"] for one in event.data["removed"]] == ["b"]


def test_streams_of_the_same_columns_share_their_rows(changing: Served) -> None:
    """A version is read once for all streams, and encoded once per selection of columns."""
    (begin,) = _watch(changing, "")
    changing.commit({"key": "a", "start": 60}, {"key": "b", "start": 60})
    streams = changing.service.streams

    async def run(queries: Sequence[str]) -> list[bytes]:
        targets = [f"{ROOT}/watch?for_ms=1&after={begin.id}{query}" for query in queries]
        responses = await asyncio.gather(*map(changing.client.call, targets))
        return [response.body for response in responses]

    asyncio.run(run(["&columns=n,mean"] * 9 + ["&columns=mean,n"] * 9 + [""]))
    assert (streams.reader.reads, len(streams.reader._kept)) == (1, 2)
    bodies = asyncio.run(run(["&current=true&columns=n"] * 9))
    assert len(set(bodies)) == 1
    assert (streams.reader.reads, streams.current.reads) == (1, 2)


def test_a_stream_of_a_shard_does_not_remove_the_keys_of_others(tmp_path: Path) -> None:
    """A stream of a shard has no changes of the keys of other shards."""
    keys = [f"k{number}" for number in range(20)]
    shard = Shard(1, 2)
    table = StoreTable(tmp_path, make_definition())
    table.commit([{"key": "k0", "start": 1}])
    service = Service(tmp_path, shard=shard)
    target = f"{ROOT}/watch?for_ms=1&current=true"

    def events(after: Sequence[str] = ()) -> list[Event]:
        service.catalog.close()
        index_store(service.catalog.layout, "store")
        headers = [("Last-Event-ID", one) for one in after]
        return events_of(ApiClient(service).get(target, headers).body)

    (begin,) = events()
    table.commit([{"key": key, "start": 5} for key in keys])
    (event,) = events([begin.id])
    own = [key for key in keys if shard.owner(key) == shard.number]
    assert sorted(one["key"] for one in event.data["windows"]) == sorted(own)
    assert event.data["removed"] == []
    service.catalog.close()


def test_what_a_stream_of_current_windows_cannot_send_is_rejected(
    changing: Served, tmp_path: Path
) -> None:
    """Unknown columns, other values than true or false, and stores without windows are rejected."""
    for query, word in (("columns=x", "'x' does not exist"), ("current=yes", "true or false")):
        assert_problem(changing.get(f"{ROOT}/watch?{query}"), 400, "invalid-parameter", word)
    with served(tmp_path / "rows", window=NONE) as made:
        made.commit({"key": "a", "n": 1})
        response = made.get(f"{ROOT}/watch?current=true")
        assert_problem(response, 400, "invalid-parameter", "has no windows")
        (begin,) = _watch(made, "&columns=n&current=false")
        made.commit({"key": "a", "n": 2})
        (event,) = _watch(made, "&columns=n", begin.id)
        assert [set(row) for row in event.data["rows"]] == [{"key", "n", "timestamp_ms"}]


def test_a_stream_of_current_windows_resets_as_any_stream(changing: Served) -> None:
    """If the log lacks a version, a stream of current windows sends a reset."""
    (begin,) = _watch(changing, "&current=true")
    changing.commit({"key": "a", "start": 60})
    changing.commit({"key": "a", "start": 70})
    changing.table.entry(2).unlink()
    (reset,) = _watch(changing, "&current=true", begin.id)
    assert (reset.name, reset.data["position"]["version"]) == ("reset", 3)
