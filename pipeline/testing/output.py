"""Rows that a store of the test driver was given, as users read them."""

from collections.abc import Iterable
from copy import deepcopy
from typing import Any

from oriel.pipeline.testing.rows import Row
from oriel.pipeline.testing.store_driver import StoreDriver
from oriel.pipeline.windows import IllegalArgument

_WINDOW_FIELDS = ("window_start_ms", "window_end_ms", "final")


class OutputReader:
    """Reads a store's rows in the order in which they were written, as Kafka's TestOutputTopic.

    Rows have the columns of ``TopologyTestDriver.read_output``.
    """

    def __init__(self, store_driver: StoreDriver) -> None:
        """Begin with the first row."""
        self._store_driver = store_driver
        self._read = 0

    @property
    def queue_size(self) -> int:
        """How many rows were written and not read yet."""
        return len(self._store_driver.written) - self._read

    @property
    def is_empty(self) -> bool:
        """Whether all rows are read."""
        return self.queue_size == 0

    def read_row(self) -> dict[str, Any]:
        """The next row.

        Raises:
            IllegalArgument: all are read.
        """
        if self.is_empty:
            message = f"store {self._store_driver.store.name!r} has no further row"
            raise IllegalArgument(message)
        self._read += 1
        (row,) = rows_for_users(
            self._store_driver, self._store_driver.written[self._read - 1 : self._read]
        )
        return row

    def read_rows(self) -> list[dict[str, Any]]:
        """All rows that are not read yet."""
        rows = rows_for_users(self._store_driver, self._store_driver.written[self._read :])
        self._read += len(rows)
        return rows


def rows_for_users(store_driver: StoreDriver, rows: Iterable[Row]) -> list[dict[str, Any]]:
    """Copies of rows; without windows they have no times of windows, and are never final."""
    hidden = _WINDOW_FIELDS if store_driver.store.windows.kind == "none" else ()
    return [
        {name: deepcopy(value) for name, value in row.items() if name not in hidden} for row in rows
    ]
