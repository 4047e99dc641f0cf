"""State of rows by key: a batch only reads and writes the rows of its working set.

The rows of a key are divided into time buckets, which the operator chooses (``Layout``). Each time
bucket of a key has a hash. A version is a list of immutable segments in sorted runs
(``sorted_runs``), the oldest first. A segment *covers* some hashes. For a covered hash, it has all
rows of the time buckets with this hash, or one tombstone (a row without a key) if no row exists.
Only the newest segment that covers a hash is visible, and it shadows older ones. So nothing is
changed in place, and a removed row stays removed although an older segment has it.

Time buckets with the same hash are read and written together. So a collision costs time, but it
never loses rows.

Two rules reduce writes. If rows expire when they are due, no batch removes them. The reader knows
the close time, a merge drops expired rows, and a segment is dropped when all its rows have expired.
If rows never change, segments do not shadow each other. Then a hash has the rows of all segments,
and a batch only writes its own records.

A segment is one Arrow file, which is mapped into memory and searched there. For any number of rows,
a batch only reads the pages of its binary searches and of its rows. The first columns of a segment
are internal:

    0  hash of the key and time bucket of the row, ascending
    1  when a row is due, in ms, ascending            (a separate index: row i of 1 and 2 is one
    2  hash of the key and time bucket of that row     entry, which is not about row i of 0)
    3  and further columns: the row

A window closes in one batch, the first batch whose close time is after the last ms of the window.
This batch finds the time bucket through column 1, even without a record of the key. It skips
entries below the previous close time, because an earlier batch has found them. A shadowed row can
also name a time bucket. Then its rows are read, and written unchanged.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from oriel.pipeline.state.hashes import SUB_KEY_BITS, nearby_hashes, time_bucket_hashes
from oriel.pipeline.state.layout import Layout, never_expires
from oriel.pipeline.state.segments import (
    TaskShare,
    Version,
    in_schema,
    is_in_share,
    map_segment,
    own_files,
    write_segment,
)
from oriel.pipeline.state.sorted_runs import Runs, Segment
from oriel.pipeline.state.visible_rows import newest, sorted_by_hash, state_rows, without_tombstones
from oriel.pipeline.windows import (
    FOREVER_MS,
    NEVER_CLOSED_MS,
    Expiring,
    Flags,
    Ints,
    Ranges,
    coded_keys,
)

#: The number of visible rows in the version that ends with this segment, and its runs.
_ROWS_KEY, _RUNS_KEY = b"oriel.rows", b"oriel.runs"
#: The close time after which no row of the segment is needed.
_DELETABLE_KEY = b"oriel.leave_ms"
_OWN_FIELDS = (
    # The prefix distinguishes them from the columns of users.
    pa.field("oriel.hash", pa.int64()),
    pa.field("oriel.due_ms", pa.int64()),
    pa.field("oriel.due_hash", pa.int64()),
)


@dataclass(frozen=True)
class KeyedWorkingSet:
    """The working set of a batch.

    Attributes:
        hashes: The hashes whose rows the batch can change, ascending.
        rows: The visible rows.
        closing_ms: The close times before and after the batch.
        has_read_only_rows: True if ``rows`` also has rows of other hashes, which do not change.
    """

    hashes: Ints
    rows: pa.Table
    closing_ms: tuple[int, int] = (NEVER_CLOSED_MS, NEVER_CLOSED_MS)
    has_read_only_rows: bool = False


class KeyedState:
    """One version of one task's state."""

    def __init__(self, directory: Path, names: Sequence[str], layout: Layout) -> None:
        """Open the version whose files are ``names``.

        Raises:
            CheckpointError: A file is missing, or has another format or schema.
        """
        self._directory = directory
        self._layout = layout
        self._file_schema = pa.schema([*_OWN_FIELDS, *layout.schema])
        self._rows, self._runs = 0, Runs([])
        if names:
            segments, metadata = zip(*map(self._opened, names), strict=True)
            # Each batch writes its segment last. So only the last file has the number of rows and
            # the runs of this version. Earlier files can have those of earlier batches.
            self._rows = int(metadata[-1][_ROWS_KEY])
            self._runs = Runs.of_version(segments, metadata[-1][_RUNS_KEY])
        #: The rows of this task, instead of segments, after a change of the number of tasks.
        self._rows_after_rescale: pa.Table | None = None

    @classmethod
    def of_task(
        cls,
        directory: Path,
        segments: Mapping[int, Sequence[str]],
        share: TaskShare,
        layout: Layout,
    ) -> "KeyedState":
        """Open the state of a task.

        After a change of the number of tasks, the rows are in the files of several tasks. These
        files are read completely. All rows are in the working set of the first batch, so all are in
        the next version.

        Args:
            directory: The directory of the state.
            segments: Task -> its files after the last batch.
            share: The key groups of the task.
            layout: The layout of the state.

        Raises:
            CheckpointError: A file is missing, or has another format or schema.
        """
        own = own_files(segments, share)
        if own is not None:
            return cls(directory, own, layout)
        # A segment shadows only segments of its task, because tasks share hashes but not keys.
        rows = pa.concat_tables(
            [cls(directory, names, layout).all_rows() for names in segments.values()]
        )
        state = cls(directory, (), layout)
        state._rows_after_rescale = rows.filter(pa.array(is_in_share(rows, share)))
        return state

    @property
    def rows(self) -> int:
        """The number of visible rows."""
        return self._rows if self._rows_after_rescale is None else len(self._rows_after_rescale)

    def all_rows(self, close_ms: int = NEVER_CLOSED_MS) -> pa.Table:
        """Return all visible rows that have not expired at this close time."""
        if self._rows_after_rescale is not None:
            return self._layout.without_expired(self._rows_after_rescale, close_ms)
        tables = [self._hashed_schema().empty_table()]
        for run, from_hash in self._runs.by_age:
            tables += [segment.rows_from_hash(from_hash) for segment in run]
        rows = state_rows(self._newest(tables))
        return self._layout.without_expired(rows, close_ms)

    def working_set(
        self,
        keys: pa.ChunkedArray,
        closing_ms: tuple[int, int] = (NEVER_CLOSED_MS, NEVER_CLOSED_MS),
        buckets: Ranges | None = None,
        expiring: Sequence[Expiring] | None = None,
    ) -> KeyedWorkingSet:
        """Return the working set for time buckets of keys, with the rows that closing windows need.

        Args:
            keys: The keys. A key can be repeated.
            closing_ms: The close times before and after the batch. A window closes if its last ms
                is in [previous close time, close time).
            buckets: A range of time buckets for each of ``keys``. None: a key has one time bucket.
            expiring: The rows that expire in the batch. None: the rows of ``Layout.due``.
        """
        none = np.zeros(len(keys), dtype=np.int64)
        buckets = buckets or Ranges(none, none + 1)
        of_batch = nearby_hashes(time_bucket_hashes(keys, none), buckets)
        # All rows are in the working set, whatever the keys of the batch. So the next version has
        # all rows, and names no file of the old number of tasks.
        if self._rows_after_rescale is not None:
            return KeyedWorkingSet(of_batch, self.all_rows(closing_ms[0]), closing_ms)
        expiring = self._layout.due(*closing_ms) if expiring is None else expiring
        hashes = self._with_expiring(of_batch, expiring)
        # A row that is due in [previous close time, close time) is needed, because its window
        # becomes final in this batch. So only rows that had expired before the batch are left out.
        rows = self._layout.without_expired(state_rows(self._rows_of(hashes)), closing_ms[0])
        # Rows without a record in the batch can only expire. If the layout has ``leave_ms``,
        # expired rows are not written.
        changed_hashes = hashes if self._layout.leave_ms is None else of_batch
        return KeyedWorkingSet(changed_hashes, rows, closing_ms)

    def working_set_of_sub_keys(
        self,
        records: pa.Table,
        whole_keys: pa.ChunkedArray,
        closing_ms: tuple[int, int] = (NEVER_CLOSED_MS, NEVER_CLOSED_MS),
    ) -> KeyedWorkingSet:
        """Return the rows of the sub-keys of ``records``, and all rows of the keys ``whole_keys``.

        The rows of a sub-key include the rows of the key itself. Only the rows of ``records`` can
        change. The rows that expire between the close times ``closing_ms`` are also returned.
        """
        changed_hashes = np.unique(self._layout.hashes(records))
        if self._rows_after_rescale is not None:
            rows = self.all_rows(closing_ms[0])
            return KeyedWorkingSet(changed_hashes, rows, closing_ms)
        low = np.unique(
            time_bucket_hashes(whole_keys, np.zeros(len(whole_keys), dtype=np.int64))
            & ~SUB_KEY_BITS
        )
        read_hashes = self._with_expiring(changed_hashes, self._layout.due(*closing_ms))
        hashes = [read_hashes, changed_hashes & ~SUB_KEY_BITS]
        for run, _ in self._runs.by_age:
            hashes += [segment.hashes_within(low, low | SUB_KEY_BITS) for segment in run]
        rows = self._rows_of(np.unique(np.concatenate(hashes)))
        rows = self._layout.without_expired(state_rows(rows), closing_ms[0])
        # If rows leave when they are due, all rows that were read are counted afterwards.
        has_read_only_rows = self._layout.leave_ms is None
        return KeyedWorkingSet(changed_hashes, rows, closing_ms, has_read_only_rows)

    def working_set_of_buckets(
        self,
        changed_keys: tuple[pa.ChunkedArray, Ranges],
        read_only: tuple[pa.ChunkedArray, Ranges],
        closing_ms: tuple[int, int],
    ) -> KeyedWorkingSet:
        """Return the rows of time buckets, and of the time buckets in which a row is due.

        Args:
            changed_keys: Keys, and a range of time buckets for each. Their rows can change, and so
                can the rows of time buckets in which a row is due.
            read_only: Keys, and a range of time buckets for each. Their rows are only read.
            closing_ms: The close times before and after the batch.
        """
        of_changed_keys, of_read_only = (
            nearby_hashes(time_bucket_hashes(keys, np.zeros(len(keys), dtype=np.int64)), buckets)
            for keys, buckets in (changed_keys, read_only)
        )
        if self._rows_after_rescale is not None:
            return KeyedWorkingSet(of_changed_keys, self.all_rows(), closing_ms)
        hashes = self._with_expiring(of_changed_keys, self._layout.due(*closing_ms))
        rows = self._rows_of(np.union1d(hashes, of_read_only))
        return KeyedWorkingSet(hashes, state_rows(rows), closing_ms, has_read_only_rows=True)

    def _with_expiring(self, hashes: Ints, rows: Sequence[Expiring]) -> Ints:
        """Return ``hashes`` and the hashes of time buckets in which a row is due, ascending."""
        segments = [segment for run, _ in self._runs.by_age for segment in run]
        expiring = [hashes]
        for due in rows:
            named = [np.zeros(0, dtype=np.int64)]
            for segment in segments:
                low, high = np.searchsorted(segment.due_ms, (due.low_ms, due.high_ms))
                named.append(segment.expiring_hash[low:high])
            of_due = np.concatenate(named)
            if due.first_bucket or due.last_bucket:
                first = np.full(len(of_due), due.first_bucket, dtype=np.int64)
                buckets = Ranges(first, first + 1 + due.last_bucket - due.first_bucket)
                of_due = nearby_hashes(of_due, buckets)
            expiring.append(of_due)
        return np.unique(np.concatenate(expiring))

    def _rows_of(self, hashes: Ints) -> pa.Table:
        """Return all visible rows of ``hashes``, which ascend. Tombstones are included."""
        tables = [self._hashed_schema().empty_table()]
        # From the newest run to the oldest. The search for a hash ends when a run covers it with
        # rows or a tombstone.
        for run, from_hash in reversed(self._runs.by_age):
            is_found = np.zeros(len(hashes), dtype=np.bool_)
            for segment in run:
                if not len(segment.hashes):
                    continue
                # Below ``from_hash``, the output of a running merge has the rows of its inputs. So
                # an input is searched from ``from_hash`` on.
                begin = np.searchsorted(hashes, max(from_hash, int(segment.hashes[0])), "left")
                end = max(np.searchsorted(hashes, segment.hashes[-1], "right"), begin)
                rows, found = _rows_with_hashes(segment.hashes, hashes[begin:end])
                tables.append(segment.rows_by_hash.take(pa.array(rows)))
                is_found[begin:end] = found
            # Rows that never change shadow nothing, so every run can have rows of a hash.
            if not self._layout.append_only:
                hashes = hashes[~is_found]
        return pa.concat_tables(tables)

    def replaced(
        self,
        needed: KeyedWorkingSet,
        rows: pa.Table,
        name: str,
        *,
        sync: bool,
        changed_keys: pa.ChunkedArray | None = None,
        added_rows: pa.Table | None = None,
    ) -> Version:
        """Write the next version, in which ``rows`` replace the rows of the working set.

        Args:
            needed: The working set.
            rows: The next rows of the working set.
            name: The beginning of the names of files.
            sync: True if files are synced.
            changed_keys: The keys whose rows can change. ``rows`` of other keys are ignored. None:
                all keys of the working set.
            added_rows: The new rows of the batch, if rows never change.
        """
        if self._rows_after_rescale is not None:
            if not len(rows):
                return Version([], 0)
            return self._written(Runs([]), self._rows_by_hash(rows), len(rows), name, sync=sync)
        hashes, old = needed.hashes, needed.rows
        if needed.has_read_only_rows:
            # Rows that were only read stay unchanged.
            old, rows = self._of_hashes(old, hashes), self._of_hashes(rows, hashes)
        if changed_keys is not None:
            # The new segment covers the whole hash, so all keys with this hash are written.
            none = np.zeros(len(changed_keys), dtype=np.int64)
            hashes = np.unique(time_bucket_hashes(changed_keys, none))
            old, rows = self._of_hashes(old, hashes), self._of_hashes(rows, hashes)
        # If rows leave when they are due, a row that expires in this batch is in ``old`` and not in
        # ``rows``. So the number stays exact, although nothing is written for the row.
        count = self._rows + len(rows) - len(old)
        # Without a visible row, no older row needs a tombstone, so the next version has no files.
        if not count:
            return Version([], 0)
        close_ms = needed.closing_ms[1]
        if self._layout.append_only:
            assert added_rows is not None
            new = self._rows_by_hash(added_rows)
        else:
            # ``hashes`` has no time bucket whose rows only expire. They need no new rows and no
            # tombstones.
            if self._layout.leave_ms is not None:
                old, rows = self._of_hashes(old, hashes), self._of_hashes(rows, hashes)
            # A row that expires with this batch needs no tombstone, because each reader drops it by
            # its time.
            new = self._rows_by_hash(rows, self._layout.without_expired(old, close_ms))
        runs = self._runs.without_expired(close_ms)
        # Nothing has changed, so the next version names the files of this one. If only ``count``
        # has changed, a segment without rows is written for the new number.
        if not len(new) and count == self._rows and runs.names == self._runs.names:
            return Version(runs.names, count)
        runs, new = self._merged_runs(runs, new, count, close_ms, name, sync=sync)
        return self._written(runs, new, count, name, sync=sync)

    def _merged_runs(
        self, runs: Runs, new: pa.Table, count: int, close_ms: int, name: str, *, sync: bool
    ) -> tuple[Runs, pa.Table]:
        """Run the merges of this batch. Return the runs, and ``new`` with merged rows."""
        kept, slices = runs.kept(len(new), count)
        added_rows = len(new)
        # A small merge and the rows of the batch become one file. A separate file for them would be
        # one more file to sync, and one more run to search.
        if slices == 1:
            tables = [segment.rows_by_hash for run in runs.runs[kept:] for segment in run]
            new = self._still_needed_rows([*tables, new], close_ms, oldest=not kept)
            runs = Runs(runs.runs[:kept], runs.merge, runs.output)
        elif slices and runs.merge is None:
            runs = runs.with_merge(kept, slices)
        runs = runs.with_added(added_rows)
        merge = runs.merge
        if merge is None or not merge.is_due:
            return runs, new
        tables = [
            segment.rows_from_hash(merge.from_hash, merge.until_hash)
            for run in runs.runs[merge.first : merge.end]
            for segment in run
        ]
        # The inputs stay until the last slice. So if the batch runs again, it finds the same rows,
        # and its slice has another file name.
        merged_rows = self._still_needed_rows(tables, close_ms, oldest=not merge.first)
        slice_ = (
            [self._segment(merged_rows, f"{name}-merged", {}, sync=sync)]
            if len(merged_rows)
            else []
        )
        return runs.with_slice(slice_), new

    def _still_needed_rows(
        self, tables: Sequence[pa.Table], close_ms: int, *, oldest: bool
    ) -> pa.Table:
        """Return the rows of ``tables`` that must still be stored, sorted by hash.

        ``oldest``: no older segment exists.
        """
        merged = self._newest([self._hashed_schema().empty_table(), *tables])
        if oldest:
            # A tombstone only shadows rows of older segments, and no older segment exists.
            merged = without_tombstones(merged)
        # No older row becomes visible, because all older rows of the time bucket are due earlier or
        # at the same time (``Layout.leave_ms``).
        return merged.filter(pa.array(self._deletable_at_ms(merged) >= close_ms))

    def _newest(self, tables: Sequence[pa.Table]) -> pa.Table:
        """Return the visible rows of ``tables``, sorted by hash. The first table is the oldest."""
        return sorted_by_hash(tables) if self._layout.append_only else newest(tables)

    def _of_hashes(self, rows: pa.Table, hashes: Ints) -> pa.Table:
        """Return the rows whose hash is one of ``hashes``."""
        # This hashes the keys of the rows of the working set only, not of the state.
        of_rows = self._layout.hashes(rows)
        return rows.filter(pa.array(np.isin(of_rows, hashes)))

    def _rows_by_hash(self, rows: pa.Table, old: pa.Table | None = None) -> pa.Table:
        """Return ``rows`` by hash, with tombstones.

        If a time bucket has rows only in ``old``, its hash has one tombstone.
        """
        rows = rows.select(self._layout.schema.names).cast(self._layout.schema)
        hashes = self._layout.hashes(rows)
        schema = self._hashed_schema()
        tables = [pa.table([hashes, *rows.columns], schema=schema)]
        if old is not None and len(old):
            deleted_hashes = self._without(old, rows, hashes)
            nulls = [pa.nulls(len(deleted_hashes), field.type) for field in self._layout.schema]
            tables.append(pa.table([deleted_hashes, *nulls], schema=schema))
        return sorted_by_hash(tables)

    def _without(self, old: pa.Table, rows: pa.Table, hashes: Ints) -> Ints:
        """Return the hashes of the time buckets that have rows only in ``old``.

        ``hashes`` are the hashes of ``rows``. Keys are also compared. If another time bucket has
        the same hash, its rows can expire before the old segments that have rows of this time
        bucket.
        """
        old_hashes = self._layout.hashes(old)
        (old_code, code), keys = coded_keys(old["key"], rows["key"])
        distinct, number = np.unique(np.concatenate([old_hashes, hashes]), return_inverse=True)
        old_number, number = np.split(number, [len(old)])
        deleted_hashes = np.setdiff1d(old_number * len(keys) + old_code, number * len(keys) + code)
        return np.unique(distinct[deleted_hashes // len(keys)])

    def _written(self, runs: Runs, new: pa.Table, count: int, name: str, *, sync: bool) -> Version:
        """Write the last segment of the next version, whose metadata names the others."""
        metadata = {_ROWS_KEY: str(count).encode(), _RUNS_KEY: runs.to_bytes()}
        segment = self._segment(new, name, metadata, sync=sync)
        return Version([*runs.names, segment.name], count)

    def _segment(
        self, rows_by_hash: pa.Table, name: str, metadata: Mapping[bytes, bytes], *, sync: bool
    ) -> Segment:
        """Write a segment of ``rows_by_hash``, with an index of the times when rows are due."""
        hashes = np.asarray(rows_by_hash.column(0))
        # Tombstones are never due. They also have an entry in the index, because all columns of a
        # file have the same length.
        due_ms = self._time_of_rows(rows_by_hash, self._layout.due_ms)
        order = np.argsort(due_ms, kind="stable")
        due_ms, expiring_hash = due_ms[order], hashes[order]
        columns = [hashes, due_ms, expiring_hash, *rows_by_hash.columns[1:]]
        table = pa.table(columns, schema=self._file_schema).combine_chunks()
        # A segment without rows contains the number of rows of the version. A merge removes it.
        leave_ms = (
            int(self._deletable_at_ms(rows_by_hash).max()) if len(rows_by_hash) else FOREVER_MS
        )
        metadata = {**metadata, _DELETABLE_KEY: str(leave_ms).encode()}
        file = write_segment(self._directory, table, name, sync=sync, metadata=metadata)
        return Segment(file, leave_ms, rows_by_hash, hashes, due_ms, expiring_hash)

    def _deletable_at_ms(self, rows_by_hash: pa.Table) -> Ints:
        """Return the ms after which each row can be deleted, ``FOREVER_MS`` for tombstones."""
        return self._time_of_rows(rows_by_hash, self._layout.leave_ms or never_expires)

    def _time_of_rows(self, rows_by_hash: pa.Table, time_ms: Callable[[pa.Table], Ints]) -> Ints:
        """Return a time for each row of the state. A tombstone has ``FOREVER_MS``."""
        times_ms = np.full(len(rows_by_hash), FOREVER_MS, dtype=np.int64)
        times_ms[np.asarray(rows_by_hash["key"].is_valid())] = time_ms(state_rows(rows_by_hash))
        return times_ms

    def _opened(self, name: str) -> tuple[Segment, Mapping[bytes, bytes]]:
        """Return a segment and its metadata."""
        mapped = map_segment(self._directory, name)
        table = in_schema(mapped.table, self._file_schema, self._directory / name)
        if mapped.parsed is None:
            mapped.parsed = _parsed(name, table)
        found: tuple[Segment, Mapping[bytes, bytes]] = mapped.parsed
        return found

    def _hashed_schema(self) -> pa.Schema:
        return pa.schema([_OWN_FIELDS[0], *self._layout.schema])


def _rows_with_hashes(hashes: Ints, wanted: Ints) -> tuple[Ints, Flags]:
    """Return the rows with one of the ``wanted`` hashes, and which wanted hashes exist.

    Both arguments ascend.
    """
    # Each element of the shorter array is searched in the longer one.
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


def _parsed(name: str, table: pa.Table) -> tuple[Segment, Mapping[bytes, bytes]]:
    """Return a segment and its metadata."""
    metadata = table.schema.metadata
    hashes, due_ms, expiring_hash = (_mapped(table.column(column)) for column in range(3))
    rows_by_hash = table.select([0, *range(3, table.num_columns)]).replace_schema_metadata(None)
    leave_ms = int(metadata[_DELETABLE_KEY])
    return Segment(name, leave_ms, rows_by_hash, hashes, due_ms, expiring_hash), metadata


def _mapped(column: pa.ChunkedArray) -> Ints:
    """Return a column as an array over the mapped file.

    A copy would read the whole column.
    """
    if column.num_chunks == 1:
        numbers: Ints = column.chunk(0).to_numpy()
        return numbers
    return np.asarray(column)
