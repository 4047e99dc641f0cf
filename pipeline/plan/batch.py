"""What the tasks of one micro-batch need to know.

Everything here is plain data that travels to Spark's Python workers with the task. What the
tasks write goes through the plan's ``files``, so that the same tasks run over a checkpoint's
folders and in a test's memory.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from typing import Any, Generic, Protocol

import orjson
import pyarrow as pa

from oriel.pipeline import hops
from oriel.pipeline.dead_letters import DeadLetters, Origin, SourceReasons
from oriel.pipeline.plan.clocks import (
    NO_CLOCK_NOTES,
    NO_WALL_CLOCK,
    ClockNotes,
    Clocks,
    Partitions,
    WallClock,
)
from oriel.pipeline.plan.engine import Assembly
from oriel.pipeline.plan.join import JoinStage
from oriel.pipeline.state import Version
from oriel.pipeline.windows import (
    NEVER_CLOSED_MS,
    NO_STREAM_TIME_MS,
    EngineResult,
    JoinResult,
    Operator,
    Places,
    Result,
    Times,
    Windows,
    close_time_ms,
)
from oriel.storage import CommitRecord, Offsets
from oriel.storage.delta import AddedFile

#: Task -> names of its state files.
Segments = dict[int, list[str]]


#: Stands for the partitions of a stream that has none yet.
NO_PARTITION = -1


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
class StreamPlan:
    """How the rows of a stream reach the tasks of the next operator.

    Attributes:
        clock: The stream time by which the rows are judged.
        columns: Value column of the stream -> column of the next operator.
        constants: Columns with one value, for example the input that a record belongs to.
        source_reasons: Which invalid records of the source this stream reports.
        inputs: The number of inputs of the store.
        input_number: The index of this input (``hops.PartitionNumbers``).
        origin: The topics of the records of join results. None for records of a source.
        effect_logs: The number of logs of updates with an apply order. 0: the rows have none.
        flattened: How the rows differ that the steps flatten. None: no step flattens.
        moves_clock: False if another stream of the store advances this stream time. A stream that
            is joined with a table advances it after the join.
        counts: False if another operator of the store counts these records.
    """

    clock: ClockPlan
    columns: Mapping[str, str]
    constants: Mapping[str, Any]
    source_reasons: SourceReasons
    inputs: int = 1
    input_number: int = 0
    origin: Origin | None = None
    effect_logs: int = 0
    flattened: Places | None = None
    moves_clock: bool = True
    counts: bool = True


@dataclass(frozen=True)
class StoredOperator(Generic[Result]):
    """An operator with the files of its state.

    Attributes:
        operator: The operator.
        segments: The state files of each task after the last batch, which can have had another
            number of tasks.
        suffix: The end of the names of new files.
    """

    operator: Operator[Result]
    segments: Segments
    suffix: str = ""


@dataclass(frozen=True)
class JoinPlan:
    """One join of a store: its engine, its sides, the state files of its tasks.

    ``number`` tells a store's joins apart: an input's own has the input's, those in front of it
    have numbers behind all inputs. For each side, ``of_records``: it has records of a stream, each
    counted once where its way ends, and no results of other joins, which are no records;
    ``of_elements``: they are elements of records; and the ``clocks`` that it follows. ``counts``:
    else another join of the store counts its records.
    """

    number: int
    of_records: tuple[bool, ...]
    of_elements: tuple[bool, ...]
    stage: JoinStage
    clocks: tuple[tuple[ClockPlan, ...], ...]
    segments: Segments
    counts: bool = True

    @property
    def stored(self) -> StoredOperator[JoinResult]:
        """The operator with the files of its state."""
        return StoredOperator(self.stage.operator, self.segments, f"-join-{self.number}")

    @property
    def gives_records(self) -> bool:
        """Whether its results are a stream's records with more columns."""
        return self.stage.operator.keeps_records and self.of_records[0]

    def stream_times_ms(self, clocks: Clocks) -> tuple[int, ...]:
        """The least stream time of the left side's partitions, and of all others'.

        -1 where one of their clocks has none. Where the join wants to know a side's partitions,
        that of each one by its number; records that have several clocks follow the slowest.
        """
        by_partition = self.stage.operator.by_partition
        if by_partition is not None:
            times_ms = [clocks[one.name] for one in self.clocks[by_partition]]
            partitions = range(1 + max(chain(*times_ms), default=-1))
            if len(times_ms) == 1:
                return tuple(times_ms[0].get(p, NO_STREAM_TIME_MS) for p in partitions)
            least_ms = min(chain(*(of.values() for of in times_ms)), default=NO_STREAM_TIME_MS)
            return tuple(least_ms for _ in partitions)
        left, *others = (
            min(min(clocks[one.name].values(), default=NO_STREAM_TIME_MS) for one in of_side)
            for of_side in self.clocks
        )
        return left, min(others, default=NO_STREAM_TIME_MS)

    def refuse_places(self, ends: Offsets) -> None:
        """Refuse partitions, and offsets in them, that are too large for the join.

        Raises:
            InvalidTopology: there is one; the message names the store and the step.
        """
        for clock in chain.from_iterable(self.clocks):
            self.stage.refuse_places(clock.topic, ends.get(clock.topic, {}))

    @cached_property
    def arriving_schema(self) -> pa.Schema:
        """The columns of rows that are sent to the join's tasks."""
        return hops.to_join_schema(self.stage.record_schema)

    @cached_property
    def joined_schema(self) -> pa.Schema:
        """The columns of rows that the join's tasks give."""
        return hops.joined_schema(self.stage.result_schema)


class TaskFiles(Protocol):
    """What the tasks of a store's batches do beside their rows: read state, write files.

    ``oriel.pipeline.tasks.FolderFiles`` are files of the checkpoint and of Delta tables. A
    version of the state is never changed: nothing counts until the batch is committed, so a
    task may run any number of times.
    """

    def run_operator(
        self,
        plan: "BatchPlan",
        stored: StoredOperator[Result],
        tasks: Sequence[int],
        batch: pa.Table,
        times: Times,
    ) -> tuple[Result, list[Version]]:
        """Run an operator once for all ``tasks``, and write the next state of each.

        Args:
            plan: The batch.
            stored: The operator.
            tasks: The tasks whose records these are, at least one.
            batch: Rows of the ``record_schema`` of the operator.
            times: The times before and after the batch.

        Returns:
            The result of the operator, and the next version of each task's state.
        """

    def write_changes(self, plan: "BatchPlan", task: int, changes: pa.Table) -> list[AddedFile]:
        """Write changed windows, after their steps, into a file of the table.

        ``task`` is the first task of ``run_operator``, whose number is in the file's name.
        """

    def write_dead_letters(self, plan: "BatchPlan", letters: Sequence[pa.Table]) -> list[AddedFile]:
        """Write dead letters, if there are any, for their table."""


@dataclass(frozen=True)
class BatchPlan:
    """One store's part of one micro-batch, as its tasks see it.

    Keys are in ``key_groups``, which ``tasks`` tasks share. ``topics`` has the topic of each
    input, ``origins`` more of those that are joins.
    ``clocks`` has every partition known to this batch with its stream time before it, and
    ``close_ms`` the close time before it; ``segments`` the state files of each task of the
    batch before, which may have had another number of tasks. ``wall_clock`` is read once for the
    batch, ``heard_ms`` has when each partition was last heard of by it. ``topics_in_front`` are
    those of stores whose rows it reads: of these, too, its rows tell up to the end of the batch.
    """

    store: str
    batch: int
    tasks: int
    key_groups: int
    topics: tuple[str, ...]
    origins: tuple[Origin | None, ...]
    assembly: Assembly
    clock_plans: tuple[ClockPlan, ...]
    clocks: Clocks
    close_ms: int
    segments: Segments
    files: TaskFiles
    wall_clock: WallClock = NO_WALL_CLOCK
    heard_ms: Clocks = field(default_factory=dict)
    topics_in_front: tuple[str, ...] = ()

    @cached_property
    def arriving_schema(self) -> pa.Schema:
        """The columns of rows that are sent to the window engine's tasks."""
        assembly = self.assembly
        return hops.to_windows_schema(assembly.engine.record_schema, keeps_raw=assembly.keeps_raw)

    @property
    def stored(self) -> StoredOperator[EngineResult]:
        """The operator of the store with the files of its state."""
        return StoredOperator(self.assembly.engine, self.segments)

    @property
    def windows(self) -> Windows:
        """The windows of the store."""
        return self.assembly.engine.windows

    @property
    def dead_letters(self) -> DeadLetters:
        """Makes dead letters of this store and batch."""
        return DeadLetters(self.store, self.batch)

    def idle(self, spoke: Partitions) -> dict[str, list[int]]:
        """The partitions that nobody waits for; those that ``spoke`` in the batch are no more."""
        silent = self.wall_clock.silent(self.heard_ms)
        idle = {name: sorted(own.difference(spoke.get(name, ()))) for name, own in silent.items()}
        return {name: partitions for name, partitions in idle.items() if partitions}

    def close_times(self, clocks: Clocks, spoke: Partitions) -> dict[tuple[str, int], int]:
        """Up to what time each partition that is waited for lets windows close.

        By clock and partition; a stream without a partition, -1, lets none close. Tables that
        are read as they are have no say, nor have idle partitions.
        """
        idle = self.idle(spoke)
        times_ms: dict[tuple[str, int], int] = {}
        for clock in self.clock_plans:
            if clock.delay_ms is None:
                continue
            delay_ms = self.windows.close_delay_ms + clock.delay_ms
            left_out = set(idle.get(clock.name, ()))
            for partition, time_ms in clocks[clock.name].items():
                if partition not in left_out:
                    times_ms[clock.name, partition] = close_time_ms({partition: time_ms}, delay_ms)
            if not clocks[clock.name]:
                times_ms[clock.name, NO_PARTITION] = NEVER_CLOSED_MS
        return times_ms

    def close_time_of(self, clocks: Clocks, spoke: Partitions) -> int:
        """The close time of all partitions of all streams; nothing closes before all are known.

        A window is final when no partition can bring a record for it any more, so the slowest
        partition of the slowest stream decides. Where that was idle and speaks again, what is
        final stays so; without anybody to wait for, nothing else becomes final.
        """
        times_ms = self.close_times(clocks, spoke).values()
        return max(self.close_ms, min(times_ms, default=self.close_ms))


@dataclass(frozen=True)
class PreparedBatch:
    """One store's part of one batch, computed and ready to commit.

    ``segments`` are the state files of each task of the window engine, ``join_segments`` those
    of each task of each join, by the join's number. ``files`` and ``dead_letters`` are
    what the commit adds to the tables, ``changed`` the number of changed windows and
    ``open_records`` that of rows in the state; ``clock_notes`` tell of the clocks. ``blocks`` has
    the last block of each partition of the log that the store has read.
    """

    record: CommitRecord
    segments: dict[int, list[str]]
    join_segments: dict[int, dict[int, list[str]]]
    files: list[AddedFile]
    dead_letters: list[AddedFile]
    changed: int
    open_records: int
    clock_notes: ClockNotes = NO_CLOCK_NOTES
    blocks: hops.ReadBlocks = field(default_factory=dict)

    def with_blocks(
        self, previous: "PreparedBatch | None", read: hops.ReadBlocks
    ) -> "PreparedBatch":
        """Return the batch with the blocks that it has ``read``, and the others of ``previous``.

        The log has blocks of all topics of the pipeline; the batch keeps those of its store.
        """
        before = previous.blocks if previous else {}
        blocks = {
            topic: before.get(topic, {}) | read.get(topic, {})
            for topic in self.record.offsets
            if topic in before or topic in read
        }
        return replace(self, blocks=blocks)

    def to_json(self) -> bytes:
        """The content of ``<n>.json``."""
        return orjson.dumps(self, option=orjson.OPT_NON_STR_KEYS)

    @classmethod
    def from_json(cls, text: bytes) -> "PreparedBatch":
        """Read back what ``to_json`` wrote."""
        fields = orjson.loads(text)
        return cls(
            record=CommitRecord(**fields["record"]),
            segments=_by_task(fields["segments"]),
            join_segments={
                int(number): _by_task(segments)
                for number, segments in fields.get("join_segments", {}).items()
            },
            files=[AddedFile(**file) for file in fields["files"]],
            dead_letters=[AddedFile(**file) for file in fields["dead_letters"]],
            changed=fields["changed"],
            open_records=fields["open_records"],
            clock_notes=ClockNotes.from_fields(fields.get("clock_notes")),
            # Versions of earlier releases have none.
            blocks={
                topic: {partition: (end, read) for partition, (end, read) in of_topic.items()}
                for topic, of_topic in fields.get("blocks", {}).items()
            },
        )

    @property
    def state_files(self) -> set[str]:
        """The names of all state files that this version needs."""
        states = [self.segments, *self.join_segments.values()]
        return {name for by_task in states for names in by_task.values() for name in names}


def _by_task(segments: dict[str, list[str]]) -> dict[int, list[str]]:
    return {int(task): names for task, names in segments.items()}
