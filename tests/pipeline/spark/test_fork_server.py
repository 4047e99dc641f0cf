"""The server that forks Spark's Python processes, and the command that uses it."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import psutil  # type: ignore[import-untyped]
import pytest

from tests.storage.waiting import wait_until

#: Prints the command and waits for the end of its input, as ``oriel run`` does with Java.
_DRIVER = """
import sys, threading
from oriel.pipeline.spark import scratch_directory, start_fork_server
from oriel.pipeline.spark.python import local_python

if "thread" in sys.argv:
    threading.Thread(target=threading.Event().wait, daemon=True).start()
if "object store" in sys.argv:
    import obstore
start_fork_server(scratch_directory())
# A second call has no effect.
start_fork_server(scratch_directory())
print(local_python(scratch_directory()), flush=True)
sys.stdin.read()
"""
ROOT = Path(__file__).resolve().parents[3]
_REPORT = "tests.pipeline.spark.forked_report"


class _Driver:
    """A process with a fork server."""

    def __init__(self, directory: Path, *words: str) -> None:
        environment = {**os.environ, "TMPDIR": str(directory)}
        self.process = subprocess.Popen(
            [sys.executable, "-W", "error::RuntimeWarning", "-c", _DRIVER, *words],
            env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert self.process.stdout is not None
        self.python = self.process.stdout.readline().strip()

    def report(
        self, directory: Path, *arguments: str, **variables: str
    ) -> tuple[dict[str, Any], int]:
        """Return what a process that the command starts prints, and its exit code."""
        ended = subprocess.run(
            [self.python, "-m", _REPORT, *arguments],
            input="some\ninput", cwd=directory, env={**os.environ, **variables},
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert ended.stderr == "to stderr"
        return orjson.loads(ended.stdout), ended.returncode

    def server(self) -> psutil.Process:
        """Return the server, once it has its name."""
        (server,) = wait_until(lambda: self.servers, "the server", lambda found: len(found) == 1)
        return server

    @property
    def servers(self) -> list[psutil.Process]:
        """The forked processes of the driver."""
        children = psutil.Process(self.process.pid).children()
        return [child for child in children if "server of Spark" in " ".join(child.cmdline())]


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[_Driver]:
    """Start a process with a fork server."""
    running = _Driver(tmp_path)
    yield running
    running.process.kill()
    running.process.communicate()


def test_a_forked_process_has_what_the_command_was_given(driver: _Driver, tmp_path: Path) -> None:
    """It has arguments, input, directory, environment, outputs and exit code of the command."""
    directory = tmp_path / "a folder"
    directory.mkdir()
    found, code = driver.report(directory, "one", "", "ü", FORKED_REPORT="a=b\nc")
    server = driver.server()
    assert found == {
        "arguments": ["one", "", "ü"],
        "input": "some\ninput",
        "directory": str(directory),
        "variable": "a=b\nc",
        "has_tasks": True,
        # No lock, pipe or connection of another process.
        "descriptors": [0, 1, 2],
        "parent": server.pid,
        "title": f"oriel: {_REPORT} one  ü",
    }
    assert code == 3


def test_the_module_that_is_run_may_be_imported_already(driver: _Driver) -> None:
    """Warnings can be errors, and Python warns if the module that it runs is imported."""
    ended = subprocess.run(
        [driver.python, "-m", "pyspark.daemon", "pyspark.worker"],
        stdin=subprocess.DEVNULL, capture_output=True, check=False,
    )  # fmt: skip
    # The port on which the daemon listens, until its input ends.
    assert (len(ended.stdout), ended.stderr) == (4, b"")


def test_a_server_that_ends_leaves_its_clients_to_python(driver: _Driver) -> None:
    """A client that has connected starts Python itself."""
    server = driver.server()
    server.suspend()
    asking = subprocess.Popen(
        [driver.python, "-m", _REPORT, "one"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT,
    )  # fmt: skip
    client = psutil.Process(asking.pid)
    wait_until(
        lambda: (client.cmdline(), client.status()),
        "the client waits",
        lambda found: "fork_client.py" in " ".join(found[0]) and found[1] == "sleeping",
    )
    server.kill()
    result, _ = asking.communicate(b"input")
    found = orjson.loads(result)
    assert (found["arguments"], found["has_tasks"], asking.returncode) == (["one"], False, 1)


def test_a_long_environment_gets_a_process_of_its_own(driver: _Driver, tmp_path: Path) -> None:
    """The message to the server has a size limit."""
    found, code = driver.report(tmp_path, FORKED_REPORT="x" * 130_000)
    assert (len(found["variable"]), found["has_tasks"], code) == (130_000, False, 0)


def test_other_arguments_of_python_are_run_by_python(driver: _Driver) -> None:
    """Only modules are forked."""
    result = subprocess.run(
        [driver.python, "-c", "print(1 + 1)"], capture_output=True, text=True, check=True
    )
    assert result.stdout == "2\n"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_the_server_ends_with_its_process(driver: _Driver, number: int) -> None:
    """The server ends after any end of its process."""
    server = driver.server()
    driver.process.send_signal(number)
    driver.process.wait()
    wait_until(server.is_running, "the end of the server", lambda runs: not runs)


def test_a_signal_for_all_processes_leaves_the_server_to_its_process(
    driver: _Driver, tmp_path: Path
) -> None:
    """A service manager signals all processes, and the run then needs its workers to stop."""
    server = driver.server()
    server.send_signal(signal.SIGTERM)
    server.send_signal(signal.SIGINT)
    found, _ = driver.report(tmp_path)
    assert found["parent"] == server.pid


@pytest.mark.parametrize("word", ["thread", "object store"])
def test_a_process_with_threads_has_no_server(tmp_path: Path, word: str) -> None:
    """A lock that another thread holds would never be released in a forked process.

    The client of object stores writes to a descriptor to wake its threads. In a forked process,
    the descriptor was a connection to Java, and Java read eight bytes that no one had sent to it.
    """
    driver = _Driver(tmp_path, word)
    found, code = driver.report(tmp_path, "one")
    assert (driver.servers, found["has_tasks"], code) == ([], False, 1)
    driver.process.kill()
    driver.process.communicate()
