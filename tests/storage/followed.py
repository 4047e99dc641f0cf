"""A table and its tailer, for tests that check the index after each step."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson
import pytest

from oriel.storage import ScanRange, WindowSpec
from oriel.storage.delta import DeltaLog
from oriel.storage.errors import IndexDamaged
from oriel.storage.index import IndexDirectory, IndexReader, IndexState
from oriel.storage.index.check import find_damage
from oriel.storage.tailer.store import Following, Rebuilding, StoreTailer
from oriel.storage.timer import NEVER, Timer
from tests.storage.store_tables import (
    SLIDING,
    Row,
    StoreTable,
    make_definition,
    window_fields,
)

_STEPS_MAX = 200


class Followed:
    """A table and its tailer.

    LMDB allows one open environment per file and process. So each check closes the tailer's index
    before a reader opens it.
    """

    def __init__(
        self,
        data: Path,
        retention_ms: int | None = None,
        window: WindowSpec = SLIDING,
        key_type: str = "text",
    ) -> None:
        """Create the table, and a tailer that has not made a step yet."""
        self.definition = make_definition(
            retention_ms=retention_ms, window=window, key_type=key_type
        )
        self.data = data
        self.table = StoreTable(data, self.definition)
        self.directory = IndexDirectory(data / "index" / "store")
        self.tailer = StoreTailer(DeltaLog(self.table.path), self.directory)

    def catch_up(self) -> None:
        """Step until there is nothing to do, including a health check."""
        check_health_next(self.tailer)
        for _ in range(_STEPS_MAX):
            if not self.tailer.step():
                return
        pytest.fail(f"the tailer is still busy after {_STEPS_MAX} steps: {self.tailer.status}")

    def content(self) -> tuple[IndexState, list[dict[str, Any]]]:
        """Return the state and all windows of the index. The tailer reopens it in its next step."""
        self.tailer.close()
        reader = IndexReader(self.directory)
        with reader.snapshot() as snapshot:
            windows = [
                orjson.loads(entry) for entry in snapshot.scan(ScanRange(limit=10**6)).entries
            ]
            state = snapshot.state
        reader.close()
        return state, windows

    def assert_content(self, version: int, *rows: Row) -> IndexState:
        """Check that the index is at this version and has exactly these windows."""
        state, windows = self.content()
        assert state.version == version
        expected = [window_fields(row, self.definition) for row in rows]
        assert windows == sorted(
            expected,
            key=lambda w: (
                w["key"].encode(),
                w.get("window_start_ms", 0),
                w.get("window_end_ms", 0),
            ),
        )
        return state

    def records(self) -> int:
        """Return the number of records in the index, including expired ones."""
        self.tailer.close()
        reader = IndexReader(self.directory)
        with reader.snapshot() as snapshot:
            count = snapshot.window_count()
        reader.close()
        return count

    def restart(self) -> None:
        """Replace the tailer by a new one."""
        self.tailer.close()
        self.tailer = StoreTailer(DeltaLog(self.table.path), self.directory)

    def generation(self) -> Path:
        """Return the directory of the current generation."""
        generation = self.directory.current()
        assert generation is not None
        return generation

    def generations(self) -> list[str]:
        """Return the names of all existing generations."""
        return sorted(path.name for path in self.directory.path.glob("generation-*"))


def check_health_next(tailer: StoreTailer) -> None:
    """Let the next step without a new version check the health."""
    if isinstance(tailer._state, Following):
        tailer._state._health_checked = Timer(NEVER)


def rebuild(tailer: StoreTailer, reason: str = "the test says so") -> None:
    """Build a new generation of the index, and let the tailer follow it."""
    tailer._state = Rebuilding(tailer, reason, tailer._state.close())
    tailer.step()


@contextmanager
def check_in_this_process() -> Iterator[None]:
    """Let tailers check an index when they open it, without starting a process for the check.

    This is for tests that open very many indexes, because a process needs most of a second. The
    process has its own tests (``test_index_damage.py``).
    """

    def check(generation: Path) -> None:
        reason = find_damage(generation)
        if reason is not None:
            raise IndexDamaged(reason)

    with pytest.MonkeyPatch.context() as patched:
        for module in ("oriel.storage.tailer.store", "oriel.storage.index.trust"):
            patched.setattr(f"{module}.verify_in_subprocess", check)
        yield
