"""What the tasks of one micro-batch need to know, and what they report back.

Everything here is plain data: it travels to Spark's Python workers with the task, and
back as JSON rows.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa

from oriel.pipeline.plan.engine import RAW, Assembly
from oriel.pipeline.plan.join import JoinStage
from oriel.pipeline.windows import NEVER_CLOSED_MS, NO_STREAM_TIME_MS, close_time_ms
from oriel.storage import Offsets
from oriel.storage.delta import AddedFile

#: Columns that a stamped row has in front of the engine's record columns.
STAMPED_FIELDS = (pa.field("task", pa.int32()), pa.field("report", pa.string()))

#: What is counted of each record: input is the sum of the others.
COUNTERS = ("input", "applied", "late", "dead_lettered", "filtered")
#: Counted beside them where a store has a join: results that came too late for any window.
LATE_RESULTS = "late_results"
#: And results for which the user's function raised.
REJECTED_RESULTS = "rejected_results"

#: The dead-letter table's columns. ``store`` is null where the record is bad for every store.
DEAD_LETTER_SCHEMA = pa.schema([
    pa.field("topic", pa.string(), nullable=False),
    pa.field("partition", pa.int32(), nullable=False),
    pa.field("offset", pa.int64(), nullable=False),
    pa.field("store", pa.string()),
    pa.field("reason", pa.string(), nullable=False),
    pa.field("detail", pa.string(), nullable=False),
    pa.field("raw", pa.binary(), nullable=False),
    pa.field("revision", pa.int64(), nullable=False),
])  # fmt: skip

#: Clock name -> partition -> stream time in ms.
Clocks = dict[str, dict[int, int]]
#: Task -> names of its state files.
Segments = dict[int, list[str]]


class SourceReasons(Enum):
    """What a stamp does about records that are bad whoever reads them, like broken lines.

    The first store that reads a topic tells them for all. Where a topic is read with several
    schemas, what is bad for one may be good for another, so each store tells for itself.
    """

    FOR_ALL = "for all"
    FOR_ITSELF = "for itself"
    NOT_TOLD = "not told"


@dataclass(frozen=True)
class ClockPlan:
    """The clock of one stream of a store: its name and topic, and what waits for it.

    Final windows wait until the clock is ``delay_ms`` further (an outer join's results come
    that late); None: nothing waits for it (a table is read as it is).
    """

    name: str
    topic: str
    delay_ms: int | None


@dataclass(frozen=True)
class Origin:
    """Where results come from; those with ``right_suborder`` have a right record's place."""

    left_topic: str
    right_topic: str
    right_suborder: int


@dataclass(frozen=True)
class StampPlan:
    """What one stamp does: its clock, and the columns of the rows that it makes.

    ``columns`` maps the stream's value columns to those of the next task; ``constants`` are
    columns with one value (which input or side a record is of). ``inputs`` is the number of
    the store's inputs and ``place`` this one's: each partition of each input has its own number.
    ``origin`` is for a join's results. A stream that looks up a table has its clock behind the
    lookup: there, the stamp in front ``moves_clock`` not.
    """

    clock: ClockPlan
    columns: Mapping[str, str]
    constants: Mapping[str, Any]
    source_reasons: SourceReasons
    inputs: int = 1
    place: int = 0
    origin: "Origin | None" = None
    moves_clock: bool = True


@dataclass(frozen=True)
class JoinPlan:
    """One join of a store: its engine, its two stamps and its state files."""

    place: int
    stage: JoinStage
    left: StampPlan
    right: StampPlan
    segments: Segments

    def times(self, clocks: Clocks) -> tuple[int, int]:
        """The least stream time of each side's partitions, -1 where none is known."""
        left, right = (
            min(clocks[stamp.clock.name].values(), default=NO_STREAM_TIME_MS)
            for stamp in (self.left, self.right)
        )
        return left, right

    def refuse_places(self, ends: Offsets) -> None:
        """Refuse partitions, and offsets in them, that are too large for the join.

        Raises:
            InvalidTopology: there is one; the message names the store and the step.
        """
        for topic in (self.left.clock.topic, self.right.clock.topic):
            self.stage.refuse_places(topic, ends.get(topic, {}))

    @property
    def arriving_schema(self) -> pa.Schema:
        """The columns that go through the shuffle to the join's tasks."""
        return pa.schema([*STAMPED_FIELDS, *self.stage.record_schema])

    @property
    def joined_schema(self) -> pa.Schema:
        """The columns that the join's tasks give."""
        return pa.schema([*STAMPED_FIELDS, *self.stage.result_schema])


@dataclass(frozen=True)
class BatchPlan:
    """One store's part of one micro-batch, as its tasks see it.

    ``topics`` has the topic of each input, ``origins`` more of those that are joins.
    ``clocks`` has every partition known to this batch with its stream time before it;
    ``segments`` the state files of each task of the batch before, which may have had
    another number of tasks.
    """

    store: str
    topics: tuple[str, ...]
    origins: tuple[Origin | None, ...]
    batch: int
    tasks: int
    assembly: Assembly
    close_delay_ms: int
    delays: tuple[ClockPlan, ...]
    clocks: Clocks
    close_ms: int
    segments: Segments
    table: Path
    state: Path
    dead_letters: Path
    windowed: bool
    sync: bool

    @property
    def stamped_schema(self) -> pa.Schema:
        """The columns that go through the shuffle to the engine's tasks."""
        read = self.assembly.engine.record_schema
        raw = [RAW] if self.assembly.keeps_raw and RAW.name not in read.names else []
        return pa.schema([*STAMPED_FIELDS, *raw, *read])

    def close_time_of(self, clocks: Clocks) -> int:
        """The close time of all partitions of all streams; nothing closes before all are known."""
        times = [
            close_time_ms(clocks[one.name], self.close_delay_ms + one.delay_ms)
            for one in self.delays
            if one.delay_ms is not None
        ]
        return min(times, default=NEVER_CLOSED_MS)


@dataclass
class StampReport:
    """What one stamp task saw: its clocks, its counts and the dead letters it wrote."""

    clock: str
    stream_time_ms: dict[int, int] = field(default_factory=dict)
    counters: dict[str, int] = field(default_factory=dict)
    dead_letters: list[AddedFile] = field(default_factory=list)


@dataclass
class JoinReport:
    """What one join task made: its state files, and records that were late or found nothing."""

    place: int
    task: int
    segments: list[str]
    open_records: int
    late: int
    filtered: int


@dataclass
class Reports:
    """What a task is told by the tasks before it."""

    stamps: list[StampReport] = field(default_factory=list)
    joins: list[JoinReport] = field(default_factory=list)

    def clocks_after(self, clocks: Clocks) -> Clocks:
        """The clocks with what the stamps saw."""
        after = {name: dict(partitions) for name, partitions in clocks.items()}
        for stamp in self.stamps:
            after[stamp.clock].update(stamp.stream_time_ms)
        return after

    def to_text(self) -> str:
        """The content of a report row."""
        return orjson.dumps(self, option=orjson.OPT_NON_STR_KEYS).decode()

    @classmethod
    def from_texts(cls, texts: list[str]) -> "Reports":
        """Put report rows together."""
        reports = cls()
        for text in texts:
            fields = orjson.loads(text)
            reports.stamps += [_stamp_report(one) for one in fields["stamps"]]
            reports.joins += [JoinReport(**one) for one in fields["joins"]]
        return reports


@dataclass
class GroupReport:
    """What one engine task made: its state files and table files, and what it was told.

    ``late`` and ``rejected`` count for each input the records that the engine found late, and
    those for which the user's function raised.
    """

    task: int
    segments: list[str]
    open_records: int
    changed: int
    close_ms: int
    late: list[int]
    rejected: list[int]
    files: list[AddedFile]
    dead_letters: list[AddedFile]
    told: Reports

    def to_text(self) -> str:
        """The content of a report row."""
        return orjson.dumps(self, option=orjson.OPT_NON_STR_KEYS).decode()

    @classmethod
    def from_text(cls, text: str) -> "GroupReport":
        """Read back what ``to_text`` wrote."""
        fields = orjson.loads(text)
        for name in ("files", "dead_letters"):
            fields[name] = [AddedFile(**file) for file in fields[name]]
        fields["told"] = Reports.from_texts([orjson.dumps(fields["told"]).decode()])
        return cls(**fields)


def _stamp_report(fields: dict[str, Any]) -> StampReport:
    return StampReport(
        clock=fields["clock"],
        stream_time_ms={int(p): time for p, time in fields["stream_time_ms"].items()},
        counters=fields["counters"],
        dead_letters=[AddedFile(**file) for file in fields["dead_letters"]],
    )
