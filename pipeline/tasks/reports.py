"""What a batch's tasks send each other: rows for a task, and reports of what they did.

A stamp task doesn't know the other partitions, and a window engine's task has to know the
clocks of all of them: which windows are final, the slowest one decides. So each stamp task
sends its report to *every* task behind it, in the shuffle that carries the records. Nobody
waits for a second pass, and all tasks of a batch compute with the same clocks.

Each task counts a record where the record's way ends, which it does exactly once: a stamp finds
it bad, filtered or late; a join finds it late, or without a partner to go on with, or keeps it in
its state; or a window engine applies it, finds it late, or a user's function raises on it. Nobody
subtracts what others counted. So the numbers of all tasks add up to the records that came in, or
else a record was lost or used twice on the way, and the batch must not be committed.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from oriel.pipeline.errors import RecordsMiscounted
from oriel.pipeline.hops import KEY_GROUP, REPORT, TASK
from oriel.pipeline.plan import Clocks
from oriel.pipeline.windows import NOTHING_OBSERVED_MS
from oriel.storage.delta import AddedFile


@dataclass(frozen=True)
class Counters:
    """Numbers of records: input = applied + late + dead_lettered + filtered.

    A record that is flattened ends there: it is applied if it has an element. Its elements have
    numbers of their own, for which the same holds: elements = elements_applied + elements_late +
    elements_dead_lettered + elements_filtered.

    The results of a join are no records: one record can have many results, or none. Those that
    come too late for any window (``late_results``), or that go to the dead letters
    (``rejected_results``), are counted beside; so are, of the applied records, the rows of a table
    that another stream looks up (``table_records``), which no window counts.
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
        """``rows`` whose way ends in one way (``late``, say); of these, ``elements`` are such."""
        return cls(**{end: rows - elements, f"elements_{end}": elements})

    def __add__(self, other: "Counters") -> "Counters":
        return Counters(**{name: n + getattr(other, name) for name, n in vars(self).items()})

    def as_dict(self, *, with_results: bool) -> dict[str, int]:
        """The numbers by name; those of joins and elements only where the store has such."""
        numbers = dict(vars(self))
        if not with_results:
            del numbers["late_results"], numbers["rejected_results"]
        if not self.table_records:
            del numbers["table_records"]
        if not self.elements:
            numbers = {name: n for name, n in numbers.items() if not name.startswith("elements")}
        return numbers


def count_batch(store: str, batch: int, by_task: Iterable[Counters]) -> Counters:
    """Put together what all tasks of a batch counted.

    Raises:
        RecordsMiscounted: the records that came in are not those that are accounted for, or the
            elements that were made of them are not.
    """
    total = sum(by_task, Counters())
    numbers = vars(total)
    for rows, came, prefix in (
        ("records", total.input, ""),
        ("flattened records", total.elements, "elements_"),
    ):
        applied, late, dead_lettered, filtered = (
            numbers[prefix + end] for end in ("applied", "late", "dead_lettered", "filtered")
        )
        ends = applied + late + dead_lettered + filtered
        if ends != came:
            message = (
                f"store {store!r}, batch {batch}: {came} {rows} were read, but {ends} are "
                f"accounted for ({applied} applied, {late} late, {dead_lettered} dead-lettered, "
                f"{filtered} filtered). Nothing of the batch is committed. A restart computes it "
                "again. If it happens again, it is a defect of Oriel"
            )
            raise RecordsMiscounted(message)
    return total


#: The rows of a task's share, in any number of Arrow batches.
Batches = Iterator[pa.RecordBatch]
#: What a task does to its share of the rows; Spark calls it in ``mapInArrow``.
TaskFunction = Callable[[Batches], Batches]


@dataclass
class StampReport:
    """What one stamp task saw: its clock by partition, its counts, the dead letters it wrote."""

    clock_name: str
    stream_time_ms: dict[int, int] = field(default_factory=dict)
    counters: Counters = field(default_factory=Counters)
    dead_letters: list[AddedFile] = field(default_factory=list)


@dataclass
class JoinReport:
    """What one join task did: its state files and records in them, and its counts."""

    number: int
    task: int
    segments: list[str]
    open_records: int
    counters: Counters


@dataclass
class Reports:
    """The reports of the tasks in front of a task."""

    stamps: list[StampReport] = field(default_factory=list)
    joins: list[JoinReport] = field(default_factory=list)

    def clocks_after(self, clocks: Clocks) -> Clocks:
        """The clocks with what the stamps saw."""
        after = {name: dict(partitions) for name, partitions in clocks.items()}
        for stamp in self.stamps:
            after[stamp.clock_name].update(stamp.stream_time_ms)
        return after

    def spoke(self) -> dict[str, set[int]]:
        """The partitions of each clock that brought a record that moves it, however little."""
        partitions: dict[str, set[int]] = {}
        for stamp in self.stamps:
            partitions.setdefault(stamp.clock_name, set()).update(stamp.stream_time_ms)
        return partitions

    def to_text(self) -> str:
        """The content of a report row."""
        return orjson.dumps(self, option=orjson.OPT_NON_STR_KEYS).decode()

    @classmethod
    def from_texts(cls, texts: Iterable[str]) -> "Reports":
        """Put report rows together."""
        return cls.from_fields([orjson.loads(text) for text in texts])

    @classmethod
    def from_fields(cls, rows: Iterable[dict[str, Any]]) -> "Reports":
        """Put report rows together, parsed as JSON."""
        reports = cls()
        for fields in rows:
            for stamp in fields["stamps"]:
                times_ms = {int(p): time_ms for p, time_ms in stamp["stream_time_ms"].items()}
                letters = [AddedFile(**file) for file in stamp["dead_letters"]]
                counters = Counters(**stamp["counters"])
                reports.stamps.append(StampReport(stamp["clock_name"], times_ms, counters, letters))
            for join in fields["joins"]:
                join["counters"] = Counters(**join["counters"])
                reports.joins.append(JoinReport(**join))
        return reports


@dataclass
class WindowsReport:
    """The result of one task of the window engine: its files, its counts, the reports before it.

    If one call computes several tasks, the report of the first has all but the state of the others.

    Attributes:
        task: The number of the task.
        segments: The files of its state.
        open_records: The rows of its state.
        close_ms: The close time after the batch.
        changed: The number of changed windows.
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
    upstream: Reports = field(default_factory=Reports)
    observed_ms: int = NOTHING_OBSERVED_MS

    def to_text(self) -> str:
        """The content of a report row."""
        return orjson.dumps(self, option=orjson.OPT_NON_STR_KEYS).decode()

    @classmethod
    def from_text(cls, text: str) -> "WindowsReport":
        """Read back what ``to_text`` wrote."""
        fields = orjson.loads(text)
        for name in ("files", "dead_letters"):
            fields[name] = [AddedFile(**file) for file in fields[name]]
        fields["counters"] = Counters(**fields["counters"])
        fields["upstream"] = Reports.from_fields([fields["upstream"]])
        return cls(**fields)


def addressed(rows: pa.Table, schema: pa.Schema, tasks: int) -> pa.RecordBatch:
    """Rows for the tasks of their key groups, with null for columns of ``schema`` they lack.

    A key group is of one task, and a key of one key group: whatever the number of tasks, one
    task has all records of a key.
    """
    task = pa.array(np.asarray(rows[KEY_GROUP.name]) % tasks, TASK.type)
    columns = [
        task if field.name == TASK.name
        else rows[field.name] if field.name in rows.column_names and field.name != REPORT.name
        else pa.nulls(len(rows), field.type)
        for field in schema
    ]  # fmt: skip
    return as_batch(pa.table(columns, names=schema.names).cast(schema))


def report_rows(reports: Reports, schema: pa.Schema, tasks: int) -> pa.RecordBatch:
    """One report row for every task."""
    own_columns = {
        TASK.name: pa.array(range(tasks), TASK.type),
        REPORT.name: pa.array([reports.to_text()] * tasks, REPORT.type),
    }
    columns = [own_columns.get(field.name, pa.nulls(tasks, field.type)) for field in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def split_reports(rows: pa.Table) -> tuple[pa.Table, pa.Table]:
    """What a task is sent: report rows, and records."""
    is_report = pc.is_valid(rows[REPORT.name])
    return rows.filter(is_report), rows.filter(pc.invert(is_report))


def as_batch(rows: pa.Table) -> pa.RecordBatch:
    """One record batch of a table's rows."""
    columns = [column.combine_chunks() for column in rows.columns]
    return pa.RecordBatch.from_arrays(columns, schema=rows.schema)
