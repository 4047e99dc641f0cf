"""The rows that records of sessions emit: deletions of old sessions, and new sessions."""

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
    """The versions of partition sessions, as lists by the index of the version.

    The sessions of the state are first. They are followed by one version per record of the batch,
    in the order of the batch.

    Attributes:
        partition: The source partition.
        start_ms: The start of the session.
        end_ms: The end of the session.
        reach_ms: The reach of the session (``engines.sessions.linking``).
        taken: True if the version exists, because its record is not late or rejected.
        stays: False if a function removed the session.
        joined: Index of a record -> the versions that its version replaces, by end. A record that
            joins no session is not a key.
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
        """Return the sessions of ``state``, and an unused version per record of ``batch``."""
        unused = [0] * len(batch)
        names = ("window_start_ms", "window_end_ms", "reach_ms")
        partition = state["partition"].to_pylist() + batch["partition"].to_pylist()
        start_ms, end_ms, reach_ms = (state[name].to_pylist() + unused for name in names)
        is_old = [True] * len(state) + [False] * len(batch)
        return cls(partition, start_ms, end_ms, reach_ms, is_old, [True] * len(is_old))

    def linked(self, versions: Iterable[int]) -> list[tuple[int, ...]]:
        """Group versions of one key into sessions of the store, both in the order of ends."""
        linked: list[list[int]] = []
        highest_ms = -1
        # By ascending reach, an interval [reach, end] overlaps an earlier one if and only if its
        # reach is at most the greatest end so far. One pass therefore finds the connected
        # components.
        for version in sorted(versions, key=self.reach_ms.__getitem__):
            if linked and self.reach_ms[version] <= highest_ms:
                linked[-1].append(version)
            else:
                linked.append([version])
            highest_ms = max(highest_ms, self.end_ms[version])
        return [tuple(sorted(each, key=self._order)) for each in linked]

    def bounds(self, session: Sequence[int]) -> tuple[int, int]:
        """Return the start and the end of a session of the store."""
        # The versions of a session are in the order of ends, so the last one has the greatest end.
        # Their starts have no order: [5, 10] of one partition is before [0, 20] of another one.
        return min(self.start_ms[each] for each in session), self.end_ms[session[-1]]

    def _order(self, version: int) -> tuple[int, int, int]:
        """Return the sort key by which aggregates of partitions are merged (decision 0009)."""
        return self.end_ms[version], self.start_ms[version], self.partition[version]


class SessionRows(NamedTuple):
    """Rows to emit, as arrays.

    Attributes:
        record: The index of the record that emits the row.
        start_ms: The start of the session.
        end_ms: The end of the session.
        sizes: The number of versions of the session. 0 means that the session is deleted.
        versions: The versions of all rows, one row after the other.
    """

    record: Ints
    start_ms: Ints
    end_ms: Ints
    sizes: Ints
    versions: Ints

    def followed_by(self, others: "SessionRows") -> "SessionRows":
        """Return these rows, followed by others."""
        return SessionRows(*(np.concatenate(columns) for columns in zip(self, others, strict=True)))

    def take(self, rows: Ints) -> "SessionRows":
        """Return the rows with these indices."""
        ranges = Ranges.side_by_side(self.sizes)
        versions = self.versions[Ranges(ranges.low[rows], ranges.high[rows]).rows()[1]]
        bounds = self.start_ms[rows], self.end_ms[rows]
        return SessionRows(self.record[rows], *bounds, self.sizes[rows], versions)


def session_rows(
    sessions: Sessions, state_code: Ints, record_code: Ints, has_several_partitions: Flags
) -> SessionRows:
    """Return the rows that the records of a batch emit, in the order of the records.

    Args:
        sessions: The versions of the state and of the batch.
        state_code: The code of the key of each session in the state.
        record_code: The code of the key of each record.
        has_several_partitions: True for each key with sessions of several partitions.
    """
    first = len(state_code)
    start_ms, end_ms = np.array(sessions.start_ms), np.array(sessions.end_ms)
    is_taken = np.array(sessions.taken[first:], dtype=np.bool_)
    # For a key with one partition, a partition session is a session of the store, so the rows of
    # all such records are arrays. Other keys need the links after each record.
    record = np.flatnonzero(is_taken & ~has_several_partitions[record_code])
    # If the new session is [t, t], its row replaces the row with the same bounds, so no deletion is
    # emitted (semantics.md#4-4).
    deleting_records = record[start_ms[first + record] != end_ms[first + record]].tolist()
    joined = [sessions.joined.get(each, ()) for each in deleting_records]
    deleted = np.array(list(chain(*joined)), dtype=np.int64)
    record_of_deleted = np.repeat(
        np.array(deleting_records, dtype=np.int64), [len(each) for each in joined]
    )
    # The deleted sessions of a record are in the order of ends, which is the order in which Kafka
    # Streams forwards them.
    version = np.concatenate([deleted, first + record])
    sizes = np.zeros(len(version), dtype=np.int64)
    # A session that a function removed also has the size 0. Its row is a deletion.
    sizes[len(deleted) :] = np.array(sessions.stays, dtype=np.int64)[first + record]
    bounds = start_ms[version], end_ms[version]
    rows = SessionRows(
        np.concatenate([record_of_deleted, record]), *bounds, sizes, version[sizes > 0]
    )
    rows = rows.followed_by(
        _multi_partition_rows(sessions, state_code, record_code, has_several_partitions)
    )
    # The sort is stable, so the deletions of a record are before its new session.
    return rows.take(np.argsort(rows.record, kind="stable"))


def _multi_partition_rows(
    sessions: Sessions, state_code: Ints, record_code: Ints, has_several_partitions: Flags
) -> SessionRows:
    """Return the rows to emit for keys with sessions of several partitions."""
    first = len(state_code)
    versions_of: dict[int, list[int]] = {
        int(key): [] for key in np.flatnonzero(has_several_partitions)
    }
    for version in np.flatnonzero(has_several_partitions[state_code]).tolist():
        versions_of[int(state_code[version])].append(version)
    linked_of = {key: _StoreSessions(sessions, versions) for key, versions in versions_of.items()}
    rows: list[tuple[int, int, int, tuple[int, ...]]] = []
    for record in np.flatnonzero(has_several_partitions[record_code]).tolist():
        # Late and rejected records have a version that is not used, and no row.
        version = first + record
        if not sessions.taken[version]:
            continue
        previous, remaining = linked_of[int(record_code[record])].changed(
            version, sessions.joined.get(record, ())
        )
        # A session that consists of the same versions has not changed, so it is not emitted.
        after = [(*sessions.bounds(each), each) for each in remaining if each not in previous]
        deleted = [sessions.bounds(each) for each in previous if each not in remaining]
        new_bounds = sessions.start_ms[version], sessions.end_ms[version]
        is_single_ms = new_bounds[0] == new_bounds[1]
        # As for one partition, a row of [t, t] replaces the row with the same bounds. If it is the
        # only session afterwards, no deletion is emitted (semantics.md#4-4).
        if sessions.stays[version]:
            deleted = (
                [] if is_single_ms and [each[:2] for each in after] == [new_bounds] else deleted
            )
        elif new_bounds not in map(sessions.bounds, remaining):
            # A function removed the session, and no other session of the key has these bounds.
            deleted = [each for each in deleted if each != new_bounds or not is_single_ms] + [
                new_bounds
            ]
        rows += [(record, *each, ()) for each in deleted] + [(record, *each) for each in after]
    records, start_ms, end_ms = (
        np.array([row[n] for row in rows], dtype=np.int64) for n in range(3)
    )
    sizes = np.array([len(row[3]) for row in rows], dtype=np.int64)
    versions = np.array(list(chain(*(row[3] for row in rows))), dtype=np.int64)
    return SessionRows(records, start_ms, end_ms, sizes, versions)


class _StoreSessions:
    """The sessions of a key with several partitions, by end. A record changes adjacent ones."""

    def __init__(self, sessions: Sessions, versions: Iterable[int]) -> None:
        self._sessions = sessions
        self._linked = sessions.linked(versions)
        self._least_reach_ms, self._end_ms = self._spans(self._linked)

    def changed(
        self, version: int, joined: Sequence[int]
    ) -> tuple[list[tuple[int, ...]], list[tuple[int, ...]]]:
        """Replace the joined versions by a version. Return the sessions around it before and after.

        These are the sessions that overlap its interval from reach to end. The interval contains
        the intervals of all joined versions.
        """
        # Two closed intervals overlap if and only if each one starts at or before the end of the
        # other one. Both lists ascend, so the overlapping sessions are adjacent, and two binary
        # searches find them.
        first = bisect_left(self._end_ms, self._sessions.reach_ms[version])
        last = bisect_right(self._least_reach_ms, self._sessions.end_ms[version])
        previous = self._linked[first:last]
        # If the new version stays, its interval connects all sessions in ``previous``. If a
        # function removed it, the remaining versions can be several sessions, so they are linked
        # again.
        parts = set(chain(*previous)).difference(joined)
        remaining = self._sessions.linked(
            parts | {version} if self._sessions.stays[version] else parts
        )
        self._linked[first:last] = remaining
        self._least_reach_ms[first:last], self._end_ms[first:last] = self._spans(remaining)
        return previous, remaining

    def _spans(self, linked: Iterable[Sequence[int]]) -> tuple[list[int], list[int]]:
        """Return the least reach and the end of each session.

        Both ascend, because the intervals of two sessions do not overlap.
        """
        reach_ms, end_ms = self._sessions.reach_ms, self._sessions.end_ms
        lows = [min(reach_ms[version] for version in each) for each in linked]
        return lows, [end_ms[each[-1]] for each in linked]
