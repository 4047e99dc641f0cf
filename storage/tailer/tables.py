"""Which stores have a table, which table is away, and which index is to go.

A table that can't be seen is not a table that was deleted: a mount may be gone for a while, the one
of all tables or, by a link, that of a single one. So an index outlives its table's folder

- for ever, where the tables' folder can't be read, or is not the one in which tables were last
  seen (the empty folder below an unmounted one is another);
- for ``GONE_SECONDS`` without a break, where only the table's own folder is not there.

Who wants it to go at once deletes the index's folder as well.
"""

import os
import re
import stat
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from oriel.storage.delta import LOG_FOLDER, table_folders
from oriel.storage.errors import InvalidDefinition
from oriel.storage.files import is_object, uri
from oriel.storage.layout import DataLayout, check_store_name

#: Seconds for which an index stays when its table's folder is not there.
GONE_SECONDS = 600.0

#: How the names of a log's entries and checkpoints begin.
_ENTRY = re.compile(r"\d{20}\.")

#: Device and inode of the tables' folder.
Identity = tuple[int, int]


def stores_with_tables(layout: DataLayout) -> list[str]:
    """Names of the stores that have a Delta table; others (``_dead_letters``) are ignored."""
    if is_object(layout.tables):
        return _listed_stores(layout.tables)
    try:
        names = os.listdir(layout.tables)  # noqa: PTH208 - there may be very many
    except OSError:
        return []
    return sorted(name for name in names if _is_store(layout, name, known=False))


def has_entries(log: Path) -> bool:
    """Whether the directory of a table's log has an entry or a checkpoint: without, no table is.

    Raises:
        OSError: it can't be looked into.
    """
    try:
        with os.scandir(log) as entries:
            return any(_ENTRY.match(entry.name) for entry in entries)
    except (FileNotFoundError, NotADirectoryError):
        return False


def stores_with_indexes(layout: DataLayout) -> list[str]:
    """Names of the stores that have an index, of this program's format."""
    try:
        with os.scandir(layout.indexes) as entries:
            return sorted(one.name for one in entries if one.is_dir() and _is_name(one.name))
    except OSError:
        return []


def has_tables_or_indexes(layout: DataLayout) -> bool:
    """Whether there is anything to follow, or ever was: else the data directory may be misspelt."""
    if is_object(layout.tables):
        return True
    try:
        return layout.tables.is_dir() or layout.indexes.is_dir()
    except PermissionError:
        # There may be: whoever reads them says that it can't.
        return True


@dataclass
class TablesLook:
    """What one look at the tables' folder gave.

    ``present`` are stores with a table; ``away`` are others that have an index, with the reason;
    ``gone`` are stores whose index is to be removed. ``problem`` is what is wrong with the folder.
    """

    present: list[str] = field(default_factory=list)
    away: dict[str, str] = field(default_factory=dict)
    gone: list[str] = field(default_factory=list)
    problem: str | None = None


class TablesFolder:
    """The folder of all tables of one data directory, as it changes."""

    def __init__(
        self, layout: DataLayout, seen: Identity | None, clock: Callable[[], float]
    ) -> None:
        """Know in which folder tables were ``seen`` last; ``clock`` gives seconds, any."""
        self._layout = layout
        self.seen = seen
        self._clock = clock
        #: Since when tables of stores with an index have not been there.
        self._absent_since: dict[str, float] = {}

    def look(self, followed: Iterable[str]) -> TablesLook:
        """Look at the folder; ``followed`` are the stores that had a table at the last look."""
        known = {*followed, *stores_with_indexes(self._layout)}
        folder = self._layout.tables
        if is_object(folder):
            # There are no mounts among objects: what can be listed and is not there was deleted.
            try:
                present = _listed_stores(folder)
            except OSError as error:
                problem = f"the tables in {uri(folder)} cannot be listed ({error})"
                return TablesLook(away=dict.fromkeys(known, problem), problem=problem)
            return self._with_absent(present, known.difference(present))
        try:
            status = folder.stat()
            names = os.listdir(folder)  # noqa: PTH208 - there may be very many
        except OSError as error:
            self._absent_since.clear()
            if not known and isinstance(error, FileNotFoundError):
                # The pipeline may be started later.
                return TablesLook()
            problem = f"the directory of the tables, {folder}, cannot be read ({error.strerror})"
            return TablesLook(away=dict.fromkeys(known, problem), problem=problem)
        present = sorted(n for n in names if _is_store(self._layout, n, known=n in known))
        identity = status.st_dev, status.st_ino
        absent = known.difference(present)
        if not present and absent and identity != self.seen:
            self._absent_since.clear()
            problem = (
                f"{folder} is not the directory in which tables were last seen, and has no "
                "tables. Check that its file system is mounted"
            )
            return TablesLook(away=dict.fromkeys(absent, problem), problem=problem)
        if present:
            self.seen = identity
        return self._with_absent(present, absent)

    def _with_absent(self, present: list[str], absent: set[str]) -> TablesLook:
        now = self._clock()
        self._absent_since = {name: self._absent_since.get(name, now) for name in absent}
        gone = [name for name in absent if now - self._absent_since[name] >= GONE_SECONDS]
        away = {
            name: f"the directory of the table, {self._layout.table(name)}, does not exist. Its "
            "index still serves requests, and is removed if the directory stays missing for "
            f"{GONE_SECONDS / 60:.0f} minutes"
            for name in absent.difference(gone)
        }
        return TablesLook(present, away, sorted(gone))


def _listed_stores(tables: Path) -> list[str]:
    """The stores whose tables are objects: none of them is looked at."""
    return sorted(filter(_is_name, (folder.name for folder in table_folders(tables))))


def _is_name(name: str) -> bool:
    try:
        check_store_name(name)
    except InvalidDefinition:
        return False
    return True


def _is_store(layout: DataLayout, name: str, *, known: bool) -> bool:
    """Whether there is a table of that name; one that can't be looked at is, if it is known."""
    if not _is_name(name):
        return False
    log = Path(layout.tables, name, LOG_FOLDER)
    try:
        return stat.S_ISDIR(log.stat().st_mode) and (known or has_entries(log))
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return known
