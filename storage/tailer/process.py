"""The tailer process: keeps the index of every store of one data folder up to date.

    python -m oriel.storage.tailer --data DATA [--parent-pid PID] [--wait]

One thread per store, so that a store that fails or takes long to build delays no other. One
tailer per data folder: the second refuses, or waits for its turn with ``--wait``. With
``--parent-pid`` it ends when that process is no longer its parent.
"""

import argparse
import fcntl
import logging
import os
import signal
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from oriel.storage.console import add_log_format, set_up_console
from oriel.storage.delta import DeltaLog, table_folders
from oriel.storage.errors import InvalidDefinition
from oriel.storage.files import data_folder, is_object
from oriel.storage.index import IndexFolder
from oriel.storage.layout import DataLayout, check_store_name
from oriel.storage.parent_watch import end_with_parent
from oriel.storage.tailer.failures import Failures
from oriel.storage.tailer.status import StatusFile
from oriel.storage.tailer.store import StoreTailer

logger = logging.getLogger(__name__)

#: Seconds between two heartbeats, and between two looks for new stores in a folder.
_ROUND_SECONDS = 0.5
#: Seconds between two looks for new stores among objects, each of which is a request or a few.
_OBJECTS_ROUND_SECONDS = 30.0
#: Seconds that stores have to finish what they are at when the tailer ends.
_FINISH_SECONDS = 5.0
_LOCK_FILE = ".tailer.lock"

#: Exit code when another tailer serves the folder.
ANOTHER_TAILER = 3


class Tailer:
    """All stores of one data folder, each followed in a thread."""

    def __init__(self, data: Path, index: Path | None = None) -> None:
        """Nothing is opened or started yet; ``index``: where the indexes are, None: in ``data``."""
        self._layout = DataLayout(data, index)
        self._status = StatusFile(self._layout)
        self._stores: dict[str, _RunningStore] = {}
        self._look_at = 0.0

    def round(self) -> None:
        """Start what is new, end what is gone, and say how each store fares."""
        if time.monotonic() >= self._look_at:
            self._look()
        statuses = {name: running.tailer.status for name, running in self._stores.items()}
        self._status.write(statuses)

    def _look(self) -> None:
        # Sooner until there is a store at all.
        is_rare = is_object(self._layout.root) and self._stores
        self._look_at = time.monotonic() + (_OBJECTS_ROUND_SECONDS if is_rare else 0.0)
        with_table = set(stores_with_tables(self._layout))
        for name in sorted(with_table - self._stores.keys()):
            self._stores[name] = _RunningStore(self._layout, name)
        for name in sorted(self._stores.keys() - with_table):
            logger.info("%s: its table is gone, so is its index", name)
            self._stores.pop(name).end(_FINISH_SECONDS)
            IndexFolder(self._layout.index(name)).remove()

    def end(self) -> None:
        """Stop all stores; gives up on those that take too long."""
        for running in self._stores.values():
            running.stop.set()
        for running in self._stores.values():
            running.end(_FINISH_SECONDS)


class _RunningStore:
    """One store's tailer in a thread of its own, which begins at once."""

    def __init__(self, layout: DataLayout, name: str) -> None:
        self.stop = threading.Event()
        self.tailer = StoreTailer(DeltaLog(layout.table(name)), IndexFolder(layout.index(name)))
        self._thread = threading.Thread(
            target=self.tailer.run, args=(self.stop,), name=f"tailer-{name}", daemon=True
        )
        self._thread.start()

    def end(self, timeout_seconds: float) -> None:
        self.stop.set()
        self._thread.join(timeout_seconds)


def stores_with_tables(layout: DataLayout) -> list[str]:
    """Names of the stores that have a Delta table; others (``_dead_letters``) are ignored."""
    return [folder.name for folder in table_folders(layout.tables) if _is_store(folder.name)]


def _is_store(name: str) -> bool:
    try:
        check_store_name(name)
    except InvalidDefinition:
        return False
    return True


def take_lock(data: Path, *, wait: bool) -> int | None:
    """Become the one tailer of a data folder; the lock lasts as long as the process.

    Returns:
        The lock's file descriptor, or None when another tailer has it and ``wait`` is false.
    """
    data.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(data / _LOCK_FILE, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        if not wait:
            os.close(descriptor)
            return None
        logger.info("another tailer serves %s; waiting for it to end", data)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    return descriptor


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the tailer until SIGTERM, SIGINT or the end of its parent."""
    options = _parse(arguments)
    set_up_console(
        options.log_format,
        level=logging.INFO,
        text="%(levelname)s tailer: %(message)s",
        process="tailer",
    )
    if options.parent_pid is not None:
        end_with_parent(options.parent_pid)
    if take_lock(options.index or options.data, wait=options.wait) is None:
        logger.error("another tailer serves %s; end it first, or use --wait", options.data)
        return ANOTHER_TAILER
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    tailer, failures = Tailer(options.data, options.index), Failures()
    while not stop.is_set():
        try:
            tailer.round()
            failures.over()
        except OSError as error:
            if failures.is_news(str(error)):
                logger.error(  # noqa: TRY400 - a full disk needs no trace
                    "could not look for stores or write the status (%s); trying again", error
                )
        stop.wait(_ROUND_SECONDS)
    tailer.end()
    return 0


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m oriel.storage.tailer", description=__doc__)
    parser.add_argument("--data", type=data_folder, required=True, help="the data folder")
    parser.add_argument("--index", type=Path, help="where the indexes are (default: DATA/index)")
    parser.add_argument("--parent-pid", type=int, help="end when this is no longer the parent")
    parser.add_argument("--wait", action="store_true", help="wait while another tailer runs")
    add_log_format(parser)
    return parser.parse_args(arguments)
