"""The data that the tasks of a micro-batch receive, and the result of the batch.

Everything here is plain data that Spark sends to its Python workers with a task. Tasks read and
write files only through ``BatchPlan.files``. So the same tasks run with the directories of a
checkpoint, and with the memory of the test driver.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from typing import Any, Generic, Protocol

import orjson
import pyarrow as pa

from oriel.pipeline import stage_columns
from oriel.pipeline.dead_letters import DeadLetters, RecordTopics, SourceReasons
from oriel.pipeline.plan.engine import PlannedEngine
from oriel.pipeline.plan.join import JoinStage
from oriel.pipeline.plan.wall_clock import (
    NO_STREAM_TIME_NOTES,
    NO_WALL_CLOCK,
    Partitions,
    StreamTimeNotes,
    StreamTimesByName,
    WallClock,
)
from oriel.pipeline.state import Version
from oriel.pipeline.windows import (
    NEVER_CLOSED_MS,
    NO_STREAM_TIME_MS,
    EngineResult,
    JoinResult,
    Lineage,
    Operator,
    Result,
    Times,
    Windows,
    close_time_ms,
)
from oriel.storage import CommitRecord
from oriel.storage.delta import AddedFile

#: Task -> names of its state files.
Segments = dict[int, list[str]]


#: The partition in close times of a stream that does not have partitions yet.
NO_PARTITION = -1


@dataclass(frozen=True)
class StreamTimePlan:
    """The stream time of one stream of a store.

    Attributes:
        name: The topic, with a suffix such as ``#2`` if the store reads the topic again.
        topic: The topic.
        delay_ms: How much longer windows stay open, in milliseconds, because the results of joins
            and buffers can be that late. None: windows do not wait for this stream time, for
            example for a table that a stream is joined with.
    """

    name: str
    topic: str
    delay_ms: int | None


@dataclass(frozen=True)
class StreamPlan:
    """How the rows of a stream reach the tasks of the next operator.

    Attributes:
        stream_time: The stream time that decides which rows are late.
        columns: Value column of the stream -> column of the next operator.
        constants: Columns with one value, for example the input that a record belongs to.
        source_reasons: Which invalid records of the source this stream reports.
        inputs: The number of inputs of the store.
        input_index: The index of this input (``PartitionIndexes``).
        origin: The topics of the records of join results. None for records of a source.
        apply_order_logs: The number of logs of updates with an apply order. 0: the rows have none.
        flattened: The form of lineages before the steps that flatten. None: no step flattens.
        advances_stream_time: False if another stream of the store advances this stream time. A
            stream that is joined with a table advances it after the join.
        counts: False if another operator of the store counts these records.
    """

    stream_time: StreamTimePlan
    columns: Mapping[str, str]
    constants: Mapping[str, Any]
    source_reasons: SourceReasons
    inputs: int = 1
    input_index: int = 0
    origin: RecordTopics | None = None
    apply_order_logs: int = 0
    flattened: Lineage | None = None
    advances_stream_time: bool = True
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
    """One operator before a store, with the state files of its tasks.

    Attributes:
        number: The index of the operator in its store. The join of an input has the index of the
            input. Upstream joins have the indexes after all inputs.
        of_records: For each input, True if it has records of a stream, which are counted once.
            False for results of a join.
        of_elements: For each input, True if it has flattened records.
        stage: The operator with its steps.
        stream_time_plans: For each input, the stream times that it follows.
        segments: The state files of each task.
        counts: False if another operator of the store counts its records.
    """

    number: int
    of_records: tuple[bool, ...]
    of_elements: tuple[bool, ...]
    stage: JoinStage
    stream_time_plans: tuple[tuple[StreamTimePlan, ...], ...]
    segments: Segments
    counts: bool = True

    @property
    def stored(self) -> StoredOperator[JoinResult]:
        """The operator with the files of its state."""
        # The states of all operators of a store are in one directory, so the names of their files
        # have the index of the join.
        return StoredOperator(self.stage.operator, self.segments, f"-join-{self.number}")

    @property
    def gives_records(self) -> bool:
        """Whether its results are the records of a stream with more columns."""
        return self.stage.operator.keeps_records and self.of_records[0]

    def stream_times_ms(self, stream_times: StreamTimesByName) -> tuple[int, ...]:
        """Return the least stream time of the left input, and the least one of all other inputs.

        It is -1 before the first record of a partition. With ``by_partition``, return the stream
        time of each partition of this input. If its records have several stream times, each
        partition has the least one.
        """
        by_partition = self.stage.operator.by_partition
        if by_partition is not None:
            times_ms = [stream_times[one.name] for one in self.stream_time_plans[by_partition]]
            # The result is indexed by partition. A partition without a stream time, between two
            # others, has -1, so it expires nothing.
            partitions = range(1 + max(chain(*times_ms), default=-1))
            if len(times_ms) == 1:
                return tuple(times_ms[0].get(p, NO_STREAM_TIME_MS) for p in partitions)
            # A result of a join can have records of several partitions. Only the least stream time
            # is a bound for all of its partitions.
            least_ms = min(chain(*(of.values() for of in times_ms)), default=NO_STREAM_TIME_MS)
            return tuple(least_ms for _ in partitions)
        # The slowest partition decides, because it can still deliver a record that matches. Without
        # a partition, the stream time is -1, so no record of the other input expires.
        left, *others = (
            min(min(stream_times[one.name].values(), default=NO_STREAM_TIME_MS) for one in of_input)
            for of_input in self.stream_time_plans
        )
        return left, min(others, default=NO_STREAM_TIME_MS)

    @cached_property
    def input_schema(self) -> pa.Schema:
        """The columns of rows that are sent to the join's tasks."""
        return stage_columns.to_join_schema(self.stage.record_schema)

    @cached_property
    def joined_schema(self) -> pa.Schema:
        """The columns of rows that the join's tasks return."""
        return stage_columns.joined_schema(self.stage.result_schema)


class TaskFiles(Protocol):
    """The files of the tasks of a store: state, changed windows and dead letters.

    ``oriel.pipeline.tasks.DirectoryFiles`` reads and writes files of the checkpoint and of Delta
    tables. A state version never changes, and new files have no effect until the batch is
    committed. So a task can run any number of times.
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

        ``task`` is the first task of ``run_operator``. Its index is part of the file name.
        """

    def write_dead_letters(
        self, plan: "BatchPlan", dead_letters: Sequence[pa.Table]
    ) -> list[AddedFile]:
        """Write dead letters, if there are any, for their table."""


@dataclass(frozen=True)
class BatchPlan:
    """The plan of one store for one micro-batch.

    Attributes:
        store: The name of the store.
        batch: The id of the batch.
        tasks: The number of tasks.
        key_groups: The number of key groups, which the tasks share.
        topics: The topic of each input.
        origins: The topics of the records of each input, if it is a join. Otherwise None.
        assembly: The engine of the store with its columns.
        stream_time_plans: All stream times of the store.
        stream_times: The stream time of each known partition before the batch.
        close_ms: The close time before the batch.
        segments: The state files of each task of the previous batch, which can have had another
            number of tasks.
        files: The files of the tasks.
        wall_clock: The wall clock, which is read once per batch.
        last_records_ms: The wall-clock time of the last record of each partition.
        upstream_topics: All topics of the store, also of upstream stores whose rows it reads. The
            commit contains their end offsets. Empty for a store that reads only topics.
    """

    store: str
    batch: int
    tasks: int
    key_groups: int
    topics: tuple[str, ...]
    origins: tuple[RecordTopics | None, ...]
    assembly: PlannedEngine
    stream_time_plans: tuple[StreamTimePlan, ...]
    stream_times: StreamTimesByName
    close_ms: int
    segments: Segments
    files: TaskFiles
    wall_clock: WallClock = NO_WALL_CLOCK
    last_records_ms: StreamTimesByName = field(default_factory=dict)
    upstream_topics: tuple[str, ...] = ()

    @cached_property
    def input_schema(self) -> pa.Schema:
        """The columns of rows that are sent to the window engine's tasks."""
        assembly = self.assembly
        return stage_columns.to_windows_schema(
            assembly.engine.record_schema, keeps_raw=assembly.keeps_raw
        )

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
        """Creates the dead letters of this store and batch."""
        return DeadLetters(self.store, self.batch)

    def idle(self, partitions_with_records: Partitions) -> dict[str, list[int]]:
        """Return the idle partitions, by stream time.

        A partition in ``partitions_with_records``, which had a record in the batch, is not idle.
        """
        idle_partitions = self.wall_clock.idle_partitions(self.last_records_ms)
        idle = {
            name: sorted(own.difference(partitions_with_records.get(name, ())))
            for name, own in idle_partitions.items()
        }
        # A stream time without idle partitions is left out, which keeps versions short.
        return {name: partitions for name, partitions in idle.items() if partitions}

    def close_times(
        self, stream_times: StreamTimesByName, partitions_with_records: Partitions
    ) -> dict[tuple[str, int], int]:
        """Return the close time of each partition that windows wait for.

        Windows do not wait for idle partitions, or for stream times without a delay. A stream
        without partitions has the partition -1, and its close time closes no window.

        Returns:
            (name of the stream time, partition) -> close time.
        """
        idle = self.idle(partitions_with_records)
        times_ms: dict[tuple[str, int], int] = {}
        for stream_time in self.stream_time_plans:
            if stream_time.delay_ms is None:
                continue
            # The close time of the partition is its stream time less grace, for sessions also less
            # the gap (semantics.md#1-1). The delay of the stream is added, because results of an
            # upstream join can be that much older than their stream time.
            delay_ms = self.windows.close_delay_ms + stream_time.delay_ms
            idle_partitions = set(idle.get(stream_time.name, ()))
            for partition, time_ms in stream_times[stream_time.name].items():
                if partition not in idle_partitions:
                    times_ms[stream_time.name, partition] = close_time_ms(
                        {partition: time_ms}, delay_ms
                    )
            if not stream_times[stream_time.name]:
                # The first partition of this stream can deliver records of any time. So no window
                # of the store can be final yet.
                times_ms[stream_time.name, NO_PARTITION] = NEVER_CLOSED_MS
        return times_ms

    def close_time_of(
        self, stream_times: StreamTimesByName, partitions_with_records: Partitions
    ) -> int:
        """Return the close time of the store, the least close time of all partitions.

        A window is final when no partition can deliver a record for it. The close time never
        decreases, so final windows stay final if an idle partition resumes. It does not change
        while a stream has no partition, or if all partitions are idle.
        """
        # The slowest partition decides. Example: with the close times 100 and 70, a window that
        # ends at 80 stays open, because the second partition can still deliver a record for it.
        times_ms = self.close_times(stream_times, partitions_with_records).values()
        return max(self.close_ms, min(times_ms, default=self.close_ms))


@dataclass(frozen=True)
class PreparedBatch:
    """The result of one batch of a store, computed and ready to commit.

    Attributes:
        record: The position and the counters for the commit.
        segments: The state files of each task of the store.
        join_segments: The state files of each task of each join, by the index of the join.
        files: The files that the commit adds to the table.
        dead_letters: The files that the commit adds to the dead-letter table.
        changed: The number of changed windows.
        open_records: The number of rows in the state, including the states of joins.
        clock_notes: The notes about stream times.
        blocks: The last block of each partition of the log that the store has read.
        join_open_records: The number of rows in the state of each join, by its index.
    """

    record: CommitRecord
    segments: dict[int, list[str]]
    join_segments: dict[int, dict[int, list[str]]]
    files: list[AddedFile]
    dead_letters: list[AddedFile]
    changed: int
    open_records: int
    clock_notes: StreamTimeNotes = NO_STREAM_TIME_NOTES
    blocks: stage_columns.ReadBlocks = field(default_factory=dict)
    join_open_records: dict[int, int] = field(default_factory=dict)

    def with_blocks(
        self, previous: "PreparedBatch | None", read: stage_columns.ReadBlocks
    ) -> "PreparedBatch":
        """Return the batch with the blocks of ``previous``, replaced by newer ones of ``read``.

        ``read`` has blocks of all topics of the pipeline. The batch keeps only the topics of its
        store.
        """
        # A batch can have no records of a topic. Its last block stays, because the next start
        # compares all blocks with the log.
        before = previous.blocks if previous else {}
        blocks = {
            topic: before.get(topic, {}) | read.get(topic, {})
            for topic in self.record.offsets
            if topic in before or topic in read
        }
        return replace(self, blocks=blocks)

    def to_json(self) -> bytes:
        """Return the content of ``<n>.json``."""
        # Tasks are integers, which JSON has as strings. ``_by_task`` converts them back.
        return orjson.dumps(self, option=orjson.OPT_NON_STR_KEYS)

    @classmethod
    def from_json(cls, text: bytes) -> "PreparedBatch":
        """Return the batch that ``to_json`` encoded."""
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
            clock_notes=StreamTimeNotes.from_fields(fields.get("clock_notes")),
            # Versions of earlier releases do not have blocks.
            blocks={
                topic: {partition: (end, read) for partition, (end, read) in of_topic.items()}
                for topic, of_topic in fields.get("blocks", {}).items()
            },
            join_open_records={
                int(number): rows for number, rows in fields.get("join_open_records", {}).items()
            },
        )

    @property
    def state_files(self) -> set[str]:
        """The names of all state files that this version needs."""
        # A file that no version names is deleted, so all operators of the store must be included.
        states = [self.segments, *self.join_segments.values()]
        return {name for by_task in states for names in by_task.values() for name in names}


def _by_task(segments: dict[str, list[str]]) -> dict[int, list[str]]:
    return {int(task): names for task, names in segments.items()}
