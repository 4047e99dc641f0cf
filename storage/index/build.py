"""Building an index from nothing: all rows of a table version, sorted, in one walk through it.

    files -> encoded rows -> runs, each sorted -> merged, each window once -> appended to LMDB

What is put in the order of its keys fills page after page, so it costs less than a third of what it
costs in any other order. A run is what fits into memory; a table that is larger is merged from runs
on disk, block by block, so memory does not grow with it. Which row of a window counts is the rule
of ``oriel.storage.index.revisions``, within a run and across them.
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
from oriel.storage.index.rows import counting_rows, file_extent, file_tables
from oriel.storage.index.state import Extent, IndexState, RevisionBounds
from oriel.storage.index.writer import IndexWriter
from oriel.storage.shards import ALL_KEYS, Shard

#: Bytes of encoded rows that are sorted at once; about five times as many are taken meanwhile.
_RUN_BYTES = 192 << 20
#: Rows of a block that a merge takes from each run, and that go into one write transaction.
_BLOCK_ROWS = 1 << 16
_RUNS = "runs"


def build_generation(
    table: Path,
    snapshot: TableSnapshot,
    generation: Path,
    moved: Callable[[], None] = lambda: None,
    shard: Shard = ALL_KEYS,
) -> IndexState:
    """Fill an empty generation with all windows of a table version and shard, synced to disk.

    ``moved`` is called with each piece of work that is done.

    Raises:
        MissingDataFile: a file of the version is not there; a newer version may not need it.
        CorruptLog: a file of it can't be read.
        StoreNotReady: it could not be written (disk full).
    """
    files = {name: table / name for name in snapshot.files}
    # Before anything is read: what is gone is told at no cost.
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
    # One sync at the end: nobody reads the generation before it is published.
    writer = IndexWriter(generation, sync=False)
    runs = _Runs(generation / _RUNS)
    highest = snapshot.batch
    try:
        for rows in _encoded(files, snapshot, state, shard):
            highest = max(highest, int(rows["revision"].to_numpy().max()))
            runs.add(rows)
            moved()
        for rows in runs.merged():
            writer.append(rows, state)
            moved()
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
    """Encoded rows in any order, given back in the order of their record keys, each once."""

    def __init__(self, folder: Path) -> None:
        """Put runs that memory is not to hold into this folder, which is made when it is needed."""
        self._folder = folder
        self._files: list[Path] = []
        self._gathered: list[Any] = []
        self._gathered_bytes = 0

    def add(self, rows: Any) -> None:
        """Take in rows."""
        if self._gathered_bytes + rows.nbytes > _RUN_BYTES and self._gathered:
            self._spill()
        self._gathered.append(rows)
        self._gathered_bytes += rows.nbytes

    def merged(self) -> Iterator[Any]:
        """The row of each window that counts, in order, in blocks."""
        if not self._files:
            if self._gathered:
                rows = counting_rows(pa.concat_tables(self._gathered))
                self._gathered = []
                for begin in range(0, len(rows), _BLOCK_ROWS):
                    yield rows.slice(begin, _BLOCK_ROWS)
            return
        self._spill()
        yield from _merge([_blocks(path) for path in self._files])

    def remove(self) -> None:
        """Remove what was written."""
        shutil.rmtree(self._folder, ignore_errors=True)

    def _spill(self) -> None:
        self._folder.mkdir(exist_ok=True)
        path = self._folder / str(len(self._files))
        rows = counting_rows(pa.concat_tables(self._gathered))
        with pa.ipc.new_file(path, rows.schema) as file:
            file.write_table(rows, max_chunksize=_BLOCK_ROWS)
        self._files.append(path)
        self._gathered, self._gathered_bytes = [], 0


def _blocks(path: Path) -> Iterator[Any]:
    """The blocks of a run, mapped and not read."""
    with pa.memory_map(str(path)) as source:
        file = pa.ipc.open_file(source)
        for number in range(file.num_record_batches):
            yield pa.Table.from_batches([file.get_batch(number)])


def _merge(runs: list[Iterator[Any]]) -> Iterator[Any]:
    """Merge sorted runs block by block.

    Up to the least of the last keys of all blocks at hand, no run has anything that is not there.
    """
    blocks = {number: next(run) for number, run in enumerate(runs)}
    while blocks:
        bound = min(block["record"][-1].as_py() for block in blocks.values())
        taken = []
        for number, block in list(blocks.items()):
            count = bisect_right(block["record"], bound, key=lambda record: record.as_py())
            taken.append(block.slice(0, count))
            rest = block.slice(count) if count < len(block) else next(runs[number], None)
            if rest is None:
                del blocks[number]
            else:
                blocks[number] = rest
        yield counting_rows(pa.concat_tables(taken))
