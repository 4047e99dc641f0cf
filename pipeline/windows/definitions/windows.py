"""Window definitions in the words of Kafka Streams, checked when they are created (semantics.md#6).

A record is late if the last window that can contain it is closed (``Windows.is_late``). For
sessions, the engine decides, because a record can join an open session with any end.
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
from oriel.pipeline.windows.definitions.kafka_hints import WindowHints
from oriel.pipeline.windows.definitions.rules import FOREVER_MS, RULES, Kind, WindowRule

#: The most windows that can contain one record. For each key and batch that changes it, a hopping
#: window costs about 0.5 us of CPU time and 0.5 kB of memory. This is measured up to a million
#: windows. At this bound, a record costs 10 ms and 10 MB. A thousand keys in one batch cost 6 s and
#: 5 GB.
MAX_WINDOWS_PER_RECORD = 10_000

_SIZE, _ADVANCE = "Window size", "Window advance"
_DIFFERENCE, _GAP = "Window time difference", "Session inactivity gap"


class Windows(WindowHints):
    """The base of all window definitions: its rule, its length and when its windows close."""

    grace_ms: int

    @property
    @abstractmethod
    def kind(self) -> Kind:
        """The kind of the windows, a key of ``RULES``."""

    @property
    @abstractmethod
    def length_ms(self) -> int:
        """The size, time difference or inactivity gap."""

    @property
    @abstractmethod
    def least_retention_ms(self) -> int:
        """The shortest retention of a store with such windows (semantics.md#6)."""

    @property
    def rule(self) -> WindowRule:
        """The rule of this window kind."""
        return RULES[self.kind]

    @property
    def close_delay_ms(self) -> int:
        """The difference of stream time and close time in milliseconds."""
        return self.grace_ms + (self.length_ms if self.rule.gap_delays_close else 0)

    @abstractmethod
    def last_end_ms(self, timestamp_ms: Ints) -> Ints:
        """Return the end of the last window that can contain a record at each time."""

    def is_late(self, timestamp_ms: Ints, close_ms: Ints) -> Flags:
        """Return which records are late by their times and close times.

        A window with a greater end closes later. If the last one is closed for a record, all
        windows are therefore closed (semantics.md#0-2, semantics.md#0-3).
        """
        return ~self.rule.is_open(self.last_end_ms(timestamp_ms), close_ms)


@dataclass(frozen=True)
class TimeWindows(Windows):
    """Tumbling or hopping windows of a fixed size (semantics.md#3-1).

    A window ``[start, start + size_ms)`` starts at each multiple of ``advance_ms``. It is closed
    when stream time reaches ``start + size_ms + grace_ms`` (semantics.md#3-2).

    Example:
        >>> TimeWindows.of_size_and_grace(60_000, 5_000)
        TimeWindows(size_ms=60000, grace_ms=5000, advance_ms=60000)
    """

    size_ms: int
    grace_ms: int
    advance_ms: int

    def __post_init__(self) -> None:
        """Reject windows that are empty, leave gaps, or overlap more than the bound.

        Raises:
            IllegalArgument: A field is not an integer, the size or the advance is not positive, the
                advance is longer than the size, the grace is negative, size + grace does not fit
                into 64-bit microseconds, or a record would be in more than
                ``MAX_WINDOWS_PER_RECORD`` windows.
        """
        check_integer_ms(self.size_ms, _SIZE)
        if self.size_ms <= 0:
            message = f"{_SIZE} must be larger than zero, but it is {self.size_ms} ms"
            raise IllegalArgument(message)
        check_not_negative_ms(self.grace_ms, GRACE)
        # Kafka Streams does not check this sum for an overflow. Delta stores times as 64-bit
        # microseconds, so the end of a longer window would not fit.
        check_span_ms(self.size_ms + self.grace_ms, "size + grace")
        check_integer_ms(self.advance_ms, _ADVANCE)
        # With a longer advance, records between two windows would be in none.
        if not 0 < self.advance_ms <= self.size_ms:
            message = (
                f"{_ADVANCE} must be larger than zero and at most the window size of "
                f"{self.size_ms} ms, but it is {self.advance_ms} ms"
            )
            raise IllegalArgument(message)
        # The starts in (t - size, t] are multiples of the advance: the quotient rounded up.
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
        """Define tumbling windows with a size and a grace (KIP-633).

        Call ``advance_by`` on the result for hopping windows.

        Args:
            size_ms: The length of a window, in milliseconds or as a ``timedelta``.
            grace_ms: How long a window accepts records after its end, in milliseconds of stream
                time or as a ``timedelta``.

        Returns:
            The definition.

        Raises:
            IllegalArgument: The size is not positive, the grace is negative, or size + grace does
                not fit into 64-bit microseconds.

        Example:
            >>> from datetime import timedelta
            >>> TimeWindows.of_size_and_grace(timedelta(minutes=1), 5_000)
            TimeWindows(size_ms=60000, grace_ms=5000, advance_ms=60000)
        """
        size_ms = to_ms(size_ms, _SIZE)
        return cls(size_ms, to_ms(grace_ms, GRACE), size_ms)

    @classmethod
    def of_size_with_no_grace(cls, size_ms: Duration) -> "TimeWindows":
        """Define tumbling windows that close when stream time reaches their end (KIP-633).

        Args:
            size_ms: The length of a window, in milliseconds or as a ``timedelta``.

        Returns:
            The definition with a grace of 0.

        Raises:
            IllegalArgument: The size is not positive, or does not fit into 64-bit microseconds.

        Example:
            >>> TimeWindows.of_size_with_no_grace(60_000).grace_ms
            0
        """
        return cls.of_size_and_grace(size_ms, 0)

    def advance_by(self, advance_ms: Duration) -> "TimeWindows":
        """Define hopping windows of the same size.

        Args:
            advance_ms: The distance between two window starts, in milliseconds or as a
                ``timedelta``.

        Returns:
            The definition with this advance.

        Raises:
            IllegalArgument: The advance is not positive, is longer than the size, or puts a record
                into more than 10,000 windows.

        Example:
            >>> TimeWindows.of_size_and_grace(60_000, 5_000).advance_by(10_000)
            TimeWindows(size_ms=60000, grace_ms=5000, advance_ms=10000)
        """
        return replace(self, advance_ms=to_ms(advance_ms, _ADVANCE))

    @property
    def kind(self) -> Kind:
        """Hopping if the windows overlap, otherwise tumbling."""
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
        """Return the end of the window that starts at the last multiple up to the record."""
        return timestamp_ms // self.advance_ms * self.advance_ms + self.size_ms


@dataclass(frozen=True)
class SlidingWindows(Windows):
    """Sliding windows, which the records define (KIP-450, semantics.md#2-2).

    Records that are at most ``time_difference_ms`` apart share a window. A window
    ``[start, start + time_difference_ms]`` contains both ends. It is closed when stream time is
    greater than ``start + time_difference_ms + grace_ms``.

    Example:
        >>> SlidingWindows.of_time_difference_and_grace(1_800_000, 60_000)
        SlidingWindows(time_difference_ms=1800000, grace_ms=60000)
    """

    time_difference_ms: int
    grace_ms: int

    def __post_init__(self) -> None:
        """Reject times that are negative or do not fit into 64-bit microseconds.

        Raises:
            IllegalArgument: A field is not an integer or is negative, or 2 * time difference +
                grace does not fit into 64-bit microseconds.
        """
        # Kafka Streams also accepts D = 0, but then fails on the first record. Here, such a window
        # is one millisecond.
        check_not_negative_ms(self.time_difference_ms, _DIFFERENCE)
        check_not_negative_ms(self.grace_ms, GRACE)
        check_span_ms(self.least_retention_ms, "2 * time difference + grace")

    @classmethod
    def of_time_difference_and_grace(
        cls, time_difference_ms: Duration, grace_ms: Duration
    ) -> "SlidingWindows":
        """Define sliding windows with a time difference and a grace (KIP-633).

        Args:
            time_difference_ms: The greatest distance between two records of a window, in
                milliseconds or as a ``timedelta``. With 0, a window contains the records of one
                millisecond.
            grace_ms: How long a window accepts records after its end, in milliseconds of stream
                time or as a ``timedelta``.

        Returns:
            The definition.

        Raises:
            IllegalArgument: A time is negative, or 2 * time difference + grace does not fit into
                64-bit microseconds.

        Example:
            >>> windows = SlidingWindows.of_time_difference_and_grace(60_000, 5_000)
            >>> windows.time_difference_ms
            60000
        """
        return cls(to_ms(time_difference_ms, _DIFFERENCE), to_ms(grace_ms, GRACE))

    @classmethod
    def of_time_difference_with_no_grace(cls, time_difference_ms: Duration) -> "SlidingWindows":
        """Define sliding windows that close when stream time passes their end (KIP-633).

        Args:
            time_difference_ms: The greatest distance between two records of a window, in
                milliseconds or as a ``timedelta``.

        Returns:
            The definition with a grace of 0.

        Raises:
            IllegalArgument: The time difference is negative, or twice the time difference does not
                fit into 64-bit microseconds.

        Example:
            >>> SlidingWindows.of_time_difference_with_no_grace(60_000).grace_ms
            0
        """
        return cls.of_time_difference_and_grace(time_difference_ms, 0)

    @property
    def kind(self) -> Kind:
        """Always sliding."""
        return "sliding"

    @property
    def length_ms(self) -> int:
        """The time difference."""
        return self.time_difference_ms

    @property
    def least_retention_ms(self) -> int:
        """2 * time difference + grace (semantics.md#6)."""
        # For a record at t, Kafka Streams reads the windows that start at t - 2D or later
        # (KIP-450). A record in time has t >= st - G, so the oldest start is st - G - 2D.
        return 2 * self.time_difference_ms + self.grace_ms

    def last_end_ms(self, timestamp_ms: Ints) -> Ints:
        """Return the end of a window that would start at the record (semantics.md#0-3)."""
        return timestamp_ms + self.time_difference_ms


@dataclass(frozen=True)
class SessionWindows(Windows):
    """Sessions: records of a key at most the inactivity gap apart (KIP-94, semantics.md#4-1).

    A session goes from its first to its last record and contains both. It is closed when stream
    time is greater than ``end + inactivity_gap_ms + grace_ms``.

    Example:
        >>> SessionWindows.of_inactivity_gap_and_grace(1_800_000, 60_000)
        SessionWindows(inactivity_gap_ms=1800000, grace_ms=60000)
    """

    inactivity_gap_ms: int
    grace_ms: int

    def __post_init__(self) -> None:
        """Reject times that are negative or do not fit into 64-bit microseconds.

        Raises:
            IllegalArgument: A field is not an integer or is negative, or gap + grace does not fit
                into 64-bit microseconds.
        """
        # With a gap of 0, only records with equal times share a session. Kafka Streams accepts it
        # since release 4.1.
        check_not_negative_ms(self.inactivity_gap_ms, _GAP)
        check_not_negative_ms(self.grace_ms, GRACE)
        check_span_ms(self.least_retention_ms, "inactivity gap + grace")

    @classmethod
    def of_inactivity_gap_and_grace(
        cls, inactivity_gap_ms: Duration, grace_ms: Duration
    ) -> "SessionWindows":
        """Define sessions with an inactivity gap and a grace (KIP-633).

        Args:
            inactivity_gap_ms: The greatest distance between two neighbors in a session, in
                milliseconds or as a ``timedelta``. With 0, only records of equal times share a
                session.
            grace_ms: How much later a session closes, in milliseconds of stream time or as a
                ``timedelta``.

        Returns:
            The definition.

        Raises:
            IllegalArgument: A time is negative, or gap + grace does not fit into 64-bit
                microseconds.

        Example:
            >>> visits = SessionWindows.of_inactivity_gap_and_grace(1_800_000, 60_000)
            >>> visits.inactivity_gap_ms
            1800000
        """
        return cls(to_ms(inactivity_gap_ms, _GAP), to_ms(grace_ms, GRACE))

    @classmethod
    def of_inactivity_gap_with_no_grace(cls, inactivity_gap_ms: Duration) -> "SessionWindows":
        """Define sessions without a grace, which close a gap after their end (KIP-633).

        Args:
            inactivity_gap_ms: The greatest distance between two neighbors in a session, in
                milliseconds or as a ``timedelta``.

        Returns:
            The definition with a grace of 0.

        Raises:
            IllegalArgument: The gap is negative, or does not fit into 64-bit microseconds.

        Example:
            >>> SessionWindows.of_inactivity_gap_with_no_grace(1_800_000).grace_ms
            0
        """
        return cls.of_inactivity_gap_and_grace(inactivity_gap_ms, 0)

    @property
    def kind(self) -> Kind:
        """Always session."""
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
        """Return an unbounded end, because a record can join an open session of any end.

        No record is therefore late by its own time. The engine tests the merged session
        (semantics.md#0-6).
        """
        return np.full(len(timestamp_ms), FOREVER_MS, dtype=np.int64)


@dataclass(frozen=True)
class NoWindows(Windows):
    """A grouping without windows: one row per key, over all of its records."""

    # Not a field, because the window never closes.
    grace_ms = 0

    @property
    def kind(self) -> Kind:
        """Always none."""
        return "none"

    @property
    def length_ms(self) -> int:
        """Always 0."""
        return 0

    @property
    def least_retention_ms(self) -> int:
        """Always 0, because rows do not expire."""
        return 0

    def last_end_ms(self, timestamp_ms: Ints) -> Ints:
        """Return the end of the only window, which contains every time."""
        return np.full(len(timestamp_ms), FOREVER_MS, dtype=np.int64)


#: The rule of the versions of a table. They are not windows of records, so the table ``RULES`` of
#: the documentation does not have it.
_VERSIONS = WindowRule(
    kind="versioned",
    end_is_inclusive=False,
    gap_delays_close=False,
    takes_null_values=True,
    changes_several=False,
    starts="at each record",
    holds="start <= t < end",
    closes="end <= stream time - history retention",
)


@dataclass(frozen=True)
class VersionWindows(Windows):
    """The versions of a versioned table. Each version is a window of 1 ms at its time (KIP-889).

    So a record is late if it is older than stream time - history retention, as in Kafka Streams.
    The grace is the history retention.
    """

    grace_ms: int

    def __str__(self) -> str:
        """Return the text for ``describe``."""
        return f"versions, history_retention_ms={self.grace_ms}"

    @property
    def kind(self) -> Kind:
        """Always versioned."""
        return "versioned"

    @property
    def rule(self) -> WindowRule:
        """The rule of versions."""
        return _VERSIONS

    @property
    def length_ms(self) -> int:
        """Always 1, the shortest time between two versions of a key."""
        return 1

    @property
    def least_retention_ms(self) -> int:
        """The history retention, which is the only retention of versions."""
        return self.grace_ms

    def last_end_ms(self, timestamp_ms: Ints) -> Ints:
        """Return the end of the version that starts at each time."""
        return timestamp_ms + 1
