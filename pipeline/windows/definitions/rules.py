"""The rules of each window kind as one table, and which of a batch's windows are written.

The engines read the table, and docs/concepts/windows.md is drawn from it.

Each window has a *last* ms, the greatest record time that it can hold. One question then
serves every kind: a window is open for a record while ``last >= close time``, where close
time = stream time - grace (sessions: - inactivity gap too). Kind by kind, this is
semantics.md#0-2: ``s+S > st-G`` for ends that are exclusive, ``s+D >= st-G`` and
``b >= st-G-gap`` for inclusive ones.

A record's close time decides what it may still enter. The least close time of all partitions
decides what is final: no record that comes later can have a smaller one, because stream time
never goes back.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from oriel.pipeline.windows.arrays import Flags, Ints
from oriel.pipeline.windows.definitions.other_words import WindowWords

Kind = Literal["tumbling", "hopping", "sliding", "session", "none"]

#: The end of the one window of a grouping without windows: no record is later.
FOREVER_MS = 2**61


@dataclass(frozen=True)
class WindowRule:
    """How windows of one kind lie, what they hold and when they close.

    ``end_is_inclusive``: whether a record exactly at the window's end is in it.
    ``gap_delays_close``: whether a window stays open for the inactivity gap beyond the grace.
    ``takes_null_values``: whether a record without a value is aggregated (semantics.md#1-2).
    ``changes_several``: whether a record may change the rows of several windows.
    ``starts``, ``holds``, ``closes``: the same for people.
    """

    kind: Kind
    end_is_inclusive: bool
    gap_delays_close: bool
    takes_null_values: bool
    changes_several: bool
    starts: str
    holds: str
    closes: str

    def last_ms(self, end_ms: Ints) -> Ints:
        """The greatest record time that windows with these ends can hold."""
        return end_ms if self.end_is_inclusive else end_ms - 1

    def is_open(self, end_ms: Ints, close_ms: Ints | int) -> Flags:
        """Whether windows with these ends take a record of this close time (semantics.md#0-2).

        With the close time of all partitions: whether the windows are not final.
        """
        opened: Flags = self.last_ms(end_ms) >= close_ms
        return opened

    def first_open_end_ms(self, close_ms: Ints) -> Ints:
        """The least end that ``is_open`` allows at each close time."""
        return close_ms if self.end_is_inclusive else close_ms + 1


RULES: Mapping[Kind, WindowRule] = {
    rule.kind: rule
    for rule in (
        WindowRule(
            kind="tumbling",
            end_is_inclusive=False,
            gap_delays_close=False,
            takes_null_values=True,
            changes_several=False,
            starts="every size ms, counted from the epoch",
            holds="start <= t < end",
            closes="end <= stream time - grace",
        ),
        WindowRule(
            kind="hopping",
            end_is_inclusive=False,
            gap_delays_close=False,
            takes_null_values=True,
            changes_several=True,
            starts="every advance ms, counted from the epoch; windows overlap",
            holds="start <= t < end",
            closes="end <= stream time - grace",
        ),
        WindowRule(
            kind="sliding",
            end_is_inclusive=True,
            gap_delays_close=False,
            takes_null_values=False,
            changes_several=True,
            starts="so that it ends at a record, or 1 ms after a record",
            holds="start <= t <= end",
            closes="end < stream time - grace",
        ),
        WindowRule(
            kind="session",
            end_is_inclusive=True,
            gap_delays_close=True,
            takes_null_values=True,
            changes_several=True,
            starts="at the first record of a burst; records at most the gap apart are one burst",
            holds="start <= t <= end, the times of its first and last record",
            closes="end < stream time - grace - gap",
        ),
        WindowRule(
            kind="none",
            end_is_inclusive=True,
            gap_delays_close=False,
            takes_null_values=False,
            changes_several=False,
            starts="never: there is one row a key",
            holds="every record of the key",
            closes="never",
        ),
    )
}


@dataclass(frozen=True)
class EmitStrategy(WindowWords):
    """When a window's rows are written (semantics.md#2-5, semantics.md#2-6)."""

    name: Literal["window-update", "window-close"]

    @classmethod
    def on_window_update(cls) -> "EmitStrategy":
        """After every batch that changed the window; ``final`` says when it is the last time."""
        return cls("window-update")

    @classmethod
    def on_window_close(cls) -> "EmitStrategy":
        """Once, when the window is final: no record can change it any more."""
        return cls("window-close")

    @property
    def is_on_close(self) -> bool:
        """Whether a window's only row is its final one."""
        return self.name == "window-close"

    def emits(self, changed: Flags, final: Flags) -> Flags:
        """Which windows a batch writes.

        ``changed`` are those that a record of the batch changed, ``final`` those that it made
        final. On update both are written: a window that becomes final without a new record
        is written once more, with the same values and ``final`` set.
        """
        emitted: Flags = final if self.is_on_close else changed | final
        return emitted
