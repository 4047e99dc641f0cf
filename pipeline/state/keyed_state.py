"""State that is rows of keys: a batch reads and writes the rows that it has to do with.

Rows of a key are divided into units, spans of time as the engine wants them (``Layout``); each
(key, unit) has a hash. A version is a list of immutable segments in runs (``runs``), the oldest
first. A segment *covers* some hashes: it has all rows of the units with that hash, or one
tombstone (a row without a key) where there are none. The newest segment that covers a hash counts,
older ones don't. So nothing is ever changed in place, and a removed row stays removed though an
older segment still has it.

Units that share a hash are touched together: a batch that touches one reads the rows of both
and writes both back. So a collision costs time, never rows.

Two things make less to write. Where rows leave when they are due, nobody removes them: whoever
reads knows the close time, and a merge or the end of a whole segment takes them away. Where rows
never change, segments don't cover: a hash has the rows of all segments, and a batch writes its own
records alone.

A segment is one Arrow file, mapped into memory and searched there: a batch reads the pages
that the binary search and its rows are on, however many rows there are. A segment's own
columns come first:

    0  hash of the row's key and unit, ascending
    1  when a row is due, in ms, ascending          (an index of its own: row i of 1 and 2
    2  the hash of that row's key and unit           belongs together, not with row i of 0)
    3  and further: the row

A window closes in one batch, the first whose close time is behind its last ms. That batch
finds its unit through column 1, also if no record of the key comes. It need not look below the
close time before it: what was due there was found by an earlier batch. Rows that do not count
any more may name a unit once too often: then its rows are read, and written as they are.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from oriel.pipeline.errors import CheckpointError
from oriel.pipeline.state.covered import by_hash, newest, state_rows, without_tombstones
from oriel.pipeline.state.hashes import MEMBER_BITS, neighbours, unit_hashes
from oriel.pipeline.state.layout import Layout, never_due
from oriel.pipeline.state.runs import Runs, Segment
from oriel.pipeline.state.segments import (
    TaskShare,
    Version,
    in_share,
    map_segment,
    own_files,
    write_segment,
)
from oriel.pipeline.windows import (
    FOREVER_MS,
    NEVER_CLOSED_MS,
    Due,
    Flags,
    Ints,
    Ranges,
    coded_keys,
)

#: How many rows count in the version that ends with this segment, and its runs.
_ROWS_KEY, _RUNS_KEY = b"oriel.rows", b"oriel.runs"
#: From when on no row of the segment is needed.
_LEAVE_KEY = b"oriel.leave_ms"
_OWN_FIELDS = (
    # The dots keep them apart from columns of users.
    pa.field("oriel.hash", pa.int64()),
    pa.field("oriel.due_ms", pa.int64()),
    pa.field("oriel.due_hash", pa.int64()),
)


@dataclass(frozen=True)
class Touched:
    """What a batch has to do with: the rows that count, and whose rows it may change.

    These are ``hashes``, ascending. ``closing_ms`` are the close times before the batch and after.
    ``looks_at_more``: there are rows of others, which stay as they are.
    """

    hashes: Ints
    rows: pa.Table
    closing_ms: tuple[int, int] = (NEVER_CLOSED_MS, NEVER_CLOSED_MS)
    looks_at_more: bool = False


class KeyedState:
    """One version of one task's state."""

    def __init__(self, folder: Path, names: Sequence[str], layout: Layout) -> None:
        """Open the version whose files are ``names``.

        Raises:
            CheckpointError: a file is missing, or of another format or schema.
        """
        self._folder = folder
        self._layout = layout
        self._file_schema = pa.schema([*_OWN_FIELDS, *layout.schema])
        self._rows, self._runs = 0, Runs([])
        if names:
            segments, metadata = zip(*map(self._opened, names), strict=True)
            self._rows = int(metadata[-1][_ROWS_KEY])
            self._runs = Runs.of_version(segments, metadata[-1][_RUNS_KEY])
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
        return self._rows if self._rows_of_others is None else len(self._rows_of_others)

    def all_rows(self, close_ms: int = NEVER_CLOSED_MS) -> pa.Table:
        """All rows that count at this close time."""
        if self._rows_of_others is not None:
            return self._layout.without_due(self._rows_of_others, close_ms)
        tables = [self._covered_schema().empty_table()]
        for run, from_hash in self._runs.by_age:
            tables += [segment.covered_from(from_hash) for segment in run]
        rows = state_rows(self._newest(tables))
        return self._layout.without_due(rows, close_ms)

    def touched(
        self,
        keys: pa.ChunkedArray,
        closing_ms: tuple[int, int] = (NEVER_CLOSED_MS, NEVER_CLOSED_MS),
        units: Ranges | None = None,
    ) -> Touched:
        """The rows of ``units`` of ``keys``, and those that are needed for what closes now.

        ``units`` has a range of units for each key, which may be there more than once; without
        it, a key has one. Windows close whose last ms is in [previous close time, close time),
        the two times ``closing_ms``.
        """
        none = np.zeros(len(keys), dtype=np.int64)
        units = units or Ranges(none, none + 1)
        of_batch = neighbours(unit_hashes(keys, none), units)
        if self._rows_of_others is not None:
            return Touched(of_batch, self.all_rows(closing_ms[0]), closing_ms)
        hashes = self._with_due(of_batch, closing_ms)
        rows = self._layout.without_due(state_rows(self._rows_of(hashes)), closing_ms[0])
        # Nothing but time changes rows that no record touches: where they leave by it, they
        # need not be written.
        changing = hashes if self._layout.leave_ms is None else of_batch
        return Touched(changing, rows, closing_ms)

    def touched_members(self, records: pa.Table, whole: pa.ChunkedArray) -> Touched:
        """The rows of the keys and members of ``records``, and all rows of the keys ``whole``.

        With a member's come those of its key itself. What may change are rows of ``records`` alone.
        """
        changing = np.unique(self._layout.hashes(records))
        if self._rows_of_others is not None:
            return Touched(changing, self._rows_of_others)
        low = np.unique(unit_hashes(whole, np.zeros(len(whole), dtype=np.int64)) & ~MEMBER_BITS)
        hashes = [changing, changing & ~MEMBER_BITS]
        for run, _ in self._runs.by_age:
            hashes += [segment.hashes_within(low, low | MEMBER_BITS) for segment in run]
        rows = self._rows_of(np.unique(np.concatenate(hashes)))
        return Touched(changing, state_rows(rows), looks_at_more=True)

    def touched_units(
        self,
        changing: tuple[pa.ChunkedArray, Ranges],
        looked_at: tuple[pa.ChunkedArray, Ranges],
        closing_ms: tuple[int, int],
    ) -> Touched:
        """The rows of units, and of those in which one is due.

        Keys have a range of units each. Of these ``changing`` may change, and what is due.
        """
        of_changing, of_looked_at = (
            neighbours(unit_hashes(keys, np.zeros(len(keys), dtype=np.int64)), units)
            for keys, units in (changing, looked_at)
        )
        if self._rows_of_others is not None:
            return Touched(of_changing, self.all_rows(), closing_ms)
        hashes = self._with_due(of_changing, closing_ms)
        rows = self._rows_of(np.union1d(hashes, of_looked_at))
        return Touched(hashes, state_rows(rows), closing_ms, looks_at_more=True)

    def _with_due(self, hashes: Ints, closing_ms: tuple[int, int]) -> Ints:
        """These hashes and those of the units in which a row is due, ascending."""
        segments = [segment for run, _ in self._runs.by_age for segment in run]
        of_due = [_due_units(segments, due) for due in self._layout.due(*closing_ms)]
        return np.unique(np.concatenate([hashes, *of_due]))

    def _rows_of(self, hashes: Ints) -> pa.Table:
        """All rows that count of ``hashes``, which ascend; tombstones among them."""
        covered = [self._covered_schema().empty_table()]
        # From the newest run to the oldest; a hash is looked for until one covers it, by rows
        # or by a tombstone.
        for run, from_hash in reversed(self._runs.by_age):
            is_covered = np.zeros(len(hashes), dtype=np.bool_)
            for segment in run:
                if not len(segment.hashes):
                    continue
                begin = np.searchsorted(hashes, max(from_hash, int(segment.hashes[0])), "left")
                end = max(np.searchsorted(hashes, segment.hashes[-1], "right"), begin)
                rows, found = _rows_with(segment.hashes, hashes[begin:end])
                covered.append(segment.covered.take(pa.array(rows)))
                is_covered[begin:end] = found
            if not self._layout.only_added:
                hashes = hashes[~is_covered]
        return pa.concat_tables(covered)

    def replaced(
        self,
        touched: Touched,
        rows: pa.Table,
        name: str,
        *,
        sync: bool,
        changing: pa.ChunkedArray | None = None,
        added: pa.Table | None = None,
    ) -> Version:
        """Write what makes the next version: ``rows`` in place of all touched rows.

        ``changing`` are the keys whose rows may differ, where it isn't all that was touched; what
        ``rows`` says of others is ignored. ``added`` are the rows that came with the batch, where
        rows never change.
        """
        if self._rows_of_others is not None:
            if not len(rows):
                return Version([], 0)
            return self._written(Runs([]), self._covering(rows), len(rows), name, sync=sync)
        hashes, old = touched.hashes, touched.rows
        if touched.looks_at_more:
            # What was only looked at stays as it is.
            old, rows = self._of_hashes(old, hashes), self._of_hashes(rows, hashes)
        if changing is not None:
            # Every key that shares a hash comes along, as the segment is to cover that hash.
            none = np.zeros(len(changing), dtype=np.int64)
            hashes = np.unique(unit_hashes(changing, none))
            old, rows = self._of_hashes(old, hashes), self._of_hashes(rows, hashes)
        count = self._rows + len(rows) - len(old)
        if not count:
            return Version([], 0)
        close_ms = touched.closing_ms[1]
        if self._layout.only_added:
            assert added is not None
            new = self._covering(added)
        else:
            if self._layout.leave_ms is not None:
                old, rows = self._of_hashes(old, hashes), self._of_hashes(rows, hashes)
            new = self._covering(rows, self._layout.without_due(old, close_ms))
        runs = self._runs.without_left(close_ms)
        if not len(new) and count == self._rows and runs.names == self._runs.names:
            return Version(runs.names, count)
        runs, new = self._merged_runs(runs, new, count, close_ms, name, sync=sync)
        return self._written(runs, new, count, name, sync=sync)

    def _merged_runs(
        self, runs: Runs, new: pa.Table, count: int, close_ms: int, name: str, *, sync: bool
    ) -> tuple[Runs, pa.Table]:
        """Make the merges of this batch; return the runs, and ``new`` with those merged into it."""
        kept, slices = runs.kept(len(new), count)
        added = len(new)
        if slices == 1:
            tables = [segment.covered for run in runs.runs[kept:] for segment in run]
            new = self._left_of([*tables, new], close_ms, oldest=not kept)
            runs = Runs(runs.runs[:kept], runs.merge, runs.output)
        elif slices and runs.merge is None:
            runs = runs.merging(kept, slices)
        runs = runs.with_added(added)
        merge = runs.merge
        if merge is None or not merge.is_due:
            return runs, new
        tables = [
            segment.covered_from(merge.from_hash, merge.until_hash)
            for run in runs.runs[merge.first : merge.end]
            for segment in run
        ]
        made = self._left_of(tables, close_ms, oldest=not merge.first)
        slice_ = [self._segment(made, f"{name}-merged", {}, sync=sync)] if len(made) else []
        return runs.with_slice(slice_), new

    def _left_of(self, tables: Sequence[pa.Table], close_ms: int, *, oldest: bool) -> pa.Table:
        """What has to be stored yet of ``tables``, by hash; ``oldest``: nothing is before them."""
        merged = self._newest([self._covered_schema().empty_table(), *tables])
        if oldest:
            # A tombstone hides rows of older segments, and there are none.
            merged = without_tombstones(merged)
        return merged.filter(pa.array(self._leave_ms(merged) >= close_ms))

    def _newest(self, tables: Sequence[pa.Table]) -> pa.Table:
        """What counts of ``tables``, the oldest first, by hash."""
        return by_hash(tables) if self._layout.only_added else newest(tables)

    def _of_hashes(self, rows: pa.Table, hashes: Ints) -> pa.Table:
        """The rows of the units with one of ``hashes``."""
        of_rows = self._layout.hashes(rows)
        return rows.filter(pa.array(np.isin(of_rows, hashes)))

    def _covering(self, rows: pa.Table, old: pa.Table | None = None) -> pa.Table:
        """The rows by hash, with a tombstone for the units of ``old`` rows that have none."""
        rows = rows.select(self._layout.schema.names).cast(self._layout.schema)
        hashes = self._layout.hashes(rows)
        schema = self._covered_schema()
        tables = [pa.table([hashes, *rows.columns], schema=schema)]
        if old is not None and len(old):
            gone = self._without(old, rows, hashes)
            nulls = [pa.nulls(len(gone), field.type) for field in self._layout.schema]
            tables.append(pa.table([gone, *nulls], schema=schema))
        return by_hash(tables)

    def _without(self, old: pa.Table, rows: pa.Table, hashes: Ints) -> Ints:
        """The hashes of the units that only ``old`` has rows of; ``hashes`` are those of ``rows``.

        By key, too: rows of another unit with that hash may leave sooner than the old segments
        that have the unit's.
        """
        old_hashes = self._layout.hashes(old)
        (old_code, code), keys = coded_keys(old["key"], rows["key"])
        distinct, number = np.unique(np.concatenate([old_hashes, hashes]), return_inverse=True)
        old_number, number = np.split(number, [len(old)])
        gone = np.setdiff1d(old_number * len(keys) + old_code, number * len(keys) + code)
        return np.unique(distinct[gone // len(keys)])

    def _written(self, runs: Runs, new: pa.Table, count: int, name: str, *, sync: bool) -> Version:
        """Write the last segment of the next version, which knows the others."""
        metadata = {_ROWS_KEY: str(count).encode(), _RUNS_KEY: runs.to_bytes()}
        segment = self._segment(new, name, metadata, sync=sync)
        return Version([*runs.names, segment.name], count)

    def _segment(
        self, covered: pa.Table, name: str, metadata: Mapping[bytes, bytes], *, sync: bool
    ) -> Segment:
        """Write a segment: what it covers, with the index of what is due."""
        hashes = np.asarray(covered.column(0))
        # Tombstones are never due; the index has an entry for each row, as columns are as long.
        due_ms = self._of_rows(covered, self._layout.due_ms)
        order = np.argsort(due_ms, kind="stable")
        due_ms, due_hash = due_ms[order], hashes[order]
        columns = [hashes, due_ms, due_hash, *covered.columns[1:]]
        table = pa.table(columns, schema=self._file_schema).combine_chunks()
        # One without rows tells how many there are, and goes with a merge.
        leave_ms = int(self._leave_ms(covered).max()) if len(covered) else FOREVER_MS
        metadata = {**metadata, _LEAVE_KEY: str(leave_ms).encode()}
        file = write_segment(self._folder, table, name, sync=sync, metadata=metadata)
        return Segment(file, leave_ms, covered, hashes, due_ms, due_hash)

    def _leave_ms(self, covered: pa.Table) -> Ints:
        """From when on each row need not be stored; tombstones always have to be."""
        return self._of_rows(covered, self._layout.leave_ms or never_due)

    def _of_rows(self, covered: pa.Table, time_ms: Callable[[pa.Table], Ints]) -> Ints:
        """A time of each row of the state, and of tombstones that which never comes."""
        times_ms = np.full(len(covered), FOREVER_MS, dtype=np.int64)
        times_ms[np.asarray(covered["key"].is_valid())] = time_ms(state_rows(covered))
        return times_ms

    def _opened(self, name: str) -> tuple[Segment, Mapping[bytes, bytes]]:
        """A segment and its metadata."""
        mapped = map_segment(self._folder, name)
        if not mapped.table.schema.equals(self._file_schema):
            message = (
                f"state file {self._folder / name} has other columns than the topology needs. Run "
                "the topology and the version that wrote it, or start again with an empty data "
                "directory"
            )
            raise CheckpointError(message)
        if mapped.parsed is None:
            mapped.parsed = _parsed(name, mapped.table)
        found: tuple[Segment, Mapping[bytes, bytes]] = mapped.parsed
        return found

    def _covered_schema(self) -> pa.Schema:
        return pa.schema([_OWN_FIELDS[0], *self._layout.schema])


def _rows_with(hashes: Ints, wanted: Ints) -> tuple[Ints, Flags]:
    """The rows with one of the ``wanted`` hashes, and which of these there are; both ascend."""
    # Of the shorter one each is looked up in the longer one.
    if len(hashes) < len(wanted):
        place = np.minimum(np.searchsorted(wanted, hashes), len(wanted) - 1)
        is_wanted = wanted[place] == hashes
        found = np.zeros(len(wanted), dtype=np.bool_)
        found[place[is_wanted]] = True
        return np.flatnonzero(is_wanted), found
    low = np.searchsorted(hashes, wanted)
    found = hashes[np.minimum(low, len(hashes) - 1)] == wanted
    high = np.searchsorted(hashes, wanted[found], "right")
    return Ranges(low[found], high).rows()[1], found


def _due_units(segments: Sequence[Segment], due: Due) -> Ints:
    """The hashes of the units that ``due`` wants, for the rows of segments that it names."""
    named = [np.zeros(0, dtype=np.int64)]
    for segment in segments:
        low, high = np.searchsorted(segment.due_ms, (due.low_ms, due.high_ms))
        named.append(segment.due_hash[low:high])
    hashes = np.concatenate(named)
    if due.first_unit == due.last_unit == 0:
        return hashes
    first = np.full(len(hashes), due.first_unit, dtype=np.int64)
    return neighbours(hashes, Ranges(first, first + 1 + due.last_unit - due.first_unit))


def _parsed(name: str, table: pa.Table) -> tuple[Segment, Mapping[bytes, bytes]]:
    """A segment and its metadata."""
    metadata = table.schema.metadata
    hashes, due_ms, due_hash = (_mapped(table.column(column)) for column in range(3))
    covered = table.select([0, *range(3, table.num_columns)]).replace_schema_metadata(None)
    return Segment(name, int(metadata[_LEAVE_KEY]), covered, hashes, due_ms, due_hash), metadata


def _mapped(column: pa.ChunkedArray) -> Ints:
    """The numbers where they lie in the mapped file: a copy would read the whole column."""
    if column.num_chunks == 1:
        numbers: Ints = column.chunk(0).to_numpy()
        return numbers
    return np.asarray(column)
