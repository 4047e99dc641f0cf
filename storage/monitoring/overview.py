"""The overview of a data directory: pipelines, stores and indexes, from the status of each.

The overview does not wait for a pipeline, and opens no file that a pipeline locks. The numbers of a
store are from its newest commit. A running pipeline repeats them in its status.
"""

import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from oriel.storage.delta import LOG_DIRECTORY, DeltaLog
from oriel.storage.errors import StorageError
from oriel.storage.files import current_files, is_object
from oriel.storage.layout import DataLayout, is_sink_name
from oriel.storage.monitoring.partitions import (
    PartitionOverview,
    Reported,
    partition_overviews,
)
from oriel.storage.monitoring.pipelines import PipelineOverview, pipeline_overview
from oriel.storage.monitoring.run_status import run_status_files
from oriel.storage.position import CommitRecord
from oriel.storage.tailer import StatusFile, StoreStatus, TailerStatus, stores_with_tables


@dataclass(frozen=True)
class StoreOverview:
    """One store: its newest commit, the report of its pipeline, and its index.

    A sink of a pipeline is also a store here, without an index.

    Attributes:
        name: The name of the store.
        application: The name of the checkpoint that writes the store, None if no pipeline has
            reported the store.
        record: The newest commit record, None if it cannot be read.
        open_records: The rows in the state, None if no pipeline has reported the store.
        changed: The windows that the last batch changed, None if no pipeline has reported the
            store.
        state_bytes: The size of the state files.
        table_bytes: The size of the files of the table and its log, also of removed files. None
            with object storage, where each status would list thousands of objects.
        files: The number of files of the table, its log and the state, None with object storage.
        held_by: The stream and partition that keep windows from becoming final.
        idle_times: How often a partition became idle.
        partitions: The partitions that the store reads.
        index: The status of the index, None if the tailer does not report the store.
    """

    name: str
    application: str | None
    record: CommitRecord | None
    open_records: int | None
    changed: int | None
    state_bytes: int
    table_bytes: int | None
    files: int | None
    held_by: tuple[str, int] | None
    idle_times: int
    partitions: tuple[PartitionOverview, ...]
    index: StoreStatus | None


@dataclass(frozen=True)
class Overview:
    """The status of a data directory.

    Attributes:
        time_ms: The time of this overview.
        pipelines: The pipelines.
        runs: The last status of each pipeline, and whether the pipeline is alive.
        stores: The stores.
        tailer: The status of the tailer.
    """

    time_ms: int
    pipelines: tuple[PipelineOverview, ...]
    runs: dict[str, Reported]
    stores: tuple[StoreOverview, ...]
    tailer: TailerStatus


def overview(data: Path, index: Path | None = None) -> Overview:
    """Read the overview of the data directory ``data``.

    ``index`` is the directory of the indexes, None if they are in ``data``.
    """
    layout = DataLayout(data, index)
    files = run_status_files(layout)
    runs = {name: said for name, file in files.items() if (said := file.read())}
    tailer = StatusFile(layout).read()
    now_ms = time.time_ns() // 1_000_000
    stores = []
    sinks = {name for run, _ in runs.values() for name in run.stores if is_sink_name(name)}
    for store in (*stores_with_tables(layout), *sorted(sinks)):
        writer = next((name for name, (run, _) in runs.items() if store in run.stores), None)
        stores.append(_store(layout, store, writer, runs, tailer, now_ms))
    pipelines = tuple(
        pipeline_overview(
            name,
            reported,
            files[name].seen_ms(),
            [each for one in stores if one.application == name for each in one.partitions],
            now_ms,
        )
        for name, reported in runs.items()
    )
    return Overview(now_ms, pipelines, runs, tuple(stores), tailer)


def _store(
    layout: DataLayout,
    name: str,
    writer: str | None,
    runs: dict[str, Reported],
    tailer: TailerStatus,
    now_ms: int,
) -> StoreOverview:
    reported = runs[writer] if writer is not None else None
    of_run = reported[0].stores[name] if reported is not None else None
    record = of_run.record if of_run is not None else _newest_record(layout, name)
    state = _state_sizes(layout, writer, name) if writer is not None else []
    table = _table_sizes(layout, name)
    return StoreOverview(
        name=name,
        application=writer,
        record=record,
        open_records=of_run.open_records if of_run is not None else None,
        changed=of_run.changed if of_run is not None else None,
        state_bytes=sum(state),
        table_bytes=None if table is None else sum(table),
        files=None if table is None else len(table) + len(state),
        held_by=of_run.held_by if of_run is not None else None,
        idle_times=of_run.idle_times if of_run is not None else 0,
        partitions=(
            () if record is None else tuple(partition_overviews(name, record, reported, now_ms))
        ),
        index=tailer.stores.get(name),
    )


def _newest_record(layout: DataLayout, name: str) -> CommitRecord | None:
    """Read the newest commit of a store that no pipeline reports, None if it cannot be read."""
    # The problem of the index says what is wrong with the table, and other stores have a status.
    with suppress(StorageError, OSError):
        return DeltaLog(layout.table(name)).newest_record()
    return None


def _table_sizes(layout: DataLayout, store: str) -> list[int] | None:
    """Return the size of each file of a store's table and its log. None with object storage."""
    if is_object(layout.root):
        return None
    if is_sink_name(store):
        return []
    table = layout.table(store)
    directories = (table, table / LOG_DIRECTORY)
    return [file.size for each in directories for file in current_files().listed(each)]


def _state_sizes(layout: DataLayout, application: str, store: str) -> list[int]:
    """Return the size of each file of a store's state, without files that are deleted meanwhile.

    A rebuilt store has one directory per generation, for example ``store@2``. The newest counts.
    """
    states = layout.checkpoint(application) / "state"
    generations = [
        int(generation)
        for name, _, generation in (name.partition("@") for name in current_files().names(states))
        if name == store and generation.isdecimal()
    ]
    name = f"{store}@{max(generations)}" if generations else store
    return [file.size for file in current_files().listed(states / name)]
