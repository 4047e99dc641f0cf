"""Segments, the immutable files that versions of engine state are made of.

A version of a task's state is nothing but a list of file names. Files are never changed in
place: until a batch is decided, the version before it must stay readable, as the batch may run
again (or twice at once), and two versions share the files that they have in common. So any
version can be read as long as its files are there.

States that are rows of keys are in ``keyed_state``, those of joins of streams in
``open_records``. Both put segments together so that what a batch writes is the same on average
at batch 1,000,000 and beside 10,000,000 rows: old rows are written again only when as many
others have come or gone.

The format number is in the schema metadata of each file.
"""

import shlex
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from oriel.pipeline.errors import CheckpointError
from oriel.pipeline.state.hashes import key_hashes
from oriel.pipeline.windows import Flags
from oriel.storage import ObjectStoreFailed, current_files

FORMAT = b"3"
_FORMAT_KEY = b"oriel.state_format"

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
            f"state file {folder / name} has other columns than the topology needs ({error}): "
            "run the topology and the version that wrote it, or start anew with an empty data "
            "folder"
        )
        raise CheckpointError(message) from error


def open_segment(folder: Path, name: str) -> pa.Table:
    """Map a segment into memory: only what is looked at is read.

    Raises:
        CheckpointError: the file is missing, or of another format.
    """
    try:
        with current_files().map(folder / name) as source:
            table = pa.ipc.open_file(source).read_all()
    except ObjectStoreFailed:
        raise
    except (OSError, pa.ArrowInvalid) as error:
        message = (
            f"state file {folder / name} can't be read ({error}); restore the checkpoint from a "
            f"backup, or let {_rebuild(folder)} compute the store anew from its topics"
        )
        raise CheckpointError(message) from error
    found = (table.schema.metadata or {}).get(_FORMAT_KEY, b"none").decode(errors="replace")
    if found != FORMAT.decode():
        message = (
            f"state file {folder / name} has format {found}, this version reads {FORMAT.decode()}; "
            f"let {_rebuild(folder)} compute the store again from its topics, or run the version "
            "that wrote it"
        )
        raise CheckpointError(message)
    return table


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
    path = folder / f"{name}-{uuid.uuid4()}.arrow"
    schema = records.schema.with_metadata({**(metadata or {}), _FORMAT_KEY: FORMAT})

    def fill(sink: pa.NativeFile) -> None:
        with pa.ipc.new_file(sink, schema) as writer:
            writer.write_table(records.replace_schema_metadata(schema.metadata))

    current_files().write(path, fill, sync=sync)
    return path.name


def write_regrouped(source: Path, target: Path, name: str, key_groups: int, *, sync: bool) -> None:
    """Write segment ``name`` of folder ``source`` to ``target``, its keys in ``key_groups``.

    Nothing else of it changes, so that segments that know each other by name go on doing so.

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

    def fill(sink: pa.NativeFile) -> None:
        with pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)

    current_files().write(target / name, fill, sync=sync)


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
