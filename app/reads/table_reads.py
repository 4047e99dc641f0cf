"""Reads that the index does not answer: of a table itself, in threads beside the event loop.

They are dear, so they are few: some run, some wait for their turn, any more is refused at once.
Each has a time and a number of bytes (``ReadBudget``); who asked is answered when the time is
over, and the thread ends at the next piece that it reads.
"""

import asyncio
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from oriel.app.contract import (
    TABLE_READ_SECONDS,
    TABLE_READS_AT_ONCE,
    TABLE_READS_WAITING,
    InvalidParameter,
    TableReadsBusy,
)
from oriel.storage import DataLayout, errors
from oriel.storage.index import IndexState
from oriel.storage.table_store import ReadBudget, TableStore, TableVersions

Answer = TypeVar("Answer")

_EXCLUDED = {"min_version": -1, "min_offset": (), "wait_ms": 0}


def is_as_of(query: Mapping[str, Any]) -> bool:
    """Whether a request asks for a version of the table by its number or time.

    Raises:
        InvalidParameter: it names the version twice, or bounds the position of the newest, too.
    """
    if query["as_of_version"] is None and query["as_of_ms"] is None:
        return False
    others = [name for name, nothing in _EXCLUDED.items() if query[name] != nothing]
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
    """The reads of tables below one data folder; used on the event loop."""

    def __init__(self, layout: DataLayout) -> None:
        """Start no thread before the first read: processes are forked."""
        self._layout = layout
        self._tables: dict[str, TableVersions] = {}
        self._threads: ThreadPoolExecutor | None = None
        self._places = threading.BoundedSemaphore(TABLE_READS_AT_ONCE + TABLE_READS_WAITING)

    async def as_of(
        self, store: str, query: Mapping[str, Any], read: Callable[[TableStore], Answer]
    ) -> tuple[IndexState, Answer]:
        """Read a store as of the version that a request names, which the state says.

        Raises:
            VersionNotFound: the table is not there yet.
            VersionGone: it has been there; what is left is in the message.
            TableReadsBusy: too many reads are under way.
            TableReadTimeout: it takes too long.
        """
        versions = self._tables.setdefault(store, TableVersions(self._layout.table(store)))

        def work(budget: ReadBudget) -> tuple[IndexState, Answer]:
            version = query["as_of_version"]
            if version is None:
                version = versions.at_time(query["as_of_ms"])
            opened = versions.open(version, budget)
            try:
                return opened.state, read(opened)
            except errors.MissingDataFile as error:
                # It was vacuumed after the version was opened.
                raise versions.gone(version) from error

        return await self.run(work)

    async def run(self, work: Callable[[ReadBudget], Answer]) -> Answer:
        """Do a piece of work in a thread, within a budget.

        Raises:
            TableReadsBusy: too many are under way.
            TableReadTimeout: it takes too long.
        """
        if not self._places.acquire(blocking=False):
            places = TABLE_READS_AT_ONCE + TABLE_READS_WAITING
            message = f"the process already has {places} table reads. Send the request again later."
            raise TableReadsBusy(message)
        if self._threads is None:
            self._threads = ThreadPoolExecutor(TABLE_READS_AT_ONCE, "table-read")
        # Its time begins here, so what waited too long for its turn ends at once.
        budget = ReadBudget(TABLE_READ_SECONDS)

        def at_a_place() -> Answer:
            try:
                budget.check_time()
                return work(budget)
            finally:
                self._places.release()

        under_way = asyncio.get_running_loop().run_in_executor(self._threads, at_a_place)
        done, _ = await asyncio.wait([under_way], timeout=TABLE_READ_SECONDS)
        if not done:
            # Nobody is there to be told how it ends.
            under_way.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
            message = f"the table read must end within {TABLE_READ_SECONDS} s. Narrow the bounds."
            raise errors.TableReadTimeout(message)
        return under_way.result()

    def close(self) -> None:
        """Begin no further read; those that run end by their own time."""
        if self._threads is not None:
            self._threads.shutdown(wait=False)
            self._threads = None
