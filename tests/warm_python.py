"""The fork server of ``oriel run``, for Spark sessions inside of tests (decision 0069).

A process of tests has threads, so it cannot fork the server itself. One server runs as a separate
process, and all sessions of a test run use it.
"""

import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path

from oriel.pipeline.spark.python import fork_address, local_python, serve_forks

_ROOT = Path(__file__).resolve().parents[1]
#: The variable with the command, for processes that tests start.
COMMAND = "ORIEL_TESTS_WARM_PYTHON"
#: Modules that tests need in addition to the server's imports.
_IMPORTED = ("pandas", "pyspark.sql.worker.lookup_data_sources", "oriel.pipeline.run")


@contextmanager
def warm_python() -> Iterator[None]:
    """Run the server for the time of the block. Processes that the block starts can use it."""
    with (
        tempfile.TemporaryDirectory(prefix="oriel-warm-") as directory,
        socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listening,
    ):
        listening.bind(str(fork_address(Path(directory))))
        # From here on clients wait, also for the start of the server.
        listening.listen(64)
        serve = [sys.executable, "-P", "-m", "tests.warm_python", str(listening.fileno())]
        with subprocess.Popen(
            serve, cwd=_ROOT, stdin=subprocess.PIPE, pass_fds=[listening.fileno()]
        ):
            # The end of the block closes the server's input, which ends the server.
            os.environ[COMMAND] = local_python(Path(directory))
            yield
            del os.environ[COMMAND]


def use_warm_python() -> None:
    """Let Spark sessions of this process use the server, if tests run it."""
    command = os.environ.get(COMMAND)
    if command is not None:
        from oriel.pipeline.spark import session  # noqa: PLC0415 - the server has it later

        vars(session).update(local_python=lambda _directory: command)


if __name__ == "__main__":
    for name in _IMPORTED:
        import_module(name)
    serve_forks(socket.socket(fileno=int(sys.argv[1])), os.dup(sys.stdin.fileno()))
