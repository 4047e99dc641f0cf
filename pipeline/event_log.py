"""The event log: one append-only JSON Lines file per partition, as a Spark streaming source.

    ROOT/<topic>/<partition>.jsonl     a record's offset is its line's byte position

So ``echo '{"key": "a", "value": {}, "timestamp_ms": 1}' >> ROOT/topic/0.jsonl`` is a
producer. A last line without its newline is still being written: it is left for later.
Spark's offsets have Kafka's shape, ``{topic: {partition: exclusive end}}``; partitions
are listed as soon as their file exists, so an empty one is known too.

Byte positions are offsets that need no index: a reader starts anywhere without counting lines, a
producer knows them from the file's size, and they grow in the order of arrival. They hold as long
as the file is only appended to. That can't be proved without reading it all, but what a mistake
makes of it mostly shows: the file is shorter, gone, or no line begins where reading goes on.

For each query Spark starts a Python process that does nothing but read the log's ends with the
classes of this module, so it imports little: it lies beside the rooms, not behind a door.
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
from pyspark.sql.datasource import (
    DataSource,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming.datasource import (
    ReadLimit,
    ReadMaxBytes,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from oriel.pipeline.errors import EventLogError
from oriel.pipeline.new_records import NewLines, NewRecords, waiting_ends
from oriel.pipeline.planned_slices import PlannedSlices, slice_row

FORMAT = "oriel_event_log"

#: How much one micro-batch reads at most, over all partitions.
DEFAULT_MAX_BATCH_BYTES = 64 * 2**20

#: The first batch of a run that begins at the log's beginning: small, so that the first answers
#: come as soon as Spark has started, and while the rest streams.
_FIRST_BATCH_BYTES = 2**20

#: What a task reads at a time: an Arrow batch of a few MB keeps its memory bounded.
_READ_BYTES = 4 * 2**20
#: What a search for a newline reads at a time.
_SEARCH_BYTES = 65_536
_NEWLINE = b"\n"

#: The rows of the source: what one task reads of one partition, in bytes of its file.
_SLICE_SCHEMA = pa.schema([
    pa.field("topic", pa.string()),
    pa.field("path", pa.string()),
    pa.field("partition", pa.int32()),
    pa.field("start", pa.int64()),
    pa.field("end", pa.int64()),
])  # fmt: skip
#: A line of a slice without its newline, and its place.
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

    Options: ``root``, ``topic``, ``max_batch_bytes``, and ``wait_for``: the topics of the query
    (JSON), if the planner waits for their records.
    """

    def __init__(self, options: MutableMapping[str, str]) -> None:
        # Only where a source is made, not where Spark unpickles it (see the module's text).
        from oriel.pipeline.language import check_topic  # noqa: PLC0415

        super().__init__(options)
        self._topic = check_topic(options["topic"])
        self._root = Path(options["root"])
        self._folder = self._root / self._topic
        self._max_batch_bytes = int(options.get("max_batch_bytes", DEFAULT_MAX_BATCH_BYTES))

    @classmethod
    def name(cls) -> str:
        """Return the format's name."""
        return FORMAT

    def schema(self) -> StructType:
        """Return the columns of slices."""
        return from_arrow_schema(_SLICE_SCHEMA)

    def reader(self, schema: StructType) -> PlannedSlices:  # noqa: ARG002
        """Return the reader of what lies between the options ``starts`` and ``ends`` (JSON)."""
        starts, ends = (orjson.loads(self.options[name]) for name in ("starts", "ends"))
        return PlannedSlices(slices(self._topic, self._folder, starts, ends), _SLICE_SCHEMA)

    def streamReader(self, schema: StructType) -> "EventLogReader":  # noqa: ARG002, N802 - Spark's name
        """Return the reader of a streaming query."""
        topics = orjson.loads(self.options.get("wait_for", "[]"))
        records = NewLines([self._root / topic for topic in topics]) if topics else None
        return EventLogReader(self._folder, self._topic, self._max_batch_bytes, records)


class EventLogReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans micro-batches over the files and reads their lines.

    Spark plans in one process of Python and reads in others, so nothing is kept between calls but
    the end of a ``--once`` run.
    """

    def __init__(
        self, folder: Path, topic: str, max_batch_bytes: int, records: NewRecords | None = None
    ) -> None:
        """Read the files of ``folder``. A batch has at most about ``max_batch_bytes``.

        If there is nothing to read, wait for ``records``.
        """
        self._folder = folder
        self._records = records
        self._topic = topic
        self._max_batch_bytes = max_batch_bytes
        #: Partition -> where a ``--once`` run ends.
        self._once_ends: dict[str, int] | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """Return the beginning: no partition is known."""
        return {self._topic: {}}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Return the most that one batch may read, so that catching up is done in steps."""
        return ReadMaxBytes(self._max_batch_bytes)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Fix the end of a ``--once`` run: what is complete now."""
        self._once_ends = {
            partition: whole_lines_end(path, 0, path.stat().st_size)
            for partition, path in partition_files(self._folder).items()
        }

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Return how far the next batch goes in each partition."""
        starts = dict(self._of_topic(start))
        return {self._topic: waiting_ends(lambda: self._ends(starts, limit), starts, self._records)}

    def _ends(self, starts: Mapping[str, int], limit: ReadLimit) -> dict[str, int]:
        files = partition_files(self._folder)
        lost = sorted(set(starts) - set(files))
        if lost:
            message = (
                f"event log partitions {lost} are missing. Restore the files, because "
                "the log is append-only"
            )
            raise EventLogError(message)
        sizes = {partition: path.stat().st_size for partition, path in files.items()}
        if self._once_ends is not None:
            # A file that was not there when the run began is for the next one.
            sizes = {p: min(size, self._once_ends.get(p, 0)) for p, size in sizes.items()}
        behind = [p for p, size in sizes.items() if size > starts.get(p, 0)]
        share_bytes = None
        if isinstance(limit, ReadMaxBytes) and behind:
            is_first = not any(starts.values())
            max_bytes = min(limit.max_bytes, _FIRST_BATCH_BYTES) if is_first else limit.max_bytes
            # Equal shares, so that no partition is left behind by a larger one.
            share_bytes = max(1, max_bytes // len(behind))
        return {
            p: _slice_end(files[p], starts.get(p, 0), size, share_bytes)
            for p, size in sizes.items()
        }

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return one slice per partition that has something new."""
        starts = self._of_topic(start)
        return slices(self._topic, self._folder, starts, self._of_topic(end))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the slice as one row: whoever needs the lines reads them where they are used.

        Lines would be copied twice, into the JVM and back into the Python task that decodes them.
        """
        yield slice_row(partition, _SLICE_SCHEMA)

    def _of_topic(self, offsets: Mapping[str, Any]) -> Mapping[str, int]:
        """Partition -> offset, of this topic; Spark knows its sources by their order alone."""
        if self._topic not in offsets:
            message = (
                f"the checkpoint has no offsets of topic {self._topic}, only of "
                f"{', '.join(offsets)}. The topology reads other topics than before, or reads them "
                "in another order. Start again with an empty data directory"
            )
            raise EventLogError(message)
        of_topic: Mapping[str, int] = offsets[self._topic]
        return of_topic


def slices(
    topic: str, folder: Path, starts: Mapping[str, int], ends: Mapping[str, int]
) -> list[Slice]:
    """What there is to read of a topic's ``folder`` between two offsets of its partitions."""
    return [
        Slice(topic, str(folder / f"{p}.jsonl"), int(p), starts.get(p, 0), end)
        for p, end in ends.items()
        if end > starts.get(p, 0)
    ]


def next_ends(
    folder: Path, starts: Mapping[str, int], ends: Mapping[str, int], max_bytes: int
) -> dict[str, int]:
    """Where a batch from ``starts`` ends that takes about ``max_bytes`` on the way to ``ends``.

    Raises:
        EventLogError: a file is gone, or was not only appended to.
    """
    behind = [p for p, end in ends.items() if end > starts.get(p, 0)]
    share_bytes = max(1, max_bytes // max(1, len(behind)))
    files = partition_files(folder)
    lost = sorted(set(behind) - set(files))
    if lost:
        message = f"event log partitions {lost} of {folder} are missing. Restore the files"
        raise EventLogError(message)
    return {
        p: _slice_end(files[p], starts.get(p, 0), end, share_bytes) if p in behind else end
        for p, end in ends.items()
    }


def opened_slices(
    rows: Iterable[pa.RecordBatch],
) -> Iterator[tuple[str, pa.RecordBatch]]:
    """The topic and the lines of slices that the source gave as rows."""
    for batch in rows:
        for fields in batch.to_pylist():
            for lines in read_lines(Slice(**fields)):
                yield fields["topic"], lines


def partition_files(folder: Path) -> dict[str, Path]:
    """Return partition number (as text) -> file, in order of number.

    Raises:
        EventLogError: the folder is missing, or a ``.jsonl`` file is not named by a number.
    """
    if not folder.is_dir():
        message = (
            f"no event log at {folder}. Create the directory with one <partition>.jsonl per "
            "partition"
        )
        raise EventLogError(message)
    path_of: dict[int, Path] = {}
    for path in folder.glob("*.jsonl"):
        # 01.jsonl would be partition 1 a second time; Kafka's partitions have 32 bits.
        is_number = path.stem.isdecimal() and str(int(path.stem)) == path.stem
        if not is_number or int(path.stem) >= 2**31 or not path.is_file():
            message = (
                f"event log file {path} must be named by its partition number, for example "
                "0.jsonl, and must be a file. Rename it, or move it to another directory"
            )
            raise EventLogError(message)
        path_of[int(path.stem)] = path
    return {str(number): path_of[number] for number in sorted(path_of)}


def whole_lines_end(path: Path, start: int, end: int) -> int:
    """Return the position after the last newline in ``[start, end)``, else ``start``."""
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
    """Where a batch that begins at byte ``start`` of a file of ``size`` bytes ends.

    Only whole lines, about ``share_bytes`` of them (None: all that is there).

    Raises:
        EventLogError: the file was not only appended to since it was read up to ``start``.
    """
    if size < start:
        message = (
            f"event log {path} shrank: {start} bytes were read, but it has {size} now. It "
            "is append-only. Restore it, or start again with an empty data directory"
        )
        raise EventLogError(message)
    # Reading stops behind a newline, so an appended file has one there for ever.
    if size > start > 0 and not _ends_a_line(path, start):
        message = (
            f"event log {path} was replaced: {start} bytes were read, but no line begins at this "
            "byte now. It is append-only. Restore it, or start again with an empty data directory"
        )
        raise EventLogError(message)
    limit = size if share_bytes is None else min(size, start + share_bytes)
    end = whole_lines_end(path, start, limit)
    if end == start and limit < size:
        # One line is longer than the share: take that line whole, or nothing would ever move.
        return _next_line_end(path, limit, size) or start
    return end


def _ends_a_line(path: Path, position: int) -> bool:
    with path.open("rb") as file:
        file.seek(position - 1)
        return file.read(1) == _NEWLINE


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
    """Return the last ``length`` bytes before ``end``; fewer if the file begins or ends there.

    Raises:
        EventLogError: The file does not exist.
    """
    start = max(0, end - length)
    # Each batch does this for each partition, and a file object costs more than the read.
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except FileNotFoundError as error:
        raise _no_file(path) from error
    try:
        return os.pread(descriptor, end - start, start)
    finally:
        os.close(descriptor)


def read_lines(part: Slice) -> Iterator[pa.RecordBatch]:
    """Yield the lines of a slice as (partition, offset, raw) batches of a few MB.

    Raises:
        EventLogError: the file is not there, or shorter than when the batch was planned.
    """
    with _opened(part.path) as file:
        position = part.start
        file.seek(position)
        rest = b""
        while position + len(rest) < part.end:
            block = file.read(min(_READ_BYTES, part.end - position - len(rest)))
            if not block:
                message = (
                    f"event log {part.path} shrank: it ends before byte {part.end}. It is "
                    "append-only. Restore it"
                )
                raise EventLogError(message)
            data = rest + block
            # What is behind the last newline goes in front of the next block.
            lines_end = data.rfind(_NEWLINE) + 1
            rest = data[lines_end:]
            if lines_end:
                yield _lines(part.partition, position, data[:lines_end])
                position += lines_end


def _opened(path: str) -> BinaryIO:
    try:
        return Path(path).open("rb")
    except FileNotFoundError as error:
        raise _no_file(path) from error


def _no_file(path: str) -> EventLogError:
    return EventLogError(
        f"machine {socket.gethostname()} has no event log {path}. Restore the file. On a "
        "cluster, --event-log must be on a mount that all machines have under the same path"
    )


def _lines(partition: int, position: int, data: bytes) -> pa.RecordBatch:
    """Split whole lines without a loop over them: Arrow's offsets are the newlines' positions.

    Arrow keeps binary values as one buffer of bytes and one of where each begins.
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
