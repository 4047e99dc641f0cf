"""Versioned engine state: Arrow files in the checkpoint, one list of segments per task.

The state is a set of records, so a batch's new state is the old segments plus one
segment with the batch's records; now and then all of it is written anew without the
records that no longer matter. A version is nothing but a list of file names, and files
are never changed: any version can be read as long as its files are there.

The format number is in the schema metadata of each file.
"""

import uuid
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from pipeline.errors import CheckpointError
from storage.files import sync_file, sync_folder

FORMAT = b"1"
_FORMAT_KEY = b"oriel.state_format"

#: A segment list longer than this is written anew as one file.
MAX_SEGMENTS = 12


def read_state(folder: Path, segments: Sequence[str], schema: pa.Schema) -> pa.Table:
    """Read the records of a state version.

    Raises:
        CheckpointError: a file is missing, or of another format or schema.
    """
    tables = [schema.empty_table()]
    for name in segments:
        try:
            with pa.memory_map(str(folder / name)) as source:
                table = pa.ipc.open_file(source).read_all()
        except (OSError, pa.ArrowInvalid) as error:
            message = f"state file {folder / name} can't be read ({error}); restore the checkpoint"
            raise CheckpointError(message) from error
        if (table.schema.metadata or {}).get(_FORMAT_KEY) != FORMAT:
            message = (
                f"state file {folder / name} has another format; use the version that wrote it"
            )
            raise CheckpointError(message)
        tables.append(table.replace_schema_metadata(None).cast(schema))
    return pa.concat_tables(tables)


def write_segment(folder: Path, records: pa.Table, name: str, *, sync: bool) -> str:
    """Write ``records`` as one segment; return its file name."""
    path = folder / f"{name}-{uuid.uuid4()}.arrow"
    schema = records.schema.with_metadata({_FORMAT_KEY: FORMAT})
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, schema) as writer:
        writer.write_table(records.replace_schema_metadata(schema.metadata))
    if sync:
        sync_file(path)
        sync_folder(folder)
    return path.name


def next_segments(
    folder: Path,
    old: Sequence[str],
    batch: pa.Table,
    state: pa.Table,
    name: str,
    *,
    sync: bool,
) -> list[str]:
    """Write what makes the next version: only the batch, or all of a state that has shrunk.

    Segments keep records that no longer matter; all is written anew once they are the
    majority, so a batch's writing is in proportion to the batch.
    """
    kept = sum(_rows(folder / segment) for segment in old) + len(batch)
    if len(old) < MAX_SEGMENTS and kept <= 2 * len(state):
        if not len(batch):
            return list(old)
        return [*old, write_segment(folder, batch, name, sync=sync)]
    if not len(state):
        return []
    return [write_segment(folder, state, name, sync=sync)]


def _rows(path: Path) -> int:
    """How many records a segment has, from its footer."""
    with pa.memory_map(str(path)) as source:
        return int(pa.ipc.open_file(source).count_rows())
