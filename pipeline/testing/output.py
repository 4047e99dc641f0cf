"""Readers of the rows of a store of the test driver."""

from collections.abc import Iterable, Sequence
from copy import deepcopy
from typing import Any, Generic, TypeVar

from oriel.pipeline.testing.kafka_hints import DriverHints
from oriel.pipeline.testing.rows import Row
from oriel.pipeline.testing.store_driver import StoreDriver
from oriel.pipeline.windows import IllegalArgument

_WINDOW_FIELDS = ("window_start_ms", "window_end_ms", "final")


Entry = TypeVar("Entry")


class Reader(DriverHints, Generic[Entry]):
    """Reads each entry of a growing list once, like the TestOutputTopic of Kafka Streams."""

    def __init__(self, entries: Sequence[Entry], at_end: str) -> None:
        """Start at the first of ``entries``. ``at_end`` is the message after the last entry."""
        self._entries = entries
        self._at_end = at_end
        self._read = 0

    @property
    def queue_size(self) -> int:
        """The number of entries that are not read yet."""
        return len(self._entries) - self._read

    @property
    def is_empty(self) -> bool:
        """True if all entries are read."""
        return self.queue_size == 0

    def _next(self, number: int) -> Sequence[Entry]:
        """Read the next entries.

        Raises:
            IllegalArgument: there are fewer.
        """
        if self.queue_size < number:
            raise IllegalArgument(self._at_end)
        self._read += number
        return self._entries[self._read - number : self._read]


class OutputReader(Reader[Row]):
    """Reads the rows of a store once, in the order in which they were written.

    Get it from ``TopologyTestDriver.create_output_reader``. Rows have the columns of
    ``TopologyTestDriver.read_output``.

    Example:
        >>> counts = flights.group_by_key().count().materialize("flights_by_airport")
        >>> driver = TopologyTestDriver(builder.build())
        >>> reader = driver.create_output_reader("flights_by_airport")
        >>> driver.pipe_input("flights", Record("EWR", {"delay": 7}, timestamp_ms=5))
        >>> reader.queue_size
        1
        >>> reader.read_row()["count"]
        1
        >>> reader.is_empty
        True
    """

    def __init__(self, store_driver: StoreDriver) -> None:
        at_end = f"store {store_driver.store.name!r} has no further row"
        super().__init__(store_driver.written, at_end)
        self._store_driver = store_driver

    def read_row(self) -> dict[str, Any]:
        """Read the next row.

        Returns:
            The row.

        Raises:
            IllegalArgument: all rows are read.
        """
        (row,) = rows_for_users(self._store_driver, self._next(1))
        return row

    def read_rows(self) -> list[dict[str, Any]]:
        """Read all rows that are not read yet.

        Returns:
            The rows, oldest first.
        """
        return rows_for_users(self._store_driver, self._next(self.queue_size))


def rows_for_users(store_driver: StoreDriver, rows: Iterable[Row]) -> list[dict[str, Any]]:
    """Return copies of rows. Rows without windows have no window times and no ``final``."""
    hidden = _WINDOW_FIELDS if store_driver.store.windows.kind == "none" else ()
    return [
        {name: deepcopy(value) for name, value in row.items() if name not in hidden} for row in rows
    ]
