"""``oriel clock``: show the stream times of a pipeline's partitions, or set one back.

If you set a stream time back, final windows stay final (decision 0032). The close time is set back
at most to the end of the last window that was written as final. All later windows accept records
again, and retention counts from the greatest remaining stream time.
"""

import argparse
import time
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from oriel.pipeline.arguments import add_data_option
from oriel.pipeline.commit import (
    Checkpoint,
    SinkDefinition,
    StateVersions,
    StreamTimeOverride,
    newest_prepared,
)
from oriel.pipeline.errors import StreamTimeRejected
from oriel.pipeline.operations.messages import EXPECTED, print_error
from oriel.pipeline.plan import NO_PARTITION, PreparedBatch
from oriel.pipeline.state import open_segment
from oriel.pipeline.windows import (
    INPUT_FIELDS,
    MAX_TIMESTAMP_MS,
    NEVER_CLOSED_MS,
    NO_STREAM_TIME_MS,
)
from oriel.storage import DataLayout, current_files, is_sink_name, uri
from oriel.storage.delta import DeltaLog
from oriel.storage.index import table_batches
from oriel.storage.monitoring import RunStatusFile

_COLUMNS = ("store", "clock", "partition", "stream time", "ms", "wall clock", "last record", "")
#: The number of attempts to read a version. It can be deleted after its number was listed.
_ATTEMPTS = 5


class _Version(NamedTuple):
    """The newest state version of a store."""

    store: str
    directory: Path
    prepared: PreparedBatch


def main(arguments: Sequence[str] | None = None) -> int:
    """Show stream times, or set one back.

    Returns:
        The exit code: 0 on success, 1 after an error, which is one line on stderr.
    """
    options = _parser().parse_args(arguments)
    try:
        layout = DataLayout(options.data)
        current_files().reach(layout.root)
        directory = _checkpoint(layout, options.name)
        if options.set is None:
            _show(_versions(layout, directory, options.store), time.time_ns() // 1_000_000)
        else:
            topic, partition, text = options.set
            # The lock keeps the pipeline from running, because it would not read the change.
            with Checkpoint(directory, sync=True):
                versions = _in_topology(directory, _versions(layout, directory, options.store))
                _set(layout, versions, (topic, partition), _time_ms(text))
    except EXPECTED as error:
        print_error("clock", error)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="oriel clock",
        description="Show the stream time of each partition, which partition keeps windows from "
        "becoming final, and which are idle. With --set, set a stream time back.",
    )
    parser.add_argument("store", nargs="?", help="select only this store. Default: all stores")
    add_data_option(parser, "read the checkpoints of this data directory")
    parser.add_argument(
        "--name", metavar="NAME",
        help="select this checkpoint. Required if the data directory has several",
    )  # fmt: skip
    parser.add_argument(
        "--set", nargs=3, metavar=("CLOCK", "PARTITION", "TIME"),
        help="set the stream time of a partition back to TIME, for example 2026-01-31T12:00:00 "
            "(UTC) or ms since 1970. The pipeline must not run. CLOCK is the topic, or a name that "
            "this command shows, for example flights#2",
    )  # fmt: skip
    return parser


def _time_ms(text: str) -> int:
    if text.isdecimal():
        time_ms = int(text)
    else:
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            time_ms = -1
        else:
            moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
            time_ms = (moment - datetime.fromtimestamp(0, UTC)) // timedelta(milliseconds=1)
    if not 0 <= time_ms <= MAX_TIMESTAMP_MS:
        message = (
            f"{text!r} is not a time of a record. Write ms since 1970, or a time like "
            "2026-01-31T12:00:00"
        )
        raise StreamTimeRejected(message)
    return time_ms


def _checkpoint(layout: DataLayout, name: str | None) -> Path:
    """Return the checkpoint directory of the pipeline ``name``, or of the only pipeline."""
    files = current_files()
    names = sorted(files.names(layout.checkpoints))
    existing = [name for name in names if files.is_directory(layout.checkpoint(name))]
    if name is None and len(existing) == 1:
        return layout.checkpoint(existing[0])
    if name in existing:
        return layout.checkpoint(name)
    which = "has no checkpoint" if name is None else f"has no checkpoint {name!r}"
    if name is None and existing:
        which = "has several checkpoints. Name one with --name"
    message = f"{uri(layout.root)} {which}. Checkpoints: {', '.join(existing) or 'none'}"
    raise StreamTimeRejected(message)


def _versions(layout: DataLayout, directory: Path, store: str | None) -> list[_Version]:
    """Return the newest state version of one store, or of each store that has a version."""
    found = current_files().names(directory / "state")
    existing = sorted({name.partition("@")[0] for name in found})
    if store is not None and store not in existing:
        names = ", ".join(existing)
        message = f"the pipeline {directory.name!r} has no store {store!r}. Its stores: {names}"
        raise StreamTimeRejected(message)
    newest = []
    for name in existing if store is None else [store]:
        # The name of the state has the generation that the store uses (decision 0035).
        if is_sink_name(name):
            sink = SinkDefinition.recorded(directory, name)
            state = name if sink is None else sink.state_name
        else:
            state = DeltaLog(layout.table(name)).snapshot().definition.state_name
        versions = StateVersions(directory / "state" / state, sync=False)
        prepared = _newest(versions)
        if prepared is not None:
            newest.append(_Version(name, versions.directory, prepared))
    if not newest:
        message = f"{directory.name!r} has no batch yet, so it has no stream times"
        raise StreamTimeRejected(message)
    return newest


def _in_topology(directory: Path, versions: Sequence[_Version]) -> list[_Version]:
    """Return the versions whose stores are in the topology, and print the names of the others.

    A store is in the topology if its state has the newest prepared batch of the pipeline.

    Raises:
        StreamTimeRejected: No version belongs to a store of the topology.
    """
    stores = {name.partition("@")[0] for name in current_files().names(directory / "state")}
    last = newest_prepared(directory, stores)
    newest = -1 if last is None else last.batch
    reported = RunStatusFile(directory).read()
    run_stores = stores if reported is None else reported[0].stores.keys()
    # After a crash, a store can lack the last batch. The status of the last run then names it.
    current = [
        version
        for version in versions
        if (batch := version.prepared.record.batch) == newest
        or (batch == newest - 1 and version.store in run_stores)
    ]
    if not current:
        message = (
            f"store {versions[0].store!r} is no longer in the topology, so its stream times stay "
            "unchanged. Name another store, or omit the store to set all"
        )
        raise StreamTimeRejected(message)
    for version in versions:
        if version not in current:
            print(f"{version.store}: no longer in the topology, so its stream times stay unchanged")
    return current


def _newest(versions: StateVersions) -> PreparedBatch | None:
    """Return the newest prepared batch. A pipeline can delete older batches meanwhile."""
    for _ in range(_ATTEMPTS):
        prepared = versions.last_prepared()
        if prepared is not None:
            return prepared
    return None


# Showing.


def _show(versions: Iterable[_Version], now_ms: int) -> None:
    rows: list[tuple[str, ...]] = [_COLUMNS]
    summary: list[str] = []
    for version in versions:
        rows += _rows(version, now_ms)
        record, notes = version.prepared.record, version.prepared.clock_notes
        final = (
            "no window is final"
            if record.close_ms < 0
            else f"final before {_time_text(record.close_ms)}"
        )
        observed = (
            "" if record.observed_ms < 0 else f", newest window {_time_text(record.observed_ms)}"
        )
        idle_text = f", partitions became idle {notes.idle_times} times" if notes.idle_times else ""
        summary.append(f"{version.store}: batch {record.batch}, {final}{observed}{idle_text}")
        summary += [f"{version.store}: {act}" for act in notes.mended]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        print("  ".join(cells).rstrip())
    print("\n".join(["", *summary]))


def _rows(version: _Version, now_ms: int) -> Iterator[tuple[str, ...]]:
    """Yield the cells of a row for each stream and partition of a store."""
    notes = version.prepared.clock_notes
    for name, partitions in version.prepared.record.stream_time_ms.items():
        for partition, time_ms in sorted(partitions.items(), key=lambda item: int(item[0])):
            last_record_ms = notes.heard_ms.get(name, {}).get(partition)
            is_idle = int(partition) in notes.idle.get(name, ())
            keeps_open = notes.held_by == (name, int(partition))
            ahead_ms = time_ms - now_ms
            offset = f"{_duration_text(abs(ahead_ms))} {'ahead' if ahead_ms > 0 else 'behind'}"
            yield (
                version.store,
                name,
                partition,
                "none yet" if time_ms == NO_STREAM_TIME_MS else _time_text(time_ms),
                str(time_ms),
                "" if time_ms == NO_STREAM_TIME_MS else offset,
                "" if last_record_ms is None else f"{_duration_text(now_ms - last_record_ms)} ago",
                "idle" if is_idle else "keeps windows from becoming final" if keeps_open else "",
            )
        if not partitions:
            keeps_open = notes.held_by == (name, NO_PARTITION)
            does = "keeps windows from becoming final" if keeps_open else ""
            yield (version.store, name, "none", "none yet", "", "", "", does)


def _time_text(time_ms: int) -> str:
    """Return a time as ISO 8601 in UTC, with milliseconds."""
    moment = datetime.fromtimestamp(time_ms // 1000, UTC).replace(tzinfo=None)
    return f"{moment.isoformat()}.{time_ms % 1000:03d}Z"


def _duration_text(span_ms: int) -> str:
    """Return a duration in its two largest units, for example ``1h 30m``."""
    units = (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1))
    parts: list[str] = []
    remaining_ms = max(0, span_ms)
    for unit, unit_ms in units:
        number, rest_ms = divmod(remaining_ms, unit_ms)
        if number and len(parts) < 2:
            parts.append(f"{number}{unit}")
            remaining_ms = rest_ms
    return " ".join(parts) or "0ms"


# Setting back.


def _set(
    layout: DataLayout, versions: Sequence[_Version], place: tuple[str, str], time_ms: int
) -> None:
    """Set a stream time back in every store in which it is later than ``time_ms``.

    Args:
        layout: The data directory.
        versions: The newest state versions of the stores.
        place: The topic, or the name that ``oriel clock`` shows, and the partition.
        time_ms: The new stream time.

    Raises:
        StreamTimeRejected: No store has a later stream time, or a store cannot be set back.
    """
    name, partition = place
    known = [v for v in versions if partition in v.prepared.record.stream_time_ms.get(name, {})]
    ahead = [v for v in known if v.prepared.record.stream_time_ms[name][partition] > time_ms]
    if not ahead:
        why = "is not later" if known else "does not exist"
        message = (
            f"the stream time of {name} {partition} cannot be set back to {_time_text(time_ms)}: "
            f"it {why} in {', '.join(version.store for version in versions)}. Run `oriel clock` to "
            "see all stream times"
        )
        raise StreamTimeRejected(message)
    # Check all stores before the first change.
    overrides = [(version, _override_of(layout, version, place, time_ms)) for version in ahead]
    for version, override in overrides:
        override.write(version.directory, version.prepared.record.batch)
        print(f"{version.store}: {override.acts[-1]}")


def _override_of(
    layout: DataLayout, version: _Version, place: tuple[str, str], time_ms: int
) -> StreamTimeOverride:
    """Return the stream times of a version, with the one at ``place`` set back."""
    name, partition = place
    record = version.prepared.record
    _refuse_stream_join(version)
    final_ms = _final_ms(layout, version)
    before_ms = record.stream_time_ms[name][partition]
    stream_times = {
        **record.stream_time_ms,
        name: {**record.stream_time_ms[name], partition: time_ms},
    }
    greatest_ms = max(ms for partitions in stream_times.values() for ms in partitions.values())
    # A window does not start, and a session does not end, after the latest record.
    observed_ms = greatest_ms if record.observed_ms < 0 else min(record.observed_ms, greatest_ms)
    act = (
        f"{name} {partition} set back from {_time_text(before_ms)} to {_time_text(time_ms)} after "
        f"batch {record.batch}"
    )
    return StreamTimeOverride(
        stream_times,
        # A window that was written as final stays final.
        min(record.close_ms, NEVER_CLOSED_MS if final_ms is None else final_ms + 1),
        observed_ms,
        [*version.prepared.clock_notes.mended, act],
    )


def _refuse_stream_join(version: _Version) -> None:
    """Reject a store whose join would emit results twice.

    Raises:
        StreamTimeRejected: The store has such a join. Joins of tables keep their rows, so they are
            accepted.
    """
    for by_task in version.prepared.join_segments.values():
        for name in (name for names in by_task.values() for name in names[:1]):
            columns = open_segment(version.directory, name).schema.names
            if {field.name for field in INPUT_FIELDS} <= set(columns):
                message = (
                    f"store {version.store!r} joins streams, or has records that wait for a "
                    "versioned table, and these records would be read twice. Rebuild the store "
                    "instead"
                )
                raise StreamTimeRejected(message)


def _final_ms(layout: DataLayout, version: _Version) -> int | None:
    """Return the last ms of the last final window of the table, or None without a final window.

    Raises:
        StreamTimeRejected: The table does not have the batch of the version yet.
    """
    if is_sink_name(version.store):
        return None
    table = layout.table(version.store)
    snapshot = DeltaLog(table).snapshot()
    batch = version.prepared.record.batch
    if snapshot.record is None or snapshot.record.batch < batch:
        message = (
            f"store {version.store!r}: batch {batch} is prepared, but not in the table yet. Run "
            "the pipeline until the table has it, stop the pipeline, and set the stream time back "
            "then"
        )
        raise StreamTimeRejected(message)
    kind = snapshot.definition.window.kind
    if not kind.is_windowed:
        return None
    greatest_ms = None
    for name in snapshot.files:
        digest, columns = snapshot.digests.get(name), ["window_end", "final"]
        for rows in table_batches(
            table / name, snapshot.definition, digest=digest, columns=columns
        ):
            ends_ms = rows["window_end"].filter(rows["final"]).cast(pa.timestamp("ms", "UTC"))
            if len(ends_ms):
                last_ms = pc.max(ends_ms.cast(pa.int64())).as_py() - (not kind.has_inclusive_end)
                greatest_ms = last_ms if greatest_ms is None else max(last_ms, greatest_ms)
    return greatest_ms
