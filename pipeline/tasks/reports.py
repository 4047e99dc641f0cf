"""Reports of the tasks of a batch: stream times, files, and the number of records by their end.

A task of a source knows only its partition. A task of a store needs the stream times of all
partitions, because the slowest partition decides which windows are final. So a task sends its
report to *every* task of the next stage, in the envelope that also carries its rows
(``exchange``). All tasks of a stage therefore compute with the same stream times, without a second
pass over the records.

Each task counts a record when the record ends there, which happens exactly once. A stream task
finds it invalid, filtered or late. A join finds it late or without a match, or keeps it in its
state. A store applies it, finds it late, or a user-defined function raises on it. No count is
computed from other counts. So the sum of all tasks equals the records that arrived, or a record was
lost or used twice, and the batch must not be committed.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import chain
from typing import Self

import orjson

from oriel.pipeline.errors import RecordCountMismatch
from oriel.pipeline.plan import StreamTimesByName
from oriel.pipeline.windows import NOTHING_OBSERVED_MS
from oriel.storage.delta import AddedFile


@dataclass(frozen=True)
class Counters:
    """The numbers of records by their end: ``input = applied + late + dead_lettered + filtered``.

    A record that is flattened is applied, if it has an element. The flattened records are counted
    in the same way: ``elements = elements_applied + elements_late + elements_dead_lettered +
    elements_filtered``. Results of a join are not records, because one record can have many results
    or no result.

    Attributes:
        input: The records of the sources.
        applied: The records that were applied to windows, or to the state of a join.
        late: The late records.
        dead_lettered: The invalid records.
        filtered: The records that a filter drops, or that have no result in a join.
        late_results: The join results that are late for all of their windows.
        rejected_results: The join results that are dead letters.
        table_records: The applied records of a table that a stream is joined with. They are not in
            a window.
        elements: The flattened records.
        elements_applied: The flattened records that were applied.
        elements_late: The late flattened records.
        elements_dead_lettered: The invalid flattened records.
        elements_filtered: The filtered flattened records.
    """

    input: int = 0
    applied: int = 0
    late: int = 0
    dead_lettered: int = 0
    filtered: int = 0
    late_results: int = 0
    rejected_results: int = 0
    table_records: int = 0
    elements: int = 0
    elements_applied: int = 0
    elements_late: int = 0
    elements_dead_lettered: int = 0
    elements_filtered: int = 0

    @classmethod
    def of(cls, end: str, rows: int, elements: int) -> "Counters":
        """Return the counts of ``rows`` with one end, for example ``late``.

        Args:
            end: The end of the rows.
            rows: The number of rows.
            elements: The number of flattened records among them.
        """
        return cls(**{end: rows - elements, f"elements_{end}": elements})

    def __add__(self, other: "Counters") -> "Counters":
        return Counters(**{name: n + getattr(other, name) for name, n in vars(self).items()})

    def as_dict(self, *, with_results: bool) -> dict[str, int]:
        """Return the numbers by name, without the numbers that the store does not use.

        Args:
            with_results: True for a store with joins, which has numbers of results.
        """
        numbers = dict(vars(self))
        # Each commit and each version contains the numbers, so numbers that the store never uses
        # are left out.
        if not with_results:
            del numbers["late_results"], numbers["rejected_results"]
        if not self.table_records:
            del numbers["table_records"]
        if not self.elements:
            numbers = {name: n for name, n in numbers.items() if not name.startswith("elements")}
        return numbers


def count_batch(store: str, batch: int, by_task: Iterable[Counters]) -> Counters:
    """Return the sum of the counts of all tasks of a batch.

    Raises:
        RecordCountMismatch: The records that were read are not as many as the records that ended,
            or the flattened records are not.
    """
    total = sum(by_task, Counters())
    numbers = vars(total)
    # Two equations, because a flattened record is one record with one end, and many elements with
    # their own ends.
    for rows, read, prefix in (
        ("records", total.input, ""),
        ("flattened records", total.elements, "elements_"),
    ):
        applied, late, dead_lettered, filtered = (
            numbers[prefix + end] for end in ("applied", "late", "dead_lettered", "filtered")
        )
        ends = applied + late + dead_lettered + filtered
        # If the numbers differ, either the rows or the counters are wrong. So the batch must not be
        # prepared.
        if ends != read:
            message = (
                f"store {store!r}, batch {batch}: {read} {rows} were read, but {ends} are "
                f"accounted for ({applied} applied, {late} late, {dead_lettered} dead-lettered, "
                f"{filtered} filtered). Nothing of the batch is committed. A restart computes it "
                "again. If it happens again, it is a defect of Oriel"
            )
            raise RecordCountMismatch(message)
    return total


@dataclass(frozen=True)
class StreamReport:
    """The report of one task of a stream.

    Attributes:
        stream_time_name: The name of the stream time.
        stream_time_ms: Partition -> stream time after the batch, for the partitions whose records
            advance it.
        counters: The records that ended here.
        dead_letters: The files of dead letters that the task wrote.
    """

    stream_time_name: str
    stream_time_ms: dict[int, int] = field(default_factory=dict)
    counters: Counters = field(default_factory=Counters)
    dead_letters: list[AddedFile] = field(default_factory=list)


@dataclass(frozen=True)
class JoinReport:
    """The report of one task of a join.

    Attributes:
        number: The index of the join (``JoinPlan``).
        task: The index of the task.
        segments: The files of its state.
        open_records: The number of rows of its state.
        counters: The records that ended here.
    """

    number: int
    task: int
    segments: list[str]
    open_records: int
    counters: Counters


@dataclass(frozen=True)
class StoreReport:
    """The report of one task of a store.

    If one call computes several tasks, the report of the first one has all of their work except for
    the states of the others.

    Attributes:
        task: The index of the task.
        segments: The files of its state.
        open_records: The number of rows of its state.
        close_ms: The close time after the batch.
        changed: The number of changed windows.
        counters: The records that ended here.
        files: The files of the table that the task wrote.
        dead_letters: The files of dead letters that the task wrote.
        observed_ms: The greatest start (for sessions, end) of a window of the batch.
    """

    task: int
    segments: list[str]
    open_records: int
    close_ms: int
    changed: int = 0
    counters: Counters = field(default_factory=Counters)
    files: list[AddedFile] = field(default_factory=list)
    dead_letters: list[AddedFile] = field(default_factory=list)
    observed_ms: int = NOTHING_OBSERVED_MS


@dataclass(frozen=True)
class Reports:
    """The reports of tasks: those upstream of a task, or of all tasks of a store's batch."""

    streams: list[StreamReport] = field(default_factory=list)
    joins: list[JoinReport] = field(default_factory=list)
    stores: list[StoreReport] = field(default_factory=list)

    @classmethod
    def of(cls, parts: Iterable["Reports"]) -> Self:
        """Return all reports of several tasks."""
        parts = list(parts)
        return cls(
            [report for part in parts for report in part.streams],
            [report for part in parts for report in part.joins],
            [report for part in parts for report in part.stores],
        )

    @property
    def counters(self) -> list[Counters]:
        """The counts of each task."""
        return [
            *(report.counters for report in self.streams),
            *(report.counters for report in self.joins),
            *(report.counters for report in self.stores),
        ]

    def stream_times_after(self, stream_times: StreamTimesByName) -> StreamTimesByName:
        """Return the stream times after the batch, from the stream times before it."""
        # The plan of a batch is shared by all tasks in this process, so its stream times are copied
        # and not changed.
        after = {name: dict(partitions) for name, partitions in stream_times.items()}
        for stream in self.streams:
            # Each partition of a stream time has one task. So no two reports have the same
            # partition, and their order does not matter.
            after[stream.stream_time_name].update(stream.stream_time_ms)
        return after

    def partitions_with_records(self) -> dict[str, set[int]]:
        """Return the partitions of each stream time with a record in the batch that advances it.

        A record with an older timestamp also counts.
        """
        partitions: dict[str, set[int]] = {}
        for stream in self.streams:
            # A report has the stream time of each partition with a usable record, even if the
            # record is older. So its partitions are the active ones.
            partitions.setdefault(stream.stream_time_name, set()).update(stream.stream_time_ms)
        return partitions

    def to_json(self) -> str:
        """Return the reports as JSON."""
        # Partitions are integers here, and strings in JSON. ``from_json`` converts them back.
        return orjson.dumps(self, option=orjson.OPT_NON_STR_KEYS).decode()

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Return the reports that ``to_json`` encoded."""
        fields = orjson.loads(text)
        # Streams, joins and stores have counters. Only streams and stores have files.
        for report in chain(*fields.values()):
            report["counters"] = Counters(**report["counters"])
            for name in ("files", "dead_letters"):
                # The files are in the report, and not only their names. The driver commits their
                # sizes, statistics and digests without reading them.
                if name in report:
                    report[name] = [AddedFile(**file) for file in report[name]]
        for stream in fields["streams"]:
            times_ms = stream["stream_time_ms"]
            stream["stream_time_ms"] = {int(p): time_ms for p, time_ms in times_ms.items()}
        return cls(
            [StreamReport(**report) for report in fields["streams"]],
            [JoinReport(**report) for report in fields["joins"]],
            [StoreReport(**report) for report in fields["stores"]],
        )
