"""Partition sessions of one key that are one session of the store (docs/decisions/0009, rule 2).

Let X and Y be partition sessions of a key in different partitions, and let Y end first. They are
one session if and only if a record of X reached Y while Y was still open for X's partition. For a
record at ``t`` with close time ``c``, this is ``c <= Y's end`` and ``t - gap <= Y's end``.
The least ``max(c, t - gap)`` of the records of X is the *reach* of X. X and Y are one session if
and only if ``X's reach <= Y's end``. Each record of X either has ``c <= t`` or joined a session
that ended at or after its ``c``. A reach is therefore never greater than the end of its own
session, and the rule is symmetric:

    X and Y are one session  if and only if  the closed intervals [reach, end] overlap,

and a session of the store is a connected component of such intervals. Two sessions of one partition
need no rule, because their intervals never overlap. A session that a record of X could reach was
open for it, so the record merged both.

Two sessions of a key never have the same end, because it would be in the intervals of both.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from oriel.pipeline.windows.arrays import Flags, Ints, Ranges, run_starts
from oriel.pipeline.windows.engines.sessions.merging import overlapping


@dataclass(frozen=True)
class StateRows:
    """Partition sessions as state rows, with the code of the key of each row."""

    table: pa.Table
    code: Ints


@dataclass(frozen=True)
class StoreSessions:
    """Sessions of the store, sorted by key: the code of the key, and the bounds in milliseconds.

    ``state_rows[ranges]`` are the state rows of the partition sessions of each session.
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
        """The code of the key, start and end, which identify a session of the store."""
        return self.code, self.start_ms, self.end_ms

    @property
    def members(self) -> Ints:
        """The state rows of all sessions, one session after the other."""
        return self.state_rows[self.ranges.rows()[1]]

    def keep(self, chosen: Flags) -> "StoreSessions":
        """Return the sessions for which ``chosen`` is set."""
        return replace(
            self,
            code=self.code[chosen],
            start_ms=self.start_ms[chosen],
            end_ms=self.end_ms[chosen],
            ranges=self.ranges.keep(chosen),
        )


def linked_sessions(state: StateRows, chosen_keys: Flags) -> StoreSessions:
    """Link the partition sessions of the chosen keys. ``chosen_keys`` has a flag per code."""
    # All partition sessions of a chosen key are linked, also unchanged ones, because a new session
    # can link two old ones. For example, a session with the interval [5, 22] links sessions with
    # [-10, 10] and [20, 40], which have no time in common.
    rows = np.flatnonzero(chosen_keys[state.code])
    chosen, code = state.table.take(pa.array(rows)), state.code[rows]
    start_ms, end_ms, reach_ms = (
        np.asarray(chosen[name]) for name in ("window_start_ms", "window_end_ms", "reach_ms")
    )
    order, components = overlapping(code, reach_ms, end_ms)
    # The first row of a component has the least reach, but not always the least start. For example,
    # the gap is 10. A record at 0 with the close time 0 has the reach 0. A record at 5 with the
    # close time -5 has the reach -5, so its session is first and starts later.
    return StoreSessions(
        code=code[order][components.low],
        start_ms=np.minimum.reduceat(start_ms[order], components.low),
        end_ms=np.maximum.reduceat(end_ms[order], components.low),
        state_rows=rows[order],
        ranges=components,
    )


def differ(sessions: StoreSessions, before: StoreSessions) -> Flags:
    """Return which sessions after a batch are not among the ``before`` sessions before it.

    This is for sessions without a new record. Their partition sessions existed before the batch
    with the same intervals, so they were in one session. If that session had the same bounds and
    the same number of partition sessions, it is unchanged.
    """
    # The bounds alone do not identify a session. If a function removes a partition session inside
    # the bounds, the session has the same bounds and another aggregate.
    bounds_and_sizes, known_counted = ((*s.bounds, s.ranges.sizes) for s in (sessions, before))
    return ~are_among(bounds_and_sizes, known_counted)


def are_among(rows: Sequence[Ints], others: Sequence[Ints]) -> Flags:
    """Return which rows, given by their columns, are among the others."""
    columns = [np.concatenate(pair) for pair in zip(others, rows, strict=True)]
    # One sort of all columns costs O(n log n) and needs no Python object per row, unlike a set of
    # tuples.
    # The sort is stable, and the others are first. A run of equal rows that contains one of the
    # others therefore starts with it.
    order = np.lexsort(columns[::-1])
    head = run_starts(*(column[order] for column in columns))
    run = np.cumsum(head) - 1
    among = np.empty(len(order), dtype=np.bool_)
    among[order] = (order[head] < len(others[0]))[run]
    of_rows: Flags = among[len(others[0]) :]
    return of_rows
