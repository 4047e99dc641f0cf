"""What wall clock has a say in: how far ahead a record's time may be, and who is not waited for.

All else in a store depends on its records alone. So wall clock is read once for a batch, by the
driver, and is part of the batch's plan: all tasks, stores and sides of joins judge alike, and once
the batch is decided nobody judges again (decision 0032).
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

from oriel.storage import Offsets

#: Clock name -> partition -> a time in ms.
Clocks = dict[str, dict[int, int]]
#: Clock name -> partitions.
Partitions = Mapping[str, Collection[int]]


@dataclass(frozen=True)
class ClockSettings:
    """How wall clock protects the clocks of partitions; None: not at all.

    A record that is more than ``max_ahead_ms`` ahead of wall clock is a dead letter. A partition
    that is silent for more than ``idle_after_ms`` of wall clock is left out of what is final.
    """

    max_ahead_ms: int | None = None
    idle_after_ms: int | None = None


#: Wall clock has no say.
UNPROTECTED = ClockSettings()


@dataclass(frozen=True)
class WallClock:
    """Wall clock as one batch knows it: ``now_ms``, and when the run began, ``since_ms``."""

    now_ms: int = 0
    since_ms: int = 0
    settings: ClockSettings = UNPROTECTED

    def at(self, now_ms: int) -> "WallClock":
        """The same at another time."""
        return replace(self, now_ms=now_ms)

    def as_decided(self, notes: "ClockNotes") -> "WallClock":
        """The same with the time and the bound by which a batch was judged that is decided."""
        settings = replace(self.settings, max_ahead_ms=notes.max_ahead_ms)
        return replace(self, now_ms=notes.now_ms, settings=settings)

    @property
    def latest_ms(self) -> int | None:
        """The greatest time that a record may have; None: any."""
        max_ahead_ms = self.settings.max_ahead_ms
        return None if max_ahead_ms is None else self.now_ms + max_ahead_ms

    def silent(self, heard_ms: Clocks) -> dict[str, frozenset[int]]:
        """The partitions of each clock that were last heard of too long ago.

        Nobody listened before the run began, so no silence is longer than the run.
        """
        idle_after_ms = self.settings.idle_after_ms
        if idle_after_ms is None:
            return {}
        least_ms = self.now_ms - idle_after_ms
        return {
            name: frozenset(p for p, ms in times_ms.items() if max(ms, self.since_ms) < least_ms)
            for name, times_ms in heard_ms.items()
        }


#: Where wall clock has no say, what it is doesn't matter.
NO_WALL_CLOCK = WallClock()


@dataclass(frozen=True)
class ClockNotes:
    """What a state version tells of its clocks, beside their stream times.

    ``now_ms`` is the wall clock of the batch and ``max_ahead_ms`` how far ahead of it a record was
    allowed to be (None: any), ``heard_ms`` is the wall clock of the last batch with a record
    that the stream wants, by clock and partition. ``idle`` are the partitions that the batch left
    out of what is final, ``idle_times`` counts how often one began to be. ``held_by`` is the clock
    and partition that hold the windows open, None where nothing waits; the partition is -1 where
    the stream has none. ``mended`` are acts of ``oriel clock --set``, the oldest first.
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
        """Read back what JSON says; versions of earlier releases say nothing."""
        told = dict(fields or {})
        if told.get("held_by") is not None:
            name, partition = told["held_by"]
            told["held_by"] = name, partition
        return cls(**told)


#: Before the first batch.
NO_CLOCK_NOTES = ClockNotes()


def heard_before(before: ClockNotes, clocks: Clocks, now_ms: int) -> Clocks:
    """When each partition was last heard of; one that is new, now."""
    return {
        name: {p: before.heard_ms.get(name, {}).get(str(p), now_ms) for p in partitions}
        for name, partitions in clocks.items()
    }
