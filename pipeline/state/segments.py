"""Segments, the immutable files that versions of engine state are made of.

A version of a task's state is nothing but a list of file names. Files are never changed in
place: until a batch is decided, the version before it must stay readable, as the batch may run
again (or twice at once), and two versions share the files that they have in common. So any
version can be read as long as its files are there.

States that are rows of keys are in ``keyed_state``, those of joins of streams in
``open_records``. Both put segments together so that what a batch writes is the same on average
at batch 1,000,000 and beside 10,000,000 rows: old rows are written again only when as many
others have come or gone.

The format number is in the schema metadata of each file, and its digest in its name. So what names
a file, a version or a segment of the same state, also has the digest of its content.
"""

import re
import shlex
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
from oriel.pipeline.windows import Flags
from oriel.storage import ObjectStoreFailed, current_files, is_object
from oriel.storage.files import Stamp, digest

FORMAT = b"3"
_FORMAT_KEY = b"oriel.state_format"
#: Which state and batch a file was written for, in words.
_OWNER_KEY = b"oriel.owner"
#: The end of a file's name: the digest of its content. Files of earlier versions have none.
_DIGEST_END = re.compile(r"-(?P<algorithm>\w+)_(?P<hexadecimal>[0-9a-f]+)\.arrow$")
#: Files whose digests this process remembers to have compared.
_COMPARED_MAX = 1 << 14
#: Mappings that this process keeps, each up to this size. A mapping holds the space of a deleted
#: file, so large files are mapped by each batch.
_KEPT_MAX, _KEPT_BYTES_MAX = 256, 1 << 22

_KEY_GROUP = "key_group"

#: A version has no more segments than this: each one is searched by every batch.
MAX_SEGMENTS = 12

#: (Number of a task, number of tasks): the task has each key group g with g % tasks == task.
TaskShare = tuple[int, int]


@dataclass(frozen=True)
class Version:
    """The files of a version, the oldest first, and how many rows count in them."""

    names: list[str]
    rows: int


def own_files(segments: Mapping[int, Sequence[str]], share: TaskShare) -> list[str] | None:
    """The files of a task's state; ``segments`` has those of each task of the last batch.

    None after a change of the number of tasks: each reads all files and takes its key groups.
    """
    task, tasks = share
    # Every task reports its files, also when it has none: so many entries, so many tasks.
    return list(segments.get(task, ())) if len(segments) in {0, tasks} else None


def in_share(rows: pa.Table, share: TaskShare) -> Flags:
    """Which rows are of a task's key groups."""
    task, tasks = share
    of_task: Flags = np.asarray(rows[_KEY_GROUP]) % tasks == task
    return of_task


def by_share(rows: pa.Table, shares: Sequence[TaskShare]) -> list[pa.Table]:
    """Return the rows of each task, from the rows of all tasks."""
    return [rows.filter(pa.array(in_share(rows, share))) for share in shares]


def read_segment(folder: Path, name: str, schema: pa.Schema) -> pa.Table:
    """Map a segment of rows of ``schema`` into memory.

    Raises:
        CheckpointError: the file is missing, or of another format or schema.
    """
    table = open_segment(folder, name).replace_schema_metadata(None)
    try:
        return table.cast(schema)
    except (ValueError, pa.ArrowInvalid) as error:
        message = (
            f"state file {folder / name} has other columns than the topology needs ({error}). "
            "Run the topology and the version that wrote it, or start again with an empty data "
            "directory"
        )
        raise CheckpointError(message) from error


@dataclass
class MappedSegment:
    """A segment that is mapped into memory. ``parsed`` is what its reader keeps with it."""

    table: pa.Table
    parsed: Any = None


def open_segment(folder: Path, name: str) -> pa.Table:
    """Map a segment into memory, and return its rows. Raises what ``map_segment`` raises."""
    return map_segment(folder, name).table


def map_segment(folder: Path, name: str) -> MappedSegment:
    """Map a segment into memory. Batches share the mapping of a small segment.

    The first time, the whole file is read to compare its digest. Later, a batch only reads the
    rows that it needs.

    Raises:
        CheckpointError: the file is missing, of another format, or not what was written.
    """
    path = folder / name
    try:
        # An object is never changed, and each look at its stamp is a request.
        stamp = None if is_object(path) else current_files().stamp(path)
        _compare_digest(path, stamp)
        is_small = stamp is not None and stamp[2] <= _KEPT_BYTES_MAX
        mapped = _kept(path, stamp) if is_small else _mapped(path)
    except ObjectStoreFailed:
        raise
    except (OSError, pa.ArrowInvalid) as error:
        message = (
            f"state file {folder / name} cannot be read ({error}). Restore the checkpoint from "
            f"a backup, or compute the store again from its topics with {_rebuild(folder)}"
        )
        raise CheckpointError(message) from error
    found = (mapped.table.schema.metadata or {}).get(_FORMAT_KEY, b"none").decode(errors="replace")
    if found != FORMAT.decode():
        message = (
            f"state file {folder / name} has format {found}, but this version reads format "
            f"{FORMAT.decode()}. Compute the store again from its topics with {_rebuild(folder)}, "
            "or run the version that wrote it"
        )
        raise CheckpointError(message)
    return mapped


def _mapped(path: Path) -> MappedSegment:
    with current_files().map(path) as source:
        return MappedSegment(pa.ipc.open_file(source).read_all())


@lru_cache(maxsize=_KEPT_MAX)
def _kept(path: Path, _stamp: Stamp | None) -> MappedSegment:
    """Return a mapping that the next batches share while the file is the same.

    Each batch opens all segments of a state. That was an eighth of the time of a small batch.
    """
    return _mapped(path)


@lru_cache(maxsize=_COMPARED_MAX)
def _compare_digest(path: Path, _stamp: Stamp | None) -> None:
    """Compare a file with the digest in its name; once for each stamp.

    Raises:
        CheckpointError: they differ.
    """
    named = named_digest(path.name)
    if named is None:
        return
    with current_files().map(path) as source:
        content = source.read_buffer()
        if digest(content) == named:
            return
        owner = _owner(content)
    message = (
        f"state file {path} is not what the pipeline wrote, because its digest differs{owner}. "
        "Restore the checkpoint from a backup, or compute the store again from its topics with "
        f"{_rebuild(path.parent)}"
    )
    raise CheckpointError(message)


def named_digest(name: str) -> str | None:
    """Return the digest in the name of a segment; files of earlier versions have none."""
    named = _DIGEST_END.search(name)
    return None if named is None else f"{named['algorithm']}:{named['hexadecimal']}"


def _owner(content: pa.Buffer) -> str:
    """Whose file this is, as far as the file says it."""
    try:
        metadata = pa.ipc.open_file(content).schema.metadata or {}
    except (OSError, pa.ArrowException):
        return ""
    owner = metadata.get(_OWNER_KEY, b"").decode(errors="replace")
    return f" (the file says that it is {owner})" if owner else ""


def segment_id(name: str) -> str:
    """Return the name of a segment without its digest."""
    return _DIGEST_END.sub("", name).removesuffix(".arrow")


def _rebuild(folder: Path) -> str:
    """The command that replaces the state in ``folder``, which has a store and a generation."""
    return f"`oriel rebuild {shlex.quote(folder.name.partition('@')[0])}`"


def write_segment(
    folder: Path,
    records: pa.Table,
    name: str,
    *,
    sync: bool,
    metadata: Mapping[bytes, bytes] | None = None,
) -> str:
    """Write ``records`` as one segment with ``metadata`` in its schema; return its file name.

    The name is unlike any other: a batch that runs again writes files of its own beside those
    of its first run. With ``sync`` the content is on disk; the folder is synced once for all
    files, by who is about to refer to them.
    """
    owner = f"the segment {name} of the state {folder.name}".encode()
    own = {_FORMAT_KEY: FORMAT, _OWNER_KEY: owner}
    table = records.replace_schema_metadata({**(metadata or {}), **own})
    return _write(folder, table, f"{name}-{uuid.uuid4()}", sync=sync)


def _write(folder: Path, table: pa.Table, name: str, *, sync: bool) -> str:
    """Write a file whose name ends with the digest of its content; return the name."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    content = sink.getvalue()
    path = folder / f"{name}-{digest(content).replace(':', '_')}.arrow"
    current_files().write(path, lambda file: file.write(content), sync=sync)
    return path.name


def write_regrouped(source: Path, target: Path, name: str, key_groups: int, *, sync: bool) -> str:
    """Write segment ``name`` of folder ``source`` to ``target``, its keys in ``key_groups``.

    Nothing else of it changes, and only the digest in its name, which is returned. So segments
    that know each other by their ids still do.

    Raises:
        CheckpointError: the file is missing, or of another format.
    """
    table = open_segment(source, name)
    if _KEY_GROUP in table.column_names:
        keys = table["key"]
        # A tombstone has neither key nor group.
        groups = pa.array(key_hashes(keys.fill_null("")) % key_groups, pa.int32())
        groups = pc.if_else(keys.is_valid(), groups, pa.scalar(None, pa.int32()))
        number = table.schema.get_field_index(_KEY_GROUP)
        field = table.schema.field(number)
        table = table.set_column(number, field, groups).combine_chunks()

    return _write(target, table, segment_id(name), sync=sync)


def segments_kept(sizes: Sequence[int], count: int) -> int:
    """How many of the old segments, the oldest first, stay as they are; the others become one.

    ``sizes`` are the rows of each segment, the last one of what the batch adds; ``count`` is
    how many of all these rows count in the new version.
    """
    if sum(sizes) > 2 * count:
        # ``count`` rows are written, and more than ``count`` are dropped for good. A row is
        # dropped once, so all such writing together is less than what batches ever added.
        return 0
    old = len(sizes) - 1
    if len(sizes) <= MAX_SEGMENTS:
        return old
    # The oldest segment that does not outweigh all newer ones together becomes one with them: at
    # most twice as many rows are written as came after that segment. Those before it, the large
    # ones, each outweigh all that is newer and stay.
    for segment in range(old):
        if sizes[segment] <= sum(sizes[segment + 1 :]):
            return segment
    # Each is larger than all newer ones together: the newest has less than one row in
    # 2 ** (MAX_SEGMENTS - 1), and it alone is written again.
    return old - 1
