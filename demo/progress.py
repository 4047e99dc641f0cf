"""What the demo prints while it works: its steps, and how far the pipeline is."""

import sys
import time
from collections.abc import Callable
from pathlib import Path

from oriel.storage import CommitRecord
from oriel.storage.delta import DeltaLog

#: Characters of the bar.
_BAR = 30


def say(text: str) -> None:
    """Print one line on stderr, over a bar that has not reached its end."""
    over_bar = "\r\x1b[K" if sys.stderr.isatty() else ""
    print(f"{over_bar}demo: {text}", file=sys.stderr, flush=True)


def last_commit(table: Path) -> CommitRecord | None:
    """Return what the pipeline's newest commit says of itself; None before the first."""
    return DeltaLog(table).newest_record()


class Progress:
    """How much of the event log a store includes: a moving bar, or lines where nobody looks."""

    def __init__(
        self,
        table: Path,
        topic: str,
        sizes: dict[str, int],
        clock: Callable[[], float] = time.monotonic,
        output: Path | None = None,
    ) -> None:
        """Follow ``table`` until it includes ``sizes`` bytes of the partitions of ``topic``.

        ``clock`` gives seconds, of whatever beginning. ``output`` has the lines of the pipeline.
        The last line is shown until the first batch.
        """
        self._output = output
        self._phase = ""
        self._table = table
        self._topic = topic
        self._sizes = sizes
        self._clock = clock
        self._printed_percent = -1
        #: When the first batch was seen, its bytes and its records: what Java's start took, and
        #: the small first batch, say nothing about the rate.
        self._first: tuple[float, int, int] | None = None

    def report(self) -> bool:
        """Print the progress since the last call; return whether all is included."""
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
        """Print what the pipeline does before its first batch, if that has changed."""
        said = self._output.read_text(errors="replace") if self._output else ""
        phase = (said.splitlines() or ["starting Spark"])[-1]
        if phase != self._phase:
            self._phase, self._printed_percent = phase, -1
            self._print(0, phase)

    def _print(self, percent: int, detail: str) -> None:
        if percent <= self._printed_percent:
            return
        self._printed_percent = percent
        if not sys.stderr.isatty():
            say(f"pipeline {percent} %, {detail}")
            return
        bar = ("#" * (percent * _BAR // 100)).ljust(_BAR, ".")
        # Over the bar before, and what is left of it.
        end = "\n" if percent == 100 else ""
        sys.stderr.write(f"\rdemo: [{bar}] {percent} %, {detail}\x1b[K{end}")
        sys.stderr.flush()
