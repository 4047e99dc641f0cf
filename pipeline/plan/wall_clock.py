"""The two limits by wall-clock time: for records of the future, and for idle partitions.

Everything else in a store depends only on its records. The driver reads the wall clock once per
batch, and the time is part of the plan. So all tasks, stores and joins use the same time. After a
crash, a prepared batch uses its time again (decision 0032).
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

from oriel.storage import Offsets

#: Name of a stream time -> partition -> a time in ms.
StreamTimesByName = dict[str, dict[int, int]]
#: Name of a stream time -> partitions.
Partitions = Mapping[str, Collection[int]]


@dataclass(frozen=True)
class WallClockLimits:
    """The limits by wall-clock time, in milliseconds. None: no limit.

    Attributes:
        max_ahead_ms: A record that is further ahead of the wall clock is a dead letter.
        idle_after_ms: A partition without a record for longer is idle. Windows do not wait for it.
    """

    max_ahead_ms: int | None = None
    idle_after_ms: int | None = None


#: No limits by wall-clock time.
NO_LIMITS = WallClockLimits()


@dataclass(frozen=True)
class WallClock:
    """The wall clock of one batch.

    Attributes:
        now_ms: The time of the batch in milliseconds.
        since_ms: The time at which the run began.
        settings: The limits.
    """

    now_ms: int = 0
    since_ms: int = 0
    settings: WallClockLimits = NO_LIMITS

    def at(self, now_ms: int) -> "WallClock":
        """Return this wall clock at another time."""
        return replace(self, now_ms=now_ms)

    def as_prepared(self, notes: "StreamTimeNotes") -> "WallClock":
        """Return this wall clock with the time and the bound of a prepared batch."""
        # With another bound, a record could be a dead letter in one store and applied in another
        # store, in the same batch.
        settings = replace(self.settings, max_ahead_ms=notes.max_ahead_ms)
        return replace(self, now_ms=notes.now_ms, settings=settings)

    @property
    def latest_ms(self) -> int | None:
        """The greatest time that a record can have. None: no limit."""
        max_ahead_ms = self.settings.max_ahead_ms
        return None if max_ahead_ms is None else self.now_ms + max_ahead_ms

    def idle_partitions(self, last_records_ms: StreamTimesByName) -> dict[str, frozenset[int]]:
        """Return the partitions of each stream time without a record for ``idle_after_ms``.

        The idle time begins at the start of the run at the earliest, because the pipeline read no
        records before it.

        Args:
            last_records_ms: The wall-clock time of the last record of each partition.
        """
        idle_after_ms = self.settings.idle_after_ms
        if idle_after_ms is None:
            return {}
        # At a start, each partition has ``idle_after_ms`` to deliver a record. Otherwise, a
        # pipeline that did not run for an hour would find all partitions idle.
        least_ms = self.now_ms - idle_after_ms
        return {
            name: frozenset(p for p, ms in times_ms.items() if max(ms, self.since_ms) < least_ms)
            for name, times_ms in last_records_ms.items()
        }


#: A wall clock without limits, so its time has no effect.
NO_WALL_CLOCK = WallClock()


@dataclass(frozen=True)
class StreamTimeNotes:
    """The notes of a state version about its stream times.

    Attributes:
        now_ms: The wall-clock time of the batch.
        max_ahead_ms: How far ahead of it a record could be. None: no limit.
        heard_ms: Name of a stream time -> partition -> wall-clock time of the last batch with a
            record that the stream uses.
        idle: The idle partitions of the batch.
        idle_times: How many times a partition has become idle.
        held_by: The name of the stream time and the partition that keep windows from becoming
            final. None: windows wait for no partition. The partition is -1 for a stream without
            partitions.
        mended: The changes by ``oriel clock --set``, the oldest first.
    """

    now_ms: int = -1
    max_ahead_ms: int | None = None
    heard_ms: Offsets = field(default_factory=dict)
    idle: dict[str, list[int]] = field(default_factory=dict)
    idle_times: int = 0
    held_by: tuple[str, int] | None = None
    mended: list[str] = field(default_factory=list)

    @classmethod
    def from_fields(cls, fields: Mapping[str, Any] | None) -> Self:
        """Return the notes from their JSON fields. Versions of earlier releases do not have all.

        None: the version does not have notes.
        """
        values = dict(fields or {})
        if values.get("held_by") is not None:
            name, partition = values["held_by"]
            values["held_by"] = name, partition
        return cls(**values)


#: The notes before the first batch.
NO_STREAM_TIME_NOTES = StreamTimeNotes()


def last_records_ms(
    before: StreamTimeNotes, stream_times: StreamTimesByName, now_ms: int
) -> StreamTimesByName:
    """Return the wall-clock time of each partition's last record, ``now_ms`` for a new one.

    ``before`` has the times up to the previous batch, and ``stream_times`` all known partitions.
    """
    return {
        # A partition without an entry is new. Its idle time starts with this batch, because 0 as
        # the time would mean that it is idle at once.
        name: {p: before.heard_ms.get(name, {}).get(str(p), now_ms) for p in partitions}
        for name, partitions in stream_times.items()
    }
