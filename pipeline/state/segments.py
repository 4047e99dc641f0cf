"""Segments, the immutable files of the versions of engine state.

A version of a task's state is a list of file names. Files are never changed in place. Until a batch
is prepared, the previous version must stay readable, because the batch can run again, or twice at
the same time. Two versions share files. So a version can be read as long as its files exist.

States of rows by key are in ``keyed_state``, and states of stream joins and buffers in
``open_records``. Both combine segments so that the average write of a batch stays the same at batch
1,000,000 and for a state of 10,000,000 rows. Old rows are only written again after as many other
rows have been added or removed.

The format number of a file is in its schema metadata, and the digest of its content is in its name.
So a version, or a segment of the same state, that names a file also has its digest.
"""

import re
import shlex
import threading
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from oriel.pipeline.errors import CheckpointError
from oriel.pipeline.state.hashes import key_hashes
from oriel.pipeline.windows import LINEAGE, Flags
from oriel.storage import ObjectStoreFailed, current_files, is_object
from oriel.storage.files import FileIdentity, digest

FORMAT = b"3"
_FORMAT_KEY = b"oriel.state_format"
#: The state and the batch for which a file was written, as text.
_OWNER_KEY = b"oriel.owner"
#: The end of a file name: the digest of the content. Files of earlier versions have no digest.
_DIGEST_END = re.compile(r"-(?P<algorithm>\w+)_(?P<hexadecimal>[0-9a-f]+)\.arrow$")
#: The number of files for which this process remembers that it compared the digest.
_COMPARED_MAX = 1 << 14
#: The number of segments that this process keeps. The greatest size of a mapping among them: it
#: keeps the space of a deleted file in use, so each batch maps large files itself. The greatest
#: size of a segment that was just written: it stays in memory.
_KEPT_MAX, _MAPPED_BYTES_MAX, _WRITTEN_BYTES_MAX = 256, 1 << 22, 1 << 18

_KEY_GROUP = "key_group"

#: If a version has more segments than this (in a keyed state, more runs), the batch merges some,
#: because every batch searches each segment.
MAX_SEGMENTS = 12

#: (Index of a task, number of tasks): the task has each key group g with g % tasks == task.
TaskShare = tuple[int, int]


@dataclass(frozen=True)
class Version:
    """The files of a version, the oldest first, and the number of visible rows."""

    names: list[str]
    rows: int


def own_files(segments: Mapping[int, Sequence[str]], share: TaskShare) -> list[str] | None:
    """Return the files of a task's state, from the files of each task of the last batch.

    None after a change of the number of tasks: each task reads all files and selects its key
    groups.
    """
    task, tasks = share
    # Every task reports its files, even if it has no files. So the number of entries is the number
    # of tasks.
    return list(segments.get(task, ())) if len(segments) in {0, tasks} else None


def is_in_share(rows: pa.Table, share: TaskShare) -> Flags:
    """Return which rows are in the key groups of a task."""
    task, tasks = share
    of_task: Flags = np.asarray(rows[_KEY_GROUP]) % tasks == task
    return of_task


def by_share(rows: pa.Table, shares: Sequence[TaskShare]) -> list[pa.Table]:
    """Return the rows of each task, from the rows of all tasks."""
    return [rows.filter(pa.array(is_in_share(rows, share))) for share in shares]


def read_segment(directory: Path, name: str, schema: pa.Schema) -> pa.Table:
    """Map a segment of rows of ``schema`` into memory.

    Raises:
        CheckpointError: The file is missing, or has another format or schema.
    """
    rows = in_schema(open_segment(directory, name), schema, directory / name)
    return rows.replace_schema_metadata(None)


def in_schema(rows: pa.Table, schema: pa.Schema, path: Path) -> pa.Table:
    """Return the rows of a state file in the columns of ``schema``.

    Earlier versions stored ``suborder`` instead of the lineage. Rows without a lineage are
    converted, which copies nothing.

    Raises:
        CheckpointError: The file at ``path`` has other columns.
    """
    if rows.schema.equals(schema):
        return rows
    fields = [field.with_type(_without_suborder(field.type)) for field in rows.schema]
    converted = pa.schema(fields, rows.schema.metadata)
    if converted.equals(schema):
        return rows.cast(converted)
    if "suborder" in str(rows.schema) and LINEAGE.name in str(schema):
        message = (
            f"state file {path} was written by an earlier version, which identified the rows of "
            "one record by a number. Compute the store again from its topics with "
            f"{_rebuild(path.parent)}, or run the version that wrote it"
        )
        raise CheckpointError(message)
    message = (
        f"state file {path} has other columns than the topology needs. Run the topology and the "
        "version that wrote it, or start again with an empty data directory"
    )
    raise CheckpointError(message)


def _without_suborder(column_type: pa.DataType) -> pa.DataType:
    """Return the type of values with their record ids, without ``suborder``."""
    if pa.types.is_list(column_type):
        item = column_type.value_field
        return pa.list_(item.with_type(_without_suborder(item.type)))
    if pa.types.is_struct(column_type) and column_type.get_field_index("suborder") >= 0:
        return pa.struct([field for field in column_type if field.name != "suborder"])
    return column_type


@dataclass
class MappedSegment:
    """A segment in memory. ``parsed`` caches the result of its reader."""

    table: pa.Table
    parsed: Any = None


class _KeptSegments:
    """Small segments that the batches of this process share, the most recently used last.

    Each batch opens all segments of a state. That was an eighth of the time of a small batch. The
    segment that the last batch wrote is kept as it was in memory. It is compared with its digest
    when another process opens it.
    """

    def __init__(self) -> None:
        self._segments: dict[tuple[Path, FileIdentity], MappedSegment] = {}
        self._lock = threading.Lock()

    def get(self, path: Path, file_identity: FileIdentity) -> MappedSegment | None:
        """Return the segment of a file, unless the file has changed or its segment is not kept."""
        with self._lock:
            found = self._segments.pop((path, file_identity), None)
            if found is not None:
                self._segments[path, file_identity] = found
            return found

    def keep(self, path: Path, file_identity: FileIdentity, segment: MappedSegment) -> None:
        """Keep a segment, instead of the segment that was not used for the longest time."""
        with self._lock:
            self._segments[path, file_identity] = segment
            if len(self._segments) > _KEPT_MAX:
                del self._segments[next(iter(self._segments))]


_kept = _KeptSegments()


def open_segment(directory: Path, name: str) -> pa.Table:
    """Map a segment into memory, and return its rows.

    Raises:
        CheckpointError: See ``map_segment``.
    """
    return map_segment(directory, name).table


def map_segment(directory: Path, name: str) -> MappedSegment:
    """Map a segment into memory. Batches share a small segment (``_KeptSegments``).

    The first time, the whole file is read to compare its digest. Later, a batch only reads the rows
    that it needs.

    Raises:
        CheckpointError: The file is missing, has another format, or does not have the digest in its
            name.
    """
    path = directory / name
    try:
        # An object is never changed, and to read its status would be a request.
        file_identity = None if is_object(path) else current_files().identity(path)
        if file_identity is not None and (kept := _kept.get(path, file_identity)) is not None:
            return kept
        _compare_digest(path, file_identity)
        mapped = _mapped(path)
    except ObjectStoreFailed:
        raise
    except (OSError, pa.ArrowInvalid) as error:
        message = (
            f"state file {directory / name} cannot be read ({error}). Restore the checkpoint from "
            f"a backup, or compute the store again from its topics with {_rebuild(directory)}"
        )
        raise CheckpointError(message) from error
    found = (mapped.table.schema.metadata or {}).get(_FORMAT_KEY, b"none").decode(errors="replace")
    if found != FORMAT.decode():
        message = (
            f"state file {directory / name} has format {found}, but this version reads format "
            f"{FORMAT.decode()}. Compute the store again from its topics with "
            f"{_rebuild(directory)}, or run the version that wrote it"
        )
        raise CheckpointError(message)
    if file_identity is not None and file_identity[2] <= _MAPPED_BYTES_MAX:
        _kept.keep(path, file_identity, mapped)
    return mapped


def _mapped(path: Path) -> MappedSegment:
    with current_files().map(path) as source:
        return MappedSegment(pa.ipc.open_file(source).read_all())


@lru_cache(maxsize=_COMPARED_MAX)
def _compare_digest(path: Path, _file_identity: FileIdentity | None) -> None:
    """Compare a file with the digest in its name, once per status (``FileIdentity``) of the file.

    Raises:
        CheckpointError: The digests differ.
    """
    named = named_digest(path.name)
    if named is None:
        return
    with current_files().map(path) as source:
        content = source.read_buffer()
        if digest(content) == named:
            return
        # For the message: the owner in the metadata of the file.
        try:
            metadata = pa.ipc.open_file(content).schema.metadata or {}
        except (OSError, pa.ArrowException):
            metadata = {}
        owner = metadata.get(_OWNER_KEY, b"").decode(errors="replace")
        owner = f" (the file says that it is {owner})" if owner else ""
    message = (
        f"state file {path} is not what the pipeline wrote, because its digest differs{owner}. "
        "Restore the checkpoint from a backup, or compute the store again from its topics with "
        f"{_rebuild(path.parent)}"
    )
    raise CheckpointError(message)


def named_digest(name: str) -> str | None:
    """Return the digest in the name of a segment. None for files of earlier versions."""
    named = _DIGEST_END.search(name)
    return None if named is None else f"{named['algorithm']}:{named['hexadecimal']}"


def segment_id(name: str) -> str:
    """Return the name of a segment without its digest."""
    return _DIGEST_END.sub("", name).removesuffix(".arrow")


def _rebuild(directory: Path) -> str:
    """Return the command that rebuilds the state in ``directory`` (``store@generation``)."""
    return f"`oriel rebuild {shlex.quote(directory.name.partition('@')[0])}`"


def write_segment(
    directory: Path,
    records: pa.Table,
    name: str,
    *,
    sync: bool,
    metadata: Mapping[bytes, bytes] | None = None,
) -> str:
    """Write ``records`` as one segment with ``metadata`` in its schema. Return its file name.

    The name is unique, so a batch that runs again does not replace the files of its first run. With
    ``sync``, the content is synced. The directory is synced once for all files, before anything
    refers to them.
    """
    owner = f"the segment {name} of the state {directory.name}".encode()
    own = {_FORMAT_KEY: FORMAT, _OWNER_KEY: owner}
    table = records.replace_schema_metadata({**(metadata or {}), **own})
    written = _write(directory, table, f"{name}-{uuid.uuid4()}", sync=sync)
    path = directory / written
    # The size of a slice counts the whole buffers, which the slice keeps in memory.
    if not is_object(path) and table.get_total_buffer_size() <= _WRITTEN_BYTES_MAX:
        file_identity = current_files().identity(path)
        if file_identity is not None:
            _kept.keep(path, file_identity, MappedSegment(table))
    return written


def _write(directory: Path, table: pa.Table, name: str, *, sync: bool) -> str:
    """Write a file whose name ends with the digest of its content. Return the name."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    content = sink.getvalue()
    path = directory / f"{name}-{digest(content).replace(':', '_')}.arrow"
    current_files().write(path, lambda file: file.write(content), sync=sync)
    return path.name


def write_regrouped(source: Path, target: Path, name: str, key_groups: int, *, sync: bool) -> str:
    """Write a segment into another directory, with its keys in ``key_groups`` key groups.

    Nothing else changes except the digest in its name. So references between segments, which use
    ids, stay valid.

    Args:
        source: The directory of the segment.
        target: The directory of the new segment.
        name: The name of the segment.
        key_groups: The number of key groups.
        sync: True if the file is synced.

    Returns:
        The name of the new segment.

    Raises:
        CheckpointError: The file is missing, or has another format.
    """
    table = open_segment(source, name)
    if _KEY_GROUP in table.column_names:
        keys = table["key"]
        # A tombstone has neither a key nor a key group.
        groups = pa.array(key_hashes(keys.fill_null("")) % key_groups, pa.int32())
        groups = pc.if_else(keys.is_valid(), groups, pa.scalar(None, pa.int32()))
        number = table.schema.get_field_index(_KEY_GROUP)
        field = table.schema.field(number)
        table = table.set_column(number, field, groups).combine_chunks()

    return _write(target, table, segment_id(name), sync=sync)


def unmerged_segments(sizes: Sequence[int], count: int) -> int:
    """Return how many of the old segments stay. The others become one segment.

    Args:
        sizes: The number of rows in each segment, the oldest first. The last one is the segment
            that the batch adds.
        count: The number of visible rows in the next version.
    """
    if sum(sizes) > 2 * count:
        # ``count`` rows are written, and more than ``count`` rows are dropped. A row is dropped
        # once, so all these writes together are less than all rows that batches have added.
        return 0
    old = len(sizes) - 1
    if len(sizes) <= MAX_SEGMENTS:
        return old
    # The oldest segment that is not larger than all newer ones together is merged with all newer
    # ones. This writes at most twice as many rows as the newer segments have. Each older segment is
    # larger than all newer ones together, and stays.
    for segment in range(old):
        if sizes[segment] <= sum(sizes[segment + 1 :]):
            return segment
    # Each segment is larger than all newer ones together. So the newest one has less than one row
    # in 2 ** (MAX_SEGMENTS - 1), and only this one is written again.
    return old - 1
