"""How the tailer tells other processes that it lives and how each store fares.

    INDEXES/_tailer.json    written when something changed; its modification time is the
                            heartbeat, renewed every half second

Another version of the program may read it, so what a reader doesn't know it leaves aside, and what
it misses has a default.
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

#: Age in seconds from which a heartbeat counts as missing, and by how much it may be ahead.
HEARTBEAT_SECONDS_MAX = 5.0
_AHEAD_SECONDS_MAX = 2.0

STATUS_FILE = "_tailer.json"
_STAT_BLOCK_BYTES = 512


@dataclass(frozen=True)
class StoreStatus:
    """How the tailer fares with one store.

    ``state`` is ``opening``, ``building``, ``following``, ``failed``, ``stale`` (too far behind its
    table), ``blocked`` (it holds its thread) or ``away`` (its table is not there); ``version`` is
    the version that the index has, None before the first; ``problem`` says what is wrong;
    ``damaged`` counts the rebuilds of damaged indexes since the tailer started.
    """

    state: str = "opening"
    version: int | None = None
    problem: str | None = None
    damaged: int = 0


@dataclass(frozen=True)
class TailerStatus:
    """What was last heard from the tailer.

    ``silence`` says why its heartbeat doesn't count, None while it lives. ``problem`` is what is
    wrong with the folder of all tables, ``tables`` its identity when tables were seen in it.
    ``pid`` is None and ``stores`` is empty when nothing was ever heard.
    """

    silence: str | None
    pid: int | None = None
    stores: Mapping[str, StoreStatus] = field(default_factory=dict)
    problem: str | None = None
    tables: tuple[int, int] | None = None

    @property
    def alive(self) -> bool:
        """Whether the tailer's heartbeat is recent."""
        return self.silence is None


@dataclass(frozen=True)
class Heartbeat:
    """Who sent the last heartbeat and when: changes while that process works."""

    pid: int
    time_ns: int


class StatusFile:
    """The status file below one data directory."""

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
        """Renew the heartbeat, and the content if it changed."""
        fields = {
            "pid": os.getpid(),
            "problem": problem,
            "tables": tables,
            "stores": dict(stores),
        }
        content = with_digest(orjson.dumps(fields, option=orjson.OPT_SORT_KEYS))
        # Its bytes can have changed on the disk, which the time of the file does not say.
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
        """Write into the blocks that the file has; False if it needs more, or isn't there."""
        with suppress(OSError), self._path.open("r+b", buffering=0) as file:
            if len(content) <= os.fstat(file.fileno()).st_blocks * _STAT_BLOCK_BYTES:
                # A reader that meets a half-written file reads it again.
                return file.write(content) == file.truncate(len(content))
        return False

    def read(self) -> TailerStatus:
        """Read what the tailer last said; without any word it is not alive and has no stores."""
        try:
            age_seconds = time.time() - self._path.stat().st_mtime
            told: dict[str, Any] = orjson.loads(without_digest(self._path.read_bytes()))
            stores = {name: _known(status) for name, status in told["stores"].items()}
            pid = told["pid"]
            tables = tuple(told.get("tables") or ()) or None
        except FileNotFoundError:
            return TailerStatus(self._unheard())
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
                f"ended or hangs{self._unwritable()}"
            )
        elif age_seconds < -_AHEAD_SECONDS_MAX:
            silence = (
                "the tailer's heartbeat is in the future. A clock was changed, or the tailer hangs"
            )
        return TailerStatus(silence, pid, stores, told.get("problem"), tables)

    def heartbeat(self) -> Heartbeat | None:
        """The last heartbeat, None when there is none that can be read."""
        try:
            pid = int(orjson.loads(without_digest(self._path.read_bytes()))["pid"])
            return Heartbeat(pid, self._path.stat().st_mtime_ns)
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def _unheard(self) -> str:
        if not has_tables_or_indexes(self._layout):
            return (
                f"{self._layout.root} has no tables yet. Start a pipeline that writes there, or "
                "correct --data"
            )
        return f"the tailer has not reported its status{self._unwritable()}"

    def _unwritable(self) -> str:
        """What keeps it from speaking, as far as that can be seen from here."""
        folder = next((path for path in self._path.parents if path.exists()), self._path)
        if os.access(folder, os.W_OK):
            return f". The disk is full. Free space on {folder}" if is_full(folder) else ""
        return f". {folder} cannot be written. Make it writable for the service"


def _known(told: Mapping[str, Any]) -> StoreStatus:
    """A store's status of what this version of the program knows of it."""
    names = {one.name for one in fields(StoreStatus)}
    return StoreStatus(**{name: value for name, value in told.items() if name in names})
