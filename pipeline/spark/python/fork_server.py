"""A process that forks Spark's Python processes, so that they start with all modules imported.

For a query, Java starts seven Python processes one after the other. Each would import pyspark,
Arrow and Oriel for about a second. So ``oriel run`` forks a server once its own modules are
imported, and the command that Java starts as Python requests a process from it (decision 0093).

    Java  --starts-->  python (sh, fork_client)  --arguments, environment, 0, 1, 2-->  server
                                                 <--exit code--                          |
    Java  <----------------------- stdin, stdout, stderr ----------------------------  fork
"""

import ctypes
import gc
import os
import runpy
import selectors
import signal
import socket
import sys
import threading
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import NoReturn

from oriel.pipeline.spark.python.fork_client import FORKED, MESSAGE_BYTES, short_address
from oriel.pipeline.spark.python.local_python import fork_address

#: What the forked processes run or import.
_IMPORTED = (
    "pyspark.daemon",
    "pyspark.worker",
    "pyspark.sql.worker.create_data_source",
    "pyspark.sql.worker.plan_data_source_read",
    "pyspark.sql.streaming.python_streaming_source_runner",
    "oriel.pipeline.event_log",
    "oriel.pipeline.sources.kafka_client",
    "oriel.pipeline.tasks",
)
#: Environment variable of glibc -> the parameter of ``mallopt``. glibc reads these variables when a
#: program starts, and not after a fork.
_MALLOC_PARAMETERS = {"MALLOC_TRIM_THRESHOLD_": -1, "MALLOC_MMAP_THRESHOLD_": -3}
_INT_MAX = 2**31 - 1
#: Python does not count the threads of this module. After a fork, the module signals to threads
#: that do not exist. The descriptor that it uses is then another file or socket.
_WITH_THREADS = "obstore"

#: Ends of pipes. They close when this process ends, and then the server ends.
_lifelines: list[int] = []


def start_fork_server(directory: Path) -> None:
    """Start the server, for the command that ``local_python`` has written into ``directory``.

    Only a process with one thread can fork safely. Call it before the first request to an object
    store. If the process has more threads, or the system has no descriptors of processes, the
    command starts Python as usual. A second call has no effect.

    Args:
        directory: A directory of this user alone, because all who can use the socket can start
            processes.
    """
    has_threads = threading.active_count() > 1 or _WITH_THREADS in sys.modules
    if _lifelines or has_threads or not _has_process_descriptors():
        return
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    descriptor, address = short_address(os.fspath(fork_address(directory)))
    listening.bind(address)
    os.close(descriptor)
    listening.listen()
    parent_pipe, lifeline = os.pipe()
    if not os.fork():
        serve_forks(listening, parent_pipe)
    os.close(parent_pipe)
    listening.close()
    _lifelines.append(lifeline)


def _has_process_descriptors() -> bool:
    """Return whether ``pidfd_open`` works, which only Linux has, and some sandboxes lack."""
    if sys.platform != "linux":
        return False
    try:
        os.close(os.pidfd_open(os.getpid()))
    except OSError:
        return False
    return True


def serve_forks(listening: socket.socket, parent_pipe: int) -> NoReturn:
    """Fork a process for each client until the process with the other end of the pipe ends."""
    try:
        # A signal from the terminal is for the process that runs the topology.
        os.setsid()
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
        _close_others({listening.fileno(), parent_pipe})
        _set_title("server of Spark's Python processes")
        for module in _IMPORTED:
            # If an optional dependency is not installed, a module is missing. The process that
            # needs the module reports this.
            with suppress(ImportError):
                import_module(module)
        gc.freeze()
        _accept(listening, parent_pipe)
    finally:
        os._exit(0)


def _close_others(kept: set[int]) -> None:
    """Close inherited descriptors, because some are locks and pipes of the other process."""
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in range(3):
        os.dup2(null, descriptor)
    for path in list(Path("/proc/self/fd").iterdir()):
        descriptor = int(path.name)
        if descriptor > 2 and descriptor not in kept:
            with suppress(OSError):
                os.close(descriptor)


def _accept(listening: socket.socket, parent_pipe: int) -> None:
    selector = selectors.DefaultSelector()
    selector.register(listening, selectors.EVENT_READ)
    selector.register(parent_pipe, selectors.EVENT_READ)
    #: Descriptor of a forked process -> its number and the connection of its client.
    clients: dict[int, tuple[int, socket.socket]] = {}
    while True:
        for key, _ in selector.select():
            if key.fd == parent_pipe:
                return
            if key.fd in clients:
                selector.unregister(key.fd)
                process, client = clients.pop(key.fd)
                os.close(key.fd)
                code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
                with suppress(OSError), client:
                    client.send(str(code).encode())
                continue
            client, _ = listening.accept()
            process = os.fork()
            if not process:
                _run(client)
            with suppress(OSError):
                client.send(FORKED)
            descriptor = os.pidfd_open(process)
            clients[descriptor] = process, client
            selector.register(descriptor, selectors.EVENT_READ)


def _run(client: socket.socket) -> NoReturn:
    """Become the Python process that a client has requested."""
    code = 1
    try:
        _close_others({client.fileno()})
        message, received, _, _ = socket.recv_fds(client, MESSAGE_BYTES, 3)
        client.close()
        for descriptor, target in zip(received, range(3), strict=True):
            os.dup2(descriptor, target)
            os.close(descriptor)
        count, *parts = message.split(b"\0")
        words, variables = parts[: int(count)], parts[int(count) :]
        # ``python -m MODULE ARGUMENT ...``
        directory, module, *arguments = map(os.fsdecode, words)
        os.chdir(directory)
        os.environ.clear()
        for variable in variables:
            name, _, value = variable.partition(b"=")
            os.environb[name] = value
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        _set_malloc()
        sys.argv = [module, *arguments]
        _set_title(" ".join([module, *arguments]))
        # ``runpy`` runs the code of the module again, and warns if the module is imported.
        sys.modules.pop(module, None)
        code = 0
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:  # noqa: BLE001 - printed, as Python does at the end of a process
        sys.excepthook(*sys.exc_info())
        code = 1
    finally:
        with suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def _set_malloc() -> None:
    libc = ctypes.CDLL(None)
    for name, parameter in _MALLOC_PARAMETERS.items():
        if name in os.environ and hasattr(libc, "mallopt"):
            libc.mallopt(parameter, min(int(os.environ[name]), _INT_MAX))


def _set_title(title: str) -> None:
    """Name this process in lists of processes, where it would have the name of the driver."""
    from setproctitle import setproctitle  # noqa: PLC0415 - only installed on Linux

    setproctitle(f"oriel: {title}")
