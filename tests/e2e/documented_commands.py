"""Run the blocks of a page in a shell, in one directory, from top to bottom.

In that shell, ``oriel`` is a few lines of Python that send the command to this process. This
process runs the command in the process of ``runs_in_one_process``, where Java starts once for all
pages. ``oriel serve`` starts a service that runs until the end of the page. A pipeline that would
run without end runs with ``--once``, and again before each block after the log has grown. A free
port replaces port 8080 of the pages.
"""

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from shlex import quote
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Any, Self

import numpy as np

from oriel.demo.records.event_log import append_lines, to_lines
from oriel.demo.records.flight_data import read_flights
from tests.app.serving import Serving
from tests.documentation.pages import Block, blocks
from tests.e2e.runs_in_one_process import Runs
from tests.ports import reserved_port
from tests.storage.waiting import WAIT_SECONDS
from tests.tidy.project import ROOT

_HANDING_OVER = """\
import json, os, socket, sys

with socket.socket(socket.AF_UNIX) as asked:
    asked.connect(os.environ["ORIEL_SOCKET"])
    asked.sendall(json.dumps([os.getcwd(), sys.argv[1:], dict(os.environ)]).encode() + b"\\n")
    code, output, told = json.loads(asked.makefile().readline())
sys.stdout.write(output)
sys.stderr.write(told)
sys.exit(code)
"""


#: Pages that a reader starts in an empty directory. The readers of other pages have run the demo.
FROM_NOTHING = [
    ROOT / "README.md",
    *(
        ROOT / "docs" / "get-started" / f"{name}.md"
        for name in ("quickstart", "tutorial", "tutorial-joins")
    ),
]
_FLIGHTS = 4_000


@contextmanager
def served_demo(directory: Path, runs: Runs) -> Iterator[int]:
    """Run the topology of the demo for some flights. Yield the port of its service."""
    flights = read_flights()[:_FLIGHTS]
    append_lines(directory / "events", np.asarray(flights["partition"]), to_lines(flights))
    topology = str(shutil.copy(ROOT / "demo" / "flights.py", directory))
    paths = ["--event-log", str(directory / "events"), "--data", str(directory / "data")]
    ended = runs.run(topology, *paths, "--once")
    assert ended.code == 0, ended.errors
    service = Serving(directory / "data", "--index", str(directory / "index"))
    try:
        service.wait_for_status("/readyz", 200)
        yield service.port
    finally:
        service.end()


def run_page(page: Path, directory: Path, runs: Runs, port: int | None) -> None:
    """Run the blocks of a page in ``directory``. ``port`` is the port of a running service."""
    with PageRun(directory, runs, port) as page_run:
        for block in blocks(page):
            if block.is_run:
                page_run.run(block)


class PageRun:
    """The directory of a page, its service, and the output of its last command."""

    def __init__(self, directory: Path, runs: Runs, port: int | None) -> None:
        """Run blocks in ``directory``. ``port`` is the port of a running service."""
        self._directory = directory
        self._runs = runs
        self._port = port
        self._service: Serving | None = None
        self._live: list[list[str]] = []
        self._observed_bytes = 0
        self._output = ""
        self._scope: dict[str, Any] = {}
        tools = directory.with_name(f"{directory.name}-tools")
        tools.mkdir()
        handing_over, python = tools / "handing_over.py", quote(sys.executable)
        handing_over.write_text(_HANDING_OVER)
        for program, command in {
            tools / "oriel": f"{python} -S {quote(str(handing_over))}",
            directory / "oriel": f"{python} -S {quote(str(handing_over))}",
            tools / "python": python,
            # The test fails if the service responds with an error.
            tools / "curl": f"{shutil.which('curl')} -sS --fail-with-body",
        }.items():
            program.write_text(f'#!/bin/sh\nexec {command} "$@"\n')
            program.chmod(0o755)
        # The path of a socket must be short, so it is not in the directory of the page.
        self._socket_directory = TemporaryDirectory(prefix="oriel-")
        address = str(Path(self._socket_directory.name) / "asked")
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(address)
        self._listener.listen()
        threading.Thread(target=self._respond, daemon=True).start()
        self._environment = {
            **os.environ, "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}",
            "ORIEL_SOCKET": address,
        }  # fmt: skip

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:  # fmt: skip
        self._listener.close()
        self._socket_directory.cleanup()
        if self._service is not None:
            self._service.end()

    def run(self, block: Block) -> None:
        """Run a block, write its file, or compare the last output with the block."""
        if self._log_bytes() != self._observed_bytes:
            for arguments in self._live:
                self._oriel(self._directory, arguments)
        if block.file_name is not None:
            (self._directory / block.file_name).write_text(block.text)
        elif block.language == "sh":
            self._output = self._shell(block)
        elif block.language == "py":
            code = compile("\n" * block.line + self._at_its_port(block.text), block.place, "exec")
            exec(code, self._scope)  # noqa: S102 - the code of the page
        elif block.language == "json" and self._output:
            shown, got = json.loads(block.text), json.loads(self._output)
            assert _shape(shown) == _shape(got), f"{block.place}: it is now {self._output}"

    def _shell(self, block: Block) -> str:
        script = f"set -euo pipefail\n{self._at_its_port(block.text)}"
        done = subprocess.run(
            ["bash", "-c", script], cwd=self._directory, env=self._environment, capture_output=True,
            text=True, check=False, timeout=2 * WAIT_SECONDS,
        )  # fmt: skip
        assert done.returncode == 0, f"{block.place}: {done.stdout}{done.stderr}"
        return done.stdout

    def _at_its_port(self, text: str) -> str:
        if self._service is None and "oriel serve" in text:
            self._port = reserved_port()
        return re.sub(r"(?:localhost|127\.0\.0\.1):8080\b", f"127.0.0.1:{self._port}", text)

    def _respond(self) -> None:
        """Run the commands of the shell's ``oriel`` until the page ends."""
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with connection:
                directory, arguments, environment = json.loads(connection.makefile().readline())
                try:
                    response = self._oriel(Path(directory), arguments, environment)
                except AssertionError as not_in_time:
                    response = (1, "", str(not_in_time))
                connection.sendall(json.dumps(response).encode() + b"\n")

    def _oriel(
        self, directory: Path, arguments: Sequence[str], environment: dict[str, str] | None = None
    ) -> tuple[int, str, str]:
        """Run a command. Return its exit code, output and stderr."""
        command, *options = arguments
        if command == "serve":
            return self._serve(directory, options)
        if command == "run" and "--once" not in options:
            if arguments not in self._live:
                self._live.append([*arguments])
            options.append("--once")
            if self._log_bytes() == self._observed_bytes:
                # The pipeline has no new records.
                return 0, "", ""
        if command == "run":
            self._observed_bytes = self._log_bytes()
        if command == "get":
            # The command needs no Java and writes bytes.
            url = ["--url", f"http://127.0.0.1:{self._port}"]
            done = subprocess.run(
                [sys.executable, "-P", "-m", "oriel", "get", *options, *url], cwd=directory,
                env=environment, capture_output=True, text=True, check=False, timeout=WAIT_SECONDS,
            )  # fmt: skip
            return done.returncode, done.stdout, done.stderr
        ended = self._runs.call("tests.e2e.in_directory", str(directory), command, *options)
        return ended.code, ended.output, "\n".join(ended.errors)

    def _serve(self, directory: Path, options: Sequence[str]) -> tuple[int, str, str]:
        if self._service is not None:
            self._service.end()
        data = directory / options[options.index("--data") + 1]
        others = [*options[: options.index("--data")], *options[options.index("--data") + 2 :]]
        # The service has another working directory.
        others = [
            str(directory / each) if (directory / each).is_file() else each for each in others
        ]
        self._service = Serving(data, *others, "--port", str(self._port))
        self._service.wait_for_status("/readyz", 200)
        return 0, "", ""

    def _log_bytes(self) -> int:
        """Return the size of the log of a live pipeline."""
        return sum(log.stat().st_size for log in self._directory.rglob("events/*/*.jsonl"))


def _shape(value: Any) -> Any:
    """Return the shape of a JSON value: the names of objects and the first item of lists."""
    if isinstance(value, dict):
        return {name: _shape(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_shape(value[0])] if value else []
    return None if value is None else isinstance(value, str)
