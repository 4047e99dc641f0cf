"""What each version of a store changed, read from its table's log, once for all who watch it.

The index has each window's newest row only; the log's entry of a version names the files that it
added, and these hold exactly the rows that it changed (docs/decisions/0044).
"""

import asyncio
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from oriel.storage import CommitRecord, StorageError, StoreDefinition
from oriel.storage.delta import DeltaLog, LogEntry
from oriel.storage.index import row_json, table_batches

#: Bytes of rows that are kept for who comes next, of all stores of a worker.
CACHE_BYTES = 64 * 1024 * 1024


class ResetNeeded(Exception):
    """The changes of a version can't be told one by one; the message says why."""


class Changes(NamedTuple):
    """The rows that one version changed, in the order of its files.

    ``windows`` are the rows as the API answers them, ``deleted`` says which of them are removed
    windows. ``keys`` are the rows' keys in order, ``order`` the row of each.
    """

    version: int
    digest: str
    record: CommitRecord | None
    windows: list[bytes]
    deleted: npt.NDArray[np.bool_]
    keys: list[str]
    order: npt.NDArray[np.int64]

    def rows_of(self, keys: Sequence[str], from_row: int) -> npt.NDArray[np.int64]:
        """The numbers of the rows of these keys (of all, where none are named), ascending."""
        if not keys:
            return np.arange(from_row, len(self.windows))
        spans = (
            self.order[bisect_left(self.keys, key) : bisect_right(self.keys, key)] for key in keys
        )
        rows = np.sort(np.concatenate(list(spans)))
        return rows[rows >= from_row]

    def size_bytes(self) -> int:
        """About how much memory the rows take."""
        return sum(map(len, self.windows)) + 100 * len(self.windows)


class ChangeReader:
    """Reads the changes of versions in a thread of its own, and keeps what was read last."""

    def __init__(self) -> None:
        """Nothing is read yet."""
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="changes")
        self._kept: OrderedDict[tuple[str, int], Changes] = OrderedDict()
        self._kept_bytes = 0
        self._reading: dict[tuple[str, int], asyncio.Task[Changes]] = {}
        #: How many versions were read from a log.
        self.reads = 0

    async def changes(
        self, log: DeltaLog, table_id: str, definition: StoreDefinition, version: int
    ) -> Changes:
        """What a version of a table changed; who asks while it is read waits for the same.

        Raises:
            ResetNeeded: the entry is gone, or does more than to add rows of the pipeline.
        """
        place = (table_id, version)
        if place in self._kept:
            self._kept.move_to_end(place)
            return self._kept[place]
        reading = self._reading.get(place)
        if reading is None:
            reading = asyncio.ensure_future(self._read(place, log, definition))
            self._reading[place] = reading
            reading.add_done_callback(lambda done: self._read_is_done(place, done))
        # One that goes must not end what others wait for.
        return await asyncio.shield(reading)

    def close(self) -> None:
        """End the thread."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def _read(
        self, place: tuple[str, int], log: DeltaLog, definition: StoreDefinition
    ) -> Changes:
        loop = asyncio.get_running_loop()
        self.reads += 1
        changes = await loop.run_in_executor(self._thread, read_changes, log, definition, place[1])
        self._kept[place] = changes
        self._kept_bytes += changes.size_bytes()
        while self._kept_bytes > CACHE_BYTES and len(self._kept) > 1:
            _, oldest = self._kept.popitem(last=False)
            self._kept_bytes -= oldest.size_bytes()
        return changes

    def _read_is_done(self, place: tuple[str, int], done: "asyncio.Task[Changes]") -> None:
        del self._reading[place]
        if not done.cancelled():
            # Where all who waited have gone, nobody else looks at the error.
            done.exception()


def read_changes(log: DeltaLog, definition: StoreDefinition, version: int) -> Changes:
    """Read what one version changed; see ``ChangeReader.changes``."""
    entry = log.read(version)
    if entry is None:
        message = f"version {version} has left the log"
        raise ResetNeeded(message)
    _refuse_more_than_rows(entry, definition)
    tables: list[Any] = []
    try:
        for name in entry.added:
            tables += table_batches(log.table / name, definition)
    except StorageError as error:
        message = f"a file of version {version} is gone or can't be read"
        raise ResetNeeded(message) from error
    if not tables:
        return Changes(
            version, entry.digest, entry.record, [], np.zeros(0, np.bool_), [],
            np.zeros(0, np.int64),
        )  # fmt: skip
    rows = pa.concat_tables(tables).combine_chunks()
    keys = rows["key"].combine_chunks()
    by_key = pa.table({"key": keys, "row": np.arange(len(rows))})
    order = pc.sort_indices(by_key, [("key", "ascending"), ("row", "ascending")])
    return Changes(
        version=version,
        digest=entry.digest,
        record=entry.record,
        windows=row_json(rows, definition).to_pylist(),
        deleted=rows["deleted"].to_numpy(),
        keys=keys.take(order).to_pylist(),
        order=order.to_numpy().astype(np.int64),
    )


def _refuse_more_than_rows(entry: LogEntry, definition: StoreDefinition) -> None:
    """Only a batch of the pipeline adds rows that are each the newest of its window."""
    what = None
    if entry.metadata is not None:
        what = "changed the table's definition"
    elif entry.removes_rows:
        what = "removed rows"
    elif entry.added and entry.batch_of(definition.application) is None:
        what = "added rows that are not of the pipeline"
    if what is not None:
        message = f"version {entry.version} {what}"
        raise ResetNeeded(message)
