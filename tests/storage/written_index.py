"""Indexes that are written from puts, without a table, for the conformance suites."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from oriel.storage import WindowSpec
from oriel.storage.index import (
    IndexDirectory,
    IndexReader,
    IndexRows,
    IndexState,
    IndexWriter,
    WindowSnapshot,
)
from oriel.storage.index.state import Extent
from oriel.storage.key_codec import record_key
from oriel.storage.key_types import key_type
from oriel.testing.store_models import Put
from tests.storage.store_tables import make_definition


def write_index(
    directory: IndexDirectory,
    puts: Iterable[Put],
    retention_ms: int | None,
    window: WindowSpec,
    keys: str = "text",
) -> None:
    """Publish an index with these puts. ``keys`` is the name of the key type."""
    windows = {record_key(p.key, p.start_ms, p.end_ms, key_type(keys)): p for p in puts}
    count = len(windows)
    extent = _extent(windows.values(), window)
    values = [p.value for p in windows.values()]
    rows = IndexRows(
        list(windows), values, np.zeros(count, np.bool_), np.zeros(count, np.int64), extent
    )
    definition = make_definition(retention_ms=retention_ms, window=window, key_type=keys)
    generation = directory.new_generation()
    writer = IndexWriter(generation, sync=False)
    writer.apply([rows], IndexState("table", 1, "", definition, None, extent))
    writer.close()
    directory.publish(generation)


def window_snapshot(reader: IndexReader) -> WindowSnapshot:
    """Return a snapshot of a window store."""
    snapshot = reader.snapshot()
    assert isinstance(snapshot, WindowSnapshot)
    return snapshot


@contextmanager
def written_stores(data: Path, window: WindowSpec) -> Iterator[Callable[..., Any]]:
    """Yield a function that creates a snapshot of an index of puts, with a retention."""
    opened: list[IndexReader] = []

    def make(
        puts: Iterable[Put], retention_ms: int | None = None, *, key_type: str = "text"
    ) -> Any:
        directory = IndexDirectory(data / "index" / "store")
        write_index(directory, list(puts), retention_ms, window, key_type)
        opened.append(IndexReader(directory))
        return opened[-1].snapshot()

    yield make
    for reader in opened:
        reader.close()


def _extent(puts: Iterable[Put], window: WindowSpec) -> Extent:
    every = list(puts)
    if window.kind == "session":
        return Extent(
            max((p.end_ms for p in every), default=-1),
            max((p.end_ms - p.start_ms for p in every), default=0),
        )
    return Extent(max((p.start_ms for p in every), default=-1))
