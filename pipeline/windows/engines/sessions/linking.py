"""Partition sessions of one key that are one session of the store (docs/decisions/0009, rule 2).

Let X and Y be partition sessions of a key, of different partitions, Y the one that ends first.
They are one session iff some record of X, at ``t`` with close time ``c``, reached down to Y
while Y was still open for X's partition: ``c <= Y's end`` and ``t - gap <= Y's end``. So it is
enough to know the least ``max(c, t - gap)`` of X's records, X's *reach*: the two are one iff
``X's reach <= Y's end``. A reach is never above the session's own end, because each record of
X either has ``c <= t`` or joined a session that ended at or after its ``c``. Hence

    X and Y are one  iff  the closed intervals [reach, end] of X and Y overlap,

and a session of the store is a connected component of such intervals. Two sessions of one
partition need no rule of their own, as their intervals never overlap: what a record of X could
reach was open for it, and they would have been merged as records came.

No two sessions of a key have the same end: it would lie in the intervals of both.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from oriel.pipeline.windows.arrays import Flags, Ints, Ranges, heads
from oriel.pipeline.windows.engines.sessions.merging import overlapping


@dataclass(frozen=True)
class StateRows:
    """Partition sessions as rows of the state, with the code of each row's key."""

    table: pa.Table
    code: Ints


@dataclass(frozen=True)
class StoreSessions:
    """Sessions of the store, sorted by key: code of the key and bounds in ms.

    ``state_rows[ranges]`` are the state rows of each session's partition sessions.
    """

    code: Ints
    start_ms: Ints
    end_ms: Ints
    state_rows: Ints
    ranges: Ranges

    def __len__(self) -> int:
        return len(self.code)

    @property
    def bounds(self) -> tuple[Ints, Ints, Ints]:
        """Code of the key, start and end: what the store knows a session by."""
        return self.code, self.start_ms, self.end_ms

    @property
    def members(self) -> Ints:
        """The state rows of all sessions, one session after the other."""
        return self.state_rows[self.ranges.rows()[1]]

    def keep(self, chosen: Flags) -> "StoreSessions":
        """The sessions where ``chosen`` is set."""
        return replace(
            self,
            code=self.code[chosen],
            start_ms=self.start_ms[chosen],
            end_ms=self.end_ms[chosen],
            ranges=self.ranges.keep(chosen),
        )


def linked_sessions(state: StateRows, chosen_keys: Flags) -> StoreSessions:
    """Join the partition sessions of the chosen keys; ``chosen_keys`` has a flag for each code."""
    rows = np.flatnonzero(chosen_keys[state.code])
    chosen, code = state.table.take(pa.array(rows)), state.code[rows]
    start_ms, end_ms, reach_ms = (
        np.asarray(chosen[name]) for name in ("window_start_ms", "window_end_ms", "reach_ms")
    )
    order, components = overlapping(code, reach_ms, end_ms)
    return StoreSessions(
        code=code[order][components.low],
        start_ms=np.minimum.reduceat(start_ms[order], components.low),
        end_ms=np.maximum.reduceat(end_ms[order], components.low),
        state_rows=rows[order],
        ranges=components,
    )


def differ(sessions: StoreSessions, known: StoreSessions) -> Flags:
    """Which sessions after a batch are not among the ``known`` ones from before it.

    For sessions that no record touched. Their partition sessions were there before, with the
    same intervals, and so were in one session then. If it ended as this one does, it is the
    known one with that end; and if it had as many members, nothing of it is gone.
    """
    counted, known_counted = ((*s.bounds, s.ranges.sizes) for s in (sessions, known))
    return ~are_among(counted, known_counted)


def are_among(rows: Sequence[Ints], others: Sequence[Ints]) -> Flags:
    """Which rows, each given by its columns, are among the others."""
    columns = [np.concatenate(pair) for pair in zip(others, rows, strict=True)]
    # The sort is stable and the others stand first: a run of equal rows that has one of them
    # begins with it.
    order = np.lexsort(columns[::-1])
    head = heads(*(column[order] for column in columns))
    run = np.cumsum(head) - 1
    among = np.empty(len(order), dtype=np.bool_)
    among[order] = (order[head] < len(others[0]))[run]
    of_rows: Flags = among[len(others[0]) :]
    return of_rows
