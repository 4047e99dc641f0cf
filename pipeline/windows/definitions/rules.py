"""The table of the rules of each window kind, and the strategies that decide when rows are written.

The engines read the table, and docs/concepts/windows.md is generated from it.

Each window has a *last* ms, the greatest record time that it can contain. The same test therefore
works for every kind: a window is open for a record while ``last >= close time``. The close time is
``stream time - grace``, for sessions ``stream time - grace - gap``. For each kind, this test is
equal to semantics.md#0-2: ``s+S > st-G`` for exclusive ends, and ``s+D >= st-G`` or
``b >= st-G-gap`` for inclusive ends.

The close time of a record decides which windows can accept it. The least close time of all
partitions decides which windows are final. No later record has a smaller close time, because stream
time never decreases.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from oriel.pipeline.windows.arrays import Flags, Ints
from oriel.pipeline.windows.definitions.kafka_hints import WindowHints

Kind = Literal["tumbling", "hopping", "sliding", "session", "none", "versioned"]

#: The end of the only window of a grouping without windows. No record is later.
#: The sum of two such times still fits into 64 bits.
FOREVER_MS = 2**61


@dataclass(frozen=True)
class WindowRule:
    """The bounds of windows of one kind, the records that they contain, and when they close.

    Attributes:
        kind: The kind of the windows.
        end_is_inclusive: True if a record exactly at the end is in the window.
        gap_delays_close: True if a window stays open for the inactivity gap after the grace.
        takes_null_values: True if a null value is aggregated (semantics.md#1-2).
        changes_several: True if a record can change the rows of several windows.
        starts: When windows start, as text for docs/concepts/windows.md.
        holds: Which records a window contains, as text.
        closes: When a window closes, as text.
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
        """Return the greatest record time that windows with these ends can contain."""
        return end_ms if self.end_is_inclusive else end_ms - 1

    def is_open(self, end_ms: Ints, close_ms: Ints | int) -> Flags:
        """Return whether windows with these ends accept a record of this close time.

        With the least close time of all partitions, it returns whether the windows are not final
        (semantics.md#0-2).
        """
        opened: Flags = self.last_ms(end_ms) >= close_ms
        return opened

    def first_open_end_ms(self, close_ms: Ints) -> Ints:
        """Return the least end of an open window at each close time."""
        # For example, [0, 10) is closed at the close time 10, so the least end of an open window is
        # 11. The window [0, 10] is still open.
        return close_ms if self.end_is_inclusive else close_ms + 1


RULES: Mapping[Kind, WindowRule] = {
    rule.kind: rule
    for rule in (
        WindowRule(
            kind="tumbling",
            end_is_inclusive=False,
            gap_delays_close=False,
            # Kafka Streams passes a null value to the aggregator of time windows and sessions. It
            # drops the record in sliding windows and without windows.
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
            starts="every advance ms, counted from the epoch, so windows overlap",
            holds="start <= t < end",
            closes="end <= stream time - grace",
        ),
        WindowRule(
            kind="sliding",
            end_is_inclusive=True,
            gap_delays_close=False,
            takes_null_values=False,
            # A record updates all open windows that contain it. It can create its left window, its
            # right window, and the right window of the previous record (KIP-450).
            changes_several=True,
            starts="so that it ends at a record, or 1 ms after a record",
            holds="start <= t <= end",
            closes="end < stream time - grace",
        ),
        WindowRule(
            kind="session",
            end_is_inclusive=True,
            # A record up to the gap after the end still extends the session (KAFKA-12718).
            gap_delays_close=True,
            takes_null_values=True,
            # A record that joins sessions deletes their rows and writes one new row (KIP-94).
            changes_several=True,
            starts="at the first record of a burst, whose records are at most the gap apart",
            holds="start <= t <= end, the times of its first and last record",
            closes="end < stream time - grace - gap",
        ),
        WindowRule(
            kind="none",
            end_is_inclusive=True,
            gap_delays_close=False,
            takes_null_values=False,
            changes_several=False,
            starts="never, because there is one row per key",
            holds="every record of the key",
            closes="never",
        ),
    )
}


@dataclass(frozen=True)
class EmitStrategy(WindowHints):
    """The rule for when the row of a window is written (semantics.md#2-5, semantics.md#2-6).

    Example:
        >>> hour = TimeWindows.of_size_and_grace(3_600_000, 60_000)
        >>> hourly = flights.group_by_key().windowed_by(hour)
        >>> final = hourly.emit(EmitStrategy.on_window_close()).count().materialize("final_hours")
    """

    name: Literal["window-update", "window-close"]

    @classmethod
    def on_window_update(cls) -> "EmitStrategy":
        """Write a window in each batch that changes it, and once more when it becomes final.

        Returns:
            The strategy, which is the default (semantics.md#2-5).

        Example:
            >>> EmitStrategy.on_window_update()
            EmitStrategy(name='window-update')
        """
        return cls("window-update")

    @classmethod
    def on_window_close(cls) -> "EmitStrategy":
        """Write a window once, when it is final.

        Returns:
            The strategy (semantics.md#2-6).

        Example:
            >>> EmitStrategy.on_window_close()
            EmitStrategy(name='window-close')
        """
        return cls("window-close")

    @property
    def is_on_close(self) -> bool:
        """True if a window is written only when it is final."""
        return self.name == "window-close"

    def emits(self, changed: Flags, final: Flags) -> Flags:
        """Return which windows a batch writes.

        With ``on_window_update``, a window that becomes final without a new record is written once
        more with the same values, because its column ``final`` changes.

        Args:
            changed: True for each window that a record of the batch changed.
            final: True for each window that the batch made final.

        Returns:
            True for each window to write.
        """
        emitted: Flags = final if self.is_on_close else changed | final
        return emitted
