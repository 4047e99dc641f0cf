"""The event log: one append-only JSON Lines file per partition, as a Spark streaming source.

    ROOT/<topic>/<partition>.jsonl     a record's offset is its line's byte position

So ``echo '{"key": "a", "value": {}, "timestamp_ms": 1}' >> ROOT/topic/0.jsonl`` is a
producer. A last line without its newline is still being written: it is left for later.
Spark's offsets have Kafka's shape, ``{topic: {partition: exclusive end}}``; partitions
are listed as soon as their file exists, so an empty one is known too.
"""

from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadLimit,
    ReadMaxBytes,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from oriel.pipeline.errors import EventLogError
from oriel.pipeline.language import check_topic

FORMAT = "oriel_event_log"

#: How much one micro-batch reads at most, over all partitions.
DEFAULT_MAX_BATCH_BYTES = 64 * 2**20

_READ_BYTES = 2 * 2**20
_NEWLINE = b"\n"

_ARROW_SCHEMA = pa.schema([
    pa.field("partition", pa.int32()),
    pa.field("offset", pa.int64()),
    pa.field("raw", pa.binary()),
])  # fmt: skip


@dataclass
class _Slice(InputPartition):
    """The bytes of one partition that one task reads, whole lines only."""

    path: str
    partition: int
    start: int
    end: int


class EventLogSource(DataSource):
    """Spark data source ``oriel_event_log``; options ``root``, ``topic``, ``max_batch_bytes``."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        """Keep the options."""
        super().__init__(options)
        self._topic = check_topic(options["topic"])
        self._folder = Path(options["root"]) / self._topic
        self._max_batch_bytes = int(options.get("max_batch_bytes", DEFAULT_MAX_BATCH_BYTES))

    @classmethod
    def name(cls) -> str:
        """Return the format's name."""
        return FORMAT

    def schema(self) -> str:
        """Return partition, offset and the line without its newline."""
        return "partition INT, offset BIGINT, raw BINARY"

    def streamReader(self, schema: StructType) -> "EventLogReader":  # noqa: ARG002, N802 - Spark's name
        """Return the reader of a streaming query."""
        return EventLogReader(self._folder, self._topic, self._max_batch_bytes)


class EventLogReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans micro-batches over the files and reads their lines."""

    def __init__(self, folder: Path, topic: str, max_batch_bytes: int) -> None:
        """Read the files of ``folder``; a batch takes about ``max_batch_bytes`` at most."""
        self._folder = folder
        self._topic = topic
        self._max_batch_bytes = max_batch_bytes
        self._target: dict[str, int] | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """Return the beginning: no partition is known."""
        return {self._topic: {}}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Return the most that one batch may read, so that catching up is done in steps."""
        return ReadMaxBytes(self._max_batch_bytes)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Fix the end of a ``--once`` run: what is complete now."""
        self._target = {
            partition: whole_lines_end(path, 0, path.stat().st_size)
            for partition, path in partition_files(self._folder).items()
        }

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Return how far the next batch goes in each partition."""
        begun = self._begun(start)
        files = partition_files(self._folder)
        _refuse_lost_partitions(begun, files)
        sizes = {p: self._available(p, path) for p, path in files.items()}
        behind = [p for p, size in sizes.items() if size > begun.get(p, 0)]
        share = None
        if isinstance(limit, ReadMaxBytes) and behind:
            share = max(1, limit.max_bytes // len(behind))
        return {
            self._topic: {
                p: _slice_end(files[p], begun.get(p, 0), size, share) for p, size in sizes.items()
            }
        }

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return one slice per partition that has something new."""
        begun = self._begun(start)
        return [
            _Slice(str(self._folder / f"{p}.jsonl"), int(p), begun.get(p, 0), upto)
            for p, upto in self._begun(end).items()
            if upto > begun.get(p, 0)
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the slice's lines in order, as Arrow batches."""
        assert isinstance(partition, _Slice)
        return read_lines(partition)

    def _begun(self, offsets: Mapping[str, Any]) -> Mapping[str, int]:
        """This topic's part of Spark's offsets, which are told apart by their order alone."""
        if self._topic not in offsets:
            message = (
                f"the checkpoint has offsets of topic {', '.join(offsets)} where those of topic "
                f"{self._topic} should be: the topology reads other topics than when the "
                "checkpoint was made, or in another order. Start it anew with an empty data folder"
            )
            raise EventLogError(message)
        found: Mapping[str, int] = offsets[self._topic]
        return found

    def _available(self, partition: str, path: Path) -> int:
        size = path.stat().st_size
        if self._target is not None:
            return min(size, self._target.get(partition, 0))
        return size


def partition_files(folder: Path) -> dict[str, Path]:
    """Return partition number (as text) -> file, in order of number.

    Raises:
        EventLogError: the folder is missing, or a ``.jsonl`` file is not named by a number.
    """
    if not folder.is_dir():
        message = (
            f"no event log at {folder}: make the folder, with one <partition>.jsonl per partition"
        )
        raise EventLogError(message)
    found: dict[int, Path] = {}
    for path in folder.glob("*.jsonl"):
        odd = not path.stem.isdecimal() or str(int(path.stem)) != path.stem
        if odd or int(path.stem) >= 2**31 or not path.is_file():
            message = (
                f"event log file {path} must be named by its partition number, like 0.jsonl, "
                "and be a file"
            )
            raise EventLogError(message)
        found[int(path.stem)] = path
    return {str(number): found[number] for number in sorted(found)}


def whole_lines_end(path: Path, start: int, end: int) -> int:
    """Return the position after the last newline in ``[start, end)``, else ``start``."""
    with path.open("rb") as file:
        position = end
        while position > start:
            begin = max(start, position - 65_536)
            file.seek(begin)
            found = file.read(position - begin).rfind(_NEWLINE)
            if found >= 0:
                return begin + found + 1
            position = begin
    return start


def _slice_end(path: Path, start: int, size: int, share: int | None) -> int:
    """Where a batch that begins at ``start`` ends: whole lines, about ``share`` bytes."""
    if size < start:
        message = (
            f"event log {path} shrank: {start} bytes were read, {size} are there. It is "
            "append-only; restore it, or start anew with an empty data folder"
        )
        raise EventLogError(message)
    if size > start > 0 and not _ends_a_line(path, start):
        message = (
            f"event log {path} was replaced: byte {start}, up to which it was read, no longer "
            "begins a line. It is append-only; restore it, or start anew with an empty data folder"
        )
        raise EventLogError(message)
    limit = size if share is None else min(size, start + share)
    end = whole_lines_end(path, start, limit)
    if end == start and limit < size:
        # One line is longer than the share: take that line whole.
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
            found = file.read(min(65_536, size - position)).find(_NEWLINE)
            if found >= 0:
                return position + found + 1
            position += 65_536
    return None


def _refuse_lost_partitions(begun: Mapping[str, int], files: Mapping[str, Path]) -> None:
    lost = sorted(set(begun) - set(files))
    if lost:
        message = f"event log partitions {lost} are gone: restore the files, the log is append-only"
        raise EventLogError(message)


def read_lines(part: _Slice) -> Iterator[pa.RecordBatch]:
    """Yield the lines of a slice as (partition, offset, raw) batches of a few MB."""
    with Path(part.path).open("rb") as file:
        position = part.start
        file.seek(position)
        rest = b""
        while position + len(rest) < part.end:
            block = file.read(min(_READ_BYTES, part.end - position - len(rest)))
            if not block:
                message = f"event log {part.path} ends before byte {part.end}: it was cut short"
                raise EventLogError(message)
            data = rest + block
            whole = data.rfind(_NEWLINE) + 1
            rest = data[whole:]
            if whole:
                yield _lines(part.partition, position, data[:whole])
                position += whole


def _lines(partition: int, position: int, data: bytes) -> pa.RecordBatch:
    """Split whole lines without a loop: the newlines' places are the offsets."""
    ends = np.flatnonzero(np.frombuffer(data, dtype=np.uint8) == ord(_NEWLINE)) + 1
    starts = np.concatenate([[0], ends[:-1]])
    places = np.concatenate([[0], ends]).astype(np.int32)
    buffers = [None, pa.py_buffer(places), pa.py_buffer(data)]
    lines = pa.Array.from_buffers(pa.binary(), len(ends), buffers)
    return pa.RecordBatch.from_arrays(
        [
            pa.array(np.full(len(ends), partition, dtype=np.int32)),
            pa.array(starts + position),
            pc.binary_slice(lines, 0, -1),
        ],
        schema=_ARROW_SCHEMA,
    )


def ensure_topic_folder(root: Path, topic: str) -> Path:
    """Make the folder of ``topic`` if it isn't there, so that a producer can begin.

    Raises:
        InvalidTopology: the topic's name is none.
        EventLogError: there is a file where a folder is to be.
    """
    folder = root / check_topic(topic)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        message = f"no event log at {folder}: there is a file in the place of a folder"
        raise EventLogError(message) from error
    return folder
