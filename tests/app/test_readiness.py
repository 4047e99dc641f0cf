"""Tests of /readyz for index problems, and of the detection of a hanging tailer."""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest
from deltalake import DeltaTable

from oriel.app.server.supervisor import Child, HeartbeatWatch
from oriel.storage import DataLayout
from oriel.storage.index import IndexDirectory, mark_damaged
from oriel.storage.tailer import StatusFile, StoreStatus, require_verifications
from tests.app.api_client import Served
from tests.app.serving import IMPATIENT, ROOT, Serving
from tests.storage.store_tables import StoreTable, make_definition
from tests.storage.waiting import WAIT_SECONDS, process_runs, wait_for

FOLLOWING = StoreStatus("following", 0)


@pytest.mark.parametrize("state", ["opening", "building", "failed", "stale", "blocked", "away"])
def test_not_ready_unless_the_index_is_followed(store: Served, state: str) -> None:
    """A store in another state than `following` is not ready, although it is served."""
    store.tailer_says(FOLLOWING)
    assert store.get("/readyz").status == 200
    for problem in (None, "the disk does not answer"):
        store.tailer_says(StoreStatus(state, 0, problem))
        response = store.get("/readyz")
        assert response.status == 503
        assert response.json["tailer_alive"] is True
        said = response.json["stores"]["store"]["problem"]
        assert said == problem if problem else said
    assert store.get(f"{ROOT}/keys").status == 200


def test_not_ready_with_a_heartbeat_of_the_future(store: Served) -> None:
    """A heartbeat in the future is a problem, because its age is unknown."""
    store.tailer_says(FOLLOWING)
    path = DataLayout(store.data).indexes / "_tailer.json"
    os.utime(path, (time.time() + 60, time.time() + 60))
    response = store.get("/readyz")
    assert (response.status, response.json["tailer_alive"]) == (503, False)
    assert "future" in response.json["problem"]


def test_not_ready_with_a_mark_of_damage(store: Served) -> None:
    """A store is not ready as soon as a reader marked its index as damaged."""
    store.tailer_says(FOLLOWING)
    generation = IndexDirectory(DataLayout(store.data).index("store")).current()
    assert generation is not None
    mark_damaged(generation, "a bit flipped")
    response = store.get("/readyz")
    assert response.status == 503
    assert "a bit flipped" in response.json["stores"]["store"]["problem"]


def test_not_ready_while_an_index_is_verified_after_a_restart(store: Served) -> None:
    """A store is not ready until its index is verified, despite the tailer's earlier status."""
    store.tailer_says(FOLLOWING)
    require_verifications(DataLayout(store.data))
    response = store.get("/readyz")
    assert response.status == 503
    problem = response.json["stores"]["store"]["problem"]
    assert problem == "the index of store 'store' is being verified"


def test_what_another_version_of_the_tailer_says_is_read(store: Served) -> None:
    """In a status of another version, unknown fields are ignored and missing ones have defaults."""
    store.tailer_says(FOLLOWING)
    path = DataLayout(store.data).indexes / "_tailer.json"
    status = orjson.loads(path.read_bytes())
    status["stores"]["store"]["phase"] = "new"
    del status["stores"]["store"]["problem"], status["tables"], status["problem"]
    path.write_bytes(orjson.dumps({**status, "colour": "green"}))
    assert store.get("/readyz").status == 200
    for rubbish in (b"[]", b"{}", b'{"pid":1,"stores":3}', b'{"pid":1,"stores":{"store":null}}'):
        path.write_bytes(rubbish)
        response = store.get("/readyz")
        assert (response.status, response.json["tailer_alive"]) == (503, False)


def test_the_error_names_an_index_directory_without_write_access(
    store: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The service reports an unwritable index directory, because the tailer cannot report it."""
    store.tailer_says(FOLLOWING)
    indexes = DataLayout(store.data).indexes
    os.utime(indexes / "_tailer.json", (1, 1))
    assert "cannot be written" not in store.get("/readyz").json["problem"]
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != indexes or mode != os.W_OK)
    assert f"{indexes} cannot be written" in store.get("/readyz").json["problem"]


def test_a_log_without_entries_is_no_store(store: Served) -> None:
    """A table directory without entries is ignored, and a log that cannot be read is named."""
    store.tailer_says(FOLLOWING)
    log = DataLayout(store.data).tables / "begun" / "_delta_log"
    log.mkdir(parents=True)
    response = store.get("/readyz")
    assert (response.status, list(response.json["stores"])) == (200, ["store"])
    assert store.get("/v1/stores/begun").status == 404
    (log / f"{0:020}.json").write_text("{")
    response = store.get("/readyz")
    assert (response.status, list(response.json["stores"])) == (503, ["begun", "store"])
    assert response.json["stores"]["store"]["ready"] is True
    assert store.get(f"{ROOT}/keys").status == 200


def test_a_heartbeat_that_stands_still_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A heartbeat that stops changing is detected for the own tailer only, by monotonic time."""
    seconds = iter(range(0, 10_000, 10))
    monkeypatch.setattr("time.monotonic", lambda: float(next(seconds)))
    layout = DataLayout(tmp_path)
    child = Child("sleeper", ["-c", "import signal; signal.pause()"])
    path = layout.indexes / "_tailer.json"
    try:
        watch = HeartbeatWatch(StatusFile(layout), hanging_seconds=15)
        no_look_finds_it = [False] * 5
        assert [watch.hangs(child) for _ in range(5)] == no_look_finds_it, "no tailer has reported"
        StatusFile(layout).write({})
        assert [watch.hangs(child) for _ in range(5)] == no_look_finds_it, "another tailer sends it"
        for time_s in (2**32, 2**31, 1):
            # Wall-clock times do not show for how long the heartbeat has been unchanged.
            path.write_bytes(orjson.dumps({"pid": child.pid, "stores": {}}))
            os.utime(path, (time_s, time_s))
            assert not watch.hangs(child), "it has just changed"
        assert True in [watch.hangs(child) for _ in range(5)]
    finally:
        monkeypatch.undo()
        child.kill()
        child.wait(WAIT_SECONDS)


@pytest.fixture
def table(tmp_path: Path) -> StoreTable:
    """Return a store's table with three commits."""
    return _make_table(tmp_path)


def _make_table(data: Path) -> StoreTable:
    made = StoreTable(data, make_definition())
    for batch in range(3):
        made.commit([{"key": "a", "start": start, "n": batch} for start in range(20)])
    return made


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """Return a service of such a table. Each test leaves it ready again."""
    data = tmp_path_factory.mktemp("serving") / "data"
    _make_table(data)
    made = Serving(data, "--stale-after", "3600", serve=IMPATIENT)
    made.wait_for(3)
    yield made
    made.end()


@pytest.mark.slow
def test_a_tailer_that_is_stopped_is_noticed_and_replaced(serving: Serving) -> None:
    """After a SIGSTOP of the tailer, /readyz is 503, and another tailer replaces it."""
    serving.wait_for_status("/readyz", 200)
    stopped = serving.children()["oriel.storage.tailer"]
    os.kill(stopped, signal.SIGSTOP)
    serving.wait_for_status("/readyz", 503)
    assert "hangs" in serving.get("/readyz").json["problem"]
    assert serving.get(f"{ROOT}/latest/a").status == 200
    wait_for(False, lambda: process_runs(stopped), "whether the stopped tailer runs")
    serving.wait_for_status("/readyz", 200)
    assert serving.children()["oriel.storage.tailer"] != stopped


@pytest.mark.slow
def test_a_next_entry_that_stays_torn_is_reported(serving: Serving) -> None:
    """A torn next entry is reported while the last complete version is served."""
    entry = DataLayout(serving.data).table("store") / "_delta_log" / f"{4:020d}.json"
    serving.wait_for_status("/readyz", 200)
    entry.write_bytes(b'{"commitInfo"')
    serving.wait_for_status("/readyz", 503)
    assert (
        "version 4 of the table's log is cut off"
        in (serving.get("/readyz").json["stores"]["store"]["problem"])
    )
    assert serving.version() == 3
    entry.unlink()
    serving.wait_for_status("/readyz", 200)


@pytest.mark.slow
def test_temporarily_unavailable_tables_keep_their_responses(serving: Serving) -> None:
    """While tables are unavailable, reads are served and /readyz names the directory."""
    tables = DataLayout(serving.data).tables
    serving.wait_for_status("/readyz", 200)
    generation = serving.generation()
    away = tables.rename(tables.with_name("elsewhere"))
    serving.wait_for_status("/readyz", 503)
    assert str(tables) in serving.get("/readyz").json["problem"]
    assert serving.version() == 3
    away.rename(tables)
    serving.wait_for_status("/readyz", 200)
    assert serving.generation() == generation


@pytest.mark.slow
def test_a_table_that_was_optimised_and_vacuumed_meanwhile_is_served(
    tmp_path: Path, table: StoreTable
) -> None:
    """After OPTIMIZE and VACUUM while the service was stopped, the index is rebuilt."""
    serving = Serving(tmp_path)
    serving.wait_for(3)
    assert serving.end() == 0
    table.commit([{"key": "b", "start": 1}])
    delta = DeltaTable(table.path)
    delta.optimize.compact()
    delta.vacuum(0, dry_run=False, enforce_retention_duration=False)
    serving = Serving(tmp_path)
    try:
        serving.wait_for(DeltaTable(table.path).version())
        serving.wait_for_status("/readyz", 200)
        assert serving.get(f"{ROOT}/latest/b").status == 200
        assert serving.get(f"{ROOT}/latest/a").json["windows"][0]["n"] == 2
    finally:
        serving.end()
