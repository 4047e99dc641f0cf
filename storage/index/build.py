"""Build an index from all rows of a table version, sorted, with one read of the table.

    files -> encoded rows -> sorted runs -> merged, each window once -> appended to LMDB

Records are appended to LMDB in key order. This costs less than a third of inserts in any other
order. A run is sorted in memory. If a table is larger than one run, its runs are written to disk
and merged block by block, so memory does not grow with the table. The rule of
``oriel.storage.index.revisions`` decides which row of a window counts, within a run and across
runs.
"""

import shutil
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from oriel.storage.delta import TableSnapshot, missing_file
from oriel.storage.files import current_files
from oriel.storage.index.rows import file_extent, file_tables, newest_rows
from oriel.storage.index.state import Extent, IndexState, RevisionBounds
from oriel.storage.index.writer import IndexWriter
from oriel.storage.shards import ALL_KEYS, Shard

#: Maximum bytes of the encoded rows of a run. Sorting needs about five times as much memory.
_RUN_BYTES = 192 << 20
#: Rows of a block. A merge reads one block of each run. Each write transaction has one block.
_BLOCK_ROWS = 1 << 16
_RUNS = "runs"


def build_generation(
    table: Path,
    snapshot: TableSnapshot,
    generation: Path,
    on_progress: Callable[[], None] = lambda: None,
    shard: Shard = ALL_KEYS,
) -> IndexState:
    """Write all windows of a table version and shard to an empty generation, synced to disk.

    Args:
        table: The directory of the table.
        snapshot: The version of the table.
        generation: The directory of the generation.
        on_progress: Called after each piece of work, to report progress.
        shard: The keys to index.

    Returns:
        The state of the index.

    Raises:
        MissingDataFile: a file of the version does not exist. A newer version may not need it.
        CorruptLog: a file of the version can't be read.
        StoreNotReady: the generation could not be written (disk full).
    """
    files = {name: table / name for name in snapshot.files}
    # Fail before any file is read if one is missing.
    for path in files.values():
        if not current_files().exists(path):
            raise missing_file(path)
    extents = [
        file_extent(path, snapshot.definition, snapshot.kept.get(name), snapshot.digests.get(name))
        for name, path in files.items()
    ]
    state = IndexState(
        table_id=snapshot.table_id,
        version=snapshot.version,
        digest=snapshot.digest,
        definition=snapshot.definition,
        record=snapshot.record,
        extent=Extent().joined(extents),
        revisions=RevisionBounds(snapshot.batch, snapshot.batch),
        store=generation.parent.name,
    )
    # One sync at the end is enough, because no reader opens an unpublished generation.
    has_partials = bool(snapshot.definition.partials)
    writer = IndexWriter(generation, sync=False, has_partials=has_partials)
    runs = _Runs(generation / _RUNS)
    highest = snapshot.batch
    try:
        for rows in _encoded(files, snapshot, state, shard):
            highest = max(highest, int(rows["revision"].to_numpy().max()))
            runs.add(rows)
            on_progress()
        for rows in runs.merged():
            writer.append(rows, state)
            on_progress()
        state = replace(state, revisions=RevisionBounds(snapshot.batch, highest))
        writer.apply([], state)
        writer.sync()
    finally:
        writer.close()
        runs.remove()
    return state


def _encoded(
    files: Mapping[str, Path], snapshot: TableSnapshot, state: IndexState, shard: Shard
) -> Iterator[Any]:
    for name, path in files.items():
        kept = snapshot.kept.get(name)
        digest = snapshot.digests.get(name)
        yield from file_tables(path, state.definition, state.earliest_ms, kept, shard, digest)


class _Runs:
    """Encoded rows, added in any order and returned in key order, each key once."""

    def __init__(self, directory: Path) -> None:
        """Use this directory for runs that do not fit in memory. It is created when needed."""
        self._directory = directory
        self._files: list[Path] = []
        self._buffered: list[Any] = []
        self._buffered_bytes = 0

    def add(self, rows: Any) -> None:
        """Add encoded rows."""
        if self._buffered_bytes + rows.nbytes > _RUN_BYTES and self._buffered:
            self._spill()
        self._buffered.append(rows)
        self._buffered_bytes += rows.nbytes

    def merged(self) -> Iterator[Any]:
        """Yield blocks with the row that counts for each window, in key order."""
        if not self._files:
            if self._buffered:
                rows = newest_rows(pa.concat_tables(self._buffered))
                self._buffered = []
                for begin in range(0, len(rows), _BLOCK_ROWS):
                    yield rows.slice(begin, _BLOCK_ROWS)
            return
        self._spill()
        yield from _merge([_blocks(path) for path in self._files])

    def remove(self) -> None:
        """Delete the runs on disk."""
        shutil.rmtree(self._directory, ignore_errors=True)

    def _spill(self) -> None:
        self._directory.mkdir(exist_ok=True)
        path = self._directory / str(len(self._files))
        rows = newest_rows(pa.concat_tables(self._buffered))
        with pa.ipc.new_file(path, rows.schema) as file:
            file.write_table(rows, max_chunksize=_BLOCK_ROWS)
        self._files.append(path)
        self._buffered, self._buffered_bytes = [], 0


def _blocks(path: Path) -> Iterator[Any]:
    """Yield the blocks of a run from a memory map."""
    with pa.memory_map(str(path)) as source:
        file = pa.ipc.open_file(source)
        for number in range(file.num_record_batches):
            yield pa.Table.from_batches([file.get_batch(number)])


def _merge(runs: list[Iterator[Any]]) -> Iterator[Any]:
    """Merge sorted runs block by block.

    Each run has one current block. All rows up to the least of the last keys of the current blocks
    are in these blocks, so they can be merged.
    """
    blocks = {number: next(run) for number, run in enumerate(runs)}
    while blocks:
        bound = min(block["record"][-1].as_py() for block in blocks.values())
        mergeable = []
        for number, block in list(blocks.items()):
            count = bisect_right(block["record"], bound, key=lambda record: record.as_py())
            mergeable.append(block.slice(0, count))
            rest = block.slice(count) if count < len(block) else next(runs[number], None)
            if rest is None:
                del blocks[number]
            else:
                blocks[number] = rest
        yield newest_rows(pa.concat_tables(mergeable))
