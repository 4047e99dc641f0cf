"""Keep the tables of a pipeline small in one thread, while its batches run.

The thread checks the tables after a number of batches or seconds. It does one piece of work of
limited size at a time, at low priority. Between the files of a large merge, it merges the small
files of all tables. So the number of small files stays limited, even if the large merge lasts long.

An error does not stop the stream. The thread logs the first of several errors in a row, counts all
errors, and tries again after a pause that doubles. No version of a table names the files of
unfinished work, so they are removed.
"""

import logging
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from oriel.pipeline.errors import Fenced
from oriel.storage.delta import TableMaintenance

logger = logging.getLogger(__name__)

#: The tables are checked after this many batches, at the latest after this many seconds.
_BATCHES_BETWEEN_CHECKS = 16
_SECONDS_BETWEEN_CHECKS = 60.0
#: The first pause after an error, and the longest.
_RETRY_SECONDS = 5.0
_RETRY_SECONDS_MAX = 600.0
#: A run that ends leaves merges of more bytes to the next run.
_LAST_MERGE_BYTES_MAX = 1 << 28


class _Stopped(Exception):
    """The run ends, so a merge in progress is abandoned."""


@dataclass
class _MaintainedTable:
    """A table under maintenance.

    Attributes:
        maintenance: The maintenance of the table.
        committed: Returns the last committed batch of each store that writes to the table.
        errors: The number of errors in a row.
        due: The earliest time of the next attempt, in seconds of ``time.monotonic``.
    """

    maintenance: TableMaintenance
    committed: Callable[[], Mapping[str, int]]
    errors: int = 0
    due: float = 0.0


class Maintenance:
    """Maintains the tables of one pipeline, in its own thread from ``start`` on."""

    def __init__(
        self,
        stores: Mapping[str, Sequence[TableMaintenance]],
        dead_letters: TableMaintenance,
        committed: Mapping[str, int],
        check_epoch: Callable[[], None] = lambda: None,
        versions_in_use: Callable[[], Mapping[str, int]] = dict,
    ) -> None:
        """Maintain the tables of ``stores`` and the dead-letter table.

        Args:
            stores: The maintenance of each store's tables, by store.
            dead_letters: The maintenance of the dead-letter table.
            committed: The last batch in each store's table.
            check_epoch: Raises if this process must not write any more. It is called before each
                commit and each removal.
            versions_in_use: Returns the oldest version that a tailer reads, for each store.
        """
        self._committed = dict(committed)
        self._versions_in_use = versions_in_use
        self._tables = [
            *(
                _MaintainedTable(maintenance, _of_store(self._committed, name))
                for name, tables in stores.items()
                for maintenance in tables
            ),
            # Other pipelines also write dead letters, and this run does not know their batches.
            _MaintainedTable(dead_letters, lambda: self._committed),
        ]
        self._check_epoch = check_epoch
        self._wake = threading.Condition()
        #: Batches since the last check of the tables began.
        self._batches = 0
        self._stops = False
        self.failures = 0
        self._thread = threading.Thread(target=self._run, name="maintenance", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def batch_committed(self, batch: int) -> None:
        """Note that all stores have committed a batch. This is cheap."""
        with self._wake:
            for store in self._committed:
                self._committed[store] = batch
            self._batches += 1
            if self._batches >= _BATCHES_BETWEEN_CHECKS:
                self._wake.notify()

    def close(self, *, finish: bool) -> None:
        """End the thread. With ``finish``, then do the work that is due, except large merges."""
        with self._wake:
            self._stops = True
            self._wake.notify()
        if self._thread.ident is not None:
            self._thread.join()
        if not finish:
            return
        with suppress(_Stopped):
            for table in self._tables:
                while self._step(table, lambda: None, max_merge_bytes=_LAST_MERGE_BYTES_MAX):
                    pass

    def _run(self) -> None:
        with suppress(OSError):
            # On Linux, each thread has its own priority.
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 10)
        with suppress(_Stopped):
            while True:
                for table in self._tables:
                    while time.monotonic() >= table.due and self._step(table, self._merge_small):
                        self._raise_if_stopped()
                with self._wake:
                    self._wake.wait_for(
                        lambda: self._stops or self._batches >= _BATCHES_BETWEEN_CHECKS,
                        _SECONDS_BETWEEN_CHECKS,
                    )
                    self._batches = 0
                self._raise_if_stopped()

    def _step(
        self,
        table: _MaintainedTable,
        between: Callable[[], None],
        max_merge_bytes: int | None = None,
    ) -> bool:
        """Do one piece of work for a table. Return False if no work is due or the work failed."""
        try:
            # Read before the step reads the log. The log then has all files of the committed
            # batches, so the step does not remove a file that the table uses.
            with self._wake:
                committed = dict(table.committed())
            has_more = table.maintenance.step(
                committed, self._check_epoch, between, merge_bytes_max=max_merge_bytes,
                in_use=self._versions_in_use().get(table.maintenance.directory.name),
            )  # fmt: skip
        except _Stopped:
            raise
        except Fenced as fenced:
            # The run detects it at its own check, and ends.
            raise _Stopped from fenced
        except Exception as error:  # noqa: BLE001 - see the module's text
            self._failed(table, error)
            return False
        table.errors = 0
        return has_more

    def _merge_small(self) -> None:
        """Merge new small files of all tables, between the files of a large merge."""
        self._raise_if_stopped()
        for table in self._tables:
            if time.monotonic() < table.due:
                continue
            try:
                table.maintenance.merge_small(self._check_epoch)
            except Fenced as fenced:
                raise _Stopped from fenced
            except Exception as error:  # noqa: BLE001 - see the module's text
                self._failed(table, error)

    def _raise_if_stopped(self) -> None:
        if self._stops:
            raise _Stopped

    def _failed(self, table: _MaintainedTable, error: Exception) -> None:
        self.failures += 1
        table.errors += 1
        # A float cannot have 2 to the power of 1,024, which is a week of errors.
        pause = min(_RETRY_SECONDS * 2 ** min(table.errors - 1, 20), _RETRY_SECONDS_MAX)
        table.due = time.monotonic() + pause
        if table.errors == 1:
            # Nothing configures the logging of the pipeline, so this text is one line on stderr.
            # Errors of delta-rs have several lines, so only the first one is logged.
            logger.warning(
                "the table %s could not be compacted or cleaned up: %s: %s. "
                "The pipeline will try again",
                table.maintenance.directory.name,
                type(error).__name__,
                str(error).partition("\n")[0],
            )  # fmt: skip


def _of_store(committed: Mapping[str, int], store: str) -> Callable[[], Mapping[str, int]]:
    """Return a function that returns the last batch of one store, for its own table."""
    return lambda: {"": committed[store]}
