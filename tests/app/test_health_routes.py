"""Health and readiness."""

import os
from pathlib import Path

from oriel.storage import DataLayout
from oriel.storage.tailer import StatusFile, StoreStatus
from oriel.storage.tailer.status import HEARTBEAT_SECONDS_MAX
from tests.app.api_client import Served, served

FOLLOWING = StoreStatus("following", 0)


def test_the_process_is_healthy_whatever_the_stores_are(tmp_path: Path) -> None:
    """It only says that the process answers."""
    with served(tmp_path) as made:
        assert (made.get("/healthz").status, made.get("/healthz").json) == (200, {"status": "ok"})


def test_ready_when_the_tailer_lives_and_every_store_is_served(store: Served) -> None:
    """200, and each store is named."""
    store.tailer_says(FOLLOWING)
    answer = store.get("/readyz")
    assert answer.status == 200
    assert answer.json == {
        "ready": True,
        "tailer_alive": True,
        "problem": None,
        "stores": {"store": {"ready": True, "problem": None}},
    }


def test_not_ready_without_a_tailer(store: Served) -> None:
    """Never heard of, or silent for too long."""
    answer = store.get("/readyz")
    assert (answer.status, answer.json["tailer_alive"]) == (503, False)
    store.tailer_says(FOLLOWING)
    status_path = DataLayout(store.data).indexes / "_tailer.json"
    long_ago = status_path.stat().st_mtime - HEARTBEAT_SECONDS_MAX - 1
    os.utime(status_path, (long_ago, long_ago))
    answer = store.get("/readyz")
    assert (answer.status, answer.json["tailer_alive"]) == (503, False)


def test_not_ready_while_a_store_is_not_served(tmp_path: Path) -> None:
    """The store that isn't is named, with the reason."""
    with served(tmp_path) as made:
        made.tailer_says(StoreStatus("building"))
        answer = made.get("/readyz")
        assert answer.status == 503
        assert answer.json["stores"]["store"]["ready"] is False
        assert "being built" in answer.json["stores"]["store"]["problem"]


def test_not_ready_while_the_tailer_fails_with_a_store(store: Served) -> None:
    """It answers still, but from an old version: that must not stay unseen."""
    store.tailer_says(StoreStatus("failed", 0, "CorruptLog: torn"))
    answer = store.get("/readyz")
    assert (answer.status, answer.json["stores"]["store"]["problem"]) == (503, "CorruptLog: torn")
    store.tailer_says(None)
    assert "not begun" in store.get("/readyz").json["stores"]["store"]["problem"]


def test_the_status_file_reads_back_and_garbage_is_no_word(tmp_path: Path) -> None:
    """A torn status is as none."""
    status_file = StatusFile(DataLayout(tmp_path))
    assert not status_file.read().alive
    status_file.write({"store": FOLLOWING})
    status_file.write({"store": FOLLOWING})
    status = status_file.read()
    assert (status.alive, status.pid, status.stores) == (True, os.getpid(), {"store": FOLLOWING})
    (DataLayout(tmp_path).indexes / "_tailer.json").write_bytes(b"{")
    assert not status_file.read().alive
