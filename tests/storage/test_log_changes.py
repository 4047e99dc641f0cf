"""Tests of log watches: commits wake the tailer, even if log directories are replaced."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from oriel.storage.tailer import log_changes
from oriel.storage.tailer import pool as pools
from oriel.storage.tailer.log_changes import LogChanges
from oriel.storage.tailer.pool import StorePool
from tests.storage.test_tailer_pool import FakeStore
from tests.storage.waiting import WAIT_SECONDS, wait_until


@pytest.fixture
def changes() -> Iterator[LogChanges[str]]:
    """Return log changes without a watched log."""
    made: LogChanges[str] = LogChanges()
    yield made
    made.close()


def _log(directory: Path) -> Path:
    directory.mkdir(exist_ok=True)
    return directory


def test_an_entry_is_reported_for_its_store(changes: LogChanges[str], tmp_path: Path) -> None:
    """An entry that is renamed, linked or written is reported, and other files are not."""
    draft = tmp_path / "draft"
    for store in "ab":
        changes.watch(store, _log(tmp_path / store))
    (tmp_path / "a" / "0.json").write_text("written")
    assert changes.wait(WAIT_SECONDS) == {"a"}
    draft.write_text("linked")
    (tmp_path / "b" / "1.json").hardlink_to(draft)
    assert changes.wait(WAIT_SECONDS) == {"b"}
    draft.rename(tmp_path / "a" / "1.json")
    assert changes.wait(WAIT_SECONDS) == {"a"}
    (tmp_path / "a" / "1.checkpoint.parquet").write_text("other")
    assert changes.wait(0.01) == set()


@pytest.mark.parametrize("is_moved", [True, False])
def test_a_log_at_the_path_of_another_is_watched(
    changes: LogChanges[str], tmp_path: Path, *, is_moved: bool
) -> None:
    """A store is reported when its log disappears, and is watched again on request."""
    log = _log(tmp_path / "log")
    changes.watch("store", log)
    if is_moved:
        log.rename(tmp_path / "moved")
    else:
        shutil.rmtree(log)
    assert changes.wait(WAIT_SECONDS) == {"store"}
    changes.wait(0.01)
    changes.watch("store", _log(log))
    (log / "0.json").write_text("{}")
    assert changes.wait(WAIT_SECONDS) == {"store"}


def test_a_forgotten_store_is_not_reported(changes: LogChanges[str], tmp_path: Path) -> None:
    """A forgotten store is not reported, and forgetting an unwatched store has no effect."""
    log = _log(tmp_path / "log")
    changes.watch("store", log)
    for _ in range(2):
        changes.forget("store")
    (log / "0.json").write_text("{}")
    assert changes.wait(0.01) == set()


def test_logs_that_cannot_be_watched_are_polled(
    changes: LogChanges[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If a log cannot be watched, no error is raised, because the tailer polls it."""
    changes.watch("missing", tmp_path / "missing")
    monkeypatch.setattr(log_changes, "_LOGS_MAX", 0)
    changes.watch("too-many", tmp_path)
    (tmp_path / "0.json").write_text("{}")
    assert changes.wait(0.01) == set()

    def refuse() -> None:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(log_changes, "INotify", refuse)
    without: LogChanges[str] = LogChanges()
    without.watch("store", tmp_path)
    assert without.wait(0.01) == set()
    without.forget("store")
    without.close()


def test_a_commit_wakes_the_poller(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A change of the log causes a poll of its store before the pause ends."""
    monkeypatch.setattr(pools.StorePool, "_pause", lambda *_: 10 * WAIT_SECONDS)
    pool, store = StorePool(), FakeStore(has_work=False)
    store.local_log = _log(tmp_path / "log")
    pool.add("store", store)  # type: ignore[arg-type]
    pool.supervise()
    try:
        wait_until(lambda: store.polls, "the first poll")
        for entry in range(3):
            polls = store.polls
            (store.local_log / f"{entry}.json").write_text("{}")
            wait_until(lambda: store.polls, "a poll after a commit", polls.__lt__)
    finally:
        pool.end()
