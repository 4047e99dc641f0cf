"""State that is rows of keys: a batch reads and writes the rows of the keys it touches.

A version is a list of immutable segments, the oldest first. A segment *covers* some hashes
of keys: it has all rows of the keys with that hash, or one tombstone (a row without a key)
where there are none. The newest segment that covers a hash counts, older ones don't. So
nothing is ever changed in place, and a removed row stays removed though an older segment
still has it.

Keys that share a hash are touched together: a batch that touches one reads the rows of both
and writes both back. So a collision costs time, never rows.

A segment is one Arrow file, mapped into memory and searched there: a batch reads the pages
that the binary search and its rows are on, however many rows there are. A segment's own
columns come first:

    0  hash of the row's key, ascending
    1  the last ms of a row's window, ascending     (an index of its own: row i of 1 and 2
    2  the hash of that row's key                    belongs together, not with row i of 0)
    3  and further: the row

A window closes in one batch, the first whose close time is behind its last ms. That batch
finds its key through column 1, also if no record of the key comes. It need not look below the
close time before it: what was due there was found by an earlier batch. Rows that do not count
any more may name a key once too often: then its rows are read and written as they are.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from oriel.pipeline.errors import CheckpointError
from oriel.pipeline.state.key_hashes import key_hashes
from oriel.pipeline.state.segments import (
    TaskShare,
    Version,
    in_share,
    open_segment,
    own_files,
    segments_kept,
    write_segment,
)
from oriel.pipeline.windows import FOREVER_MS, Ints, Ranges, heads

#: How many rows count in the version that ends with this segment.
_ROWS_KEY = b"oriel.rows"
_OWN_FIELDS = (
    # The dots keep them apart from columns of users.
    pa.field("oriel.hash", pa.int64()),
    pa.field("oriel.due_ms", pa.int64()),
    pa.field("oriel.due_hash", pa.int64()),
)


def never_due(rows: pa.Table) -> Ints:
    """``Layout.due_ms`` of rows without windows."""
    return np.full(len(rows), FOREVER_MS, dtype=np.int64)


@dataclass(frozen=True)
class Layout:
    """The columns of a state (``key`` among them), and when rows have to be looked at.

    ``due_ms`` gives the last ms of each row's window, ``FOREVER_MS`` where none closes.
    """

    schema: pa.Schema
    due_ms: Callable[[pa.Table], Ints] = never_due


@dataclass(frozen=True)
class Touched:
    """What a batch has to do with: hashes, ascending, and all rows that count of them."""

    hashes: Ints
    rows: pa.Table


@dataclass(frozen=True)
class _Segment:
    """A mapped segment; ``covered`` has the hash and the columns of the state.

    ``rows`` is how many rows count in the version that ends with it.
    """

    name: str
    rows: int
    covered: pa.Table
    hashes: Ints
    due_ms: Ints
    due_hash: Ints


class KeyedState:
    """One version of one task's state."""

    def __init__(self, folder: Path, names: Sequence[str], layout: Layout) -> None:
        """Open the version whose files are ``names``.

        Raises:
            CheckpointError: a file is missing, or of another format or schema.
        """
        self._folder = folder
        self._layout = layout
        self._segments = [self._opened(name) for name in names]
        #: Instead of segments, after a change of the number of tasks: this task's rows.
        self._rows_of_others: pa.Table | None = None

    @classmethod
    def of_task(
        cls,
        folder: Path,
        segments: Mapping[int, Sequence[str]],
        share: TaskShare,
        layout: Layout,
    ) -> "KeyedState":
        """Open the state of a task; ``segments`` has the files of each task of the last batch.

        After a change of the number of tasks the rows are in files of several tasks. They are
        read whole, all are touched by the first batch, and so all are in the task's next version.

        Raises:
            CheckpointError: a file is missing, or of another format or schema.
        """
        own = own_files(segments, share)
        if own is not None:
            return cls(folder, own, layout)
        # Each task's newest segment counts among its own only: tasks share hashes, not keys.
        rows = pa.concat_tables(
            [cls(folder, names, layout).all_rows() for names in segments.values()]
        )
        state = cls(folder, (), layout)
        state._rows_of_others = rows.filter(pa.array(in_share(rows, share)))
        return state

    @property
    def rows(self) -> int:
        """How many rows count."""
        if self._rows_of_others is not None:
            return len(self._rows_of_others)
        return self._segments[-1].rows if self._segments else 0

    def all_rows(self) -> pa.Table:
        """All rows that count."""
        if self._rows_of_others is not None:
            return self._rows_of_others
        tables = [self._covered_schema().empty_table()]
        tables += [segment.covered for segment in self._segments]
        return _state_rows(_newest(tables))

    def touched(self, keys: pa.ChunkedArray, closing_ms: tuple[int, int] = (0, 0)) -> Touched:
        """The rows of ``keys``, and of keys with a window that closes now.

        Those are the windows whose last ms is in [previous close time, close time), the two
        times ``closing_ms``.
        """
        hashes_of_batch = [key_hashes(keys.unique())]
        for segment in self._segments:
            low, high = np.searchsorted(segment.due_ms, closing_ms)
            hashes_of_batch.append(segment.due_hash[low:high])
        hashes = np.unique(np.concatenate(hashes_of_batch))
        if self._rows_of_others is not None:
            return Touched(hashes, self._rows_of_others)
        covered = [self._covered_schema().empty_table()]
        # From the newest segment to the oldest; a hash is looked for until one covers it, by
        # rows or by a tombstone.
        not_covered = hashes
        for segment in reversed(self._segments):
            low = np.searchsorted(segment.hashes, not_covered, "left")
            high = np.searchsorted(segment.hashes, not_covered, "right")
            covered.append(segment.covered.take(pa.array(Ranges(low, high).rows()[1])))
            not_covered = not_covered[low == high]
        return Touched(hashes, _state_rows(pa.concat_tables(covered)))

    def replaced(
        self,
        touched: Touched,
        rows: pa.Table,
        name: str,
        *,
        sync: bool,
        changing: pa.ChunkedArray | None = None,
    ) -> Version:
        """Write what makes the next version: ``rows`` in place of all touched rows.

        ``changing`` are the keys whose rows may differ, where it isn't all that was touched; what
        ``rows`` says of others is ignored.
        """
        if changing is not None and self._rows_of_others is None:
            hashes = key_hashes(changing.unique())
            # Every key that shares a hash comes along, as the segment is to cover that hash.
            touched = Touched(np.unique(hashes), _of_hashes(touched.rows, hashes))
            rows = _of_hashes(rows, hashes)
        if not len(touched.hashes) and self._rows_of_others is None:
            return Version([segment.name for segment in self._segments], self.rows)
        count = self.rows + len(rows) - len(touched.rows)
        if not count:
            return Version([], 0)
        added = self._covering(touched.hashes, rows)
        # Tombstones are rows of a segment, too: they cost space and do not count.
        sizes = [*(len(segment.hashes) for segment in self._segments), len(added)]
        kept = self._segments[: segments_kept(sizes, count)]
        merged = self._segments[len(kept) :]
        if merged:
            added = _newest([*(segment.covered for segment in merged), added])
        if not kept:
            # A tombstone hides rows of older segments, and there are none.
            added = _without_tombstones(added)
        metadata = {_ROWS_KEY: str(count).encode()}
        indexed = self._with_due_index(added)
        file = write_segment(self._folder, indexed, name, sync=sync, metadata=metadata)
        return Version([*(segment.name for segment in kept), file], count)

    def _covering(self, hashes: Ints, rows: pa.Table) -> pa.Table:
        """The rows by hash, with a tombstone for each of ``hashes`` that has none."""
        rows = rows.select(self._layout.schema.names).cast(self._layout.schema)
        row_hashes = key_hashes(rows["key"])
        tombstones = np.setdiff1d(hashes, row_hashes)
        nulls = [pa.nulls(len(tombstones), field.type) for field in self._layout.schema]
        schema = self._covered_schema()
        covered = pa.concat_tables([
            pa.table([row_hashes, *rows.columns], schema=schema),
            pa.table([tombstones, *nulls], schema=schema),
        ])  # fmt: skip
        order = np.argsort(np.asarray(covered.column(0)), kind="stable")
        return covered.take(pa.array(order))

    def _with_due_index(self, covered: pa.Table) -> pa.Table:
        """A segment as it is written: what it covers, with the index of what is due."""
        hashes = np.asarray(covered.column(0))
        # Tombstones are never due; the index has an entry for each row, as columns are as long.
        due_ms = np.full(len(covered), FOREVER_MS, dtype=np.int64)
        due_ms[np.asarray(covered["key"].is_valid())] = self._layout.due_ms(_state_rows(covered))
        order = np.argsort(due_ms, kind="stable")
        columns = [hashes, due_ms[order], hashes[order], *covered.columns[1:]]
        return pa.table(columns, schema=self._file_schema()).combine_chunks()

    def _opened(self, name: str) -> _Segment:
        table = open_segment(self._folder, name)
        if not table.schema.equals(self._file_schema()):
            message = (
                f"state file {self._folder / name} has other columns than the topology needs; use "
                "the topology and the version that wrote it, or start a new checkpoint and a new "
                "table"
            )
            raise CheckpointError(message)
        hashes, due_ms, due_hash = (_mapped(table.column(column)) for column in range(3))
        rows = int(table.schema.metadata[_ROWS_KEY])
        covered = table.select([0, *range(3, table.num_columns)]).replace_schema_metadata(None)
        return _Segment(name, rows, covered, hashes, due_ms, due_hash)

    def _file_schema(self) -> pa.Schema:
        return pa.schema([*_OWN_FIELDS, *self._layout.schema])

    def _covered_schema(self) -> pa.Schema:
        return pa.schema([_OWN_FIELDS[0], *self._layout.schema])


def _newest(tables: Sequence[pa.Table]) -> pa.Table:
    """What the newest of ``tables`` (the last) that covers a hash has of it; by hash."""
    everything = pa.concat_tables(tables[::-1])
    age = np.repeat(np.arange(len(tables)), [len(table) for table in tables[::-1]])
    hashes = np.asarray(everything.column(0))
    # Stable: the newest table's rows, age 0, stand first among those of a hash. What has the
    # age of the first row of its hash counts, tombstones included.
    order = np.argsort(hashes, kind="stable")
    head = heads(hashes[order])
    age = age[order]
    counts = age == age[head][np.cumsum(head) - 1]
    return everything.take(pa.array(order[counts]))


def _without_tombstones(covered: pa.Table) -> pa.Table:
    valid = covered["key"].is_valid()
    return covered if pc.all(valid).as_py() else covered.filter(valid)


def _state_rows(covered: pa.Table) -> pa.Table:
    """The rows of the state, without hash and tombstones."""
    return _without_tombstones(covered).select(range(1, covered.num_columns))


def _of_hashes(rows: pa.Table, hashes: Ints) -> pa.Table:
    """The rows of the keys with one of ``hashes``."""
    return rows.filter(pa.array(np.isin(key_hashes(rows["key"]), hashes)))


def _mapped(column: pa.ChunkedArray) -> Ints:
    """The numbers where they lie in the mapped file: a copy would read the whole column."""
    if column.num_chunks == 1:
        numbers: Ints = column.chunk(0).to_numpy()
        return numbers
    return np.asarray(column)
