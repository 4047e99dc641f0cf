"""``oriel status``: show the status of the pipelines, stores and indexes of a data directory.

The command reads the status files of the processes, so it does not disturb them. It also shows the
last status of a pipeline that has ended.
"""

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

import orjson

from oriel.pipeline.arguments import add_data_option
from oriel.pipeline.operations.messages import EXPECTED, print_error
from oriel.status_check import pipeline_name
from oriel.storage import current_files, uri
from oriel.storage.monitoring import (
    Overview,
    RunStatus,
    StoreOverview,
    duration_text,
    overview,
    retired_text,
    time_text,
)

#: Seconds between two tables of ``--watch``.
_WATCH_SECONDS = 1.0
#: Clears the terminal and moves the cursor to its upper left corner.
_CLEAR = "\x1b[H\x1b[2J"


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the status once or, with ``--watch``, every second until it is interrupted.

    Returns:
        The exit code: 0 on success, 1 after an error. With ``--check``, it is also 1 if a pipeline
        is stopped or stuck.
    """
    parser = argparse.ArgumentParser(
        prog="oriel status",
        description="Show the status of pipelines, stores, partitions and indexes. The command "
        "does not disturb a pipeline or a service.",
    )
    add_data_option(parser, "read the status of this data directory")
    parser.add_argument(
        "--index", type=Path, metavar="DIR",
        help="read the indexes of oriel serve in this directory. Default: DATA/index",
    )  # fmt: skip
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--watch", action="store_true", help="print the status again every second")
    parser.add_argument(
        "--check", action="store_true",
        help="print only stopped and stuck pipelines, and exit with code 1 if one exists",
    )  # fmt: skip
    parser.add_argument(
        "--pipeline", type=pipeline_name, metavar="NAME",
        help="check only the pipeline of this name or topology file. Needs --check. Use it in "
        "health checks, because it costs little processor time",
    )  # fmt: skip
    options = parser.parse_args(arguments)
    if options.pipeline is not None and not options.check:
        parser.error("--pipeline needs --check")
    try:
        current_files().reach(options.data)
        if not current_files().is_directory(options.data / "tables"):
            message = f"{uri(options.data)} has no tables. Pass the --data directory of oriel run"
            print(f"oriel status: {message}", file=sys.stderr)
            return 1
        if options.check:
            problems = list(_problems(overview(options.data, options.index), options.pipeline))
            sys.stdout.writelines(f"{problem}\n" for problem in problems)
            return int(bool(problems))
        while True:
            text = _text(overview(options.data, options.index), as_json=options.json)
            print(_CLEAR + text if options.watch and not options.json else text, flush=True)
            if not options.watch:
                return 0
            time.sleep(_WATCH_SECONDS)
    except EXPECTED as error:
        print_error("status", error)
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


def _problems(seen: Overview, only: str | None) -> Iterator[str]:
    """Yield one line per pipeline that is stopped, stuck or missing.

    ``only`` selects one pipeline by its name. If it is retired, this is also a line.
    """
    if only is not None and only not in seen.runs:
        yield f"Pipeline {only} has not run here. Start it with the same --data."
    elif not seen.pipelines:
        yield "No pipeline has run here. Start one with the same --data."
    for pipeline in seen.pipelines:
        if only not in {None, pipeline.pipeline}:
            continue
        if only is not None and pipeline.state == "retired":
            yield retired_text(only, seen.runs[only][0].retired_ms)
        if pipeline.state in {"stopped", "stuck"} and pipeline.problem is not None:
            yield pipeline.problem


def _runs(seen: Overview) -> str:
    """Return the lines about pipelines and their problems, and one line about the tailer."""
    lines = []
    for name, (run, is_alive) in seen.runs.items():
        lines.append(f"pipeline {name}: {_state(seen, name, run, is_alive=is_alive)}")
        if run.maintenance_failures:
            lines.append(
                f"pipeline {name}: tables could not be compacted or cleaned up "
                f"{run.maintenance_failures:,} times. Read its log"
            )
        lines += [
            f"pipeline {name}: topic {topic} lost {offsets:,} offsets before they were read"
            for topic, offsets in run.lost.items()
        ]
    for store in seen.stores:
        if store.held_by is not None and store.held_by[1] < 0:
            lines.append(
                f"store {store.name}: windows stay open until {store.held_by[0]} has a record"
            )
    tailer = f"runs (process {seen.tailer.pid})" if seen.tailer.alive else "does not run"
    return "\n".join([*lines, f"index tailer: {tailer}"])


def _state(seen: Overview, name: str, run: RunStatus, *, is_alive: bool) -> str:
    """Return whether a pipeline runs, with its batches since its start."""
    process = f"(process {run.process} on {run.host})"
    age_seconds = (seen.time_ms - (run.batch_ms if run.batches else run.started_ms)) / 1000
    if run.retired_ms and not is_alive:
        return f"is retired since {time_text(run.retired_ms)} UTC"
    if run.batches:
        phases = ", ".join(f"{n} {1000 * s:,.0f}" for n, s in run.phase_seconds.items())
        seconds = sum(run.phase_seconds.values())
        return (
            f"{(f'runs {process}' if is_alive else 'does not run')}. {run.batches:,} batches "
            f"since its start. The last batch was {age_seconds:,.1f} s ago and took "
            f"{1000 * seconds:,.0f} ms ({phases})"
        )
    if not is_alive:
        started = f"It started {age_seconds:,.1f} s ago and stopped before its first batch"
        return f"does not run. {started}"
    is_starting = ("starting", name) in {(one.state, one.pipeline) for one in seen.pipelines}
    state = "is starting" if is_starting else "runs"
    return f"{state} {process}, no batch in the {age_seconds:,.1f} s since its start"


_STORE_HEAD = (
    "store", "pipeline", "batch", "input", "applied", "late", "dead-lettered", "filtered",
    "open", "state", "table", "files", "final before", "index",
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
        "-" if store.table_bytes is None else _bytes(store.table_bytes),
        "-" if store.files is None else f"{store.files:,}",
        time_text(store.record.close_ms) if store.record else "-",
        index,
    ]


_PARTITION_HEAD = ("store", "topic", "partition", "offset", "lag", "stream time", "delay", "")


def _partition_rows(seen: Overview, store: StoreOverview) -> Iterator[list[str]]:
    pipeline = next((one for one in seen.pipelines if one.pipeline == store.application), None)
    for partition in store.partitions:
        delay_ms = seen.time_ms - partition.stream_time_ms
        # The lag in its unit and in time, or the last known lag and its age.
        lag = "-"
        if partition.last_lag is not None and pipeline is not None:
            lag = f"{partition.last_lag:,} {pipeline.lag_unit}"
            if partition.lag is None:
                ended_ms = pipeline.log_end_ms
                age = f" {duration_text(seen.time_ms - ended_ms)} ago" if ended_ms else ""
                lag = f"unknown ({lag}{age})"
            elif partition.lag_ms:
                lag = f"{lag} ({duration_text(partition.lag_ms)})"
        yield [
            store.name,
            partition.topic,
            partition.partition,
            f"{partition.offset:,}",
            lag,
            time_text(partition.stream_time_ms),
            duration_text(delay_ms) if partition.stream_time_ms >= 0 else "-",
            "keeps windows from becoming final" if partition.holds_windows_open
            else "idle, windows become final without it" if partition.is_idle else "",
        ]  # fmt: skip


def _table(head: Sequence[str], rows: Iterator[list[str]] | Sequence[list[str]]) -> str:
    """Return rows with columns as wide as their widest text, and numbers aligned right."""
    lines = [list(head), *rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    return "\n".join(
        "  ".join(
            text.rjust(width) if text[:1].isdigit() else text.ljust(width)
            for text, width in zip(line, widths, strict=True)
        ).rstrip()
        for line in lines
    )


def _bytes(size: int) -> str:
    for unit, scale in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if size >= scale:
            return f"{size / scale:,.1f} {unit}"
    return f"{size} B"
