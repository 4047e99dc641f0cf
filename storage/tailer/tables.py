"""Which stores have a table, which tables are unavailable, and which indexes to delete.

A table that can't be seen is not always a deleted table. A mount can be unavailable for a while,
for all tables or, by a link, for one table. So an index outlives the directory of its table:

- Without a limit, if the directory of all tables can't be read, or is not the directory in which
  tables were last seen. For example, the empty directory below an unmounted file system is another
  one.

- For ``DELETE_AFTER_SECONDS`` without interruption, if only the table's own directory is missing.

To delete an index at once, delete its directory also.
"""

import os
import re
import stat
import threading
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from oriel.storage.delta import LOG_DIRECTORY, table_directories
from oriel.storage.errors import InvalidDefinition
from oriel.storage.files import is_object, uri
from oriel.storage.layout import DataLayout, check_store_name
from oriel.storage.timer import NEVER

#: Seconds for which an index stays when the directory of its table is missing.
DELETE_AFTER_SECONDS = 600.0

#: Seconds between two listings, and the same in an object store, where they cost requests.
_LIST_SECONDS, _OBJECTS_LIST_SECONDS = 0.25, 30.0
#: Maximum number of tables that are listed per second. With more tables, each is listed less often.
_TABLES_PER_SECOND = 500
#: Seconds that the heartbeat waits for a listing of an object store.
_WAIT_SECONDS = 0.5

#: The start of the names of a log's entries and checkpoints.
_ENTRY = re.compile(r"\d{20}\.")

#: Device and inode of the directory of all tables.
Identity = tuple[int, int]


def stores_with_tables(layout: DataLayout) -> list[str]:
    """Return the names of stores with a Delta table. Others (``_dead_letters``) are ignored."""
    if is_object(layout.tables):
        return _listed_stores(layout.tables)
    try:
        names = os.listdir(layout.tables)  # noqa: PTH208 - there may be very many
    except OSError:
        return []
    return sorted(name for name in names if _is_store(layout, name, known_stores=False))


def has_entries(log: Path) -> bool:
    """Return True if the directory of a log has an entry or a checkpoint, so a table exists.

    Raises:
        OSError: the directory can't be read.
    """
    try:
        with os.scandir(log) as entries:
            return any(_ENTRY.match(entry.name) for entry in entries)
    except (FileNotFoundError, NotADirectoryError):
        return False


def stores_with_indexes(layout: DataLayout) -> list[str]:
    """Return the names of the stores that have an index in this program's format."""
    try:
        with os.scandir(layout.indexes) as entries:
            return sorted(one.name for one in entries if one.is_dir() and _is_name(one.name))
    except OSError:
        return []


def has_tables_or_indexes(layout: DataLayout) -> bool:
    """Return True if a data directory has tables or indexes, or is in an object store.

    Otherwise, its name can be misspelled.
    """
    if is_object(layout.tables):
        return True
    try:
        return layout.tables.is_dir() or layout.indexes.is_dir()
    except PermissionError:
        # It may have some. The process that reads them reports the error.
        return True


@dataclass
class TablesListing:
    """The result of one listing of the tables.

    Attributes:
        present: The stores with a table.
        unavailable: Other stores with an index, and why their table is unavailable.
        deleted: The stores whose index must be deleted.
        problem: A problem with the directory of all tables, or None.
    """

    present: list[str] = field(default_factory=list)
    unavailable: dict[str, str] = field(default_factory=dict)
    deleted: list[str] = field(default_factory=list)
    problem: str | None = None


class TablesDirectory:
    """The directory of all tables of one data directory."""

    def __init__(
        self, layout: DataLayout, seen: Identity | None, clock: Callable[[], float]
    ) -> None:
        """List nothing yet.

        Args:
            layout: The layout of the data directory.
            seen: The identity of the directory when it last had tables.
            clock: Returns monotonic seconds.
        """
        self._layout = layout
        self.seen = seen
        self._clock = clock
        #: Since when the tables of stores with an index are missing.
        self._absent_since: dict[str, float] = {}
        self._listed_at = NEVER
        #: A listing of the object store in progress, and its result.
        self._thread: threading.Thread | None = None
        self._found: list[TablesListing] = []

    def list_if_due(self, followed: Collection[str]) -> TablesListing | None:
        """List the tables if it is time. Return None until the next listing is complete.

        A listing of an object store has its own thread, because the heartbeat must not wait for an
        object store that does not respond.

        Args:
            followed: The stores that had a table in the last listing.
        """
        now, is_remote = self._clock(), is_object(self._layout.tables)
        # Until a store exists, object stores are listed more often.
        least = _OBJECTS_LIST_SECONDS if is_remote and followed else _LIST_SECONDS
        is_due = now - self._listed_at >= max(least, len(followed) / _TABLES_PER_SECOND)
        if not is_due and self._thread is None:
            return None
        if not is_remote:
            listing = self.list_tables(followed)
        else:
            if self._thread is None:
                names = list(followed)
                self._thread = threading.Thread(
                    target=lambda: self._found.append(self.list_tables(names)), daemon=True
                )
                self._thread.start()
            self._thread.join(_WAIT_SECONDS)
            if self._thread.is_alive():
                return None
            self._thread = None
            if not self._found:
                return None
            listing = self._found.pop()
        self._listed_at = now
        return listing

    def list_tables(self, followed: Iterable[str]) -> TablesListing:
        """List the tables.

        Args:
            followed: The stores that had a table in the last listing.
        """
        known_stores = {*followed, *stores_with_indexes(self._layout)}
        directory = self._layout.tables
        if is_object(directory):
            # Object stores do not have mounts. If a listing succeeds, a table that it does not
            # contain was deleted.
            try:
                present = _listed_stores(directory)
            except OSError as error:
                problem = f"the tables in {uri(directory)} cannot be listed ({error})"
                return TablesListing(
                    unavailable=dict.fromkeys(known_stores, problem), problem=problem
                )
            return self._listing_with_absent(present, known_stores.difference(present))
        try:
            status = directory.stat()
            names = os.listdir(directory)  # noqa: PTH208 - there may be very many
        except OSError as error:
            self._absent_since.clear()
            if not known_stores and isinstance(error, FileNotFoundError):
                # The pipeline can start later.
                return TablesListing()
            problem = f"the directory of the tables, {directory}, cannot be read ({error.strerror})"
            return TablesListing(unavailable=dict.fromkeys(known_stores, problem), problem=problem)
        present = sorted(
            n for n in names if _is_store(self._layout, n, known_stores=n in known_stores)
        )
        identity = status.st_dev, status.st_ino
        absent = known_stores.difference(present)
        if not present and absent and identity != self.seen:
            self._absent_since.clear()
            problem = (
                f"{directory} is not the directory in which tables were last seen, and has no "
                "tables. Check that its file system is mounted"
            )
            return TablesListing(unavailable=dict.fromkeys(absent, problem), problem=problem)
        if present:
            self.seen = identity
        return self._listing_with_absent(present, absent)

    def _listing_with_absent(self, present: list[str], absent: set[str]) -> TablesListing:
        now = self._clock()
        self._absent_since = {name: self._absent_since.get(name, now) for name in absent}
        deleted = [
            name for name in absent if now - self._absent_since[name] >= DELETE_AFTER_SECONDS
        ]
        unavailable = {
            name: f"the directory of the table, {self._layout.table(name)}, does not exist. Its "
            "index still serves requests, and is removed if the directory stays missing for "
            f"{DELETE_AFTER_SECONDS / 60:.0f} minutes"
            for name in absent.difference(deleted)
        }
        return TablesListing(present, unavailable, sorted(deleted))


def _listed_stores(tables: Path) -> list[str]:
    """Return the stores whose tables are objects. It does not open them."""
    return sorted(filter(_is_name, (directory.name for directory in table_directories(tables))))


def _is_name(name: str) -> bool:
    try:
        check_store_name(name)
    except InvalidDefinition:
        return False
    return True


def _is_store(layout: DataLayout, name: str, *, known_stores: bool) -> bool:
    """Return True if a table of this name exists, or if it is known and can't be checked."""
    if not _is_name(name):
        return False
    log = Path(layout.tables, name, LOG_DIRECTORY)
    try:
        return stat.S_ISDIR(log.stat().st_mode) and (known_stores or has_entries(log))
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return known_stores
