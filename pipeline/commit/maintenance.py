"""One thread that keeps the tables of a pipeline small, beside its batches.

It looks at a table when enough batches were committed since the last look, takes one piece of
work of bounded size after the other, and runs at low priority. Between the files of a large merge
the small files of all tables are merged, so that their number is bounded whatever a merge takes.

Nothing that goes wrong here stops the stream: a table that can't be kept is told of once, counted
and tried again later, after a pause that doubles. What was half done are files that no version
names, which are removed.
"""

import logging
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from oriel.pipeline.errors import Fenced
from oriel.storage.delta import TableUpkeep

logger = logging.getLogger(__name__)

#: Batches between two looks at the tables, if they come fast, and seconds, if they come slowly.
_BATCHES = 16
_SECONDS = 60.0
#: After an error: the first pause and the longest.
_RETRY_SECONDS = 5.0
_RETRY_SECONDS_MAX = 600.0
#: Merges of more bytes wait for another run when one that is done ends.
_LAST_SIZE_MOST = 1 << 28


class _Stopped(Exception):
    """The run ends: a merge that is under way is given up."""


@dataclass
class _Kept:
    """A table that is kept, and what came of it: errors in a row, and when it is due again."""

    upkeep: TableUpkeep
    committed: Callable[[], Mapping[str, int]]
    errors: int = 0
    due: float = 0.0


class Maintenance:
    """Keeps the tables of one pipeline, in a thread of its own from ``start`` on."""

    def __init__(
        self,
        stores: Mapping[str, TableUpkeep],
        dead_letters: TableUpkeep,
        committed: Mapping[str, int],
        refuse: Callable[[], None] = lambda: None,
    ) -> None:
        """Keep the tables of ``stores``, and their dead letters.

        ``committed`` is the last batch in each store's table. ``refuse`` raises if this process
        may not write any more; it is asked before each commit and each removal.
        """
        self._committed = dict(committed)
        self._tables = [
            *(_Kept(upkeep, _of_store(self._committed, name)) for name, upkeep in stores.items()),
            # Other pipelines have dead letters there as well: of their files nothing is known.
            _Kept(dead_letters, lambda: self._committed),
        ]
        self._refuse = refuse
        self._wake = threading.Condition()
        #: Batches since the last look began.
        self._batches = 0
        self._stops = False
        self.failures = 0
        self._thread = threading.Thread(target=self._run, name="maintenance", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def batch_committed(self, batch: int) -> None:
        """All stores have committed this batch; costs next to nothing."""
        with self._wake:
            for store in self._committed:
                self._committed[store] = batch
            self._batches += 1
            if self._batches >= _BATCHES:
                self._wake.notify()

    def close(self, *, finish: bool) -> None:
        """End the thread; with ``finish`` do first what is due and not too large."""
        with self._wake:
            self._stops = True
            self._wake.notify()
        if self._thread.ident is not None:
            self._thread.join()
        if not finish:
            return
        with suppress(_Stopped):
            for table in self._tables:
                while self._step(table, lambda: None, size_most=_LAST_SIZE_MOST):
                    pass

    def _run(self) -> None:
        with suppress(OSError):
            # Linux gives each thread a priority of its own.
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 10)
        with suppress(_Stopped):
            while True:
                self._look(self._tables)
                with self._wake:
                    self._wake.wait_for(self._is_due, _SECONDS)
                    self._batches = 0
                self._refuse_stopped()

    def _is_due(self) -> bool:
        return self._stops or self._batches >= _BATCHES

    def _look(self, tables: Sequence[_Kept]) -> None:
        for table in tables:
            while time.monotonic() >= table.due and self._step(table, self._between):
                self._refuse_stopped()

    def _step(
        self, table: _Kept, between: Callable[[], None], size_most: int | None = None
    ) -> bool:
        """Do one piece of work for a table; False when there is none or it failed."""
        try:
            # Taken before the step follows the log: so it knows what became of these batches'
            # files, and takes none for left behind that is in the table.
            with self._wake:
                committed = dict(table.committed())
            does_more = table.upkeep.step(committed, self._refuse, between, size_most=size_most)
        except _Stopped:
            raise
        except Fenced as fenced:
            # The run is told as well, and ends.
            raise _Stopped from fenced
        except Exception as error:  # noqa: BLE001 - see the module's text
            self._failed(table, error)
            return False
        table.errors = 0
        return does_more

    def _between(self) -> None:
        """Between the files of a large merge: other tables and new small files have their turn."""
        self._refuse_stopped()
        for table in self._tables:
            if time.monotonic() < table.due:
                continue
            try:
                table.upkeep.merge_small(self._refuse)
            except Fenced as fenced:
                raise _Stopped from fenced
            except Exception as error:  # noqa: BLE001 - see the module's text
                self._failed(table, error)

    def _refuse_stopped(self) -> None:
        if self._stops:
            raise _Stopped

    def _failed(self, table: _Kept, error: Exception) -> None:
        self.failures += 1
        table.errors += 1
        pause = min(_RETRY_SECONDS * 2 ** (table.errors - 1), _RETRY_SECONDS_MAX)
        table.due = time.monotonic() + pause
        if table.errors == 1:
            # Nobody sets the pipeline's logging up, so this is a line on stderr as it stands here;
            # errors of delta-rs have several.
            logger.warning(
                "the table %s could not be compacted or cleaned up: %s: %s. "
                "The pipeline will try again",
                table.upkeep.folder.name, type(error).__name__, str(error).partition("\n")[0],
            )  # fmt: skip


def _of_store(committed: Mapping[str, int], store: str) -> Callable[[], Mapping[str, int]]:
    """The last batch of one store, as its own table's files are looked at."""
    return lambda: {"": committed[store]}
