"""Versioned engine state: Arrow files in the checkpoint, one list of segments per task.

Where the state is a set of records, a batch's new state is the old segments plus one
segment with the batch's records; now and then all of it is written anew without the
records that no longer matter. States that are rows of keys are in ``keyed_state``, those of
joins of streams in ``open_records``. A version is nothing but a list of file names, and files
are never changed: any version can be read as long as its files are there.

The format number is in the schema metadata of each file.
"""

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from oriel.pipeline.errors import CheckpointError
from oriel.pipeline.windows import Flags
from oriel.storage import sync_file, sync_folder

FORMAT = b"2"
_FORMAT_KEY = b"oriel.state_format"

#: A version has no more segments than this.
MAX_SEGMENTS = 12


@dataclass(frozen=True)
class Version:
    """The files of a version, the oldest first, and how many rows count in them."""

    names: list[str]
    rows: int


def read_state(folder: Path, segments: Sequence[str], schema: pa.Schema) -> pa.Table:
    """Read the records of a state version.

    Raises:
        CheckpointError: a file is missing, or of another format or schema.
    """
    tables = [read_segment(folder, name, schema) for name in segments]
    return pa.concat_tables([schema.empty_table(), *tables])


def read_share(
    folder: Path, segments: Mapping[int, Sequence[str]], place: tuple[int, int], schema: pa.Schema
) -> tuple[list[str], pa.Table]:
    """Read the records of a task, and the files that are its own alone.

    Raises:
        CheckpointError: a file is missing, or of another format or schema.
    """
    own = own_files(segments, place)
    if own is not None:
        return own, read_state(folder, own, schema)
    rows = read_state(folder, [name for names in segments.values() for name in names], schema)
    return [], rows.filter(pa.array(in_share(rows, place)))


def own_files(segments: Mapping[int, Sequence[str]], place: tuple[int, int]) -> list[str] | None:
    """The files of a task's state, ``place`` is (its number, number of tasks).

    None after a change of the number of tasks: each reads all files and takes its key groups.
    """
    task, tasks = place
    return list(segments.get(task, ())) if len(segments) in {0, tasks} else None


def in_share(rows: pa.Table, place: tuple[int, int]) -> Flags:
    """Which rows are of a task's key groups."""
    task, tasks = place
    mine: Flags = np.asarray(rows["key_group"]) % tasks == task
    return mine


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
        with pa.memory_map(str(folder / name)) as source:
            table = pa.ipc.open_file(source).read_all()
    except (OSError, pa.ArrowInvalid) as error:
        message = f"state file {folder / name} can't be read ({error}); restore the checkpoint"
        raise CheckpointError(message) from error
    if (table.schema.metadata or {}).get(_FORMAT_KEY) != FORMAT:
        message = f"state file {folder / name} has another format; use the version that wrote it"
        raise CheckpointError(message)
    return table


def write_segment(
    folder: Path,
    records: pa.Table,
    name: str,
    *,
    sync: bool,
    beside: Mapping[bytes, bytes] | None = None,
) -> str:
    """Write ``records`` as one segment, ``beside`` in its metadata; return its file name."""
    path = folder / f"{name}-{uuid.uuid4()}.arrow"
    schema = records.schema.with_metadata({**(beside or {}), _FORMAT_KEY: FORMAT})
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, schema) as writer:
        writer.write_table(records.replace_schema_metadata(schema.metadata))
    if sync:
        sync_file(path)
        sync_folder(folder)
    return path.name


def segments_kept(sizes: Sequence[int], count: int) -> int:
    """How many of the old segments stay as they are; the last of ``sizes`` is what is added.

    Everything is written anew once most of it does not count (``count`` rows do); where there
    are too many segments, the newest become one, as far back as they outweigh what is before
    them. So a row is written again only after as many others came.
    """
    if sum(sizes) > 2 * count:
        return 0
    old = len(sizes) - 1
    if len(sizes) <= MAX_SEGMENTS:
        return old
    outweighed = (place for place in range(old) if sizes[place] <= sum(sizes[place + 1 :]))
    return next(outweighed, old - 1)


def next_segments(
    folder: Path,
    old: Sequence[str],
    added: pa.Table | None,
    state: pa.Table,
    name: str,
    *,
    sync: bool,
) -> list[str]:
    """Write what makes the next version: only what was added, or all of the state.

    ``added`` is for states that are sets of records: the new state is the old segments and
    these, and segments may keep records that no longer matter; all is written anew once
    they are the majority, so a batch's writing is in proportion to the batch. None: the
    state's rows themselves changed, so all of it is written.
    """
    if added is not None:
        kept = sum(_rows(folder / segment) for segment in old) + len(added)
        if len(old) < MAX_SEGMENTS and kept <= 2 * len(state):
            if not len(added):
                return list(old)
            return [*old, write_segment(folder, added, name, sync=sync)]
    if not len(state):
        return []
    return [write_segment(folder, state, name, sync=sync)]


def _rows(path: Path) -> int:
    """How many records a segment has, from its footer."""
    with pa.memory_map(str(path)) as source:
        return int(pa.ipc.open_file(source).count_rows())
