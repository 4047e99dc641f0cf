"""From partition sessions to the store's rows: joined, told where they changed, removed.

A session that grew or swallowed others has other bounds than before: the old row is
told as deleted, the new one as changed, in the same batch.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa

from pipeline.windows.definitions import SessionWindows
from pipeline.windows.engine import EngineResult, Flags
from pipeline.windows.exact_sum import Ints
from pipeline.windows.members import Ranges
from pipeline.windows.session_links import Sessions, bounds_of, components, hulls


@dataclass(frozen=True)
class _Joined:
    """The store's sessions: key code, bounds, and the rows of each, side by side."""

    code: Ints
    start: Ints
    end: Ints
    rows: Ints
    ranges: Ranges


class SessionColumns(Protocol):
    """What a state row keeps of its records, and how rows are put together."""

    @property
    def aggregate_types(self) -> Mapping[str, pa.DataType]:
        """The store's columns beside key, window and times."""

    def merged(self, rows: pa.Table, ranges: Ranges) -> pa.Table:
        """One row for each range of rows."""

    def results(self, rows: pa.Table) -> dict[str, pa.Array]:
        """The aggregates of each row."""


class SessionStore:
    """Tells what changed between two sets of partition sessions."""

    def __init__(
        self, windows: SessionWindows, columns: SessionColumns, *, emit_final_only: bool
    ) -> None:
        """Join sessions of ``windows``; with ``emit_final_only`` tell only what is final."""
        self._gap = windows.inactivity_gap_ms
        self._rule = windows.rule
        self._columns = columns
        self._emit_final_only = emit_final_only

    def advanced(
        self,
        before: tuple[pa.Table, Ints, Ints],
        after: tuple[pa.Table, Ints, Flags],
        keys: pa.Array,
        close_ms: int,
    ) -> EngineResult:
        """Return the next state and the changed rows.

        ``before`` is (partition sessions, key codes, keys that changed though no session of
        theirs is left), ``after`` is (partition sessions, key codes, which of them changed).
        """
        table, code, touched = after
        ends = np.asarray(table["window_end_ms"])
        touched_keys = np.zeros(len(keys), dtype=np.bool_)
        touched_keys[code[touched]] = True
        touched_keys[before[2]] = True
        looked_at = touched_keys.copy()
        looked_at[code[~self._rule.is_open(ends, close_ms)]] = True
        chosen = np.flatnonzero(looked_at[code]) if len(code) else np.zeros(0, dtype=np.int64)
        joined = self._joined(table, code, chosen)
        final = ~self._rule.is_open(joined.end, close_ms)
        changed = _any(touched, joined)
        told = final if self._emit_final_only else final | changed
        changes = [self._rows(table, joined, told, keys, final)]
        if not self._emit_final_only:
            changes.append(self._vanished(before, joined, touched_keys, keys))
        gone = np.zeros(len(table), dtype=np.bool_)
        gone[joined.rows[np.repeat(final, joined.ranges.sizes)]] = True
        rows = pa.concat_tables(changes).sort_by(
            [("key", "ascending"), ("window_start_ms", "ascending"), ("window_end_ms", "ascending")]
        )
        return EngineResult(table.filter(pa.array(~gone)), rows)

    def _joined(self, table: pa.Table, code: Ints, chosen: Ints) -> _Joined:
        """Join the chosen partition sessions."""
        rows = table.take(pa.array(chosen))
        code = code[chosen]
        start, end = (np.asarray(rows[n]) for n in ("window_start_ms", "window_end_ms"))
        component = components(Sessions(code, start, end, np.asarray(rows["reach_ms"])))
        order, least, greatest = hulls(component, start, end)
        low, high = bounds_of(component)
        return _Joined(code[order][low], least, greatest, chosen[order], Ranges(low, high))

    def _rows(
        self, table: pa.Table, joined: _Joined, told: Flags, keys: pa.Array, final: Flags
    ) -> pa.Table:
        """The rows of the sessions that are told."""
        chosen = joined.ranges.keep(told)
        bounds = np.concatenate([[0], np.cumsum(chosen.sizes)])
        rows = table.take(pa.array(joined.rows[chosen.rows()[1]]))
        merged = self._columns.merged(rows, Ranges(bounds[:-1], bounds[1:]))
        code, start, end = joined.code[told], joined.start[told], joined.end[told]
        return _told(keys, (code, start, end), self._columns.results(merged), final[told])

    def _vanished(
        self,
        before: tuple[pa.Table, Ints, Ints],
        after: _Joined,
        touched_keys: Flags,
        keys: pa.Array,
    ) -> pa.Table:
        """Rows of sessions of touched keys that were there before and aren't any more."""
        table, code, _ = before
        chosen = np.flatnonzero(touched_keys[code]) if len(code) else np.zeros(0, dtype=np.int64)
        old = self._joined(table, code, chosen)
        columns = [
            np.concatenate(pair)
            for pair in ((old.code, after.code), (old.start, after.start), (old.end, after.end))
        ]
        is_new = np.arange(len(columns[0])) >= len(old.code)
        order = np.lexsort((is_new, *reversed(columns)))
        same = np.ones(max(len(order) - 1, 0), dtype=np.bool_)
        for column in columns:
            same &= np.diff(column[order]) == 0
        stays = np.append(same, values=False)[: len(order)]
        gone = order[~is_new[order] & ~stays]
        code, start, end = (column[gone] for column in columns)
        types = self._columns.aggregate_types
        empty = {name: pa.nulls(len(gone), found) for name, found in types.items()}
        final = np.zeros(len(gone), dtype=np.bool_)
        return _told(keys, (code, start, end), empty, final, deleted=True)


def _any(touched: Flags, joined: _Joined) -> Flags:
    before = np.concatenate([[0], np.cumsum(touched[joined.rows])])
    found: Flags = before[joined.ranges.high] > before[joined.ranges.low]
    return found


def _told(
    keys: pa.Array,
    place: tuple[Ints, Ints, Ints],
    aggregates: dict[str, pa.Array],
    final: Flags,
    *,
    deleted: bool = False,
) -> pa.Table:
    """Rows of the store; a session's timestamp is its end (KIP-259)."""
    code, start, end = place
    return pa.table({
        "key": keys.take(pa.array(code)),
        "window_start_ms": pa.array(start),
        "window_end_ms": pa.array(end),
        **aggregates,
        "timestamp_ms": pa.array(end),
        "final": pa.array(final),
        "deleted": pa.array(np.full(len(code), deleted)),
    })  # fmt: skip
