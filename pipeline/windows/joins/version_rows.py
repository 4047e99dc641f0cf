"""A versioned table as a store: one row per version (KIP-889).

The row of a version that starts at ``t`` has the window ``[t, t + 1)``. A tombstone has the empty
window ``[t, t)`` and no values. It ends the previous version, as any version does.

A version leaves the table when it has ended at or before stream time - history retention. So each
key keeps the version that was valid at this time, and all later ones. A tombstone leaves when its
own time is older.

The column ``final`` is true for a version that has ended. So the other rows are the newest
versions, and a newest version is written once more when it ends.

The versions do not depend on the order of arrival, except that late records are dropped. A record
that is not late is newer than the end of each version that has left, so these versions stay as they
were.
"""

from typing import Any

import numpy as np
import pyarrow as pa

from oriel.pipeline.windows.arrays import Ints
from oriel.pipeline.windows.definitions import FOREVER_MS, VersionWindows
from oriel.pipeline.windows.engines import EngineResult, StateReader, Times, WindowEngine
from oriel.pipeline.windows.joins.inputs import (
    TABLE_FIELDS,
    TableRecords,
    greatest,
    split_by_key,
    value_fields,
)
from oriel.pipeline.windows.joins.version_history import VALID_TO, Histories
from oriel.pipeline.windows.records import NULL_VALUE, RECORD_FIELDS, changed_rows


class VersionRowsEngine(WindowEngine):
    """The rows of a versioned table. The state has the versions that are in the table."""

    def __init__(
        self, windows: VersionWindows, values: pa.Schema, carried: pa.Schema | None = None
    ) -> None:
        """Keep the versions of records with the columns ``values``.

        Raises:
            IllegalArgument: Two columns have one name.
        """
        columns = value_fields((*TABLE_FIELDS, pa.field("deleted", pa.bool_())), carried, [values])
        self.windows = windows
        self.aggregate_types = {field.name: field.type for field in columns}
        self.record_schema = pa.schema([*RECORD_FIELDS, *(carried or ()), NULL_VALUE, *columns])
        self.state_schema = pa.schema([*TABLE_FIELDS, *(carried or ()), *columns, VALID_TO])
        self._histories = Histories(windows.grace_ms)

    def buckets(self, rows: pa.Table) -> Ints:
        """Return the time bucket of each state row, 0 for newest versions."""
        return self._histories.buckets(rows)

    def due_ms(self, rows: pa.Table) -> Ints:
        """Return the last close time at which each version is in the table."""
        valid_to_ms, deletes = np.asarray(rows[VALID_TO.name]), np.asarray(rows[NULL_VALUE.name])
        due_ms: Ints = np.where(valid_to_ms == FOREVER_MS, FOREVER_MS, valid_to_ms - 1)
        # All earlier versions have left when the time of a tombstone is that old. So it ends none,
        # whether it is the newest version or not.
        return np.where(deletes, np.asarray(rows["timestamp_ms"]), due_ms)

    def needed_state(self, state: StateReader, batch: pa.Table, times: Times) -> Any:
        newest = state.working_set(batch["key"]).rows
        is_version = np.ones(len(batch), dtype=np.bool_)
        changed, read_only = self._histories.time_buckets(newest, batch, is_version)
        closing_ms = self.close_ms(times.before), self.close_ms(times.after)
        return state.working_set_of_buckets(changed, read_only, closing_ms)

    def apply(self, state: pa.Table, batch: pa.Table, times: Times) -> EngineResult:
        """Add the versions of the batch, and remove the expired versions of all keys."""
        arrived = self._read(batch)
        other_keys, before = split_by_key(state, arrived["key"])
        versions, has_changed = self._histories.merged(before, arrived)
        has_changed = np.append(np.zeros(len(other_keys), dtype=np.bool_), has_changed)
        versions = pa.concat_tables([other_keys, versions])
        stays = self.due_ms(versions) >= self.close_ms(times.after)
        changed = versions.filter(pa.array(stays & has_changed))
        after = versions.filter(pa.array(stays)).combine_chunks()
        return EngineResult(after, self._changes(state, after, changed))

    def _changes(self, state: pa.Table, after: pa.Table, written: pa.Table) -> pa.Table:
        """Return the rows of ``written``, and removals of the rows that only ``state`` has."""
        both = TableRecords.of(pa.concat_tables([state, after]))
        is_after = np.arange(len(both.rows)) >= len(state)
        # A new row can replace a version of the same time. If only one is a tombstone, the replaced
        # row has another window.
        row = (both.key_code, both.timestamp_ms, both.deletes.astype(np.int64))
        last = greatest(row, (is_after.astype(np.int64),))
        removed = both.take(last[last < len(state)])
        changed = TableRecords.of(pa.concat_tables([written, removed]))
        is_removed = np.arange(len(changed.rows)) >= len(written)
        order = np.lexsort((~changed.deletes, changed.timestamp_ms, changed.key_code))
        rows, start_ms = changed.take(order), changed.timestamp_ms[order]
        is_removed, has_values = is_removed[order], ~(changed.deletes | is_removed)[order]
        values = {
            # A tombstone that a filter of the table created has values, which are not shown.
            name: rows[name].combine_chunks().take(pa.array(np.arange(len(rows)), mask=~has_values))
            for name in self.aggregate_types
        }
        end_ms = start_ms + ~changed.deletes[order]
        has_ended = np.asarray(rows[VALID_TO.name]) != FOREVER_MS
        return changed_rows(
            rows["key"], (start_ms, end_ms), values, start_ms, final=has_ended, deleted=is_removed
        )
