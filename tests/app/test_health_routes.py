"""Tests of the health and readiness probes."""

import errno
import os
from pathlib import Path
from typing import Any, NoReturn

import pytest

from oriel.app.routes import health
from oriel.storage import DataLayout
from oriel.storage.tailer import StatusFile, StoreStatus
from oriel.storage.tailer.status import HEARTBEAT_SECONDS_MAX
from tests.app.api_client import Served, served

FOLLOWING = StoreStatus("following", 0)


def test_the_process_is_healthy_whatever_the_stores_are(tmp_path: Path) -> None:
    """The health probe only shows that the process responds."""
    with served(tmp_path) as made:
        assert (made.get("/healthz").status, made.get("/healthz").json) == (200, {"status": "ok"})


def test_ready_when_the_tailer_lives_and_every_store_is_served(store: Served) -> None:
    """With a live tailer and served stores, readiness is 200 and names each store."""
    store.tailer_says(FOLLOWING)
    response = store.get("/readyz")
    assert response.status == 200
    assert response.json == {
        "ready": True,
        "tailer_alive": True,
        "problem": None,
        "stores": {"store": {"ready": True, "problem": None}},
        "pipelines": {},
    }


def test_readiness_names_a_pipeline_that_does_not_run(store: Served) -> None:
    """Readiness reports since when a pipeline is stopped, and the status code stays 200."""
    store.tailer_says(FOLLOWING)
    file = store.pipeline_says()
    running = {"running": True, "seen_ms": file.seen_ms(), "problem": None}
    assert store.get("/readyz").json["pipelines"] == {"flights": running}
    store.pipeline_says(has_ended=True)
    response = store.get("/readyz")
    assert response.status == 200
    stopped = response.json["pipelines"]["flights"]
    assert (stopped["running"], stopped["seen_ms"]) == (False, file.seen_ms())
    assert "Pipeline flights has not run since" in stopped["problem"]


def test_readiness_does_not_need_the_checkpoints(store: Served) -> None:
    """A service that is not permitted to read the checkpoints can be ready."""
    store.tailer_says(FOLLOWING)
    store.pipeline_says()
    layout = DataLayout(store.data)

    def not_permitted(_: DataLayout) -> NoReturn:
        raise PermissionError(layout.checkpoints)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(health, "run_status_files", not_permitted)
        response = store.get("/readyz")
    assert (response.status, response.json["pipelines"]) == (200, {})


def test_fresh_while_pipelines_run(store: Served) -> None:
    """The probe returns 200 while every pipeline runs. Retired pipelines do not count."""
    store.tailer_says(FOLLOWING)
    store.pipeline_says()
    store.pipeline_says("earlier", has_ended=True, retired_ms=1)
    response = store.get("/freshz")
    assert response.status == 200
    well = {"since_ms": None, "problem": None}
    assert response.json == {
        "fresh": True,
        "problem": None,
        "pipelines": {
            "flights": {"state": "running", **well}, "earlier": {"state": "retired", **well},
        },
    }  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "state", "since", "problem"),
    [
        ({"has_ended": True}, "stopped", "seen", "Pipeline flights has not run since 2"),
        ({"batch_ms": 7, "log_ends_ms": 9}, "stuck", 7, "Pipeline flights has not reported the"),
        ({"log_ends_ms": 9}, "running", 9, "Pipeline flights has not reported the end of its log"),
    ],
)
def test_not_fresh_while_a_pipeline_has_a_problem(
    store: Served, changes: dict[str, Any], state: str, since: int | str, problem: str
) -> None:
    """503 reports the problem and since when data is missing, and the service stays ready."""
    store.tailer_says(FOLLOWING)
    seen_ms = store.pipeline_says(started_ms=1, **changes).seen_ms()
    response = store.get("/freshz")
    assert (response.status, response.json["fresh"]) == (503, False)
    pipeline = response.json["pipelines"]["flights"]
    assert (pipeline["state"], pipeline["since_ms"]) == (
        state,
        seen_ms if since == "seen" else since,
    )
    assert pipeline["problem"].startswith(problem)
    assert store.get("/readyz").status == 200


def test_not_fresh_without_a_pipeline_or_a_tailer(store: Served) -> None:
    """Without a pipeline or a tailer, the body has the problem of the service."""
    store.tailer_says(FOLLOWING)
    response = store.get("/freshz")
    assert (response.status, response.json["problem"]) == (
        503, "No pipeline has run here. Start one with the same --data."
    )  # fmt: skip
    store.pipeline_says()
    status_path = DataLayout(store.data).indexes / "_tailer.json"
    os.utime(status_path, (1, 1))
    response = store.get("/freshz")
    assert response.status == 503
    assert response.json["problem"]


def test_not_fresh_if_the_checkpoints_cannot_be_read(
    store: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the checkpoints cannot be read, freshness is unknown and the body has a solution."""
    store.tailer_says(FOLLOWING)

    def not_permitted(layout: DataLayout) -> NoReturn:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(layout.checkpoints))

    monkeypatch.setattr(health, "pipeline_overviews", not_permitted)
    response = store.get("/freshz")
    assert response.status == 503
    assert "access is denied" in response.json["problem"]


def test_not_ready_without_a_tailer(store: Served) -> None:
    """The service is not ready if the tailer never wrote its status or stopped updating it."""
    response = store.get("/readyz")
    assert (response.status, response.json["tailer_alive"]) == (503, False)
    store.tailer_says(FOLLOWING)
    status_path = DataLayout(store.data).indexes / "_tailer.json"
    long_ago = status_path.stat().st_mtime - HEARTBEAT_SECONDS_MAX - 1
    os.utime(status_path, (long_ago, long_ago))
    response = store.get("/readyz")
    assert (response.status, response.json["tailer_alive"]) == (503, False)


def test_not_ready_while_a_store_is_not_served(tmp_path: Path) -> None:
    """A store that is not served is named with the reason."""
    with served(tmp_path) as made:
        made.tailer_says(StoreStatus("building"))
        response = made.get("/readyz")
        assert response.status == 503
        assert response.json["stores"]["store"]["ready"] is False
        assert "being built" in response.json["stores"]["store"]["problem"]


def test_not_ready_while_the_tailer_fails_with_a_store(store: Served) -> None:
    """A store with an old version because of a failure is not ready."""
    store.tailer_says(StoreStatus("failed", 0, "CorruptLog: torn"))
    response = store.get("/readyz")
    assert (response.status, response.json["stores"]["store"]["problem"]) == (
        503,
        "CorruptLog: torn",
    )
    store.tailer_says(None)
    assert "not opened" in store.get("/readyz").json["stores"]["store"]["problem"]


def test_the_status_file_reads_back_and_garbage_is_no_word(tmp_path: Path) -> None:
    """The status file round-trips, and a torn file counts as missing."""
    status_file = StatusFile(DataLayout(tmp_path))
    assert not status_file.read().alive
    status_file.write({"store": FOLLOWING})
    status_file.write({"store": FOLLOWING})
    status = status_file.read()
    assert (status.alive, status.pid, status.stores) == (True, os.getpid(), {"store": FOLLOWING})
    (DataLayout(tmp_path).indexes / "_tailer.json").write_bytes(b"{")
    assert not status_file.read().alive
