"""Report the batches of a run: log lines on stderr while it runs, and a summary on stdout."""

import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import orjson

from oriel.pipeline.language import of_topics
from oriel.pipeline.plan import PreparedBatch
from oriel.pipeline.run.options import idle_lines
from oriel.pipeline.run.reporting.rejections import Rejections
from oriel.pipeline.sources import Log
from oriel.storage import log_line, say

#: Least time between two lines about batches.
_LINE_SECONDS = 1


class Progress:
    """Counts committed batches and prints them: lines on stderr, the summary on stdout."""

    def __init__(self, started: float, log: Log, data: Path) -> None:
        """Start to count. ``started`` is when the run began, in seconds of ``time.monotonic``.

        ``data`` is the data directory of the run.
        """
        self.rejections = Rejections(data)
        #: Each store's counters before the first batch of this run.
        self._before: Mapping[str, Mapping[str, int]] | None = None
        self._started = started
        self._log = log
        self._has_started = False
        self._printed = 0.0
        self._changed_windows: dict[str, int] = {}
        self._last: dict[str, PreparedBatch] = {}
        #: Each store's counters as the last line had them, and the first batch since.
        self._printed_totals: dict[str, dict[str, int]] = {}
        self._first_since: int | None = None
        self._batches = 0
        #: When the first batch of this run was committed, its records, and its share of the log.
        self._first: tuple[float, int, float | None] | None = None

    def begin(self, counters: Mapping[str, Mapping[str, int]]) -> None:
        """Record each store's counters before the first batch. Later calls change nothing."""
        if self._before is None:
            self._before = counters

    def on_batch(self, batch: int, stores: dict[str, PreparedBatch]) -> None:
        """Count batch number ``batch`` of all stores. Log it at most once a second."""
        self.rejections.add(stores)
        for line in idle_lines(self._last, stores):
            say("idle", line)
        self._last = stores
        self._batches += 1
        for name, prepared in stores.items():
            self._changed_windows[name] = self._changed_windows.get(name, 0) + prepared.changed
        if self._first_since is None:
            self._first_since = batch
        now = time.monotonic()
        if now - self._printed < _LINE_SECONDS:
            return
        parts, totals = [], {}
        since: dict[str, dict[str, int] | None] = {}
        for name, prepared in stores.items():
            total = totals[name] = dict(prepared.record.counters)
            before = self._printed_totals.get(name)
            if before is not None:
                since[name] = {each: count - before.get(each, 0) for each, count in total.items()}
            else:
                # The counts since the last line are unknown in the first line of a resumed run.
                since[name] = total if self._first_since == 0 else None
            numbers = _numbers(since[name], totals[name])
            parts.append(_values(store=name, **numbers, open=prepared.open_records))
        is_one = self._first_since == batch
        batches = f"batch={batch}" if is_one else f"batches={self._first_since}-{batch}"
        self._printed, self._printed_totals, self._first_since = now, totals, None
        line = f"batch committed: {', '.join((batches, *parts, *self._pace(now)))}"
        fields = {
            name: total | {"open": stores[name].open_records} for name, total in totals.items()
        }
        say("batch", line, batch=batch, stores=fields, since_last=since)

    def on_start(self, functions: Mapping[str, str]) -> None:
        """Print once that the stores are open, and how the functions of each store run."""
        if self._has_started:
            return
        self._has_started = True
        for store, how in functions.items():
            line = log_line("functions", store=store, run=how)
            say("functions", line, store=store, run=how)
        seconds = round(time.monotonic() - self._started, 1)
        say("started", log_line("pipeline started", seconds=seconds), seconds=seconds)

    @property
    def batches(self) -> int:
        """How many batches were committed."""
        return self._batches

    @property
    def has_rejected_all(self) -> bool:
        """Whether this run has read records, and all records are dead letters."""
        read = rejected = 0
        for name, prepared in self._last.items():
            after, before = prepared.record.counters, (self._before or {}).get(name, {})
            read += after["input"] - before.get("input", 0)
            rejected += after["dead_lettered"] - before.get("dead_lettered", 0)
        return 0 < read == rejected

    def print_summary(self) -> None:
        """Print batches, seconds and each store's counters as one line of JSON."""
        stores = {
            name: {**prepared.record.counters, "changed_windows": self._changed_windows[name]}
            for name, prepared in self._last.items()
        }
        seconds = round(time.monotonic() - self._started, 3)
        summary = {"batches": self._batches, "stores": stores, "seconds": seconds}
        lost = self._log.lost_records()
        # These are offsets of topics. A store never read them, so they are not its input.
        text = orjson.dumps({**summary, "lost": lost} if lost else summary)
        print(text.decode(), flush=True)

    def _pace(self, now: float) -> Iterator[str]:
        """Yield the rate since the first batch of the run, and the time to the end of the log."""
        records = max(store.record.counters["input"] for store in self._last.values())
        ends = {
            topic: offsets
            for store in self._last.values()
            for topic, offsets in store.record.offsets.items()
        }
        share = self._log.read_share(of_topics(ends))
        if self._first is None:
            self._first = now, records, share
            if share is not None:
                yield f"log_read={share:.0%}"
            return
        first, first_records, first_share = self._first
        rate = f"records_per_second={(records - first_records) / (now - first):.0f}"
        if share is None or first_share is None or share <= first_share:
            yield rate
            return
        seconds_left = (1 - share) / (share - first_share) * (now - first)
        yield f"log_read={share:.0%} {rate} seconds_left={max(0, seconds_left):.0f}"


def _numbers(since: dict[str, int] | None, totals: dict[str, int]) -> dict[str, int]:
    """Return the input, late and dead-lettered records since the last line, and the totals."""
    names = ("input", "late", "dead_lettered")
    total = {f"total_{name}": totals[name] for name in names}
    if since is None:
        return total
    of_table = since.get("table_records", 0)
    new = {name: since[name] for name in names} | ({"table_records": of_table} if of_table else {})
    return new | total


def _values(**fields: object) -> str:
    """Return fields as ``key=value``."""
    return " ".join(f"{name}={value}" for name, value in fields.items())
