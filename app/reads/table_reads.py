"""Reads of a table instead of the index, in threads outside the event loop.

Table reads are expensive, so few can run and few can wait. Any more are rejected at once. A
``ReadBudget`` limits the time and the bytes of each read. When the time is over, the client gets a
response, and the thread ends with the next piece that it reads.
"""

import asyncio
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from oriel.app.contract import (
    TABLE_READ_SECONDS,
    TABLE_READS_AT_ONCE,
    TABLE_READS_WAITING,
    InvalidParameter,
    ReadValues,
    TableReadsBusy,
)
from oriel.storage import DataLayout, errors
from oriel.storage.index import IndexState
from oriel.storage.table_store import ReadBudget, TableStore, TableVersions

Result = TypeVar("Result")

_EXCLUDED = {"min_version": -1, "min_offset": (), "wait_ms": 0}


def is_as_of(query: ReadValues) -> bool:
    """Return whether a request is for a table version, by its number or time.

    Raises:
        InvalidParameter: The request has both, or also a required position.
    """
    if query["as_of_version"] is None and query["as_of_ms"] is None:
        return False
    values: Mapping[str, object] = query
    others = [name for name, nothing in _EXCLUDED.items() if values[name] != nothing]
    if query["as_of_version"] is not None and query["as_of_ms"] is not None:
        others.append("as_of_ms")
    if others:
        name = "as_of_ms" if query["as_of_version"] is None else "as_of_version"
        message = (
            f"{name} cannot be combined with {', '.join(others)}, because it names the "
            "version. Send one of them."
        )
        raise InvalidParameter(message)
    return True


class TableReads:
    """The table reads of one data directory. Only the event loop calls this object."""

    def __init__(self, layout: DataLayout) -> None:
        """Create the object. The first read starts the threads, after any fork."""
        self._layout = layout
        self._tables: dict[str, TableVersions] = {}
        self._threads: ThreadPoolExecutor | None = None
        self._places = threading.BoundedSemaphore(TABLE_READS_AT_ONCE + TABLE_READS_WAITING)

    async def as_of(
        self, store: str, query: ReadValues, read: Callable[[TableStore], Result]
    ) -> tuple[IndexState, Result]:
        """Read a store as of the version of a request.

        Args:
            store: The name of the store.
            query: The query of the request.
            read: A function that reads the store, called in a thread.

        Returns:
            The state of the version, and the result of ``read``.

        Raises:
            VersionNotFound: The table has not reached the version.
            VersionGone: The version was deleted. The message names the readable versions.
            TableReadsBusy: The limit of table reads is reached.
            TableReadTimeout: The read exceeds its time limit.
        """
        versions = self._tables.setdefault(store, TableVersions(self._layout.table(store)))

        def work(budget: ReadBudget) -> tuple[IndexState, Result]:
            version, time_ms = query["as_of_version"], query["as_of_ms"]
            if version is None:
                # ``is_as_of`` has checked that the request has one of the two.
                assert time_ms is not None
                version = versions.at_time(time_ms)
            opened = versions.open(version, budget)
            try:
                return opened.state, read(opened)
            except errors.MissingDataFile as error:
                # VACUUM deleted the file after the version was opened.
                raise versions.deleted_version_error(version) from error

        return await self.run(work)

    async def run(self, work: Callable[[ReadBudget], Result]) -> Result:
        """Run ``work`` in a thread, within a budget.

        Raises:
            TableReadsBusy: The limit of table reads is reached.
            TableReadTimeout: The work exceeds its time limit.
        """
        if not self._places.acquire(blocking=False):
            places = TABLE_READS_AT_ONCE + TABLE_READS_WAITING
            message = f"the process already has {places} table reads. Send the request again later."
            raise TableReadsBusy(message)
        if self._threads is None:
            self._threads = ThreadPoolExecutor(TABLE_READS_AT_ONCE, "table-read")
        # The time includes the wait for a thread.
        budget = ReadBudget(TABLE_READ_SECONDS)

        def in_slot() -> Result:
            try:
                budget.check_time()
                return work(budget)
            finally:
                self._places.release()

        running = asyncio.get_running_loop().run_in_executor(self._threads, in_slot)
        done, _ = await asyncio.wait([running], timeout=TABLE_READ_SECONDS)
        if not done:
            # Retrieve the result, because no caller awaits it any more.
            running.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
            message = f"the table read must end within {TABLE_READ_SECONDS} s. Narrow the bounds."
            raise errors.TableReadTimeout(message)
        return running.result()

    def close(self) -> None:
        """Accept no further read. Running reads end by their time limit."""
        if self._threads is not None:
            self._threads.shutdown(wait=False)
            self._threads = None
