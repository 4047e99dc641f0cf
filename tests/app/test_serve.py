"""Tests of the service processes: supervisor, worker and tailer are killed or damaged in use."""

import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

import orjson
import pytest

from oriel.app.server import main
from oriel.app.server.supervisor import Supervisor
from oriel.storage import DataLayout
from oriel.storage.tailer import StatusFile
from tests.app.problem_shape import assert_problem
from tests.app.serving import NO_RESPONSE, ROOT, SERVE, Serving
from tests.campaigns import full
from tests.storage.store_tables import StoreTable, make_definition
from tests.storage.waiting import process_runs, wait_for, wait_until

pytestmark = pytest.mark.slow


def _make_table(data: Path) -> StoreTable:
    table = StoreTable(data, make_definition())
    table.commit([{"key": "a", "start": start} for start in range(2_000)])
    return table


class Repaired(NamedTuple):
    """A service that recovers after each test, and its store's table."""

    serving: Serving
    table: StoreTable


@pytest.fixture(scope="module")
def repaired(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Repaired]:
    """Return one service for all tests that it survives."""
    data = tmp_path_factory.mktemp("mended")
    table = _make_table(data)
    serving = Serving(data)
    serving.wait_for(1)
    yield Repaired(serving, table)
    assert serving.end() == 0


@pytest.fixture
def table(tmp_path: Path) -> StoreTable:
    """Return a store's table with 2,000 windows of key "a" (a file of some hundred pages)."""
    return _make_table(tmp_path)


@pytest.fixture
def serving(tmp_path: Path, table: StoreTable) -> Iterator[Serving]:
    """Return a service that has the newest version of that table, for one test to damage."""
    made = Serving(tmp_path)
    made.wait_for(1)
    yield made
    made.end()


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """Return such a service for all tests that harm neither the service nor its store."""
    data = tmp_path_factory.mktemp("shared")
    _make_table(data)
    made = Serving(data)
    made.wait_for(1)
    yield made
    made.end()


def test_it_serves_and_follows_and_ends(serving: Serving, table: StoreTable) -> None:
    """The service serves new versions, and SIGTERM ends all its processes with code 0."""
    waiting = f"{ROOT}/latest/a?min_version=2&wait_ms=30000"
    table.commit([{"key": "a", "start": 5_000}])
    assert serving.get(waiting).json["windows"][0]["window_start_ms"] == 5_000
    serving.wait_for_status("/readyz", 200)
    children = serving.children()
    assert children.keys() == {"oriel.app.server.worker", "oriel.storage.tailer"}
    assert serving.end() == 0
    assert {name: pid for name, pid in children.items() if process_runs(pid)} == {}


def test_all_processes_speak_json_for_programs(tmp_path: Path, table: StoreTable) -> None:
    """With JSON logs, each line of every process has the process name, also after a restart."""
    serving = Serving(tmp_path, "--log-format", "json")
    try:
        serving.wait_for(table.batch + 1)
        os.kill(serving.children()["oriel.storage.tailer"], signal.SIGKILL)
        wait_until(
            serving.stderr.read_text, "the supervisor", lambda text: "process restarted" in text
        )
    finally:
        assert serving.end() == 0
    lines = [orjson.loads(line) for line in serving.stderr.read_bytes().splitlines()]
    fields = {"time", "level", "event", "message"}
    assert [line for line in lines if not fields <= line.keys()] == []
    said = {(line["process"], line["event"]): line["message"] for line in lines}
    assert said["tailer", "storage.tailer.store"] == "index built: store=store version=1"
    assert said["api", "app.server.supervisor"] == "process restarted: process=tailer exit_code=-9"


def test_the_longest_keys_and_lists_of_keys_go_over_the_wire(shared: Serving) -> None:
    """Keys of 8,192 bytes work in paths, in cursors and in bodies."""
    keys = ["é" * 4096, "é" * 4095 + "zz", "a" * 8193]
    table = StoreTable(shared.data, make_definition("longest"))
    version = table.commit([{"key": key, "start": 5} for key in keys])
    path = "/v1/stores/longest"
    first = shared.get(f"{path}/keys?limit=1&min_version={version}&wait_ms=30000").json
    rest = shared.get(f"{path}/keys?limit=1&cursor={first['next_cursor']}").json
    assert {*first["keys"], *rest["keys"]} == {*keys[:2]}
    for key in keys[:2]:
        (window,) = shared.get(f"{path}/current/{quote(key, safe='')}").json["windows"]
        assert window["key"] == key
    response = shared.post(f"{path}/latestOfKeys", orjson.dumps(keys[1::-1]))
    assert [window["key"] for window in response.json["windows"]] == keys[1::-1]
    assert_problem(shared.get(f"{path}/latest/{keys[2]}"), 400, "invalid-key", "8192")


def test_any_key_works_over_the_wire(shared: Serving) -> None:
    """Any key works, because no component normalizes the path."""
    keys = ["", "..", "../..", "a//b", "/", "a b", "é", "😀", "%", "a%2Fb", "?#", "\x00", "+"]
    table = StoreTable(shared.data, make_definition("odd"))
    version = table.commit([{"key": key, "start": i} for i, key in enumerate(keys)])
    there = shared.get(f"/v1/stores/odd/keys?min_version={version}&wait_ms=30000")
    assert there.status == 200
    for i, key in enumerate(keys):
        for safe in ("", "/"):
            response = shared.get(f"/v1/stores/odd/latest/{quote(key, safe=safe)}")
            assert [w["window_start_ms"] for w in response.json["windows"]] == [i], key
    assert_problem(shared.get("/v1/stores/odd/latest/%ff"), 400, "invalid-key")


@pytest.mark.parametrize(
    "request_bytes",
    [b"rubbish\r\n\r\n", b"GET /\xff HTTP/1.1\r\nHost: x\r\n\r\n", b"GET / HTTP/9\r\n\r\n"],
)
def test_bytes_that_are_no_request_get_a_problem(shared: Serving, request_bytes: bytes) -> None:
    """Bytes that are not an HTTP request get a problem, and the service continues."""
    head, _, body = shared.raw(request_bytes).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 ")
    assert orjson.loads(body)["code"] == "malformed-request"
    assert shared.get("/healthz").status == 200


def _committed(table: StoreTable) -> int:
    """Commit a new window of key "a", and return the table's version."""
    version: int = table.commit([{"key": "a", "start": 5_000 + table.batch}])
    return version


def test_a_killed_tailer_is_started_again(repaired: Repaired) -> None:
    """A killed tailer is restarted, and reads are served meanwhile."""
    serving = repaired.serving
    killed, version = serving.children()["oriel.storage.tailer"], serving.version()
    os.kill(killed, signal.SIGKILL)
    assert serving.version() == version
    serving.wait_for(_committed(repaired.table))
    assert serving.children()["oriel.storage.tailer"] != killed


def test_a_killed_worker_is_started_again(repaired: Repaired) -> None:
    """A killed worker is restarted, and connections wait in the supervisor's socket."""
    serving = repaired.serving
    killed = serving.children()["oriel.app.server.worker"]
    os.kill(killed, signal.SIGKILL)
    wait_for(False, lambda: process_runs(killed), "whether the killed worker runs")
    assert serving.get(f"{ROOT}/latest/a").status == 200
    assert serving.children()["oriel.app.server.worker"] != killed


def test_a_killed_service_leaves_no_orphan(serving: Serving) -> None:
    """If the supervisor is killed, tailer and worker end."""
    children = serving.children()
    serving.process.kill()
    serving.process.wait()
    wait_for(
        {}, lambda: {name: pid for name, pid in children.items() if process_runs(pid)},
        "the processes that still run",
    )  # fmt: skip


def test_a_deleted_index_comes_back(repaired: Repaired) -> None:
    """A deleted index is rebuilt, and the service responds all the time."""
    serving, before = repaired.serving, repaired.serving.version()
    shutil.rmtree(DataLayout(serving.data).indexes)
    assert serving.get(f"{ROOT}/latest/a").status == 200
    committed = _committed(repaired.table)

    def version() -> int:
        found = serving.version()
        assert found >= before, "it must answer all the time"
        return found

    wait_for(committed, version, "the version")
    serving.wait_for_status("/readyz", 200)


def _truncate(path: Path) -> None:
    with path.open("r+b") as file:
        file.truncate(5 * 4096)


def _garble(path: Path) -> None:
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.seek(2 * 4096)
        file.write(os.urandom(size - 2 * 4096))


def _empty(path: Path) -> None:
    with path.open("r+b") as file:
        file.truncate(0)


_DAMAGES = (_truncate, _garble, _empty)


def _wait_until_healed(serving: Serving, damaged: Path, table: StoreTable) -> None:
    """Wait until a new generation has all windows. Each batch except the first added one."""
    windows = 2_000 + table.batch

    def state() -> tuple[int, int]:
        response = serving.get(f"{ROOT}/fetch/a?limit=10000")
        return response.status, len(response.json.get("windows", []))

    wait_until(
        state, f"{windows} windows", lambda found: found == (200, windows), passing=NO_RESPONSE
    )
    assert serving.generation() != damaged


def test_an_index_that_is_damaged_under_the_service_comes_back(repaired: Repaired) -> None:
    """An index that is damaged in use is rebuilt, after each kind of damage."""
    for damage_file in _DAMAGES:
        damaged = repaired.serving.generation()
        damage_file(damaged / "data.mdb")
        _committed(repaired.table)
        _wait_until_healed(repaired.serving, damaged, repaired.table)


@pytest.mark.parametrize(
    "damages",
    [pytest.param([_garble], id="one"), *full(_DAMAGES, id="all")],
)
def test_an_index_that_is_damaged_between_two_runs_comes_back(
    tmp_path: Path, table: StoreTable, damages: Sequence[Callable[[Path], None]]
) -> None:
    """An index that is damaged while the service is stopped is rebuilt."""
    serving = Serving(tmp_path)
    serving.wait_for(1)
    for damage_file in damages:
        damaged = serving.generation()
        assert serving.end() == 0
        damage_file(damaged / "data.mdb")
        serving = Serving(tmp_path)
        _committed(table)
        _wait_until_healed(serving, damaged, table)
    assert serving.end() == 0


def test_two_services_share_a_directory(serving: Serving, table: StoreTable) -> None:
    """A second service reads the same index, and its tailer replaces a killed one."""
    second = Serving(serving.data, "--workers", "2")
    second.wait_for(1)
    os.kill(serving.children()["oriel.storage.tailer"], signal.SIGKILL)
    table.commit([{"key": "a", "start": 5_000}])
    serving.wait_for(2)
    second.wait_for(2)
    assert second.end() == 0


def test_a_taken_port_is_said_clearly(shared: Serving, tmp_path: Path) -> None:
    """A used port is reported in one line with exit code 1."""
    command = [*SERVE, "--data", str(tmp_path), "--port", str(shared.port)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert f"127.0.0.1:{shared.port}: cannot listen" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_error_for_a_file_as_data_directory_is_clear(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A data directory that is a file is reported before any process is started."""
    file = tmp_path / "file"
    file.touch()
    for data in (file, file / "below"):
        assert main(["--data", str(data), "--port", "0"]) == 1
        (line,) = capsys.readouterr().err.splitlines()
        assert line.startswith(f"{data}: cannot use the data directory: ")


def test_a_directory_of_another_user_is_rejected(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message names the user who lacks access, and no process is started."""
    # The tests can run as root, which can write everywhere.
    monkeypatch.setattr(os, "access", lambda path, _: path != tmp_path)
    assert main(["--data", str(tmp_path), "--port", "0"]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    user = os.geteuid()
    assert line == (
        f"{tmp_path}: access is denied (Permission denied). Let user {user} read and write "
        f"{tmp_path} (in a container, the mounted directory) and start again. Nothing is lost"
    )


@pytest.mark.parametrize(
    ("host", "name"),
    [("0.0.0.0", "localhost"), ("127.0.0.1", "127.0.0.1"), ("::1", "[::1]"), ("::", "localhost")],
)
def test_it_prints_an_address_that_a_browser_can_open(
    tmp_path: Path, host: str, name: str, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """For 0.0.0.0, which is not an address of the machine, the printed URL has localhost."""

    def run(_supervisor: Supervisor, say_address: Callable[[], None], *_: object) -> int:
        say_address()
        return 0

    monkeypatch.setattr(Supervisor, "run", run)
    assert main(["--data", str(tmp_path), "--host", host, "--port", "0", "--insecure"]) == 0
    assert f" at http://{name}:" in capsys.readouterr().out


@pytest.mark.parametrize("option", [["--port", "70000"], ["--workers", "0"], ["--port", "x"]])
def test_bad_options_are_refused(option: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """The error for an invalid option has the valid range."""
    with pytest.raises(SystemExit) as ended:
        main(["--data", "data", *option])
    assert ended.value.code == 2
    assert "must be an integer from" in capsys.readouterr().err


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.org"])
def test_an_address_that_others_reach_needs_a_word(
    tmp_path: Path, host: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A public address without tokens is rejected at once, with the solutions."""
    with pytest.raises(SystemExit) as ended:
        main(["--data", str(tmp_path / "data"), "--port", "0", "--host", host])
    assert ended.value.code == 2
    assert "--insecure" in capsys.readouterr().err
    assert not (tmp_path / "data").exists()


def test_a_directory_without_tables_is_reported_and_not_created(tmp_path: Path) -> None:
    """A missing data directory is reported and not created, and a later store is found."""
    serving = Serving(tmp_path / "new")
    unready = serving.get("/readyz")
    assert unready.status == 503
    assert unready.json["problem"].startswith(f"{serving.data} has no tables yet. ")
    assert serving.get("/v1/stores").json == {"stores": []}
    wait_until(serving.children, "the tailer", lambda found: "oriel.storage.tailer" in found)
    assert not serving.data.exists()
    assert f"{serving.data}: no tables exist yet." in serving.stderr.read_text()
    table = StoreTable(tmp_path / "new", make_definition())
    table.commit([{"key": "a", "start": 1}])
    serving.wait_for(1)
    assert StatusFile(DataLayout(serving.data)).read().alive
    assert serving.end() == 0
