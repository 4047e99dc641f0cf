"""Output of the demo: its steps and the progress of the pipeline."""

import sys
import time
from collections.abc import Callable
from pathlib import Path

from oriel.storage import CommitRecord
from oriel.storage.delta import DeltaLog


def say(text: str) -> None:
    """Print one line on stderr."""
    print(f"demo: {text}", file=sys.stderr, flush=True)


def last_commit(table: Path) -> CommitRecord | None:
    """Return the record of the newest commit of a table. None: no commit yet."""
    return DeltaLog(table).newest_record()


class Progress:
    """The share of the event log that a store includes."""

    def __init__(
        self,
        table: Path,
        topic: str,
        sizes: dict[str, int],
        clock: Callable[[], float] = time.monotonic,
        output: Path | None = None,
    ) -> None:
        """Follow ``table`` until it includes ``sizes`` bytes of the partitions of ``topic``.

        ``clock`` returns seconds. ``output`` is the file with the lines of the pipeline. Before the
        first batch, the last line is shown.
        """
        self._output = output
        self._phase = ""
        self._table = table
        self._topic = topic
        self._sizes = sizes
        self._clock = clock
        self._printed_percent = -1
        #: Time, bytes and records of the first batch. The rate is measured from here, because the
        #: start of Java and the small first batch are slow.
        self._first: tuple[float, int, int] | None = None

    def report(self) -> bool:
        """Print new progress. Return True if the store includes the whole log."""
        commit = last_commit(self._table)
        total = sum(self._sizes.values())
        if commit is None:
            self._print_phase()
            return total == 0
        reached = commit.offsets.get(self._topic, {})
        done = sum(min(reached.get(p, 0), size) for p, size in self._sizes.items())
        records, now = commit.counters["input"], self._clock()
        if self._first is None:
            self._first = now, done, records
        began, first_done, first_records = self._first
        detail = f"{records:,} records"
        if done > first_done and now > began:
            rate = (records - first_records) / (now - began)
            left = (total - done) * (now - began) / (done - first_done)
            detail += f", {rate:,.0f} per second, {left:.0f} s left"
        self._print(100 * done // max(1, total), detail)
        return done == total

    def _print_phase(self) -> None:
        """Before the first batch, print the step of the pipeline if it has changed."""
        said = self._output.read_text(errors="replace") if self._output else ""
        phase = (said.splitlines() or ["starting Spark"])[-1]
        if phase != self._phase:
            self._phase, self._printed_percent = phase, -1
            self._print(0, phase)

    def _print(self, percent: int, detail: str) -> None:
        if percent <= self._printed_percent:
            return
        self._printed_percent = percent
        say(f"pipeline {percent} %, {detail}")
