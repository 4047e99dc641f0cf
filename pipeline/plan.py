"""What the tasks of one micro-batch need to know, and what they report back.

Everything here is plain data: it travels to Spark's Python workers with the task, and
back as one JSON row a task.
"""

from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from pipeline.windows import SlidingWindowEngine
from storage.table import AddedFile

#: Columns that a stamped row has in front of the engine's record columns.
STAMPED_FIELDS = (pa.field("task", pa.int32()), pa.field("report", pa.string()))
KEY_GROUP = pa.field("key_group", pa.int32())

#: What is counted of each record: input is the sum of the others.
COUNTERS = ("input", "applied", "late", "dead_lettered", "filtered")

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


@dataclass(frozen=True)
class BatchPlan:
    """One store's part of one micro-batch, as its tasks see it.

    ``stream_time_ms`` has every partition known to this batch with its clock before it;
    ``segments`` the state files of each task of the batch before, which may have had
    another number of tasks; ``tells_source_reasons`` whether this store writes the dead
    letters that are bad for every store of the topic.
    """

    store: str
    topic: str
    batch: int
    tasks: int
    engine: SlidingWindowEngine
    grace_ms: int
    stream_time_ms: dict[int, int]
    close_ms: int
    segments: dict[int, list[str]]
    table: Path
    state: Path
    dead_letters: Path
    tells_source_reasons: bool
    sync: bool

    def segments_of(self, task: int) -> tuple[list[str], bool]:
        """Return the state files that ``task`` has to read, and whether they are its own alone.

        After a change of the number of tasks each reads all files and takes its key groups.
        """
        if len(self.segments) in {0, self.tasks}:
            return self.segments.get(task, []), True
        return [name for names in self.segments.values() for name in names], False

    @property
    def stamped_schema(self) -> pa.Schema:
        """The columns that go through the shuffle."""
        return pa.schema([*STAMPED_FIELDS, *self.engine.record_schema])


@dataclass
class StampReport:
    """What one stamp task saw: its clocks, its counts and the dead letters it wrote."""

    stream_time_ms: dict[int, int] = field(default_factory=dict)
    counters: dict[str, int] = field(default_factory=dict)
    dead_letters: list[AddedFile] = field(default_factory=list)


@dataclass
class GroupReport:
    """What one engine task made: its state files and table files, and the stamps' reports."""

    task: int
    segments: list[str]
    open_records: int
    changed: int
    close_ms: int
    files: list[AddedFile]
    stamps: list[StampReport]
