"""Tables that are written from puts and read as stores, for the conformance suites.

The JSON of a table's window is created from its columns. If the value of a put is the JSON of a
window without aggregates, the table has the same columns. Other values are stored in a string
column, and each result is replaced by this column.
"""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import orjson

from oriel.storage import AggregateSpec, StoreDefinition, WindowSpec
from oriel.storage.contracts import ScanPage, WindowPage
from oriel.storage.table_store import ReadBudget, TableVersions
from oriel.testing import Put
from tests.storage.store_tables import StoreTable


class Unpacked:
    """A store whose results have another value for each window's JSON, by default the put value."""

    def __init__(self, store: Any, unpack: Callable[[bytes], Any] | None = None) -> None:
        self._store = store
        self._unpack = unpack or (lambda window: orjson.loads(window)["last"].encode())

    def __getattr__(self, name: str) -> Any:
        """Return a property unchanged, or a read that unpacks its result."""
        found = getattr(self._store, name)
        if not callable(found):
            return found
        return lambda *arguments, **named: self._unpacked(found(*arguments, **named))

    def _unpacked(self, result: Any) -> Any:
        if isinstance(result, WindowPage):
            return result._replace(windows=[self._unpack(window) for window in result.windows])
        if isinstance(result, ScanPage):
            return result._replace(entries=[self._unpack(entry) for entry in result.entries])
        return self._unpack(result) if isinstance(result, bytes) else result


def table_of(
    data: Path,
    window: WindowSpec,
    retention_ms: int | None,
    *,
    has_text: bool = True,
    key_type: str = "text",
) -> StoreTable:
    """Return a table with the string aggregate ``last``, or without aggregates."""
    definition = StoreDefinition(
        name="store", topic="events", grouped_by="key", window=window, key_groups=4,
        aggregates=(AggregateSpec("last", "last(v)", "string"),) if has_text else (),
        retention_ms=retention_ms, application="store-app", key_type=key_type,
    )  # fmt: skip
    return StoreTable(data, definition)


def put_row(put: Put, *, has_text: bool = True) -> dict[str, Any]:
    """Return the row of a put, as ``StoreTable.commit`` accepts it."""
    row = {"key": put.key, "start": put.start_ms, "end": put.end_ms}
    if has_text:
        return {**row, "last": put.value.decode()}
    fields = orjson.loads(put.value)
    return {**row, "timestamp": fields["timestamp_ms"], "final": fields["final"]}


def is_plain(put: Put) -> bool:
    """Return True if the value is the JSON of a window without aggregates."""
    try:
        fields = orjson.loads(put.value)
    except orjson.JSONDecodeError:
        return False
    return isinstance(fields, dict) and list(fields) == [
        "key", "window_start_ms", "window_end_ms", "timestamp_ms", "final",
    ]  # fmt: skip


def table_stores(data: Path, window: WindowSpec) -> Callable[..., Any]:
    """Return a function that creates the store of a table of puts, in two commits.

    A second call with equal arguments opens the same table again, because no test writes to it.
    """
    written: dict[Any, tuple[TableVersions, bool]] = {}

    def make(
        puts: Iterable[Put], retention_ms: int | None = None, *, key_type: str = "text"
    ) -> Any:
        every = tuple(puts)
        parameters = every, retention_ms, key_type
        if parameters not in written:
            written[parameters] = write(every, retention_ms, key_type)
        versions, has_text = written[parameters]
        store = versions.open(2, ReadBudget())
        return Unpacked(store) if has_text else store

    def write(
        every: Sequence[Put], retention_ms: int | None, key_type: str
    ) -> tuple[TableVersions, bool]:
        has_text = not all(map(is_plain, every))
        directory = data / f"{len(written)}"
        table = table_of(directory, window, retention_ms, has_text=has_text, key_type=key_type)
        half = len(every) // 2
        for rows in (every[:half], every[half:]):
            newest = {(p.key, p.start_ms, p.end_ms): p for p in rows}
            table.commit([put_row(put, has_text=has_text) for put in newest.values()])
        return TableVersions(table.path), has_text

    return make
