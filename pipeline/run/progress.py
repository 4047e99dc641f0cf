"""What a run prints: a line for people on stderr while it works, one of JSON at its end."""

import sys
import time

import orjson

from oriel.pipeline.plan import PreparedBatch

#: Least time between two lines about batches.
_LINE_SECONDS = 1


class Progress:
    """Counts committed batches and prints them: lines on stderr, the summary on stdout."""

    def __init__(self, started: float) -> None:
        """Begin to count; ``started`` is when the run began, in seconds of ``time.monotonic``."""
        self._started = started
        self._printed = 0.0
        self._changed_windows: dict[str, int] = {}
        self._last: dict[str, PreparedBatch] = {}
        self._batches = 0

    def on_batch(self, batch: int, stores: dict[str, PreparedBatch]) -> None:
        """Count batch number ``batch`` of all stores; print it if the last line is old enough."""
        self._last = stores
        self._batches += 1
        for name, prepared in stores.items():
            self._changed_windows[name] = self._changed_windows.get(name, 0) + prepared.changed
        now = time.monotonic()
        if now - self._printed < _LINE_SECONDS:
            return
        self._printed = now
        parts = []
        for name, prepared in stores.items():
            counters = prepared.record.counters
            parts.append(
                f"{name} {counters['input']:,} records, {counters['late']:,} late, "
                f"{counters['dead_lettered']:,} dead-lettered, {prepared.open_records:,} open"
            )
        print(f"batch {batch}: {'; '.join(parts)}", file=sys.stderr, flush=True)

    def print_summary(self) -> None:
        """Print batches, seconds and each store's counters as one line of JSON."""
        stores = {
            name: {**prepared.record.counters, "changed_windows": self._changed_windows[name]}
            for name, prepared in self._last.items()
        }
        seconds = round(time.monotonic() - self._started, 3)
        text = orjson.dumps({"batches": self._batches, "stores": stores, "seconds": seconds})
        print(text.decode(), flush=True)
