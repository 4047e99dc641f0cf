"""Rows that a store of the test driver was given, as users read them."""

from collections.abc import Iterable, Sequence
from copy import deepcopy
from typing import Any, Generic, TypeVar

from oriel.pipeline.testing.other_words import DriverWords
from oriel.pipeline.testing.rows import Row
from oriel.pipeline.testing.store_driver import StoreDriver
from oriel.pipeline.windows import IllegalArgument

_WINDOW_FIELDS = ("window_start_ms", "window_end_ms", "final")


Entry = TypeVar("Entry")


class Reader(DriverWords, Generic[Entry]):
    """Reads a growing list in its order, each entry once, as Kafka's TestOutputTopic."""

    def __init__(self, entries: Sequence[Entry], at_end: str) -> None:
        """Begin with the first of ``entries``; ``at_end`` is said where there is none any more."""
        self._entries = entries
        self._at_end = at_end
        self._read = 0

    @property
    def queue_size(self) -> int:
        """How many came and are not read yet."""
        return len(self._entries) - self._read

    @property
    def is_empty(self) -> bool:
        """Whether all are read."""
        return self.queue_size == 0

    def _next(self, number: int) -> Sequence[Entry]:
        """So many more.

        Raises:
            IllegalArgument: there are not so many.
        """
        if self.queue_size < number:
            raise IllegalArgument(self._at_end)
        self._read += number
        return self._entries[self._read - number : self._read]


class OutputReader(Reader[Row]):
    """Reads a store's rows in the order in which they were written.

    Rows have the columns of ``TopologyTestDriver.read_output``.
    """

    def __init__(self, store_driver: StoreDriver) -> None:
        """Begin with the first row."""
        at_end = f"store {store_driver.store.name!r} has no further row"
        super().__init__(store_driver.written, at_end)
        self._store_driver = store_driver

    def read_row(self) -> dict[str, Any]:
        """The next row.

        Raises:
            IllegalArgument: all are read.
        """
        (row,) = rows_for_users(self._store_driver, self._next(1))
        return row

    def read_rows(self) -> list[dict[str, Any]]:
        """All rows that are not read yet."""
        return rows_for_users(self._store_driver, self._next(self.queue_size))


def rows_for_users(store_driver: StoreDriver, rows: Iterable[Row]) -> list[dict[str, Any]]:
    """Copies of rows; without windows they have no times of windows, and are never final."""
    hidden = _WINDOW_FIELDS if store_driver.store.windows.kind == "none" else ()
    return [
        {name: deepcopy(value) for name, value in row.items() if name not in hidden} for row in rows
    ]
