"""Which rows records tell of sessions: those that are gone, and those that there are now."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import NamedTuple, Self

import numpy as np
import pyarrow as pa

from oriel.pipeline.windows.arrays import Flags, Ints, Ranges


@dataclass
class Sessions:
    """Partition sessions by the number of their version, those of the state first, as flat lists.

    A version beside them has its record's number behind those of the state; it is there if the
    record is ``taken``, and ``stays`` unless a function has removed it. ``joined`` has the
    versions, by end, that a record has ended, if any.
    """

    partition: list[int]
    start_ms: list[int]
    end_ms: list[int]
    reach_ms: list[int]
    taken: list[bool]
    stays: list[bool]
    joined: dict[int, tuple[int, ...]] = field(default_factory=dict)

    @classmethod
    def of(cls, state: pa.Table, batch: pa.Table) -> Self:
        """Those of ``state``, and room for one version for each record of ``batch``."""
        room = [0] * len(batch)
        names = ("window_start_ms", "window_end_ms", "reach_ms")
        partition = state["partition"].to_pylist() + batch["partition"].to_pylist()
        start_ms, end_ms, reach_ms = (state[name].to_pylist() + room for name in names)
        is_old = [True] * len(state) + [False] * len(batch)
        return cls(partition, start_ms, end_ms, reach_ms, is_old, [True] * len(is_old))

    def linked(self, versions: Iterable[int]) -> list[tuple[int, ...]]:
        """Versions of a key as sessions of the store, by end; of each its versions by end."""
        linked: list[list[int]] = []
        highest_ms = -1
        for version in sorted(versions, key=self.reach_ms.__getitem__):
            if linked and self.reach_ms[version] <= highest_ms:
                linked[-1].append(version)
            else:
                linked.append([version])
            highest_ms = max(highest_ms, self.end_ms[version])
        return [tuple(sorted(each, key=self._order)) for each in linked]

    def bounds(self, session: Sequence[int]) -> tuple[int, int]:
        """Start and end of a session of the store."""
        return min(self.start_ms[each] for each in session), self.end_ms[session[-1]]

    def _order(self, version: int) -> tuple[int, int, int]:
        """Decision 0009 merges the aggregates of several partitions in this order."""
        return self.end_ms[version], self.start_ms[version], self.partition[version]


class SessionRows(NamedTuple):
    """Rows that are told: number of the record, bounds in ms, how many versions; 0: it is gone.

    ``versions`` are those of all rows, one behind the other.
    """

    record: Ints
    start_ms: Ints
    end_ms: Ints
    sizes: Ints
    versions: Ints

    def followed_by(self, others: "SessionRows") -> "SessionRows":
        """These rows, and others behind them."""
        return SessionRows(*(np.concatenate(columns) for columns in zip(self, others, strict=True)))

    def take(self, rows: Ints) -> "SessionRows":
        """The rows with these numbers."""
        ranges = Ranges.side_by_side(self.sizes)
        versions = self.versions[Ranges(ranges.low[rows], ranges.high[rows]).rows()[1]]
        bounds = self.start_ms[rows], self.end_ms[rows]
        return SessionRows(self.record[rows], *bounds, self.sizes[rows], versions)


def session_rows(
    sessions: Sessions, state_code: Ints, code: Ints, is_several: Flags
) -> SessionRows:
    """The rows that records tell, in their order.

    ``state_code`` has the key of each session in the state, ``code`` that of each record, and
    ``is_several`` says of each key whether it has sessions of several partitions.
    """
    first = len(state_code)
    start_ms, end_ms = np.array(sessions.start_ms), np.array(sessions.end_ms)
    is_taken = np.array(sessions.taken[first:], dtype=np.bool_)
    record = np.flatnonzero(is_taken & ~is_several[code])
    # Of the record's ms alone nothing has gone, if it is there once more.
    told = record[start_ms[first + record] != end_ms[first + record]].tolist()
    joined = [sessions.joined.get(each, ()) for each in told]
    gone = np.array(list(chain(*joined)), dtype=np.int64)
    of_gone = np.repeat(np.array(told, dtype=np.int64), [len(each) for each in joined])
    version = np.concatenate([gone, first + record])
    sizes = np.zeros(len(version), dtype=np.int64)
    sizes[len(gone) :] = np.array(sessions.stays, dtype=np.int64)[first + record]
    bounds = start_ms[version], end_ms[version]
    rows = SessionRows(np.concatenate([of_gone, record]), *bounds, sizes, version[sizes > 0])
    rows = rows.followed_by(_linked_rows(sessions, state_code, code, is_several))
    # By record; each tells first what is gone.
    return rows.take(np.argsort(rows.record, kind="stable"))


def _linked_rows(
    sessions: Sessions, state_code: Ints, code: Ints, is_several: Flags
) -> SessionRows:
    """The rows that are told of keys with sessions of several partitions."""
    first = len(state_code)
    versions_of: dict[int, list[int]] = {int(key): [] for key in np.flatnonzero(is_several)}
    for version in np.flatnonzero(is_several[state_code]).tolist():
        versions_of[int(state_code[version])].append(version)
    linked_of = {key: _Linked(sessions, versions) for key, versions in versions_of.items()}
    rows: list[tuple[int, int, int, tuple[int, ...]]] = []
    for record in np.flatnonzero(is_several[code]).tolist():
        version = first + record
        if not sessions.taken[version]:
            continue
        known, now = linked_of[int(code[record])].changed(version, sessions.joined.get(record, ()))
        # By their parts: what stays as it was is not told.
        after = [(*sessions.bounds(each), each) for each in now if each not in known]
        gone = [sessions.bounds(each) for each in known if each not in now]
        hull = sessions.start_ms[version], sessions.end_ms[version]
        is_alone = hull[0] == hull[1]
        if sessions.stays[version]:
            gone = [] if is_alone and [each[:2] for each in after] == [hull] else gone
        elif hull not in map(sessions.bounds, now):
            # A function has removed it; a session of another partition there would stay.
            gone = [each for each in gone if each != hull or not is_alone] + [hull]
        rows += [(record, *each, ()) for each in gone] + [(record, *each) for each in after]
    records, start_ms, end_ms = (
        np.array([row[n] for row in rows], dtype=np.int64) for n in range(3)
    )
    sizes = np.array([len(row[3]) for row in rows], dtype=np.int64)
    versions = np.array(list(chain(*(row[3] for row in rows))), dtype=np.int64)
    return SessionRows(records, start_ms, end_ms, sizes, versions)


class _Linked:
    """The sessions of a key of several partitions, by end: a record changes neighbours."""

    def __init__(self, sessions: Sessions, versions: Iterable[int]) -> None:
        self._sessions = sessions
        self._linked = sessions.linked(versions)
        self._low_ms, self._end_ms = self._spans(self._linked)

    def changed(
        self, version: int, joined: Sequence[int]
    ) -> tuple[list[tuple[int, ...]], list[tuple[int, ...]]]:
        """Put a version in place of those that it has joined; the sessions before and after.

        Those that its interval from reach to end overlaps: it spans those of all that it joined.
        """
        first = bisect_left(self._end_ms, self._sessions.reach_ms[version])
        last = bisect_right(self._low_ms, self._sessions.end_ms[version])
        known = self._linked[first:last]
        parts = set(chain(*known)).difference(joined)
        now = self._sessions.linked(parts | {version} if self._sessions.stays[version] else parts)
        self._linked[first:last] = now
        self._low_ms[first:last], self._end_ms[first:last] = self._spans(now)
        return known, now

    def _spans(self, linked: Iterable[Sequence[int]]) -> tuple[list[int], list[int]]:
        """The least reach of each session, and its end: both ascend, as spans are apart."""
        reach_ms, end_ms = self._sessions.reach_ms, self._sessions.end_ms
        lows = [min(reach_ms[version] for version in each) for each in linked]
        return lows, [end_ms[each[-1]] for each in linked]
