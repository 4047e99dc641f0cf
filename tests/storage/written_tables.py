"""Tables written straight from puts, read as stores, for the conformance suites.

A put's value is any text, the table's windows are JSON of its columns: so the value goes into a
column, and is taken out of each answer.
"""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import orjson

from oriel.storage import AggregateSpec, StoreDefinition, WindowSpec
from oriel.storage.contracts import WindowPage
from oriel.storage.table_store import ReadBudget, TableVersions
from oriel.testing import Put
from tests.storage.store_tables import StoreTable


class Unpacked:
    """A store with something else in place of each window's JSON, by default what was put."""

    def __init__(self, store: Any, unpack: Callable[[bytes], Any] | None = None) -> None:
        """Unpack what this store answers."""
        self._store = store
        self._unpack = unpack or (lambda window: orjson.loads(window)["last"].encode())

    def __getattr__(self, name: str) -> Any:
        """A property as it is, a read with its answer unpacked."""
        found = getattr(self._store, name)
        if not callable(found):
            return found
        return lambda *arguments, **named: self._unpacked(found(*arguments, **named))

    def _unpacked(self, answer: Any) -> Any:
        if isinstance(answer, WindowPage):
            return answer._replace(windows=[self._unpack(window) for window in answer.windows])
        return self._unpack(answer) if isinstance(answer, bytes) else answer


def table_of(data: Path, window: WindowSpec, retention_ms: int | None) -> StoreTable:
    """A table whose one aggregate is a text, ``last``."""
    definition = StoreDefinition(
        name="store", topic="events", grouped_by="key", window=window, key_groups=4,
        aggregates=(AggregateSpec("last", "last(v)", "string"),),
        retention_ms=retention_ms, application="store-app",
    )  # fmt: skip
    return StoreTable(data, definition)


def put_row(put: Put) -> dict[str, Any]:
    """The row of a put, as ``StoreTable.commit`` takes it."""
    return {
        "key": put.key, "start": put.start_ms, "end": put.end_ms, "last": put.value.decode(),
    }  # fmt: skip


def table_stores(data: Path, window: WindowSpec) -> Callable[..., Any]:
    """A function that makes the store of a table of puts, in two commits, with a retention."""

    def make(puts: Iterable[Put], retention_ms: int | None = None) -> Any:
        table = table_of(data / f"{len(list(data.iterdir()))}", window, retention_ms)
        every = list(puts)
        half = len(every) // 2
        for rows in (every[:half], every[half:]):
            newest = {(p.key, p.start_ms, p.end_ms): p for p in rows}
            table.commit([put_row(put) for put in newest.values()])
        return Unpacked(TableVersions(table.path).open(2, ReadBudget()))

    return make
