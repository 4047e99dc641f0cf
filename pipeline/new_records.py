"""Wait for new records while Spark plans a batch, so that a batch starts when records exist.

Spark requests the ends of a source again and again. Without new records, the source waits before it
responds, until a record arrives. Each process of a data source imports this module, so it imports
little.
"""

import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol


class NewRecords(Protocol):
    """Waits in the process that plans a topic until a topic of the query has new records.

    Spark plans the topics of a query one after the other, each in its own process. So each process
    waits for the records of all topics, and returns as soon as a topic has a record.
    """

    def have_come(self) -> bool:
        """Return whether a topic has changed since the last call, or since the end of a wait."""

    def wait(self) -> None:
        """Wait until a topic has new records, at most ``MAX_WAIT_SECONDS``."""


#: The longest wait in a call of the source. If the query is stopped, Spark waits for the call.
MAX_WAIT_SECONDS = 0.25
#: Pause between two polls of the files of an event log.
_POLL_SECONDS = 0.002


def waiting_ends(
    ends: Callable[[], dict[str, int]], starts: dict[str, int], records: NewRecords | None
) -> dict[str, int]:
    """Return the ends of the next batch. Without new records in any topic, wait for them first.

    If only another topic has records, its own process plans them right after this call.

    Args:
        ends: Returns the partitions and the ends of a batch from the present records.
        starts: Partition -> the end of the previous batch.
        records: Waits for records. None if the query starts batches at fixed times.
    """
    # Before the ends are read, so that no record is missed between both.
    have_come = records is not None and records.have_come()
    found = ends()
    if records is None or have_come or found != starts:
        return found
    records.wait()
    return ends()


class NewLines:
    """Waits for bytes at the end of the files of topics."""

    def __init__(self, directories: Sequence[Path]) -> None:
        """Watch the files of ``directories``."""
        self._directories = directories
        self._seen: Sequence[tuple[str, int]] = ()

    def have_come(self) -> bool:
        before, self._seen = self._seen, self._sizes()
        return self._seen != before

    def wait(self) -> None:
        until = time.monotonic() + MAX_WAIT_SECONDS
        while time.monotonic() < until:
            polled_at = time.monotonic()
            if self.have_come():
                return
            # For a log of very many files, use a tenth of a core.
            time.sleep(max(_POLL_SECONDS, 10 * (time.monotonic() - polled_at)))

    def _sizes(self) -> Sequence[tuple[str, int]]:
        return [
            (file.path, file.stat().st_size)
            for directory in self._directories
            if directory.is_dir()
            for file in os.scandir(directory)
        ]
