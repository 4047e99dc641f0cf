"""Tests of restored backups: a restore starts another history, which no client mixes up."""

import asyncio
import random
from collections.abc import Sequence
from pathlib import Path

import pytest

from oriel.app.push import streams as push_streams
from oriel.app.reads import changes as push_changes
from oriel.app.reads import histories
from oriel.storage import DataLayout
from tests.app.api_client import Served, index_store
from tests.app.backups import Backups
from tests.app.stream_viewer import StreamViewer, read_view
from tests.app.test_event_streams import Event, events_of
from tests.campaigns import full
from tests.storage.followed import check_in_this_process
from tests.storage.waiting import wait_in_loop

ROOT = "/v1/stores/store"


def _watch(store: Served, after: str, query: str = "") -> list[Event]:
    """Return all events that a stream has to send at the moment."""
    response = store.get(f"{ROOT}/watch?for_ms=1{query}", [("Last-Event-ID", after)])
    assert response.status == 200
    return events_of(response.body)


def _last_id(store: Served) -> str:
    (begin,) = events_of(store.get(f"{ROOT}/watch?for_ms=1").body)
    return begin.id


def _commit(store: Served, starts: Sequence[int]) -> None:
    for start in starts:
        store.commit({"key": "a", "start": start})
    store.index()


@pytest.mark.parametrize("commits", [0, 1, 2, 3, 5])
@pytest.mark.parametrize("query", ["", "&key=a", "&current=true"])
def test_an_id_of_a_lost_history_is_a_reset(backups: Backups, commits: int, query: str) -> None:
    """An id of a lost history causes a reset, with fewer, equally many or more versions."""
    at = _last_id(backups.served)
    backups.restore()
    _commit(backups.served, range(100, 100 + commits))
    (reset,) = _watch(backups.served, at, query)
    assert reset.name == "reset"
    assert reset.data["position"]["version"] == 1 + commits
    assert _watch(backups.served, reset.id, query) == []


@pytest.mark.parametrize("commits", [0, 1, 3])
def test_an_id_from_before_the_backup_stays_valid(backups: Backups, commits: int) -> None:
    """An id from before the backup stays valid, because both histories have its version."""
    store = backups.served
    shared = Backups(store, backups._directory.with_name("shared"))
    backups.restore()
    store.index()
    at = _last_id(store)
    shared.take()
    _commit(store, [60, 70])
    assert [event.name for event in _watch(store, at)] == ["change"] * 2
    shared.restore()
    _commit(store, range(100, 100 + commits))
    starts = [event.data["windows"][0]["window_start_ms"] for event in _watch(store, at)]
    assert starts == [*range(100, 100 + commits)]


@pytest.mark.parametrize("seconds", [0.0, 1000.0])
def test_a_restore_among_objects_is_a_reset(
    changing: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: float
) -> None:
    """In an object store, a restore causes a reset, even if cached checks are still in use."""
    for module in (push_changes, histories):
        monkeypatch.setattr(module, "is_object", lambda _: True)
        monkeypatch.setattr(module, "_OBJECT_SECONDS", seconds)
    changing.service.catalog.close()
    backups = Backups(changing, tmp_path / "backups")
    backups.take()
    begin = _last_id(changing)
    _commit(changing, [60, 70])
    assert [event.name for event in _watch(changing, begin)] == ["change"] * 2
    lost = _last_id(changing)
    backups.restore()
    _commit(changing, [100, 110, 120])
    (reset,) = _watch(changing, lost)
    assert reset.name == "reset"
    assert _watch(changing, begin)[-1].id == reset.id


def test_no_current_window_of_a_lost_history_is_sent(backups: Backups) -> None:
    """No current window of a lost history is sent between the restore and the rebuild."""
    store = backups.served
    backups.restore()
    store.index()
    at = _last_id(store)
    backups.take()
    _commit(store, [60, 70])
    backups.restore()
    store.table.commit([{"key": "a", "start": 100}])
    assert _watch(store, at, "&current=true") == []
    store.index()
    (change,) = _watch(store, at, "&current=true")
    assert [window["window_start_ms"] for window in change.data["windows"]] == [100]


class Shared:
    """A served store whose streams stay open while its index follows the table."""

    def __init__(self, backups: Backups, chance: random.Random) -> None:
        self.backups = backups
        self.served = backups.served
        self.chance = chance
        self._commits = 0

    def commit(self) -> None:
        """Commit windows of a few keys, each with a count that is unique to the commit."""
        self._commits += 1
        keys = self.chance.sample("abcdef", 3)
        self.served.table.commit([
            {"key": key, "start": self.chance.randrange(20), "n": self._commits} for key in keys
        ])  # fmt: skip

    def index(self) -> None:
        """Update the index to the table. The service opens it again for its streams."""
        self.served.service.catalog.view("store").close()
        index_store(DataLayout(self.served.data), "store")

    async def settle(self, viewers: Sequence[StreamViewer]) -> None:
        """Wait until the view of each viewer equals the store."""
        self.index()
        client = self.served.client
        stored = [await read_view(client, read) for read in ("fetchAll", "currentAll")]

        def differing() -> list[StreamViewer]:
            return [each for each in viewers if each.view != stored[each.is_current]]

        await wait_in_loop(lambda: not differing(), "all views to be those of the store")


async def _restored(shared: Shared, viewers: Sequence[StreamViewer], restores: int) -> None:
    """Restore backups under open streams, and wait until all views equal the store."""
    for viewer in viewers:
        viewer.open()
    for number in range(restores):
        await _restore_one(shared, viewers)
        if number % 5 == 0:
            await shared.settle(viewers)
    await shared.settle(viewers)
    for viewer in viewers:
        await viewer.close()


async def _restore_one(shared: Shared, viewers: Sequence[StreamViewer]) -> None:
    chance, backups = shared.chance, shared.backups
    for _ in range(chance.randrange(4)):
        # The streams run during the commit.
        await asyncio.to_thread(shared.commit)
        if chance.random() < 0.6:
            shared.index()
    if chance.random() < 0.3:
        backups.take()
    for viewer in chance.sample(viewers, len(viewers) // 4):
        await viewer.close()
        viewer.open()
    away = chance.sample(viewers, len(viewers) // 4)
    for viewer in away:
        await viewer.close()
    backups.restore(chance.randrange(len(backups)))
    for _ in range(chance.randrange(4)):
        shared.commit()
    if chance.random() < 0.5:
        shared.index()
    for viewer in away:
        viewer.open()


@pytest.mark.parametrize("commits", [0, 1, 2, 3, 5])
@pytest.mark.parametrize("is_current", [False, True])
def test_an_open_stream_is_reset(
    backups: Backups, monkeypatch: pytest.MonkeyPatch, commits: int, *, is_current: bool
) -> None:
    """An open stream is reset as soon as the index has another history, before a heartbeat."""
    monkeypatch.setattr(push_streams, "HEARTBEAT_SECONDS", 1000.0)
    shared = Shared(backups, random.Random(0))
    viewer = StreamViewer(backups.served.client, is_current=is_current)

    async def restored() -> None:
        viewer.open()
        await shared.settle([viewer])
        backups.restore()
        for _ in range(commits):
            shared.commit()
        await shared.settle([viewer])
        await viewer.close()

    with check_in_this_process():
        asyncio.run(restored())
    assert viewer.resets == 1


@pytest.mark.parametrize(
    ("seed", "restores", "streams"), [(0, 40, 20), *full(1, 200, 100), *full(2, 200, 100)]
)
def test_views_equal_the_store_after_any_restores(
    backups: Backups, seed: int, restores: int, streams: int
) -> None:
    """After any restores and reconnects, the view of each stream equals the store."""
    shared = Shared(backups, random.Random(seed))
    viewers = [
        StreamViewer(backups.served.client, is_current=number % 3 == 0) for number in range(streams)
    ]
    with check_in_this_process():
        asyncio.run(_restored(shared, viewers, restores))
    assert sum(viewer.resets for viewer in viewers) > 0
