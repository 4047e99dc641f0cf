"""From partition sessions to the store's rows: joined, told where they changed, removed.

A session that grew or swallowed others has other bounds than before: the old row is
told as deleted, the new one as changed, in the same batch.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import pyarrow as pa

from oriel.pipeline.windows.arrays import Flags, Ints, Ranges, heads
from oriel.pipeline.windows.definitions import EmitStrategy, SessionWindows
from oriel.pipeline.windows.engines.contract import EngineResult
from oriel.pipeline.windows.engines.sessions.session_links import Sessions, components


@dataclass(frozen=True)
class KeyedSessions:
    """Partition sessions as state rows, with the codes of their keys."""

    table: pa.Table
    code: Ints


@dataclass(frozen=True)
class _Joined:
    """The store's sessions: key code and bounds; ``rows[ranges]`` are the state rows of each."""

    code: Ints
    start: Ints
    end: Ints
    rows: Ints
    ranges: Ranges

    @property
    def place(self) -> tuple[Ints, Ints, Ints]:
        """Key code and bounds: no two sessions of a key have the same."""
        return self.code, self.start, self.end

    @property
    def members(self) -> Ints:
        """The state rows of all sessions, one session after the other."""
        return self.rows[self.ranges.rows()[1]]

    def keep(self, chosen: Flags) -> "_Joined":
        """The sessions where ``chosen`` is set."""
        return replace(
            self,
            code=self.code[chosen],
            start=self.start[chosen],
            end=self.end[chosen],
            ranges=self.ranges.keep(chosen),
        )


class SessionColumns(Protocol):
    """What a state row keeps of its records, and how rows are put together."""

    @property
    def aggregate_types(self) -> Mapping[str, pa.DataType]:
        """The store's columns beside key, window and times."""

    @property
    def fields(self) -> Sequence[pa.Field]:
        """The columns of a state row that ``merged`` and ``results`` need."""

    def merged(self, rows: pa.Table, ranges: Ranges) -> pa.Table:
        """One row for each range of rows."""

    def results(self, rows: pa.Table) -> dict[str, pa.Array]:
        """The aggregates of each row."""


class SessionStore:
    """Tells what changed between two sets of partition sessions."""

    def __init__(
        self, windows: SessionWindows, columns: SessionColumns, *, emit: EmitStrategy
    ) -> None:
        """Join sessions of ``windows``; ``emit`` says which are told."""
        self._rule = windows.rule
        self._columns = columns
        self._emit = emit

    def advanced(
        self,
        before: KeyedSessions,
        after: KeyedSessions,
        touched: Flags,
        broken: Ints,
        keys: pa.Array,
        close_ms: int,
    ) -> EngineResult:
        """Return the next state and the changed rows.

        ``touched`` are the sessions of ``after`` that changed, ``broken`` the codes of keys
        that lost a session: what it was a part of is told anew, or as deleted.
        """
        touched_keys = np.zeros(len(keys), dtype=np.bool_)
        touched_keys[after.code[touched]] = True
        touched_keys[broken] = True
        closed = ~self._rule.is_open(np.asarray(after.table["window_end_ms"]), close_ms)
        looked_at = touched_keys.copy()
        looked_at[after.code[closed]] = True
        joined = self._joined(after, looked_at)
        final = told = ~self._rule.is_open(joined.end, close_ms)
        changes = []
        if not self._emit.is_on_close:
            known = self._joined(before, touched_keys)
            told = final | joined.ranges.any_of(touched[joined.rows])
            if len(broken):
                # Fewer parts are new content; as many parts and none touched are the same ones.
                same = _among(
                    (*joined.place, joined.ranges.sizes), (*known.place, known.ranges.sizes)
                )
                told |= np.isin(joined.code, broken) & ~same
            gone = known.keep(~_among(known.place, joined.place))
            changes.append(self._vanished(gone, keys))
        changes.append(self._rows(after.table, joined.keep(told), keys, final[told]))
        stays = np.ones(len(after.table), dtype=np.bool_)
        stays[joined.keep(final).members] = False
        rows = pa.concat_tables(changes).sort_by(
            [("key", "ascending"), ("window_start_ms", "ascending"), ("window_end_ms", "ascending")]
        )
        return EngineResult(after.table.filter(pa.array(stays)), rows)

    def _joined(self, sessions: KeyedSessions, chosen_keys: Flags) -> _Joined:
        """Join the partition sessions of the chosen keys; ``chosen_keys`` has a flag a code."""
        chosen = np.flatnonzero(chosen_keys[sessions.code])
        table, code = sessions.table.take(pa.array(chosen)), sessions.code[chosen]
        start, end, reach = (
            np.asarray(table[name]) for name in ("window_start_ms", "window_end_ms", "reach_ms")
        )
        component = components(Sessions(code, start, end, reach))
        order = np.argsort(component, kind="stable")
        ranges = Ranges.side_by_side(np.bincount(component))
        return _Joined(
            code=code[order][ranges.low],
            start=np.minimum.reduceat(start[order], ranges.low),
            end=np.maximum.reduceat(end[order], ranges.low),
            rows=chosen[order],
            ranges=ranges,
        )

    def _rows(self, table: pa.Table, joined: _Joined, keys: pa.Array, final: Flags) -> pa.Table:
        """The rows of sessions that are there; ``table`` has the state rows."""
        rows = table.take(pa.array(joined.members))
        merged = self._columns.merged(rows, Ranges.side_by_side(joined.ranges.sizes))
        return _told(keys, joined, self._columns.results(merged), final)

    def _vanished(self, gone: _Joined, keys: pa.Array) -> pa.Table:
        """Rows of sessions that were there before and aren't any more."""
        types = self._columns.aggregate_types
        nulls = {name: pa.nulls(len(gone.code), found) for name, found in types.items()}
        return _told(keys, gone, nulls, np.zeros(len(gone.code), dtype=np.bool_), deleted=True)


def _among(rows: Sequence[Ints], others: Sequence[Ints]) -> Flags:
    """Which rows, each given by its columns, are among the others."""
    columns = [np.concatenate(pair) for pair in zip(others, rows, strict=True)]
    # Stable: of equal rows the others stand first.
    order = np.lexsort(columns[::-1])
    head = heads(*(column[order] for column in columns))
    run = np.cumsum(head) - 1
    found = np.empty(len(order), dtype=np.bool_)
    found[order] = (order[head] < len(others[0]))[run]
    among: Flags = found[len(others[0]) :]
    return among


def _told(
    keys: pa.Array,
    joined: _Joined,
    aggregates: dict[str, pa.Array],
    final: Flags,
    *,
    deleted: bool = False,
) -> pa.Table:
    """Rows of the store; a session's timestamp is its end (KIP-259)."""
    return pa.table({
        "key": keys.take(pa.array(joined.code)),
        "window_start_ms": pa.array(joined.start),
        "window_end_ms": pa.array(joined.end),
        **aggregates,
        "timestamp_ms": pa.array(joined.end),
        "final": pa.array(final),
        "deleted": pa.array(np.full(len(final), deleted)),
    })  # fmt: skip
