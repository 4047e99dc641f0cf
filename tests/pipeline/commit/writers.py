"""A pipeline without Spark: its checkpoint, tables and tasks in this process, batch by batch.

The writer reads Spark's log files as Spark does. It repeats the last batch unless the commit log
has it, and then plans new batches.
"""

from functools import partial
from pathlib import Path
from typing import Any, Self

import orjson
import pyarrow as pa

from oriel import SlidingWindows, StreamsBuilder, Topology, collect_list, count
from oriel.pipeline.commit import (
    Checkpoint,
    StoreBatches,
    StoreTables,
    store_definition,
    topology_recovery_point,
)
from oriel.pipeline.decoding import BlockDecoder
from oriel.pipeline.lowered import lower
from oriel.pipeline.plan import StorePlans, reasons_by_store
from oriel.pipeline.sources import EventLog
from oriel.pipeline.tasks import LocalRunner, run_stages
from oriel.pipeline.testing.steps import steps_for
from oriel.storage import DataLayout, Offsets
from oriel.storage.delta import open_delta

#: Lines of a batch. One line is not a record.
LINES = 6


def two_stores() -> Topology:
    """Return a topology of two stores over one topic. Each store has its own dead letters."""
    builder = StreamsBuilder()
    for name in ("first", "second"):
        windows = SlidingWindows.of_time_difference_and_grace(10, 30)
        grouped = builder.stream("t", "v STRING").group_by_key().windowed_by(windows)
        grouped.aggregate(all=collect_list("v"), n=count()).materialize(name)
    return builder.build()


def write_log(directory: Path, batches: int) -> None:
    """Write an event log of `batches` batches with three keys, in which windows close."""
    topic = directory / "log" / "t"
    topic.mkdir(parents=True)
    with (topic / "0.jsonl").open("wb") as file:
        for batch in range(batches):
            for line in range(LINES - 1):
                time_ms = batch * 20 + line * 3
                record = {"key": f"k{line % 3}", "value": {"v": f"{batch}.{line}"}}
                file.write(orjson.dumps({**record, "timestamp_ms": time_ms}) + b"\n")
            file.write(b"rubbish\n")


class Writer:
    """A run of a pipeline, as by one process, over a directory with a log."""

    def __init__(
        self,
        directory: Path,
        *,
        sync: bool = True,
        tasks: int = 2,
        data: Path | None = None,
        scratch: Path | None = None,
    ) -> None:
        """Open the existing data as a start does, and ignore a lock of another process.

        Args:
            data: A data directory other than the one in `folder`.
            scratch: The directory of Spark's log if `data` is in a bucket.
        """
        self.data = data or directory / "data"
        layout = DataLayout(self.data)
        lock = layout.checkpoint("app") / "lock"
        # On a file system without locks, each process would lock a file of its own.
        lock.unlink(missing_ok=True)
        self.checkpoint = Checkpoint(
            layout.checkpoint("app"), sync=sync, lock_wait_s=0, scratch=scratch
        )
        self.stores: dict[str, StoreBatches] = {}
        try:
            self._open(directory, layout, sync=sync, tasks=tasks)
        except BaseException:
            self.close()
            raise

    def _open(self, directory: Path, layout: DataLayout, *, sync: bool, tasks: int) -> None:
        self.log = EventLog(directory / "log")
        content = (directory / "log" / "t" / "0.jsonl").read_bytes().splitlines(keepends=True)
        sizes = [sum(map(len, content[: end + LINES])) for end in range(0, len(content), LINES)]
        self._cuts = sizes
        topology = lower(two_stores())
        self._decoders = {source: self.log.decoder(source) for source in topology.sources}
        reasons = reasons_by_store(topology)
        for store in topology.stores:
            steps = partial(steps_for, store=store.name)
            plans = StorePlans(store, steps, reasons[store.name])
            types = plans.assembly.types
            definition = store_definition(store, types, self.checkpoint.application, 8)
            tables = StoreTables(layout, definition, types, sync=sync)
            versions = self.checkpoint.versions(store.name)
            self.stores[store.name] = StoreBatches(plans, tables, versions, tasks=tasks)
        self.recovery_point = topology_recovery_point(self.stores.values())
        self.checkpoint.prepare_spark(["t"], self.recovery_point)
        self._next = 0
        #: End offsets of the batches in Spark's log. Later batches end at the next cut.
        self._ends: dict[int, Offsets] = {}
        offsets = self.checkpoint.spark / "offsets"
        if offsets.exists():
            logged = sorted(int(path.name) for path in offsets.iterdir())
            self._ends = {batch: self.checkpoint.end_offsets(batch) for batch in logged}
            is_done = (self.checkpoint.spark / "commits" / str(logged[-1])).exists()
            self._next = logged[-1] + is_done

    def run(self, batches: int | None = None) -> None:
        """Run `batches` batches, or run to the end of the log."""
        done = 0
        while done != batches and self.has_more_lines:
            self.run_batch()
            done += 1

    @property
    def has_more_lines(self) -> bool:
        """Return whether the log has lines after the last batch."""
        return self._ends_of(self._next - 1) < self._cuts[-1]

    def run_batch(self) -> None:
        """Run one batch, as ``PipelineRun`` does."""
        batch = self._next
        starts = {"t": {"0": self._ends_of(batch - 1)}}
        if batch not in self._ends:
            cut = next(cut for cut in self._cuts if cut > starts["t"]["0"])
            self._ends[batch] = {"t": {"0": cut}}
        ends = self._ends[batch]
        begun = {name: store.begin(batch, ends) for name, store in self.stores.items()}
        work = [one for one in begun.values() if one is not None]
        records = {source: self._read(source, starts, ends) for source in self._decoders}
        reports = run_stages(LocalRunner(records), work) if work else {}
        for name, store in self.stores.items():
            one = begun[name]
            store.finish(batch, ends, None if one is None else (one, reports[name]))
        self._next += 1

    def __enter__(self) -> Self:
        """Return the writer, which is closed at the end of the `with` block."""
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the checkpoint, as the end of a process does."""
        self.checkpoint.close()

    def _ends_of(self, batch: int) -> int:
        return self._ends[batch]["t"]["0"] if batch in self._ends else 0

    def _read(self, source: Any, starts: Offsets, ends: Offsets) -> list[pa.Table]:
        decoder = self._decoders[source]
        assert isinstance(decoder, BlockDecoder)
        return [
            pa.concat_tables([decoder.decode(block) for block in raw])
            for _, raw in self.log.read(None, starts, ends)  # type: ignore[arg-type]
        ]


def run(directory: Path, batches: int | None = None) -> None:
    """Start a writer, run `batches` batches or to the end of the log, and close it."""
    with Writer(directory) as writer:
        writer.run(batches)


def undisturbed(directory: Path, batches: int) -> dict[str, list[str]]:
    """Return the tables of an undisturbed run over the same log."""
    directory.mkdir()
    write_log(directory, batches)
    run(directory)
    return tables_of(directory)


def tables_of(directory: Path) -> dict[str, list[str]]:
    """Return all rows of each table as strings, including their revisions."""
    rows: dict[str, list[str]] = {}
    for name in ("first", "second", "_dead_letters"):
        table = open_delta(directory / "data" / "tables" / name).to_pyarrow_table()
        rows[name] = sorted(map(repr, table.to_pylist()))
    return rows


def newest_of(directory: Path, name: str) -> list[str]:
    """Return the newest row of each window of a store as a string. Compaction keeps these rows."""
    newest: dict[tuple[Any, ...], Any] = {}
    rows = open_delta(directory / "data" / "tables" / name).to_pyarrow_table()
    for row in rows.sort_by("revision").to_pylist():
        newest[row["key"], row["window_start"]] = row
    return sorted(repr(row) for row in newest.values() if not row["deleted"])
