"""The directory, port and child processes of the demo."""

import os
import signal
import socket
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from oriel.demo import command
from oriel.demo.directory import fresh_directory
from oriel.demo.errors import DemoError
from oriel.demo.processes import HOST, choose_port, running
from oriel.demo.records.live import replay
from tests.ports import reserved_port

ROOT = Path(__file__).resolve().parents[2]


def test_the_directory_is_emptied(tmp_path: Path) -> None:
    """Each start deletes the files of the previous start."""
    with fresh_directory(tmp_path / "demo") as directory:
        (directory.data / "old").touch()
    with fresh_directory(tmp_path / "demo") as directory:
        assert not list(directory.data.iterdir())


def test_a_directory_of_other_files_is_rejected(tmp_path: Path) -> None:
    """The demo never deletes files that it did not create."""
    (tmp_path / "data").mkdir()
    with pytest.raises(DemoError, match="the demo did not create it"), fresh_directory(tmp_path):
        pass
    assert (tmp_path / "data").is_dir()


def test_two_demos_do_not_share_a_directory(tmp_path: Path) -> None:
    """A second demo in the same directory fails with a message."""
    with (
        fresh_directory(tmp_path / "demo"),
        pytest.raises(DemoError, match="another demo uses"),
        fresh_directory(tmp_path / "demo"),
    ):
        pass


def test_an_installed_demo_keeps_its_files_in_the_current_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a clone, the directory is in the clone, in every current directory."""
    monkeypatch.chdir(tmp_path)
    assert command.default_directory() == ROOT / ".oriel" / "demo"
    monkeypatch.setattr(command, "IMPORT_ROOT", tmp_path / "lib" / "site-packages")
    assert command.default_directory() == Path(".oriel/demo")


def test_a_busy_port_is_replaced_or_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """A free port replaces the default port, with a message. A requested port must be free."""
    with socket.socket() as holder:
        holder.bind((HOST, 0))
        holder.listen()
        busy = holder.getsockname()[1]
        assert choose_port(None, busy) != busy
        assert f"port {busy} is in use" in capsys.readouterr().err
        with pytest.raises(DemoError, match=f"port {busy} is in use"):
            choose_port(busy, 8080)
    free = reserved_port()
    assert choose_port(free, 8080) == free


@pytest.mark.slow
def test_a_child_that_ends_is_reported_with_its_last_words(tmp_path: Path) -> None:
    """The message of a failed child process has its output."""
    missing = ["run", "no_such_topology.py", "--event-log", str(tmp_path), "--data", str(tmp_path)]
    with running("pipeline", missing, tmp_path) as child:
        with pytest.raises(
            DemoError, match=r"(?s)the pipeline ended with code 1.*no_such_topology"
        ):
            child.require_success()
        assert not child.is_running


def test_a_child_ends_with_its_block(tmp_path: Path) -> None:
    """The end of the block ends the child and all processes of its session."""
    service = ["serve", "--data", str(tmp_path), "--port", "0"]
    with running("service", service, tmp_path) as child:
        child.require_running()
    assert child.process.returncode == -signal.SIGTERM
    with pytest.raises(ProcessLookupError):
        os.killpg(child.process.pid, 0)


def test_the_replay_appends_every_line(tmp_path: Path) -> None:
    """The replay appends all lines in order and runs the check between the steps."""
    checks: list[int] = []
    replay(
        tmp_path, np.array([0, 1, 0]), pa.array(["a\n", "b\n", "c\n"]), 1000.0,
        lambda: checks.append(1),
    )  # fmt: skip
    assert (tmp_path / "flights" / "0.jsonl").read_text() == "a\nc\n"
    assert (tmp_path / "flights" / "1.jsonl").read_text() == "b\n"
    assert checks


def test_the_link_to_the_dashboard_takes_any_key() -> None:
    """The link has the encoding of a browser form."""
    link = command.dashboard_link("http://h", "s", "a/b &ü")
    assert link == "http://h/#store=s&key=a%2Fb+%26%C3%BC"
