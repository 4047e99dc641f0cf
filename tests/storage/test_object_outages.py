"""Tests of object stores that restart, are busy, never respond or respond slowly."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pyarrow as pa
import pytest

from oriel.storage import DataLayout, ObjectStoreFailed
from oriel.storage.files import FilesByPath, object_requests, use_files, waiting_for
from oriel.storage.tailer.process import Tailer
from oriel.storage.tailer.status import StatusFile
from tests.object_store import BUCKET, ObjectStore
from tests.storage.object_store_gate import Gate, gate_to
from tests.storage.waiting import WAIT_SECONDS, wait_until

pytestmark = pytest.mark.slow

#: More than the client's own retries, which end after about 4 seconds.
_ATTEMPTS = 25


@pytest.fixture
def gate(object_store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    """Return an open gate to the object store, which is the endpoint of this process."""
    monkeypatch.setattr(object_requests, "_outages", {})
    # The current files would keep the endpoint of their first request.
    with gate_to(object_store.environment["AWS_ENDPOINT_URL"]) as gate, use_files(FilesByPath()):
        monkeypatch.setenv("AWS_ENDPOINT_URL", gate.address)
        yield gate


def _fill(sink: pa.NativeFile) -> None:
    sink.write(b"written")


_EFFECTS: dict[str, Callable[[FilesByPath, Path], object]] = {
    "read": lambda files, directory: files.read(directory / "f"),
    "open": lambda files, directory: files.open(directory / "f").read(),
    "map": lambda files, directory: files.map(directory / "f").read(),
    "names": lambda files, directory: files.names(directory),
    "is_directory": lambda files, directory: files.is_directory(directory),
    "create": lambda files, directory: files.create(directory / "new", b"new", sync=True),
    "replace": lambda files, directory: files.replace(directory / "f", b"new", sync=True),
    "write": lambda files, directory: files.write(directory / "new", _fill, sync=True).size,
    "copy": lambda files, directory: files.copy(directory / "f", directory / "new", sync=True),
    "delete": lambda files, directory: files.delete(directory / "f"),
    "delete_directory": lambda files, directory: files.delete_directory(directory),
}


def test_every_effect_outlives_a_restart_of_the_store(
    gate: Gate, object_store: ObjectStore, capfd: pytest.CaptureFixture[str]
) -> None:
    """Each operation waits until the store responds, and two lines report the outage."""
    files = FilesByPath()
    directories = {name: object_store.data(f"restart-{name}") for name in _EFFECTS}
    for directory in directories.values():
        files.create(directory / "f", b"content", sync=True)
    gate.close()
    with ThreadPoolExecutor(len(_EFFECTS)) as pool:
        doing = {
            name: pool.submit(operation, FilesByPath(), directories[name])
            for name, operation in _EFFECTS.items()
        }
        wait_until(
            lambda: gate.attempts, "attempts", lambda seen: seen >= _ATTEMPTS * len(_EFFECTS)
        )
        message = waiting_for()
        gate.open()
        found = {name: one.result() for name, one in doing.items()}
    assert message is not None
    assert message.startswith(f"object store {gate.address}: no response for ")
    assert waiting_for() is None
    assert found == {
        **dict.fromkeys(_EFFECTS),
        "read": b"content",
        "open": b"content",
        "map": b"content",
        "names": ["f"],
        "is_directory": True,
        "write": 7,
    }
    names = {name: sorted(files.names(directories[name])) for name in ("create", "write", "copy")}
    assert names == {name: ["f", "new"] for name in names}
    assert files.read(directories["replace"] / "f") == b"new"
    assert [files.names(directories[name]) for name in ("delete", "delete_directory")] == [[], []]
    first, last = capfd.readouterr().err.splitlines()
    assert f"object store {gate.address}: no response to the request to " in first
    assert f"s3://{BUCKET}/restart-" in first
    assert last.startswith(f"object store {gate.address}: responds again after ")


def test_a_store_that_never_responds_is_named(
    gate: Gate,
    object_store: ObjectStore,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A request without a response is reported in one line, and fails after the retry time."""
    monkeypatch.setattr(object_requests, "IDLE_SECONDS", 0.3)
    monkeypatch.setattr(object_requests, "RETRY_SECONDS", 1.0)
    path = object_store.data("silent") / "f"
    FilesByPath().create(path, b"content", sync=True)
    gate.stop_responding()
    with pytest.raises(ObjectStoreFailed, match=rf"at {gate.address} cannot be used for s3://"):
        FilesByPath().read(path)
    (line,) = capfd.readouterr().err.splitlines()
    assert line.startswith(
        f"object store {gate.address}: no response to the request to read s3://{BUCKET}/silent/f ("
    )
    assert line.endswith("). Trying again for 1 s. Check the object store and the network")
    # A command's first request is only repeated for a short time, and then raises the error.
    monkeypatch.setattr(object_requests, "FIRST_RETRY_SECONDS", 0.2)
    monkeypatch.setattr(object_requests, "RETRY_SECONDS", WAIT_SECONDS)
    with pytest.raises(ObjectStoreFailed, match=rf"at {gate.address} cannot be used for s3://"):
        FilesByPath().reach(path.parent)
    assert capfd.readouterr().err == ""
    gate.open()
    assert FilesByPath().read(path) == b"content"
    assert waiting_for() is None


class _Dribbling(BaseHTTPRequestHandler):
    """Sends an object in pieces, and pauses after each."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "60")
        self.send_header("ETag", '"1"')
        self.send_header("Last-Modified", "Tue, 15 Nov 1994 12:45:26 GMT")
        self.end_headers()
        for _ in range(6):
            self.wfile.write(10 * b"x")
            _never.wait(0.2)

    def log_message(self, *_: object) -> None:
        """Log nothing."""


_never = threading.Event()


def test_a_slow_read_is_not_cut(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A slow read is not canceled while bytes arrive."""
    monkeypatch.setattr(object_requests, "IDLE_SECONDS", 0.6)
    monkeypatch.setattr(object_requests, "RETRY_SECONDS", 0.0)
    monkeypatch.setenv("ORIEL_CACHE", str(tmp_path))
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Dribbling)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    environment = {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{server.server_port}",
        "AWS_ALLOW_HTTP": "true",
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_REGION": "us-east-1",
    }
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert FilesByPath().read(Path("s3:/bucket/read")) == 60 * b"x"
    assert FilesByPath().map(Path("s3:/bucket/mapped")).read() == 60 * b"x"
    server.shutdown()


def test_the_tailer_lives_while_the_store_never_responds(
    gate: Gate, object_store: ObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tailer keeps its heartbeat during an outage, and its problem names the object store."""
    monkeypatch.setattr(object_requests, "IDLE_SECONDS", 0.3)
    layout = DataLayout(object_store.data("tailed"), tmp_path / "index")
    gate.stop_responding()
    tailer = Tailer(layout.root, tmp_path / "index")
    status = StatusFile(DataLayout(layout.root, tmp_path / "index"))

    def problem() -> str | None:
        tailer.round()
        return status.read().problem

    found = wait_until(problem, "the problem")
    assert found is not None
    assert found.startswith(f"object store {gate.address}: no response for ")
    heartbeat = status.heartbeat()
    tailer.round()
    assert status.heartbeat() != heartbeat
    gate.open()
    wait_until(problem, "no problem", lambda seen: seen is None)
    tailer.end()
