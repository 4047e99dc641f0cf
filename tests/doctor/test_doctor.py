"""``oriel doctor``: each check finds what is wrong, and nothing where nothing is."""

import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler, HTTPServer
from ipaddress import ip_address
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from oriel.doctor import connections, directories, machine, main, workings
from oriel.doctor.registry import CHECKS, examined
from oriel.doctor.results import Check, Level, Result, Subject
from oriel.storage import DataLayout, current_files, parse_data_directory
from oriel.storage.tailer import StatusFile, StoreStatus
from oriel.storage.tailer.status import STATUS_FILE
from tests.app.api_client import write_pipeline_status
from tests.app.serving import Serving
from tests.certificates import self_signed
from tests.disks import small_disk
from tests.object_store import BUCKET, ObjectStore
from tests.ports import reserved_port
from tests.storage.store_tables import StoreTable, make_definition
from tests.tidy.project import ROOT

_OK, _WARNING, _PROBLEM = Level.OK, Level.WARNING, Level.PROBLEM
#: A user without any rights, on every system.
_NOBODY = 65_534


def _levels(check: Check, subject: Subject) -> list[Level]:
    return [result.level for result in check.results(subject)]


def _one(check: Check, subject: Subject) -> Result:
    (result,) = check.results(subject)
    return result


@pytest.fixture(name="data")
def _data(tmp_path: Path) -> Path:
    """A store whose pipeline runs, and which a service follows."""
    directory = tmp_path / "data"
    StoreTable(directory, make_definition()).commit([{"key": "a", "start": 0}])
    write_pipeline_status(directory)
    StatusFile(DataLayout(directory)).write({"store": StoreStatus("following", 1)})
    return directory


def test_a_sound_directory_has_no_problem(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each line has a level, a check and a sentence, and the last one counts."""
    assert main(["--data", str(data), "--port", str(reserved_port())]) == 0
    *lines, last = capsys.readouterr().out.splitlines()
    assert last.startswith("0 problems, ")
    levels = {line.split()[0] for line in lines}
    assert levels <= {"ok", "warning"}
    checked = {line[9:23].strip() for line in lines}
    assert {"Python", "rights", "disk", "commit times", "pipelines", "stores", "port"} <= checked


def test_json_has_the_same_results(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One object per line, with what is to be done in a field of its own."""
    DataLayout(data).checkpoint("flights").rename(data / "gone")
    assert main(["--data", str(data), "--json", "--port", str(reserved_port())]) == 0
    results = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    found = {one["check"]: one for one in results}
    assert found["pipelines"] == {
        "check": "pipelines",
        "level": "warning",
        "found": f"No pipeline has run in {data}",
        "action": "Start one: `oriel run`",
    }
    assert set(found) == {
        check.name for check in CHECKS for _ in check.results(Subject(data=data, port=1))
    }


def test_a_problem_is_exit_code_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A script that starts a pipeline can stop before it."""
    assert main(["--event-log", str(tmp_path / "missing")]) == 1
    out = capsys.readouterr().out
    assert f"problem  event log     {tmp_path / 'missing'} is not a directory. " in out
    assert "\n1 problem, " in out


def test_the_command_needs_no_package() -> None:
    """Not even the packages that read a data directory, because it reports which are missing."""
    command = [sys.executable, "-S", "-P", "-m", "oriel", "doctor", "--data", "/nowhere"]
    done = subprocess.run(
        command, env={"PYTHONPATH": str(ROOT / "src"), "PATH": os.environ["PATH"]},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "Traceback" not in done.stderr
    assert "Oriel" in done.stdout


@pytest.mark.parametrize(
    ("installed", "level", "found"),
    [
        ({}, _WARNING, "`oriel run` is not installed"),
        ({"pyspark": "4.2.0"}, _PROBLEM, "`oriel run` needs lmdb, which is not installed"),
        ({"pyspark": "4.1.0", "lmdb": "3.0.0"}, _PROBLEM, "pyspark is 4.1.0"),
        ({"pyspark": "4.2.0", "lmdb": "3.1.0"}, _OK, "All 2 packages"),
    ],
)
def test_packages_are_those_of_the_distribution(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    installed: dict[str, str],
    level: Level,
    found: str,
) -> None:
    """If one package of a part is installed, all packages of this part must be installed."""
    needs = ["lmdb>=3.0,<4", "pyspark==4.2.0"]
    _distribution(tmp_path, "oriel", "9", [f'{need}; extra == "pipeline"' for need in needs])
    for name, version in installed.items():
        _distribution(tmp_path, name, version)
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    first = next(iter(machine.Packages().results(Subject())))
    assert first.level == level
    assert found in first.found


def _distribution(directory: Path, name: str, version: str, needs: list[str] | None = None) -> None:
    info = directory / f"{name}-{version}.dist-info"
    info.mkdir()
    lines = [
        f"Name: {name}",
        f"Version: {version}",
        *(f"Requires-Dist: {one}" for one in needs or []),
    ]
    (info / "METADATA").write_text("\n".join(["Metadata-Version: 2.1", *lines, ""]))


@pytest.mark.parametrize(
    ("says", "level"),
    [
        ('openjdk version "17.0.15" 2025-04-15', _OK),
        ('openjdk version "21" 2023-09-19', _OK),
        ('java version "1.8.0_202"', _PROBLEM),
        ("Segmentation fault", _PROBLEM),
    ],
)
def test_java_is_asked_for_its_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, says: str, level: Level
) -> None:
    """Spark fails with a trace on other versions."""
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text(f"#!/bin/sh\necho '{says}' >&2\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert _levels(machine.Java(), Subject()) == [level]


def test_a_missing_java_names_where_it_was_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """JAVA_HOME counts before the PATH."""
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert str(tmp_path) in _one(machine.Java(), Subject()).found


def test_rights_are_those_of_the_user(data: Path) -> None:
    """For the user nobody, the message names the first directory without access."""
    if os.geteuid():
        pytest.skip("only root can become another user")
    assert _levels(directories.Rights(), Subject(data=data)) == [_OK]
    for directory in (data, *data.parents[:-1]):
        directory.chmod(0o755)
    assert _as_nobody(directories.Rights(), Subject(data=data)) == (
        f"{data} belongs to user 0, and user {_NOBODY} cannot write into it. "
        f"Run Oriel as its owner, or change the owner: chown -R {_NOBODY} {data}."
    )
    os.chown(data, _NOBODY, _NOBODY)
    assert _levels(directories.Rights(), Subject(data=data)) == [_WARNING]


def _as_nobody(check: Check, subject: Subject) -> str:
    """Return the lines of a check by a user without rights, who is a child of this process."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.setgid(_NOBODY)
        os.setuid(_NOBODY)
        os.write(writer, "|".join(map(str, check.results(subject))).encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, encoding="utf-8") as lines:
        found = lines.read()
    os.waitpid(child, 0)
    return found


def test_a_full_disk_is_a_problem(tmp_path: Path) -> None:
    """The message has the size of the file system. An index on another one is also checked."""
    with small_disk(tmp_path / "disk", 1 << 20) as disk:
        assert _levels(directories.Disk(), Subject(data=disk / "data")) == [_PROBLEM]
        both = Subject(data=tmp_path, index=disk)
        assert _levels(directories.Disk(), both) == [_OK, _PROBLEM]


@pytest.mark.parametrize(("seconds", "level"), [(-5.0, _OK), (3_600.0, _PROBLEM)])
def test_commits_from_the_future_are_a_problem(data: Path, seconds: float, level: Level) -> None:
    """The wall clock is wrong, or it was wrong when the commits were created."""
    entry = next(data.glob("tables/store/_delta_log/*.json"))
    os.utime(entry, (time.time() + seconds,) * 2)
    assert _levels(directories.CommitTimes(), Subject(data=data)) == [level]


def test_a_store_that_failed_is_a_problem(data: Path) -> None:
    """The message is from `oriel status`. Without a service, no tailer follows the store."""
    assert _levels(workings.Stores(), Subject(data=data)) == [_OK]
    status = StatusFile(DataLayout(data))
    status.write({"store": StoreStatus("failed", 1, "CorruptLog: torn")})
    assert _one(workings.Stores(), Subject(data=data)).found == "Store store: CorruptLog: torn"
    os.utime(DataLayout(data).indexes / STATUS_FILE, (0, 0))
    assert _levels(workings.Stores(), Subject(data=data)) == [_WARNING]


def test_a_pipeline_that_stopped_is_a_problem(data: Path) -> None:
    """With when it ran last, and what to do."""
    assert _levels(workings.Pipelines(), Subject(data=data)) == [_OK]
    write_pipeline_status(data, has_ended=True)
    result = _one(workings.Pipelines(), Subject(data=data))
    assert result.level == _PROBLEM
    assert result.found.startswith("Pipeline flights has not run since ")
    assert result.action == "Start it with the same --data"


@pytest.mark.parametrize(
    ("files", "level"), [([], _WARNING), (["t/0.jsonl", "t/1.jsonl", "u/0.jsonl"], _OK)]
)
def test_an_event_log_has_topics(tmp_path: Path, files: list[str], level: Level) -> None:
    """A directory without any is probably another one."""
    for name in files:
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"{}\n")
    assert _levels(workings.EventLog(), Subject(event_log=tmp_path)) == [level]


def test_brokers_must_accept_connections() -> None:
    """Each server of the list has a line of its own."""
    with closing(socket.create_server(("127.0.0.1", 0))) as broker:
        address = f"127.0.0.1:{broker.getsockname()[1]}"
        servers = (address, f"127.0.0.1:{reserved_port()}", "broker")
        assert _levels(connections.Brokers(), Subject(kafka=servers)) == [_OK, _PROBLEM, _PROBLEM]


def _written(directory: Path, days: float) -> Subject:
    key, certificate = self_signed("oriel", x509.IPAddress(ip_address("127.0.0.1")), days)
    subject = Subject(tls_cert=directory / f"{days}.pem", tls_key=directory / f"{days}.key")
    assert subject.tls_cert is not None
    assert subject.tls_key is not None
    subject.tls_cert.write_bytes(certificate.public_bytes(Encoding.PEM))
    subject.tls_key.write_bytes(
        key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    )
    subject.tls_key.chmod(0o600)
    return subject


@pytest.mark.parametrize(("days", "level"), [(90, _OK), (5, _WARNING), (-2, _PROBLEM)])
def test_a_certificate_has_an_end(tmp_path: Path, days: float, level: Level) -> None:
    """The check reports a certificate before it expires."""
    assert _levels(connections.Certificate(), _written(tmp_path, days)) == [level]


def test_a_key_of_another_certificate_is_a_problem(tmp_path: Path) -> None:
    """A key that others can read is a warning."""
    one, other = _written(tmp_path, 90), _written(tmp_path, 91)
    mixed = Subject(tls_cert=one.tls_cert, tls_key=other.tls_key)
    assert "key values mismatch" in _one(connections.Certificate(), mixed).found
    assert one.tls_key is not None
    one.tls_key.chmod(0o644)
    assert _levels(connections.Certificate(), one) == [_WARNING, _OK]


@pytest.fixture(name="stranger")
def _stranger() -> Iterator[str]:
    """The address of a web server that is not Oriel's."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"<html>")

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_a_service_and_its_port(tmp_path: Path, stranger: str) -> None:
    """A port is free, or a program uses it. A service is ready, or not, or missing."""
    StoreTable(tmp_path / "data", make_definition()).commit([{"key": "a", "start": 0}])
    serving = Serving(tmp_path / "data")
    # The index can still be verified although its version is known.
    serving.wait_for(1)
    serving.wait_for_status("/readyz", 200)
    ours = f"http://127.0.0.1:{serving.port}"
    assert _one(connections.Service(), Subject(url=ours)).found == f"{ours} is ready with 1 stores"
    assert "service of Oriel" in _one(connections.Port(), Subject(port=serving.port)).found
    assert serving.end() == 0
    assert _levels(connections.Service(), Subject(url=ours)) == [_PROBLEM]
    theirs = int(stranger.rpartition(":")[2])
    assert _levels(connections.Port(), Subject(port=theirs)) == [_PROBLEM]
    assert "is not from Oriel" in _one(connections.Service(), Subject(url=stranger)).found
    assert _levels(connections.Port(), Subject(port=reserved_port())) == [_OK]


def test_an_error_of_the_system_is_a_problem() -> None:
    """The problem names the file of the error."""

    class Broken(Check):
        name = "broken"

        def results(self, _subject: Subject) -> Iterator[Result]:
            Path("/nowhere/x").read_bytes()
            yield from ()

    ((name, result),) = examined(Subject(), [Broken()])
    assert (name, result.level) == ("broken", _PROBLEM)
    assert result.found.startswith("/nowhere/x: ")


def test_an_object_store_takes_and_deletes_an_object(
    object_store: ObjectStore, tmp_path: Path
) -> None:
    """The check leaves no object. A message names a wrong address or bucket."""
    data = object_store.data(tmp_path.name)
    assert _levels(directories.ObjectStore(), Subject(data=data)) == [_OK]
    assert current_files().names(data) == []
    missing = parse_data_directory("s3://no-such-bucket/data")
    assert (
        "s3://no-such-bucket/data" in _one(directories.ObjectStore(), Subject(data=missing)).found
    )
    assert _levels(directories.ObjectStore(), Subject(data=missing)) == [_PROBLEM]
    assert _levels(directories.Disk(), Subject(data=data)) == []
    assert main(["--data", f"s3://{BUCKET}/{tmp_path.name}"]) == 0
