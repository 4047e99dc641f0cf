"""A table with a tailer behind it, for tests that look at the index after each step."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson
import pytest

from oriel.storage import WindowRange, WindowSpec
from oriel.storage.delta import DeltaLog
from oriel.storage.errors import IndexDamaged
from oriel.storage.index import IndexFolder, IndexReader, IndexState
from oriel.storage.index.check import find_damage
from oriel.storage.tailer.store import StoreTailer
from tests.storage.store_tables import (
    SLIDING,
    Row,
    StoreTable,
    make_definition,
    window_fields,
)

_STEPS_MAX = 200


class Followed:
    """A table, its tailer, and a reader that looks after the tailer has closed the index.

    LMDB allows one open environment per file and process, hence the closing.
    """

    def __init__(
        self,
        data: Path,
        retention_ms: int | None = None,
        window: WindowSpec = SLIDING,
        key_type: str = "text",
    ) -> None:
        """Make the table and a tailer that has done nothing yet."""
        self.definition = make_definition(
            retention_ms=retention_ms, window=window, key_type=key_type
        )
        self.data = data
        self.table = StoreTable(data, self.definition)
        self.folder = IndexFolder(data / "index" / "store")
        self.tailer = StoreTailer(DeltaLog(self.table.path), self.folder)

    def catch_up(self) -> None:
        """Step until there is nothing to do, a look around included."""
        self.tailer._looked_around_at = 0.0
        for _ in range(_STEPS_MAX):
            if not self.tailer.step():
                return
        pytest.fail(f"the tailer is still busy after {_STEPS_MAX} steps: {self.tailer.status}")

    def content(self) -> tuple[IndexState, list[dict[str, Any]]]:
        """State and all windows of the index; the tailer opens it anew afterwards."""
        self.tailer.close()
        reader = IndexReader(self.folder)
        with reader.snapshot() as snapshot:
            windows = [
                orjson.loads(window)
                for key in snapshot.keys("", 1000).keys
                for window in snapshot.fetch(WindowRange(key, limit=1000)).windows
            ]
            state = snapshot.state
        reader.close()
        return state, windows

    def assert_content(self, version: int, *rows: Row) -> IndexState:
        """The index is at that version and holds exactly these windows."""
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
        """Number of records in the index, expired ones included."""
        self.tailer.close()
        reader = IndexReader(self.folder)
        with reader.snapshot() as snapshot:
            count = snapshot.window_count()
        reader.close()
        return count

    def restart(self) -> None:
        """Another tailer goes on."""
        self.tailer.close()
        self.tailer = StoreTailer(DeltaLog(self.table.path), self.folder)

    def generation(self) -> Path:
        """The current generation."""
        generation = self.folder.current()
        assert generation is not None
        return generation

    def generations(self) -> list[str]:
        """Names of all generations that are there."""
        return sorted(path.name for path in self.folder.path.glob("generation-*"))


@contextmanager
def check_in_this_process() -> Iterator[None]:
    """Let tailers look through the index that they open without a process of its own.

    For tests that open very many: the process takes most of a second. It has tests of its own
    (``test_index_damage.py``).
    """

    def check(generation: Path) -> None:
        reason = find_damage(generation)
        if reason is not None:
            raise IndexDamaged(reason)

    with pytest.MonkeyPatch.context() as patched:
        for module in ("oriel.storage.tailer.store", "oriel.storage.index.trust"):
            patched.setattr(f"{module}.check_in_own_process", check)
        yield
