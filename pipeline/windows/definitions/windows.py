"""Window definitions in Kafka Streams' words, validated when made (semantics.md#6).

``is_late`` of a definition is the one place that says when a record is refused altogether:
when even the last window that could hold it is closed for it.
"""

from abc import abstractmethod
from dataclasses import dataclass, replace

import numpy as np

from oriel.pipeline.windows.arrays import Flags, Ints
from oriel.pipeline.windows.definitions.durations import (
    GRACE,
    Duration,
    check_integer_ms,
    check_not_negative_ms,
    check_span_ms,
    to_ms,
)
from oriel.pipeline.windows.definitions.errors import IllegalArgument
from oriel.pipeline.windows.definitions.other_words import WindowWords
from oriel.pipeline.windows.definitions.rules import FOREVER_MS, RULES, Kind, WindowRule

#: The most windows that one record may be in. A hopping window costs about 0.5 us of processor
#: and 0.5 kB of memory for each key and batch that touches it, measured up to a million
#: of them: at this bound a single record takes 10 ms and 10 MB, and a thousand keys in one
#: batch 6 s and 5 GB.
MAX_WINDOWS_PER_RECORD = 10_000

_SIZE, _ADVANCE = "Window size", "Window advance"
_DIFFERENCE, _GAP = "Window time difference", "Session inactivity gap"


class Windows(WindowWords):
    """What every window definition can tell: its rule and how long after it a window closes."""

    grace_ms: int

    @property
    @abstractmethod
    def kind(self) -> Kind:
        """The window kind, a key of the rules table."""

    @property
    @abstractmethod
    def length_ms(self) -> int:
        """The size, time difference or inactivity gap."""

    @property
    @abstractmethod
    def least_retention_ms(self) -> int:
        """The shortest retention that a store of these windows may have (semantics.md#6)."""

    @property
    def rule(self) -> WindowRule:
        """The rule of this window kind."""
        return RULES[self.kind]

    @property
    def close_delay_ms(self) -> int:
        """Close time = stream time - this."""
        return self.grace_ms + (self.length_ms if self.rule.gap_delays_close else 0)

    @abstractmethod
    def last_end_ms(self, timestamp_ms: Ints) -> Ints:
        """The end of the last window that can hold a record at each of these times."""

    def is_late(self, timestamp_ms: Ints, close_ms: Ints) -> Flags:
        """Which records are refused, as far as their own times and close times tell.

        A window that ends later stays open longer, so once the last one is closed for a
        record, all of them are (semantics.md#0-2 and semantics.md#0-3).
        """
        return ~self.rule.is_open(self.last_end_ms(timestamp_ms), close_ms)


@dataclass(frozen=True)
class TimeWindows(Windows):
    """Tumbling or hopping windows ``[s, s + size_ms)``, ``s`` a multiple of ``advance_ms``.

    A window is closed for a record once ``s + size_ms <= stream time - grace_ms``.
    """

    size_ms: int
    grace_ms: int
    advance_ms: int

    def __post_init__(self) -> None:
        """Refuse windows that are empty, leave gaps, or overlap more than memory allows.

        Raises:
            IllegalArgument: a field is no integer, the size or the advance is not positive,
                the advance is longer than the size, the grace is negative, size + grace is
                longer than a time of this system can be, or a record would be in more than
                ``MAX_WINDOWS_PER_RECORD`` windows.
        """
        check_integer_ms(self.size_ms, _SIZE)
        if self.size_ms <= 0:
            message = f"{_SIZE} must be larger than zero, it is {self.size_ms} ms"
            raise IllegalArgument(message)
        check_not_negative_ms(self.grace_ms, GRACE)
        check_span_ms(self.size_ms + self.grace_ms, "size + grace")
        check_integer_ms(self.advance_ms, _ADVANCE)
        # With a longer advance, records between two windows would be in none.
        if not 0 < self.advance_ms <= self.size_ms:
            message = (
                f"{_ADVANCE} must be larger than zero and at most the window size of "
                f"{self.size_ms} ms, it is {self.advance_ms} ms"
            )
            raise IllegalArgument(message)
        # The starts in (t - size, t] that are multiples of the advance: the quotient rounded up.
        windows_per_record = -(-self.size_ms // self.advance_ms)
        if windows_per_record > MAX_WINDOWS_PER_RECORD:
            least_advance_ms = -(-self.size_ms // MAX_WINDOWS_PER_RECORD)
            message = (
                f"{_ADVANCE} of {self.advance_ms} ms puts each record into {windows_per_record} "
                f"windows of {self.size_ms} ms, and at most {MAX_WINDOWS_PER_RECORD} are allowed. "
                f"Advance by at least {least_advance_ms} ms, or use SlidingWindows, which has "
                "about two windows for each record"
            )
            raise IllegalArgument(message)

    @classmethod
    def of_size_and_grace(cls, size_ms: Duration, grace_ms: Duration) -> "TimeWindows":
        """Tumbling windows of ``size_ms``; ``advance_by`` makes them hop.

        Raises:
            IllegalArgument: the size is not positive, the grace is negative, or size + grace
                is longer than a time of this system can be.
        """
        size_ms = to_ms(size_ms, _SIZE)
        return cls(size_ms, to_ms(grace_ms, GRACE), size_ms)

    @classmethod
    def of_size_with_no_grace(cls, size_ms: Duration) -> "TimeWindows":
        """Tumbling windows that close as soon as stream time has passed them (grace 0)."""
        return cls.of_size_and_grace(size_ms, 0)

    def advance_by(self, advance_ms: Duration) -> "TimeWindows":
        """Windows of the same size that start every ``advance_ms``.

        Raises:
            IllegalArgument: the advance is not positive, longer than the size, or so short
                that a record would be in more than ``MAX_WINDOWS_PER_RECORD`` windows.
        """
        return replace(self, advance_ms=to_ms(advance_ms, _ADVANCE))

    @property
    def kind(self) -> Kind:
        """Hopping when the windows overlap."""
        return "tumbling" if self.advance_ms == self.size_ms else "hopping"

    @property
    def length_ms(self) -> int:
        """The size."""
        return self.size_ms

    @property
    def least_retention_ms(self) -> int:
        """Size + grace (semantics.md#6)."""
        return self.size_ms + self.grace_ms

    def last_end_ms(self, timestamp_ms: Ints) -> Ints:
        """The end of the window that starts at the multiple of the advance at or before."""
        return timestamp_ms // self.advance_ms * self.advance_ms + self.size_ms


@dataclass(frozen=True)
class SlidingWindows(Windows):
    """Sliding windows of KIP-450: both ends inclusive, aligned to the records.

    A window ``[s, s + time_difference_ms]`` is closed for a record once
    ``s + time_difference_ms < stream time - grace_ms``. A time difference of 0 is
    supported: a window then holds the records of one ms.
    """

    time_difference_ms: int
    grace_ms: int

    def __post_init__(self) -> None:
        """Refuse durations that are negative or longer than a time of this system can be.

        Raises:
            IllegalArgument: a field is no integer or negative, or 2 * time difference + grace
                is too long.
        """
        check_not_negative_ms(self.time_difference_ms, _DIFFERENCE)
        check_not_negative_ms(self.grace_ms, GRACE)
        check_span_ms(self.least_retention_ms, "2 * time difference + grace")

    @classmethod
    def of_time_difference_and_grace(
        cls, time_difference_ms: Duration, grace_ms: Duration
    ) -> "SlidingWindows":
        """Windows whose records are at most ``time_difference_ms`` apart.

        Raises:
            IllegalArgument: a duration is negative, or 2 * time difference + grace is
                longer than a time of this system can be.
        """
        return cls(to_ms(time_difference_ms, _DIFFERENCE), to_ms(grace_ms, GRACE))

    @classmethod
    def of_time_difference_with_no_grace(cls, time_difference_ms: Duration) -> "SlidingWindows":
        """Windows that close as soon as stream time has passed them (grace 0)."""
        return cls.of_time_difference_and_grace(time_difference_ms, 0)

    @property
    def kind(self) -> Kind:
        """Sliding."""
        return "sliding"

    @property
    def length_ms(self) -> int:
        """The time difference."""
        return self.time_difference_ms

    @property
    def least_retention_ms(self) -> int:
        """2 * time difference + grace (semantics.md#6)."""
        return 2 * self.time_difference_ms + self.grace_ms

    def last_end_ms(self, timestamp_ms: Ints) -> Ints:
        """The end of a window that would start at the record (semantics.md#0-3)."""
        return timestamp_ms + self.time_difference_ms


@dataclass(frozen=True)
class SessionWindows(Windows):
    """Sessions of KIP-94: records at most ``inactivity_gap_ms`` apart are one session.

    A session ``[a, b]`` goes from its first to its last record, both inclusive, and is
    closed for a record once ``b < stream time - grace_ms - inactivity_gap_ms``.
    """

    inactivity_gap_ms: int
    grace_ms: int

    def __post_init__(self) -> None:
        """Refuse durations that are negative or longer than a time of this system can be.

        Raises:
            IllegalArgument: a field is no integer or negative, or gap + grace is too long.
        """
        check_not_negative_ms(self.inactivity_gap_ms, _GAP)
        check_not_negative_ms(self.grace_ms, GRACE)
        check_span_ms(self.least_retention_ms, "inactivity gap + grace")

    @classmethod
    def of_inactivity_gap_and_grace(
        cls, inactivity_gap_ms: Duration, grace_ms: Duration
    ) -> "SessionWindows":
        """Sessions that end when no record comes for longer than ``inactivity_gap_ms``.

        A gap of 0 merges equal times only.

        Raises:
            IllegalArgument: a duration is negative, or gap + grace is longer than a time of
                this system can be.
        """
        return cls(to_ms(inactivity_gap_ms, _GAP), to_ms(grace_ms, GRACE))

    @classmethod
    def of_inactivity_gap_with_no_grace(cls, inactivity_gap_ms: Duration) -> "SessionWindows":
        """Sessions that close once stream time is more than the gap past them (grace 0)."""
        return cls.of_inactivity_gap_and_grace(inactivity_gap_ms, 0)

    @property
    def kind(self) -> Kind:
        """Session."""
        return "session"

    @property
    def length_ms(self) -> int:
        """The inactivity gap."""
        return self.inactivity_gap_ms

    @property
    def least_retention_ms(self) -> int:
        """Inactivity gap + grace (semantics.md#6)."""
        return self.inactivity_gap_ms + self.grace_ms

    def last_end_ms(self, timestamp_ms: Ints) -> Ints:
        """Unbounded: an open session that the record touches may end at any time.

        So no record is late by its own times. The engine tests the merged session
        (semantics.md#0-6).
        """
        return np.full(len(timestamp_ms), FOREVER_MS, dtype=np.int64)


@dataclass(frozen=True)
class NoWindows(Windows):
    """A grouping without windows: one row a key, over all of its records."""

    # No field: there is nothing that could close.
    grace_ms = 0

    @property
    def kind(self) -> Kind:
        """None."""
        return "none"

    @property
    def length_ms(self) -> int:
        """There is none: 0."""
        return 0

    @property
    def least_retention_ms(self) -> int:
        """Nothing expires: 0."""
        return 0

    def last_end_ms(self, timestamp_ms: Ints) -> Ints:
        """The end of the one window that holds every time."""
        return np.full(len(timestamp_ms), FOREVER_MS, dtype=np.int64)
