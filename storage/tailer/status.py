"""How the tailer tells other processes that it lives and how each store fares.

DATA/index/_tailer.json     written when something changed; its modification time is the
                            heartbeat, renewed every half second
"""

import os
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import orjson

from oriel.storage.files import replace_file
from oriel.storage.layout import DataLayout

#: Age in seconds from which a heartbeat counts as missing.
HEARTBEAT_SECONDS_MAX = 5.0

_STATUS_FILE = "_tailer.json"


@dataclass(frozen=True)
class StoreStatus:
    """How the tailer fares with one store.

    ``state`` is ``opening``, ``building``, ``following`` or ``failed``; ``version`` is the
    version that the index has, None before the first; ``problem`` says what failed.
    """

    state: str = "opening"
    version: int | None = None
    problem: str | None = None


@dataclass(frozen=True)
class TailerStatus:
    """What was last heard from the tailer.

    ``alive`` is false when its last heartbeat is ``HEARTBEAT_SECONDS_MAX`` old or there was none;
    ``pid`` is None and ``stores`` is empty when nothing was ever heard.
    """

    alive: bool
    pid: int | None
    stores: Mapping[str, StoreStatus]


class StatusFile:
    """The status file below one data folder."""

    def __init__(self, layout: DataLayout) -> None:
        """Nothing is read or written yet."""
        self._path: Path = layout.indexes / _STATUS_FILE
        self._written: bytes | None = None

    def write(self, stores: Mapping[str, StoreStatus]) -> None:
        """Renew the heartbeat, and the content if it changed."""
        content = orjson.dumps(
            {"pid": os.getpid(), "stores": {name: asdict(s) for name, s in stores.items()}},
            option=orjson.OPT_SORT_KEYS,
        )
        if content == self._written and self._path.exists():
            os.utime(self._path)
            return
        self._path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(self._path, content, sync=False)
        self._written = content

    def read(self) -> TailerStatus:
        """Read what the tailer last said; without any word it is not alive and has no stores."""
        try:
            age_seconds = time.time() - self._path.stat().st_mtime
            fields: dict[str, Any] = orjson.loads(self._path.read_bytes())
        except (OSError, orjson.JSONDecodeError):
            return TailerStatus(alive=False, pid=None, stores={})
        stores = {name: StoreStatus(**status) for name, status in fields["stores"].items()}
        return TailerStatus(age_seconds <= HEARTBEAT_SECONDS_MAX, fields["pid"], stores)
