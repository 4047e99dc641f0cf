"""Report the dead letters of a run: a count and one example for each reason.

The driver reads the dead letters that a batch has written, and only if the batch has any. So a run
without dead letters does no additional work.
"""

import threading
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pyarrow.parquet as pq

from oriel.pipeline.plan import PreparedBatch
from oriel.storage import DataLayout, StorageError, log_line, say
from oriel.storage.delta import DIGEST_TAG, AddedFile, open_data_file

#: The least time between two reports of a run.
_REPORT_SECONDS = 10
#: The greatest number of characters of a detail in a line.
_SHOWN = 300


class Rejections:
    """Counts the dead letters of one run and reports them as warnings."""

    def __init__(self, data: Path) -> None:
        """Read the dead letters of the data directory ``data``."""
        self._table = DataLayout(data).dead_letters
        # Spark's callback adds batches while the main thread reports.
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()
        self._examples: dict[str, dict[str, Any]] = {}
        self._reported: Counter[str] = Counter()
        self._reported_at = -float(_REPORT_SECONDS)

    def add(self, stores: Mapping[str, PreparedBatch]) -> None:
        """Count the dead letters of a committed batch."""
        for prepared in stores.values():
            for file in prepared.dead_letters:
                # The batch is committed. If its file cannot be read, only the report is incomplete.
                try:
                    self._add_file(file)
                except OSError:
                    continue
                except StorageError as error:
                    say("damaged", str(error), level="warning")

    def report(self, *, now: bool = False) -> None:
        """Report the reasons whose counts have changed, at most every 10 s unless ``now``."""
        if not now and time.monotonic() - self._reported_at < _REPORT_SECONDS:
            return
        with self._lock:
            counts = self._counts.copy()
        if counts == self._reported:
            return
        for reason, count in counts.most_common():
            if count == self._reported[reason]:
                continue
            example = self._examples[reason]
            place = {name: example[name] for name in ("topic", "partition", "offset")}
            # A terminal would interpret control characters of an error's message.
            detail = "".join(c if c.isprintable() else " " for c in example["detail"])[:_SHOWN]
            line = log_line("dead letters", reason=reason, count=count, **place, detail=detail)
            fields = example | {"reason": reason, "count": count}
            say("dead-letters", line, level="warning", **fields)
        self._reported, self._reported_at = counts, time.monotonic()

    def _add_file(self, file: AddedFile) -> None:
        names = ["topic", "partition", "offset", "store", "reason", "detail"]
        written = file.tags.get(DIGEST_TAG)
        with open_data_file(self._table / file.path, written) as source:
            rows = pq.read_table(source, columns=names)
        reasons = rows["reason"]
        with self._lock:
            for found in pc.value_counts(reasons).to_pylist():
                reason = found["values"]
                self._counts[reason] += found["counts"]
                if reason not in self._examples:
                    first = pc.index(reasons, reason).as_py()
                    self._examples[reason] = rows.slice(first, 1).to_pylist()[0]
