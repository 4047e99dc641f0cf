"""``oriel status``: how the pipelines, stores and indexes of a data folder fare.

Reads what they say of themselves, so it disturbs nobody and tells the last word of a pipeline
that has ended, too.
"""

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

import orjson

from oriel.storage import StorageError, current_files, data_folder, uri
from oriel.storage.monitoring import Overview, PartitionOverview, StoreOverview, overview

#: Seconds between two tables of ``--watch``.
_WATCH_SECONDS = 1.0
#: A pipeline that commits nothing for so long, though there are records, is stuck.
_STUCK_SECONDS = 300
#: Clears the terminal and puts the cursor at its upper left.
_CLEAR = "\x1b[H\x1b[2J"


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the status once or, with ``--watch``, until it is interrupted."""
    parser = argparse.ArgumentParser(
        prog="oriel status", description="How pipelines, stores and indexes of a data folder fare."
    )
    parser.add_argument("--data", type=data_folder, required=True, help="the data folder")
    parser.add_argument(
        "--index", type=Path, help="where oriel serve has the indexes (default: DATA/index)"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object, for programs")
    parser.add_argument("--watch", action="store_true", help="a new table each second")
    parser.add_argument(
        "--check", action="store_true",
        help="only what is wrong; code 1 if something is: a pipeline does not run or is stuck",
    )  # fmt: skip
    options = parser.parse_args(arguments)
    try:
        current_files().reach(options.data)
        if not current_files().is_folder(options.data / "tables"):
            message = (
                f"{uri(options.data)} has no tables: name the folder that --data of oriel run names"
            )
            print(f"oriel status: {message}", file=sys.stderr)
            return 1
        if options.check:
            faults = list(_faults(overview(options.data, options.index)))
            sys.stdout.writelines(f"{fault}\n" for fault in faults)
            return int(bool(faults))
        while True:
            text = _text(overview(options.data, options.index), as_json=options.json)
            print(_CLEAR + text if options.watch and not options.json else text, flush=True)
            if not options.watch:
                return 0
            time.sleep(_WATCH_SECONDS)
    except StorageError as error:
        print(f"oriel status: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 0


def _text(seen: Overview, *, as_json: bool) -> str:
    if as_json:
        return orjson.dumps(asdict(seen)).decode()
    blocks = [_runs(seen), _table(_STORE_HEAD, map(_store_row, seen.stores))]
    rows = [row for store in seen.stores for row in _partition_rows(seen, store)]
    blocks.append(_table(_PARTITION_HEAD, rows))
    return "\n\n".join(block for block in blocks if block)


def _faults(seen: Overview) -> Iterator[str]:
    """What is wrong with the pipelines, a line each."""
    if not seen.runs:
        yield "no pipeline has run here"
    for name, (run, is_alive) in seen.runs.items():
        if not is_alive:
            yield f"pipeline {name} does not run"
            continue
        lag = sum(
            partition.lag or 0
            for store in seen.stores
            if store.application == name
            for partition in store.partitions
        )
        still_seconds = (seen.time_ms - run.batch_ms) / 1000
        if lag and still_seconds > _STUCK_SECONDS:
            yield (
                f"pipeline {name} is stuck: {lag:,} {run.offset_unit} are to come, and the last "
                f"batch was {still_seconds:,.0f} s ago"
            )


def _runs(seen: Overview) -> str:
    """A line for each pipeline, and one for the tailer."""
    lines = []
    for name, (run, is_alive) in seen.runs.items():
        phases = ", ".join(f"{n} {1000 * s:,.0f}" for n, s in run.phase_seconds.items())
        state = f"runs (process {run.process} on {run.host})" if is_alive else "does not run"
        seconds = sum(run.phase_seconds.values())
        age_seconds = (seen.time_ms - run.batch_ms) / 1000
        lines.append(
            f"pipeline {name}: {state}; {run.batches:,} batches since its start, the last "
            f"{age_seconds:,.1f} s ago in {1000 * seconds:,.0f} ms ({phases})"
        )
        if run.maintenance_failures:
            lines.append(
                f"pipeline {name}: tables could not be compacted or cleaned up "
                f"{run.maintenance_failures:,} times, see what it says on stderr"
            )
        lines += [
            f"pipeline {name}: topic {topic} had lost {offsets:,} offsets before they were read"
            for topic, offsets in run.lost.items()
        ]
    for store in seen.stores:
        if store.held_by is not None and store.held_by[1] < 0:
            lines.append(
                f"store {store.name}: windows stay open until {store.held_by[0]} has a record"
            )
    tailer = f"runs (process {seen.tailer.pid})" if seen.tailer.alive else "does not run"
    return "\n".join([*lines, f"index: {tailer}"])


_STORE_HEAD = (
    "store", "pipeline", "batch", "input", "applied", "late", "dead-lettered", "filtered",
    "open", "state", "final before", "index",
)  # fmt: skip


def _store_row(store: StoreOverview) -> list[str]:
    counters = store.record.counters if store.record else {}
    numbers = [
        f"{counters.get(name, 0):,}"
        for name in ("input", "applied", "late", "dead_lettered", "filtered")
    ]
    index = "none" if store.index is None else store.index.state
    if store.index is not None and store.index.version is not None:
        index += f" at version {store.index.version:,}"
    if store.index is not None and store.index.problem:
        index += f": {store.index.problem}"
    return [
        store.name,
        store.application or "-",
        f"{store.record.batch:,}" if store.record else "-",
        *numbers,
        "-" if store.open_records is None else f"{store.open_records:,}",
        _bytes(store.state_bytes),
        _time(store.record.close_ms) if store.record else "-",
        index,
    ]


_PARTITION_HEAD = ("store", "topic", "partition", "offset", "lag", "stream time", "behind", "")


def _partition_rows(seen: Overview, store: StoreOverview) -> Iterator[list[str]]:
    run = seen.runs.get(store.application or "")
    unit = run[0].offset_unit if run else ""
    for partition in store.partitions:
        behind_ms = seen.time_ms - partition.stream_time_ms
        yield [
            store.name,
            partition.topic,
            partition.partition,
            f"{partition.offset:,}",
            _lag(partition, unit),
            _time(partition.stream_time_ms),
            _duration(behind_ms) if partition.stream_time_ms >= 0 else "-",
            "holds windows open" if partition.holds_windows_open
            else "silent, windows close without it" if partition.is_idle else "",
        ]  # fmt: skip


def _lag(partition: PartitionOverview, unit: str) -> str:
    """How much is to come, in the unit of offsets and in time."""
    if partition.lag is None:
        return "-"
    time_lag = f" ({_duration(partition.lag_ms)})" if partition.lag_ms else ""
    return f"{partition.lag:,} {unit}{time_lag}"


def _table(head: Sequence[str], rows: Iterator[list[str]] | Sequence[list[str]]) -> str:
    """Columns as wide as their widest text; numbers stand on the right."""
    lines = [list(head), *rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    return "\n".join(
        "  ".join(
            text.rjust(width) if text[:1].isdigit() else text.ljust(width)
            for text, width in zip(line, widths, strict=True)
        ).rstrip()
        for line in lines
    )


def _time(time_ms: int) -> str:
    """A time in UTC to the second; ``-`` before the first record."""
    if time_ms < 0:
        return "-"
    try:
        return f"{datetime.fromtimestamp(time_ms // 1000, UTC):%Y-%m-%d %H:%M:%S}"
    except (OverflowError, ValueError):
        return f"{time_ms} ms"


def _duration(time_ms: int) -> str:
    """A span of time in its largest fitting unit; ahead of wall clock it is negative."""
    sign, seconds = ("-" if time_ms < 0 else ""), abs(time_ms) / 1000
    for unit, size in (("d", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= size:
            return f"{sign}{seconds / size:,.1f} {unit}"
    return f"{sign}{seconds:.1f} s"


def _bytes(size: int) -> str:
    for unit, scale in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if size >= scale:
            return f"{size / scale:,.1f} {unit}"
    return f"{size} B"
