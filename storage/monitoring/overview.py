"""A data folder at a glance: its pipelines, stores and index, from what each says of itself.

Nothing here waits for a pipeline, and nothing is opened that one of them holds: a store's numbers
are those of its newest commit, which the pipeline repeats in its status while it runs.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from oriel.storage.delta import DeltaLog
from oriel.storage.files import current_files
from oriel.storage.layout import DataLayout, is_sink_name
from oriel.storage.monitoring.run_status import RunStatus, run_status_files
from oriel.storage.position import CommitRecord
from oriel.storage.tailer import StatusFile, StoreStatus, TailerStatus, stores_with_tables


@dataclass(frozen=True)
class PartitionOverview:
    """One partition as one store reads it.

    ``offset`` is where the store is (exclusive). ``log_end`` is where the log ended when the
    pipeline last read its end, None if that is not known. The pipeline can have read on since
    then, so ``offset`` can be greater. ``lag`` is how much of the log the store had not read at
    that moment, in the unit of its offsets, None if that is not known. ``stream_time_ms`` is the
    partition's clock, -1 before its first record. ``lag_ms`` is the distance from that clock to
    wall-clock time while ``lag`` is positive, 0 if ``lag`` is 0. It is None if ``lag`` is not
    known, before the first record, and if the clock is ahead of wall-clock time.
    ``holds_windows_open``: the store's windows wait for this partition. ``is_idle``: the partition
    is idle, and the store's windows do not wait for it.
    """

    topic: str
    partition: str
    offset: int
    log_end: int | None
    lag: int | None
    stream_time_ms: int
    lag_ms: int | None
    holds_windows_open: bool
    is_idle: bool


@dataclass(frozen=True)
class StoreOverview:
    """One store: its newest commit, what its pipeline says of it, and its index.

    Or a sink that a pipeline tells of, which has no index.
    ``application`` is the name of the checkpoint that writes it, None where no pipeline has said
    that it does. ``open_records`` is None then, too. ``state_bytes`` is the size of its state.
    ``held_by`` is the clock and partition that hold its windows open, as the pipeline says;
    ``idle_times`` how often windows began to go on without a partition.
    """

    name: str
    application: str | None
    record: CommitRecord | None
    open_records: int | None
    changed: int | None
    state_bytes: int
    held_by: tuple[str, int] | None
    idle_times: int
    partitions: tuple[PartitionOverview, ...]
    index: StoreStatus | None


@dataclass(frozen=True)
class Overview:
    """A data folder: ``runs`` has for each pipeline its last word and whether it lives."""

    time_ms: int
    runs: dict[str, tuple[RunStatus, bool]]
    stores: tuple[StoreOverview, ...]
    tailer: TailerStatus


def overview(data: Path, index: Path | None = None) -> Overview:
    """Look at the data folder ``data``; a folder without tables has no stores.

    ``index`` is where the indexes are, None: in ``data``.
    """
    layout = DataLayout(data, index)
    runs = {name: said for name, file in run_status_files(layout).items() if (said := file.read())}
    tailer = StatusFile(layout).read()
    now_ms = time.time_ns() // 1_000_000
    stores = []
    sinks = {name for run, _ in runs.values() for name in run.stores if is_sink_name(name)}
    for store in (*stores_with_tables(layout), *sorted(sinks)):
        writer = next((name for name, (run, _) in runs.items() if store in run.stores), None)
        stores.append(_store(layout, store, writer, runs, tailer, now_ms))
    return Overview(now_ms, runs, tuple(stores), tailer)


def _store(
    layout: DataLayout,
    name: str,
    writer: str | None,
    runs: dict[str, tuple[RunStatus, bool]],
    tailer: TailerStatus,
    now_ms: int,
) -> StoreOverview:
    run = runs[writer][0] if writer is not None else None
    of_run = run.stores[name] if run is not None else None
    # Without a pipeline's word the log says it, at the price of looking for its newest entry.
    record = of_run.record if of_run is not None else DeltaLog(layout.table(name)).newest_record()
    return StoreOverview(
        name=name,
        application=writer,
        record=record,
        open_records=of_run.open_records if of_run is not None else None,
        changed=of_run.changed if of_run is not None else None,
        state_bytes=_state_bytes(layout, writer, name) if writer is not None else 0,
        held_by=of_run.held_by if of_run is not None else None,
        idle_times=of_run.idle_times if of_run is not None else 0,
        partitions=tuple(_partitions(name, record, run, now_ms)) if record is not None else (),
        index=tailer.stores.get(name),
    )


def _partitions(
    store: str, record: CommitRecord, run: RunStatus | None, now_ms: int
) -> Iterator[PartitionOverview]:
    """The partitions of a store, by topic and number."""
    of_run = run.stores[store] if run is not None else None
    # A topic that is read twice has two clocks, NAME and NAME#2; the slower one counts.
    times_ms: dict[tuple[str, str], int] = {}
    for clock, of_clock in record.stream_time_ms.items():
        for partition, time_ms in of_clock.items():
            place = clock.partition("#")[0], partition
            times_ms[place] = min(time_ms, times_ms.get(place, time_ms))
    held_by = of_run.held_by if of_run is not None else None
    held = (held_by[0].partition("#")[0], str(held_by[1])) if held_by is not None else None
    idle = {
        (clock.partition("#")[0], str(partition))
        for clock, partitions in (of_run.idle.items() if of_run is not None else ())
        for partition in partitions
    }
    ends = run.log_ends if run is not None else {}
    lags = run.lags.get(store, {}) if run is not None else {}
    for topic, offsets in sorted(record.offsets.items()):
        for partition in sorted(offsets, key=int):
            time_ms = times_ms.get((topic, partition), -1)
            log_end = ends.get(topic, {}).get(partition)
            lag = lags.get(topic, {}).get(partition)
            if lag is None and log_end is not None:
                # No batch since the start, or the status of an older version.
                lag = log_end - offsets[partition]
            # A log that ends before the store's offset was truncated, or its end was read before
            # the store's last batches: nobody knows then what the store has not read.
            lag = lag if lag is not None and lag >= 0 else None
            yield PartitionOverview(
                topic=topic,
                partition=partition,
                offset=offsets[partition],
                log_end=log_end,
                lag=lag,
                stream_time_ms=time_ms,
                lag_ms=_lag_ms(lag, now_ms, time_ms),
                holds_windows_open=(topic, partition) == held,
                is_idle=(topic, partition) in idle,
            )


def _lag_ms(lag: int | None, now_ms: int, time_ms: int) -> int | None:
    """See ``PartitionOverview``."""
    if not lag:
        return lag
    # A clock ahead of wall-clock time says nothing about the lag, and has its own alert
    # (OrielClockAhead).
    return now_ms - time_ms if 0 <= time_ms <= now_ms else None


def _state_bytes(layout: DataLayout, application: str, store: str) -> int:
    """The size of a store's state; files that go meanwhile don't count.

    A store that was computed anew has a folder for each generation, ``store@2``: the newest counts.
    """
    states = layout.checkpoint(application) / "state"
    generations = [
        int(generation)
        for name, _, generation in (name.partition("@") for name in current_files().names(states))
        if name == store and generation.isdecimal()
    ]
    name = f"{store}@{max(generations)}" if generations else store
    return sum(file.size for file in current_files().listed(states / name))
