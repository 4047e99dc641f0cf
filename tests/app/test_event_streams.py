"""Tests of event streams: each change is sent once, in order, over any number of reconnects."""

import asyncio
import gc
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import orjson
import pytest
from deltalake import DeltaTable, write_deltalake

from oriel.app.push import streams as push_streams
from oriel.app.reads import changes as push_changes
from tests.app.api_client import ApiResponse, Served, served
from tests.app.problem_shape import assert_problem
from tests.app.serving import Serving
from tests.storage.store_tables import NONE, SESSION, VERSIONED, StoreTable, make_definition

ROOT = "/v1/stores/store"


class Event(NamedTuple):
    """One event as a browser passes it to a page."""

    name: str
    id: str
    data: Any


def events_of(body: bytes) -> list[Event]:
    """Return the events of a stream, without heartbeats."""
    events = []
    for block in body.decode().split("\n\n"):
        fields = dict(line.partition(": ")[::2] for line in block.split("\n") if line)
        if "data" in fields:
            events.append(Event(fields["event"], fields["id"], orjson.loads(fields["data"])))
    return events


def _watch(
    store: Served, after: str | None = None, keys: Sequence[str] = (), for_ms: int = 1
) -> list[Event]:
    """Return all events that a stream has to send at the moment."""
    query = "".join(f"&key={key}" for key in keys)
    headers = [] if after is None else [("Last-Event-ID", after)]
    response = store.get(f"{ROOT}/watch?for_ms={for_ms}{query}", headers)
    assert (response.status, response.headers["content-type"]) == (200, "text/event-stream")
    return events_of(response.body)


def _starts(event: Event) -> list[int]:
    return [window["window_start_ms"] for window in event.data["windows"]]


def test_a_stream_begins_with_the_position(changing: Served) -> None:
    """A stream starts with the position, and sends later changes in the response format."""
    (begin,) = _watch(changing)
    assert (begin.name, begin.data["store"]) == ("position", "store")
    assert begin.data["position"] == changing.get(ROOT).json["position"]
    assert begin.id == "1-{history}".format_map(begin.data["position"])
    changing.commit({"key": "b", "start": 70}, {"key": "a", "start": 60, "n": 7})
    (change,) = _watch(changing, begin.id)
    assert change.name == "change"
    assert change.data["position"] == changing.get(f"{ROOT}/latest/a").json["position"]
    assert sorted(_starts(change)) == [60, 70]
    assert changing.get(f"{ROOT}/latest/a").json["windows"][0] in change.data["windows"]
    assert change.data["removed"] == []
    assert _watch(changing, change.id) == []


def test_only_changes_of_watched_keys_are_sent(changing: Served) -> None:
    """Only changes of the watched keys are sent, for one, several or unknown keys."""
    (begin,) = _watch(changing)
    rows = [{"key": key, "start": 100 + i} for i, key in enumerate("abcab")]
    changing.commit(*rows)
    for keys, starts in ((["a"], [100, 103]), (["c", "b", "b"], [101, 102, 104]), (["x"], [])):
        received = [start for one in _watch(changing, begin.id, keys) for start in _starts(one)]
        assert sorted(received) == starts


def test_a_version_is_read_once_for_all_who_watch(changing: Served) -> None:
    """A version is read once for all streams."""
    (begin,) = _watch(changing)
    for start in (60, 70, 80):
        changing.commit({"key": "a", "start": start})
    reader = changing.service.streams.reader

    async def run() -> list[ApiResponse]:
        target = f"{ROOT}/watch?for_ms=1&after={begin.id}"
        return await asyncio.gather(*(changing.client.call(target) for _ in range(50)))

    received = {
        tuple(one.id for one in events_of(response.body)) for response in asyncio.run(run())
    }
    assert len(received) == 1
    assert reader.reads == 3


def test_a_version_may_be_named_without_an_id(changing: Served) -> None:
    """A client can start a stream after the version of a response."""
    changing.commit({"key": "a", "start": 60})
    response = changing.get(f"{ROOT}/watch?for_ms=1&after=1")
    assert [_starts(event) for event in events_of(response.body)] == [[60]]


def test_compaction_changes_nothing(changing: Served) -> None:
    """A compaction sends no event, and the stream continues after it."""
    (begin,) = _watch(changing)
    changing.commit({"key": "a", "start": 60})
    DeltaTable(changing.table.path).optimize.compact()
    changing.commit({"key": "a", "start": 70})
    received = _watch(changing, begin.id)
    assert [_starts(event) for event in received] == [[60], [70]]


def _delete(store: Served) -> None:
    DeltaTable(store.table.path).delete("n = 10")


def _append(store: Served) -> None:
    rows = store.table.arrow([{"key": "a", "start": 90, "revision": 0}])
    write_deltalake(store.table.path, rows, mode="append")


def _vacuum(store: Served) -> None:
    store.commit({"key": "a", "start": 60})
    table = DeltaTable(store.table.path)
    table.optimize.compact()
    table.vacuum(0, dry_run=False, enforce_retention_duration=False)


def _clean_up(store: Served) -> None:
    store.commit({"key": "a", "start": 60})
    store.commit({"key": "a", "start": 70})
    DeltaTable(store.table.path).create_checkpoint()
    store.table.entry(2).unlink()


@pytest.mark.parametrize("change", [_delete, _append, _vacuum, _clean_up])
def test_changes_that_are_not_known_per_row_are_a_reset(changing: Served, change: Any) -> None:
    """Changes that cannot be sent row by row cause a reset event with the new position."""
    (begin,) = _watch(changing)
    change(changing)
    changing.index()
    reset, *others = _watch(changing, begin.id)
    assert (reset.name, others) == ("reset", [])
    assert reset.data["reason"]
    version = changing.get(ROOT).json["position"]["version"]
    assert reset.data["position"]["version"] == version


def test_another_table_of_the_name_is_a_reset(store: Served, tmp_path: Path) -> None:
    """Another table with the same name causes a reset, although its version numbers are equal."""
    store.commit({"key": "a", "start": 10})
    (begin,) = _watch(store)
    with served(tmp_path / "another") as another:
        another.commit({"key": "a", "start": 10})
        another.commit({"key": "a", "start": 20})
        assert [event.name for event in _watch(another, begin.id)] == ["reset"]


@pytest.mark.parametrize("after", ["x", "-1", "1.x-a-b", "1-xyz-1", "9" * 30])
def test_an_id_that_is_none_is_refused(changing: Served, after: str) -> None:
    """An invalid id is rejected in the header and in the query."""
    for response in (
        changing.get(f"{ROOT}/watch", [("Last-Event-ID", after)]),
        changing.get(f"{ROOT}/watch?after={after}"),
    ):
        assert_problem(response, 400, "invalid-parameter", "after must be the `id`")


def test_merged_sessions_are_reported_as_removed(tmp_path: Path) -> None:
    """Merged sessions are removed in the same event that has the merged session."""
    with served(tmp_path, window=SESSION) as made:
        made.commit({"key": "a", "start": 10, "end": 12}, {"key": "a", "start": 20, "end": 22})
        (begin,) = _watch(made)
        deleted = [{"key": "a", "start": 10, "end": 12}, {"key": "a", "start": 20, "end": 22}]
        made.commit(
            {"key": "a", "start": 10, "end": 22}, *({**row, "deleted": True} for row in deleted)
        )
        (change,) = _watch(made, begin.id)
    assert _starts(change) == [10]
    assert change.data["removed"] == [
        {"key": "a", "window_start_ms": row["start"], "window_end_ms": row["end"]}
        for row in deleted
    ]


def test_a_store_without_windows_reports_rows(tmp_path: Path) -> None:
    """Events of a store without windows have `rows`, as its responses do."""
    with served(tmp_path, window=NONE) as made:
        made.commit({"key": "a", "n": 1})
        (begin,) = _watch(made)
        made.commit({"key": "a", "n": 2}, {"key": "b", "n": 3, "deleted": True})
        (change,) = _watch(made, begin.id)
    assert [row["n"] for row in change.data["rows"]] == [2]
    assert change.data["removed"] == [{"key": "b"}]


def test_a_store_with_versions_reports_the_newest_rows(tmp_path: Path) -> None:
    """A version that has ended or left the history is not a change. A tombstone removes a row."""
    with served(tmp_path, window=VERSIONED) as made:
        made.commit({"key": "a", "start": 10, "n": 1})
        (begin,) = _watch(made)
        made.commit(
            {"key": "a", "start": 30, "n": 3}, {"key": "a", "start": 20, "n": 2, "final": True},
            {"key": "a", "start": 10, "deleted": True}, {"key": "b", "start": 30, "end": 30},
            {"key": "c", "start": 5, "n": 5, "final": True},
        )  # fmt: skip
        (change,) = _watch(made, begin.id)
        made.commit({"key": "a", "start": 5, "n": 5, "final": True})
        later = _watch(made, change.id)
    assert [(row["key"], row["n"]) for row in change.data["rows"]] == [("a", 3)]
    assert change.data["removed"] == [{"key": "b"}]
    assert [event.data["rows"] for event in later] == []


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_nothing_is_lost_or_repeated_over_any_reconnects(
    changing: Served, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """A stream that is cut after random events and resumed there sends each change once."""
    monkeypatch.setattr(push_streams, "_EVENT_BYTES", 400)
    monkeypatch.setattr(push_changes, "CACHE_BYTES", 10_000)
    chance = random.Random(seed)
    at = _watch(changing)[0].id
    expected: list[tuple[str, int, int]] = []
    keys = ["a", "c"] if seed % 2 else []
    received: list[tuple[str, int, int]] = []
    for number in range(8):
        starts = chance.sample(range(1_000), chance.randrange(20))
        written = [(chance.choice("abc"), start, number) for start in starts]
        changing.commit(*({"key": key, "start": start, "n": n} for key, start, n in written))
        expected += [row for row in written if not keys or row[0] in keys]
        events = _watch(changing, at, keys)
        for event in events[: chance.randrange(len(events) + 1)]:
            received += [(w["key"], w["window_start_ms"], w["n"]) for w in event.data["windows"]]
            at = event.id
    for event in _watch(changing, at, keys):
        received += [(w["key"], w["window_start_ms"], w["n"]) for w in event.data["windows"]]
    assert len(received) == len(expected)
    assert sorted(received) == sorted(expected)
    assert [number for _, _, number in received] == sorted(number for _, _, number in received)


@pytest.mark.parametrize("query", ["", "&current=true"])
def test_streams_of_slow_readers_share_the_memory_for_changes(
    changing: Served, monkeypatch: pytest.MonkeyPatch, query: str
) -> None:
    """A stream keeps no rows of a version while its client does not read an event."""
    monkeypatch.setattr(push_changes, "CACHE_BYTES", 0)
    monkeypatch.setattr(push_streams, "_VERSIONS_MAX", 1)
    versions = range(2, 8)
    for version in versions:
        changing.commit({"key": "a", "start": version}, {"key": "b", "start": version})

    async def waiting(version: int, receives: asyncio.Event) -> None:
        async def send(message: Any) -> None:
            if b"event: change" in message.get("body", b""):
                receives.set()
                await asyncio.Event().wait()

        scope = {
            "method": "GET", "headers": [], "raw_path": f"{ROOT}/watch".encode(),
            "query_string": f"after={version - 1}{query}".encode(),
        }  # fmt: skip
        await changing.service.streams.serve(b"store", scope, send)

    async def kept() -> list[int]:
        blocked = [asyncio.Event() for _ in versions]
        tasks = [
            asyncio.create_task(waiting(version, one))
            for version, one in zip(versions, blocked, strict=True)
        ]
        for one in blocked:
            await one.wait()
        gc.collect()
        found = [one.version for one in gc.get_objects() if type(one) is push_changes.Changes]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return found

    assert len(asyncio.run(kept())) <= 1


def test_a_silent_stream_shows_that_it_lives(
    changing: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A silent stream sends heartbeats with its id, from which a client can resume."""
    monkeypatch.setattr(push_streams, "HEARTBEAT_SECONDS", 0.01)
    response = changing.get(f"{ROOT}/watch?for_ms=200")
    (begin,) = events_of(response.body)
    assert response.body.count(f"\n\nid: {begin.id}\n\n".encode()) > 0


def test_a_quiet_key_of_a_busy_store_shows_that_its_stream_lives(
    changing: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stream without changes of its keys sends heartbeats with the id of each new version."""
    monkeypatch.setattr(push_streams, "HEARTBEAT_SECONDS", 0.0)
    (begin,) = _watch(changing)
    for start in (60, 70):
        changing.commit({"key": "b", "start": start})
    query = f"for_ms=1&key=a&after={begin.id}"
    response = changing.get(f"{ROOT}/watch?{query}")
    assert events_of(response.body) == []
    ids = [line for line in response.body.split(b"\n") if line.startswith(b"id: ")]
    assert [line.split(b"-")[0] for line in ids][:2] == [b"id: 2", b"id: 3"]


@pytest.mark.slow
def test_changes_are_pushed_as_they_come(tmp_path: Path) -> None:
    """A client over a socket gets each version, and a complete end when the worker stops."""
    table = StoreTable(tmp_path, make_definition())
    table.commit([{"key": "a", "start": 1}])
    serving = Serving(tmp_path)
    serving.wait_for(1)
    received = b""
    with serving.connect() as client:
        client.sendall(b"GET %b/watch?key=a HTTP/1.1\r\nHost: localhost\r\n\r\n" % ROOT.encode())
        for start in (10, 20, 30):
            table.commit([{"key": "a", "start": start}, {"key": "b", "start": start}])
            while b'"window_start_ms":%d,' % start not in received:
                piece = client.recv(65_536)
                assert piece, received
                received += piece
        assert b'"key":"b"' not in received
        serving.process.terminate()
        # A worker that stops completes the stream with the last, empty chunk.
        received += b"".join(iter(lambda: client.recv(65_536), b""))
    assert received.endswith(b"0\r\n\r\n")
    assert serving.end() == 0


@pytest.mark.slow
def test_a_slow_reader_is_closed_and_its_place_given_back(tmp_path: Path) -> None:
    """The service closes a stream whose client does not read, and frees its slot."""
    table = StoreTable(tmp_path, make_definition())
    table.commit([{"key": "a", "start": 1}])
    serving = Serving(tmp_path, "--limit-send-seconds=1", "--limit-streams=1")
    serving.wait_for(1)
    request = b"GET %b/watch HTTP/1.1\r\nHost: localhost\r\n\r\n" % ROOT.encode()
    with serving.connect() as client:
        client.sendall(request)
        assert client.recv(100).startswith(b"HTTP/1.1 200 ")
        assert serving.get(f"{ROOT}/watch").status == 503
        for version in range(2, 12):
            table.commit([{"key": f"{version}", "start": start} for start in range(10_000)])
        serving.wait_for_status(f"{ROOT}/watch?for_ms=1", 200)
    assert serving.end() == 0
