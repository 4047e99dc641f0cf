"""The Python of Spark's own processes in tests: forked off one that has imported all they need.

Spark starts a Python for each query over an event log and topic, and four kinds of others in each
session. A start costs 0.7 s of processor, nearly all of it for pyspark, numpy and pyarrow, which is
most of what a run over a small log costs. Only sessions that live inside of tests do this. What
tests start as users do (``oriel run``) starts its Python as it is (docs/decisions/0069).
"""

import os
import runpy
import select
import shlex
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[1]
#: Where processes that tests start find the command.
COMMAND = "ORIEL_TESTS_WARM_PYTHON"
#: What Spark runs with it that is worth a fork.
_MODULES = ("pyspark.daemon", "pyspark.sql.streaming.python_streaming_source_runner")
_SCRIPT = """\
#!/bin/sh
case "$2" in
{modules}) exec {python} -I -S {client} {address} {python} "$@" ;;
esac
exec {python} "$@"
"""
#: What these import, and what is sent to them.
_IMPORTED = (
    "pandas",
    "pyspark.worker",
    "pyspark.sql.worker.create_data_source",
    "pyspark.sql.worker.lookup_data_sources",
    "pyspark.sql.worker.plan_data_source_read",
    "oriel.pipeline.run",
)
#: Of a request: arguments, folder and environment.
_REQUEST_BYTES = 2**20


@contextmanager
def warm_python() -> Iterator[None]:
    """Run it for the time of the block; processes that are started there may use it."""
    # A folder of its own: the name of a socket has a hundred characters at most.
    with (
        tempfile.TemporaryDirectory(prefix="oriel-warm-") as folder,
        socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listening,
    ):
        address, command = Path(folder) / "socket", Path(folder) / "python"
        listening.bind(str(address))
        # From here on clients wait, also for the start of the process that answers them.
        listening.listen(64)
        client = Path(__file__).with_name("warm_python_client.py")
        told = {"python": sys.executable, "client": str(client), "address": str(address)}
        script = {name: shlex.quote(text) for name, text in told.items()}
        command.write_text(_SCRIPT.format(**script, modules=" | ".join(_MODULES)))
        command.chmod(0o700)
        serve = [sys.executable, "-P", "-m", "tests.warm_python", str(listening.fileno())]
        with subprocess.Popen(
            serve, cwd=_ROOT, stdin=subprocess.PIPE, start_new_session=True,
            pass_fds=[listening.fileno()],
        ):  # fmt: skip
            # Leaving the block ends its input, and with it the process.
            os.environ[COMMAND] = str(command)
            yield
            del os.environ[COMMAND]


def use_warm_python() -> None:
    """Let Spark sessions of this process use it, where tests run it."""
    command = os.environ.get(COMMAND)
    if command is not None:
        from oriel.pipeline.spark import session  # noqa: PLC0415 - the warm one has it later

        vars(session).update(local_python=lambda _folder: command)


def _serve(listening: socket.socket) -> None:
    for name in _IMPORTED:
        import_module(name)
    while sys.stdin not in (ready := select.select([sys.stdin, listening], [], [])[0]):
        assert listening in ready
        _reap()
        connection, _ = listening.accept()
        if os.fork() == 0:
            listening.close()
            _become(connection)
        connection.close()


def _reap() -> None:
    """Forget children that have ended."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


def _become(connection: socket.socket) -> None:
    """Run what a client asks for, with its environment and its three files, and end."""
    asked, files, _, _ = socket.recv_fds(connection, _REQUEST_BYTES, 3)
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    count, *words = os.fsdecode(asked).split("\0")
    command, (folder, *environment) = words[: int(count)], words[int(count) :]
    os.environ.clear()
    for line in environment:
        name, _, text = line.partition("=")
        os.environ[name] = text
    os.chdir(folder)
    _, module, *arguments = command
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)
    sys.exit()


if __name__ == "__main__":
    _serve(socket.socket(fileno=int(sys.argv[1])))
