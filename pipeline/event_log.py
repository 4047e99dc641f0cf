"""The event log: one append-only JSON Lines file per partition, as a Spark streaming source.

    ROOT/<topic>/<partition>.jsonl     a record's offset is the byte position of its line

So ``echo '{"key": "a", "value": {}, "timestamp_ms": 1}' >> ROOT/topic/0.jsonl`` is a
producer. A last line without a newline is not complete, so it is not read yet.
Spark's offsets have Kafka's shape, ``{topic: {partition: exclusive end}}``. Partitions
are listed as soon as their file exists, so an empty partition is also known.

Byte positions need no index. A reader starts anywhere without counting lines, and a producer knows
its offset from the size of the file. Offsets grow in the order of arrival. They are valid as long
as the file is only appended to. Only a comparison of the whole file could prove this. But most
mistakes are detected: the file is shorter or missing, or no line begins at the next offset.

For each query, Spark starts a Python process that only reads the ends of the log with the classes
of this module. So the module imports little, and it is outside the package ``sources``.
"""

import os
import socket
from collections.abc import Iterable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxBytes, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from oriel.pipeline.errors import EventLogError
from oriel.pipeline.new_records import NewLines, NewRecords, waiting_ends
from oriel.pipeline.planned_slices import PlannedSlices, slice_row

FORMAT = "oriel_event_log"

#: One micro-batch reads at most about this many bytes, over all partitions.
DEFAULT_MAX_BATCH_BYTES = 64 * 2**20

#: The size of the first batch of a run that begins at the beginning of the log. It is small, so the
#: first results are available soon after Spark has started.
_FIRST_BATCH_BYTES = 2**20

#: A task reads this many bytes at a time. Arrow batches of a few MB bound its memory.
_READ_BYTES = 4 * 2**20
#: A search for a newline reads this many bytes at a time.
_SEARCH_BYTES = 65_536
_NEWLINE = b"\n"

#: The rows of the source: the bytes of a file that one task reads.
_SLICE_SCHEMA = pa.schema([
    pa.field("topic", pa.string()),
    pa.field("path", pa.string()),
    pa.field("partition", pa.int32()),
    pa.field("start", pa.int64()),
    pa.field("end", pa.int64()),
])  # fmt: skip
#: A line of a slice without its newline, with its partition and offset.
RAW_SCHEMA = pa.schema([
    pa.field("partition", pa.int32()),
    pa.field("offset", pa.int64()),
    pa.field("raw", pa.binary()),
])  # fmt: skip


@dataclass
class Slice(InputPartition):
    """The bytes of one partition that one task reads, whole lines only."""

    topic: str
    path: str
    partition: int
    start: int
    end: int


class EventLogSource(DataSource):
    """Spark data source ``oriel_event_log``.

    Options of all queries: ``root`` and ``topic``. Options of a batch query: ``starts`` and
    ``ends`` (JSON: partition -> offset). Options of a streaming query:

    - ``max_batch_bytes``: one batch reads at most about this many bytes.
    - ``wait_for``: JSON: the topics of the query, if the planner waits for their records.
    """

    def __init__(self, options: MutableMapping[str, str]) -> None:
        # Imported only if a source is created, and not if Spark unpickles it (see the module).
        from oriel.pipeline.language import check_topic  # noqa: PLC0415

        super().__init__(options)
        self._topic = check_topic(options["topic"])
        self._root = Path(options["root"])
        self._directory = self._root / self._topic
        self._max_batch_bytes = int(options.get("max_batch_bytes", DEFAULT_MAX_BATCH_BYTES))

    @classmethod
    def name(cls) -> str:
        """Return the format's name."""
        return FORMAT

    def schema(self) -> StructType:
        """Return the columns of slices."""
        return from_arrow_schema(_SLICE_SCHEMA)

    def reader(self, schema: StructType) -> PlannedSlices:  # noqa: ARG002
        """Return the reader of the lines between the options ``starts`` and ``ends``."""
        starts, ends = (orjson.loads(self.options[name]) for name in ("starts", "ends"))
        return PlannedSlices(slices(self._topic, self._directory, starts, ends), _SLICE_SCHEMA)

    def streamReader(self, schema: StructType) -> "EventLogReader":  # noqa: ARG002, N802 - Spark's name
        """Return the reader of a streaming query."""
        topics = orjson.loads(self.options.get("wait_for", "[]"))
        records = NewLines([self._root / topic for topic in topics]) if topics else None
        return EventLogReader(self._directory, self._topic, self._max_batch_bytes, records)


class EventLogReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans the micro-batches of a topic. Tasks read the lines.

    Spark plans in one Python process and reads in others.
    """

    def __init__(
        self, directory: Path, topic: str, max_batch_bytes: int, records: NewRecords | None = None
    ) -> None:
        """Plan batches of at most about ``max_batch_bytes`` over the files of ``directory``.

        If there is nothing to read, wait for ``records``.
        """
        self._directory = directory
        self._records = records
        self._topic = topic
        self._max_batch_bytes = max_batch_bytes
        #: Partition -> the end of a ``--once`` run.
        self._once_ends: dict[str, int] | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """Return the beginning of the topic: offsets without partitions, which begin at 0."""
        return {self._topic: {}}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Return the limit of one batch. A backlog is read in several batches."""
        return ReadMaxBytes(self._max_batch_bytes)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Keep the ends of the lines that are complete now as the end of a ``--once`` run."""
        self._once_ends = {
            partition: complete_lines_end(path, 0, path.stat().st_size)
            for partition, path in partition_files(self._directory).items()
        }

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Return the offsets at which the next batch ends."""
        starts = dict(self._of_topic(start))
        return {self._topic: waiting_ends(lambda: self._ends(starts, limit), starts, self._records)}

    def _ends(self, starts: Mapping[str, int], limit: ReadLimit) -> dict[str, int]:
        files = partition_files(self._directory)
        missing = sorted(set(starts) - set(files))
        if missing:
            message = (
                f"event log partitions {missing} are missing. Restore the files, because "
                "the log is append-only"
            )
            raise EventLogError(message)
        sizes = {partition: path.stat().st_size for partition, path in files.items()}
        if self._once_ends is not None:
            # A file that was created after the start of the run is for the next run.
            sizes = {p: min(size, self._once_ends.get(p, 0)) for p, size in sizes.items()}
        unread = [p for p, size in sizes.items() if size > starts.get(p, 0)]
        share_bytes = None
        if isinstance(limit, ReadMaxBytes) and unread:
            is_first = not any(starts.values())
            max_bytes = min(limit.max_bytes, _FIRST_BATCH_BYTES) if is_first else limit.max_bytes
            # Equal shares, so that a large partition does not delay the others.
            share_bytes = max(1, max_bytes // len(unread))
        return {
            p: _slice_end(files[p], starts.get(p, 0), size, share_bytes)
            for p, size in sizes.items()
        }

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return one slice per partition that has new lines."""
        starts = self._of_topic(start)
        return slices(self._topic, self._directory, starts, self._of_topic(end))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the slice as one row. The task that decodes its lines reads them itself.

        If this method read them, they would be copied into the JVM and back into a Python task.
        """
        yield slice_row(partition, _SLICE_SCHEMA)

    def _of_topic(self, offsets: Mapping[str, Any]) -> Mapping[str, int]:
        """Return partition -> offset of this topic.

        Spark identifies sources only by their order. So the offsets can be of another topic.
        """
        if self._topic not in offsets:
            message = (
                f"the checkpoint has no offsets of topic {self._topic}, only of "
                f"{', '.join(offsets)}. The topology reads other topics than before, or reads them "
                "in another order. Start again with an empty data directory"
            )
            raise EventLogError(message)
        topic_offsets: Mapping[str, int] = offsets[self._topic]
        return topic_offsets


def slices(
    topic: str, directory: Path, starts: Mapping[str, int], ends: Mapping[str, int]
) -> list[Slice]:
    """Return the slices of a topic between two offsets of its partitions.

    Args:
        topic: The topic.
        directory: The directory of its files.
        starts: Partition -> offset. A partition that is missing begins at 0.
        ends: Partition -> the offset after the last line.
    """
    return [
        Slice(topic, str(directory / f"{p}.jsonl"), int(p), starts.get(p, 0), end)
        for p, end in ends.items()
        if end > starts.get(p, 0)
    ]


def next_ends(
    directory: Path, starts: Mapping[str, int], ends: Mapping[str, int], max_bytes: int
) -> dict[str, int]:
    """Return the end of a batch from ``starts`` of about ``max_bytes``, at most ``ends``.

    Raises:
        EventLogError: A file is missing, or was not only appended to.
    """
    unread = [p for p, end in ends.items() if end > starts.get(p, 0)]
    share_bytes = max(1, max_bytes // max(1, len(unread)))
    files = partition_files(directory)
    missing = sorted(set(unread) - set(files))
    if missing:
        message = f"event log partitions {missing} of {directory} are missing. Restore the files"
        raise EventLogError(message)
    return {
        p: _slice_end(files[p], starts.get(p, 0), end, share_bytes) if p in unread else end
        for p, end in ends.items()
    }


def slice_lines(rows: Iterable[pa.RecordBatch]) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Yield the topic and the lines of the slices in rows of the source."""
    for batch in rows:
        for fields in batch.to_pylist():
            for lines in read_lines(Slice(**fields)):
                yield fields["topic"], lines


def partition_files(directory: Path) -> dict[str, Path]:
    """Return partition number (as a string) -> file, in the order of the numbers.

    Raises:
        EventLogError: The directory is missing, or a ``.jsonl`` path in it is not a file or is not
            named by a partition number.
    """
    if not directory.is_dir():
        message = (
            f"no event log at {directory}. Create the directory with one <partition>.jsonl per "
            "partition"
        )
        raise EventLogError(message)
    path_of: dict[int, Path] = {}
    for path in directory.glob("*.jsonl"):
        # 01.jsonl would be a second file of partition 1. Kafka's partition numbers have 32 bits.
        is_number = path.stem.isdecimal() and str(int(path.stem)) == path.stem
        if not is_number or int(path.stem) >= 2**31 or not path.is_file():
            message = (
                f"event log file {path} must be named by its partition number, for example "
                "0.jsonl, and must be a file. Rename it, or move it to another directory"
            )
            raise EventLogError(message)
        path_of[int(path.stem)] = path
    return {str(number): path_of[number] for number in sorted(path_of)}


def complete_lines_end(path: Path, start: int, end: int) -> int:
    """Return the position after the last newline in ``[start, end)``, or ``start`` without one."""
    with path.open("rb") as file:
        position = end
        while position > start:
            begin = max(start, position - _SEARCH_BYTES)
            file.seek(begin)
            newline = file.read(position - begin).rfind(_NEWLINE)
            if newline >= 0:
                return begin + newline + 1
            position = begin
    return start


def _slice_end(path: Path, start: int, size: int, share_bytes: int | None) -> int:
    """Return the end of a slice that begins at byte ``start`` of a file of ``size`` bytes.

    A slice has only whole lines, of about ``share_bytes`` bytes. None: all whole lines.

    Raises:
        EventLogError: The file was not only appended to since it was read up to ``start``.
    """
    if size < start:
        message = (
            f"event log {path} shrank: {start} bytes were read, but it has {size} now. It "
            "is append-only. Restore it, or start again with an empty data directory"
        )
        raise EventLogError(message)
    # A slice ends after a newline. If the file was only appended to, it still has this newline.
    if size > start > 0 and block_before(str(path), start, 1) != _NEWLINE:
        message = (
            f"event log {path} was replaced: {start} bytes were read, but no line begins at this "
            "byte now. It is append-only. Restore it, or start again with an empty data directory"
        )
        raise EventLogError(message)
    limit = size if share_bytes is None else min(size, start + share_bytes)
    end = complete_lines_end(path, start, limit)
    if end == start and limit < size:
        # One line is longer than the share. The slice contains it whole, so the query advances.
        return _next_line_end(path, limit, size) or start
    return end


def _next_line_end(path: Path, start: int, size: int) -> int | None:
    with path.open("rb") as file:
        position = start
        while position < size:
            file.seek(position)
            newline = file.read(min(_SEARCH_BYTES, size - position)).find(_NEWLINE)
            if newline >= 0:
                return position + newline + 1
            position += _SEARCH_BYTES
    return None


def block_before(path: str, end: int, length: int) -> bytes:
    """Return the last ``length`` bytes before ``end``, or fewer if the file does not have them.

    Raises:
        EventLogError: The file does not exist.
    """
    start = max(0, end - length)
    # Each batch does this for each partition, and a file object costs more than the read.
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except FileNotFoundError as error:
        raise _missing_file(path) from error
    try:
        return os.pread(descriptor, end - start, start)
    finally:
        os.close(descriptor)


def read_lines(planned: Slice) -> Iterator[pa.RecordBatch]:
    """Yield the lines of a slice as (partition, offset, raw) batches of a few MB.

    Raises:
        EventLogError: The file is missing, or shorter than when the batch was planned.
    """
    with _open(planned.path) as file:
        position = planned.start
        file.seek(position)
        rest = b""
        while position + len(rest) < planned.end:
            block = file.read(min(_READ_BYTES, planned.end - position - len(rest)))
            if not block:
                message = (
                    f"event log {planned.path} shrank: it ends before byte {planned.end}. It is "
                    "append-only. Restore it"
                )
                raise EventLogError(message)
            data = rest + block
            # The bytes after the last newline begin the next block.
            lines_end = data.rfind(_NEWLINE) + 1
            rest = data[lines_end:]
            if lines_end:
                yield _lines(planned.partition, position, data[:lines_end])
                position += lines_end


def _open(path: str) -> BinaryIO:
    try:
        return Path(path).open("rb")
    except FileNotFoundError as error:
        raise _missing_file(path) from error


def _missing_file(path: str) -> EventLogError:
    return EventLogError(
        f"machine {socket.gethostname()} has no event log {path}. Restore the file. On a "
        "cluster, --event-log must be on a mount that all machines have under the same path"
    )


def _lines(partition: int, position: int, data: bytes) -> pa.RecordBatch:
    """Return whole lines as raw rows, without a loop over the lines.

    Arrow stores binary values as a buffer of bytes and a buffer of offsets. The positions after the
    newlines are these offsets.
    """
    ends = np.flatnonzero(np.frombuffer(data, dtype=np.uint8) == ord(_NEWLINE)) + 1
    starts = np.concatenate([[0], ends[:-1]])
    value_offsets = np.concatenate([[0], ends]).astype(np.int32)
    buffers = [None, pa.py_buffer(value_offsets), pa.py_buffer(data)]
    lines = pa.Array.from_buffers(pa.binary(), len(ends), buffers)
    return pa.RecordBatch.from_arrays(
        [
            pa.array(np.full(len(ends), partition, dtype=np.int32)),
            pa.array(starts + position),
            pc.binary_slice(lines, 0, -1),
        ],
        schema=RAW_SCHEMA,
    )
