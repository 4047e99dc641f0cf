"""The status file of the tailer: its heartbeat, and the state of each store.

    INDEXES/_tailer.json    written when the content changed; its modification time is the
                            heartbeat, which is renewed every half second

Another version of the program can read the file. So readers ignore unknown fields, and missing
fields have a default.
"""

import os
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import orjson

from oriel.storage.files import disk_problem, replace_file, with_digest, without_digest
from oriel.storage.layout import DataLayout
from oriel.storage.tailer.failures import is_disk_full, is_full
from oriel.storage.tailer.tables import has_tables_or_indexes

#: Age in seconds after which a heartbeat counts as missing, and the maximum seconds by which it can
#: be in the future.
HEARTBEAT_SECONDS_MAX = 5.0
_AHEAD_SECONDS_MAX = 2.0

#: Maintenance keeps the files that a tailer needs for this time after its last heartbeat.
_READER_SECONDS_MAX = 600.0

STATUS_FILE = "_tailer.json"
_STAT_BLOCK_BYTES = 512


@dataclass(frozen=True)
class StoreStatus:
    """The state of one store in the tailer.

    Attributes:
        state: ``opening``, ``building``, ``following``, ``failed``, ``stale`` (its index lags too
            far), ``blocked`` (it blocks its thread) or ``away`` (its table is unavailable).
        version: The version of the index. None before the first version.
        problem: A description of the problem, or None.
        damaged: The number of rebuilds of damaged indexes since the tailer started.
        builds: The version from which it builds the index at this time, or None.
    """

    state: str = "opening"
    version: int | None = None
    problem: str | None = None
    damaged: int = 0
    builds: int | None = None


@dataclass(frozen=True)
class TailerStatus:
    """The last status that the tailer wrote.

    Attributes:
        silence: Why the heartbeat does not count. None while the tailer is alive.
        pid: The process id. None without a readable status.
        stores: The state of each store. Empty without a readable status.
        problem: A problem with the directory of all tables, or None.
        tables: The identity of this directory when it last had tables, or None.
    """

    silence: str | None
    pid: int | None = None
    stores: Mapping[str, StoreStatus] = field(default_factory=dict)
    problem: str | None = None
    tables: tuple[int, int] | None = None

    @property
    def alive(self) -> bool:
        """True if the heartbeat of the tailer is recent."""
        return self.silence is None


@dataclass(frozen=True)
class Heartbeat:
    """The last heartbeat. It changes while the tailer works.

    Attributes:
        pid: The process id of the tailer.
        time_ns: The time, in ns since 1970.
    """

    pid: int
    time_ns: int


class StatusFile:
    """The status file of one data directory."""

    def __init__(self, layout: DataLayout) -> None:
        self._layout = layout
        self._path: Path = layout.indexes / STATUS_FILE
        self._written: bytes | None = None

    def write(
        self,
        stores: Mapping[str, StoreStatus],
        problem: str | None = None,
        tables: tuple[int, int] | None = None,
    ) -> None:
        """Renew the heartbeat. If the content changed, write it.

        Args:
            stores: The state of each store.
            problem: A problem with the directory of all tables.
            tables: The identity of this directory when it last had tables.
        """
        fields = {
            "pid": os.getpid(),
            "problem": problem,
            "tables": tables,
            "stores": dict(stores),
        }
        content = with_digest(orjson.dumps(fields, option=orjson.OPT_SORT_KEYS))
        # The bytes on disk can have changed without a new modification time.
        if content == self._written and self._read_again() == content:
            os.utime(self._path)
            return
        self._path.parent.mkdir(parents=True, exist_ok=True)
        try:
            replace_file(self._path, content, sync=False)
        except OSError as error:
            if not is_disk_full(error) or not self._overwrite(content):
                raise
        self._written = content

    def _read_again(self) -> bytes | None:
        try:
            return self._path.read_bytes()
        except OSError:
            return None

    def _overwrite(self, content: bytes) -> bool:
        """Write into the allocated blocks of the file. Return False if that is not possible."""
        with suppress(OSError), self._path.open("r+b", buffering=0) as file:
            if len(content) <= os.fstat(file.fileno()).st_blocks * _STAT_BLOCK_BYTES:
                # A reader that finds a partly written file reads it again.
                return file.write(content) == file.truncate(len(content))
        return False

    def read(self) -> TailerStatus:
        """Read the last status of the tailer. Without one, the tailer counts as not alive."""
        try:
            age_seconds = time.time() - self._path.stat().st_mtime
            content, stores = _content(self._path)
            pid = content["pid"]
            tables = tuple(content.get("tables") or ()) or None
        except FileNotFoundError:
            return TailerStatus(self._why_missing())
        except OSError as error:
            problem = disk_problem(error) or error.strerror
            return TailerStatus(f"the tailer's status cannot be read ({problem})")
        except (ValueError, KeyError, TypeError, AttributeError):
            return TailerStatus(
                "the tailer's status cannot be read. The tailer writes it again in a moment"
            )
        silence = None
        if age_seconds > HEARTBEAT_SECONDS_MAX:
            silence = (
                f"the tailer's last heartbeat is older than {HEARTBEAT_SECONDS_MAX:.0f} s. It has "
                f"ended or hangs{self._why_unwritable()}"
            )
        elif age_seconds < -_AHEAD_SECONDS_MAX:
            silence = (
                "the tailer's heartbeat is in the future. A clock was changed, or the tailer hangs"
            )
        return TailerStatus(silence, pid, stores, content.get("problem"), tables)

    def heartbeat(self) -> Heartbeat | None:
        """Return the last heartbeat, or None if it can't be read."""
        try:
            pid = int(orjson.loads(without_digest(self._path.read_bytes()))["pid"])
            return Heartbeat(pid, self._path.stat().st_mtime_ns)
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def _why_missing(self) -> str:
        if not has_tables_or_indexes(self._layout):
            return (
                f"{self._layout.root} has no tables yet. Start a pipeline that writes there, or "
                "correct --data"
            )
        return f"the tailer has not reported its status{self._why_unwritable()}"

    def _why_unwritable(self) -> str:
        """Return why the tailer can't write its status, as far as this process can see."""
        directory = next((path for path in self._path.parents if path.exists()), self._path)
        if os.access(directory, os.W_OK):
            return f". The disk is full. Free space on {directory}" if is_full(directory) else ""
        return f". {directory} cannot be written. Make it writable for the service"


def versions_in_use(layout: DataLayout) -> dict[str, int]:
    """Return the oldest version of each store that a tailer of the data directory reads.

    All tailers with a heartbeat in the last ten minutes count, so a service can restart. Tailers
    with indexes in another directory are not found.
    """
    found: dict[str, int] = {}
    for path in layout.index_formats.glob(f"*/{STATUS_FILE}"):
        try:
            if time.time() - path.stat().st_mtime > _READER_SECONDS_MAX:
                continue
            _, stores = _content(path)
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            # The tailer writes it at this time.
            continue
        for name, status in stores.items():
            for version in (status.version, status.builds):
                if version is not None:
                    found[name] = min(version, found.get(name, version))
    return found


def _content(path: Path) -> tuple[dict[str, Any], dict[str, StoreStatus]]:
    """Return the fields of a status file, and the state of each store.

    Raises:
        OSError, ValueError, KeyError, TypeError, AttributeError: The file cannot be read.
    """
    content: dict[str, Any] = orjson.loads(without_digest(path.read_bytes()))
    return content, {name: _known_fields(each) for name, each in content["stores"].items()}


def _known_fields(content: Mapping[str, Any]) -> StoreStatus:
    """Return the fields of a store's status that this version of the program knows."""
    names = {one.name for one in fields(StoreStatus)}
    return StoreStatus(**{name: value for name, value in content.items() if name in names})
