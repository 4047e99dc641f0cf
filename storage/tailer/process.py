"""The tailer process: keeps the index of every store of one data directory up to date.

    python -m oriel.storage.tailer --data DATA [--parent-pid PID] [--wait] [--stale-after SECONDS]

One loop polls all stores, and a few threads bring their indexes up to date (``StorePool``). A data
directory has one tailer per index format: a second tailer ends, or waits with ``--wait``. With
``--parent-pid``, the tailer ends when its parent is another process. It writes nothing until a
directory of tables exists.
"""

import argparse
import logging
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from oriel.storage.console import add_log_format, set_up_console
from oriel.storage.delta import DeltaLog
from oriel.storage.errors import StorageError
from oriel.storage.files import disk_problem, parse_data_directory, waiting_for
from oriel.storage.index import IndexDirectory, are_reads_blocked, verify_unfollowed
from oriel.storage.layout import DataLayout
from oriel.storage.parent_watch import end_with_parent
from oriel.storage.shards import ALL_KEYS, Shard
from oriel.storage.stop_signal import stop_on_signal
from oriel.storage.tailer.failures import Failures, problem_of
from oriel.storage.tailer.formats import remove_other_formats
from oriel.storage.tailer.lock import acquire_lock
from oriel.storage.tailer.pool import BLOCKED_SECONDS, StorePool
from oriel.storage.tailer.scrub import Scrub
from oriel.storage.tailer.status import StatusFile, StoreStatus
from oriel.storage.tailer.store import StoreTailer
from oriel.storage.tailer.tables import TablesDirectory, TablesListing, has_tables_or_indexes
from oriel.storage.timer import NEVER

logger = logging.getLogger(__name__)

#: Seconds between two heartbeats.
_ROUND_SECONDS = 0.5
#: Seconds between two checks whether readers of the index of an unavailable table wait.
_UNAVAILABLE_SECONDS = 5.0
#: Seconds between two checks for indexes of other versions.
_FORMATS_SECONDS = 3_600.0
#: Default of the seconds that an index can lag before it is stale.
STALE_SECONDS = 60.0

#: Exit code if another tailer serves the directory.
ANOTHER_TAILER = 3


class UnavailableStore:
    """A store whose table is unavailable. Its index still serves requests."""

    def __init__(self, index: Path) -> None:
        self._index = IndexDirectory(index)
        self._checked_at = NEVER
        self._verification: threading.Thread | None = None

    def step(self, problem: str, now: float) -> StoreStatus:
        """Verify the index if readers wait for it, for example after a crash of a reader.

        Args:
            problem: Why the table is unavailable.
            now: The monotonic time in seconds.
        """
        is_verifying = self._verification is not None and self._verification.is_alive()
        if not is_verifying and now - self._checked_at >= _UNAVAILABLE_SECONDS:
            self._checked_at = now
            try:
                generation = self._index.current()
                if generation is not None and are_reads_blocked(generation):
                    # Not in this thread: the heartbeat must not wait for it.
                    self._verification = threading.Thread(
                        target=self._verify, args=(generation,), daemon=True
                    )
                    self._verification.start()
            except OSError as error:
                self._log(error)
        return StoreStatus("away", None, problem)

    def _verify(self, generation: Path) -> None:
        try:
            verify_unfollowed(generation)
        except (OSError, StorageError) as error:
            self._log(error)

    def _log(self, error: Exception) -> None:
        logger.error("index not verified: store=%s. %s", self._index.path.name, error)


class Tailer:
    """All stores of one data directory."""

    def __init__(
        self,
        data: Path,
        index: Path | None = None,
        shard: Shard = ALL_KEYS,
        stale_seconds: float = STALE_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Open and start nothing yet.

        Args:
            data: The data directory.
            index: The directory of the indexes. None: in ``data``.
            shard: The keys to index.
            stale_seconds: The seconds that an index can lag before it is stale.
            clock: Returns monotonic seconds.
        """
        self._layout = DataLayout(data, index, shard)
        self._status = StatusFile(self._layout)
        self._tables = TablesDirectory(self._layout, self._status.read().tables, clock)
        self._pool = StorePool()
        self._scrub = Scrub(clock)
        self._stale_seconds = stale_seconds
        self._clock = clock
        self._listing = TablesListing()
        self._formats_at = NEVER
        self._unavailable: dict[str, UnavailableStore] = {}

    def round(self) -> None:
        """Follow new tables, stop deleted ones, and write the status of each store."""
        stores, now = self._pool.stores, self._clock()
        if now - self._formats_at >= _FORMATS_SECONDS:
            remove_other_formats(self._layout)
            self._formats_at = now
        if (listing := self._tables.list_if_due(stores)) is not None:
            self._listing = listing
            self._follow(listing)
        self._pool.supervise()
        self._scrub.step(stores)
        unavailable = {
            name: one.step(self._listing.unavailable[name], now)
            for name, one in self._unavailable.items()
        }
        blocked = self._pool.held()
        statuses = {
            name: self._store_status(one.tailer, is_blocked=one in blocked)
            for name, one in stores.items()
        }
        problem = self._listing.problem or waiting_for()
        self._status.write(unavailable | statuses, problem, self._tables.seen)

    def end(self) -> None:
        """Stop all stores. Do not wait for a store that does not end in time."""
        self._scrub.close()
        self._pool.end()

    def _follow(self, listing: TablesListing) -> None:
        """Follow exactly the stores that a listing found."""
        stores = self._pool.stores
        for name in sorted(set(listing.present) - stores.keys()):
            log = DeltaLog(self._layout.table(name))
            self._pool.add(
                name, StoreTailer(log, IndexDirectory(self._layout.index(name)), self._layout.shard)
            )
        for name in sorted(stores.keys() - set(listing.present)):
            self._pool.remove(name)
        for name in listing.deleted:
            logger.info("table deleted, so its index is deleted: store=%s", name)
            IndexDirectory(self._layout.index(name)).remove()
        self._unavailable = {
            name: self._unavailable.get(name) or UnavailableStore(self._layout.index(name))
            for name in listing.unavailable
        }

    def _store_status(self, tailer: StoreTailer, *, is_blocked: bool) -> StoreStatus:
        status = tailer.status
        if is_blocked:
            problem = (
                f"no progress for more than {BLOCKED_SECONDS:.0f} s "
                f"({status.problem or status.state}): "
                f"{waiting_for() or 'the table, its log or the disk does not respond'}"
            )
            return StoreStatus("blocked", status.version, problem)
        since = tailer.waiting_since
        is_stale = since is not None and time.time() - since > self._stale_seconds
        if status.state == "following" and status.problem is None and is_stale:
            problem = f"the index is more than {self._stale_seconds:g} s behind its table"
            return StoreStatus("stale", status.version, problem)
        return status


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
    # A mistyped directory is not created.
    while not has_tables_or_indexes(DataLayout(options.data, options.index, options.shard)):
        time.sleep(_ROUND_SECONDS)
    try:
        lock = acquire_lock(options.index or options.data, options.shard, wait=options.wait)
    except OSError as error:
        logger.error("the lock cannot be taken: %s", disk_problem(error) or error)  # noqa: TRY400
        return 1
    if lock is None:
        logger.error("another tailer serves %s. Stop it first, or use --wait", options.data)
        return ANOTHER_TAILER
    stop = stop_on_signal()
    tailer = Tailer(options.data, options.index, options.shard, options.stale_after)
    failures = Failures()
    while not stop.is_set():
        try:
            tailer.round()
            failures.over()
        except OSError as error:
            problem = problem_of(error, options.index or options.data)
            if failures.is_news(problem):
                logger.error(  # noqa: TRY400 - a full disk needs no trace
                    "the stores cannot be listed, or the status cannot be written (%s). "
                    "Trying again",
                    problem,
                )
        stop.wait(_ROUND_SECONDS)
    tailer.end()
    return 0


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m oriel.storage.tailer", description=__doc__)
    parser.add_argument(
        "--data", type=parse_data_directory, required=True, help="the data directory"
    )
    parser.add_argument("--index", type=Path, help="directory of the indexes. Default: DATA/index")
    parser.add_argument("--shard", type=Shard.parse, default=ALL_KEYS, help="keys that are indexed")
    parser.add_argument(
        "--parent-pid", type=int, help="end when this process is no longer the parent"
    )
    parser.add_argument("--wait", action="store_true", help="wait while another tailer runs")
    parser.add_argument(
        "--stale-after", type=float, default=STALE_SECONDS, metavar="SECONDS",
        help="seconds that an index can be behind its table before it is stale",
    )  # fmt: skip
    add_log_format(parser)
    return parser.parse_args(arguments)
