"""Window definitions in Kafka Streams' words, validated when made (semantics section 6)."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from datetime import timedelta

from oriel.pipeline.windows.definitions.errors import IllegalArgument
from oriel.pipeline.windows.definitions.rules import RULES, Kind, WindowRule

#: The latest record time that is accepted: the last ms of the year 9999, which is also
#: where SQL's TIMESTAMP ends.
MAX_TIMESTAMP_MS = 253_402_300_799_999

#: Bound of the engine's time arithmetic: Delta stores times as signed 64-bit microseconds.
_MAX_SPAN_MS = 2**63 // 1000 - 2 * MAX_TIMESTAMP_MS

#: Longer than this is no duration, whatever it is of: 64 bits (semantics section 6).
_LONGEST_MS = 2**63 - 1

Duration = int | timedelta


def to_ms(duration: Duration, what: str) -> int:
    """Return ``duration`` in whole ms; a timedelta is cut to whole ms.

    Raises:
        IllegalArgument: it is neither an integer nor a timedelta, or exceeds 64 bits.
    """
    if isinstance(duration, timedelta):
        duration = duration // timedelta(milliseconds=1)
    if isinstance(duration, bool) or not isinstance(duration, int):
        message = f"{what} must be an integer number of ms or a timedelta, not {duration!r}"
        raise IllegalArgument(message)
    if duration > _LONGEST_MS:
        message = f"{what} must not exceed {_LONGEST_MS} ms, it is {duration} ms"
        raise IllegalArgument(message)
    return duration


def to_ms_not_negative(duration: Duration, what: str) -> int:
    """Return ``duration`` in whole ms.

    Raises:
        IllegalArgument: it is negative, or neither an integer nor a timedelta.
    """
    duration_ms = to_ms(duration, what)
    if duration_ms < 0:
        message = f"{what} must not be negative, it is {duration_ms} ms"
        raise IllegalArgument(message)
    return duration_ms


class Windows(ABC):
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
        """The shortest retention that a store of these windows may have (semantics section 6)."""

    @property
    def rule(self) -> WindowRule:
        """The rule of this window kind."""
        return RULES[self.kind]

    @property
    def close_delay_ms(self) -> int:
        """Close time = stream time - this."""
        return self.grace_ms + (self.length_ms if self.rule.gap_delays_close else 0)


@dataclass(frozen=True)
class TimeWindows(Windows):
    """Tumbling or hopping windows ``[s, s + size_ms)``, ``s`` a multiple of ``advance_ms``.

    A window is closed for a record once ``s + size_ms <= stream time - grace_ms``.
    """

    size_ms: int
    grace_ms: int
    advance_ms: int

    @classmethod
    def of_size_and_grace(cls, size_ms: Duration, grace_ms: Duration) -> "TimeWindows":
        """Tumbling windows of ``size_ms``; ``advance_by`` makes them hop.

        Raises:
            IllegalArgument: the size is not positive, the grace is negative, or size + grace
                is longer than a time of this system can be.
        """
        size = to_ms(size_ms, "Window size")
        if size <= 0:
            message = f"Window size must be larger than zero, it is {size} ms"
            raise IllegalArgument(message)
        grace = checked_grace(grace_ms)
        refuse_too_long("size + grace", size + grace)
        return cls(size, grace, size)

    @classmethod
    def of_size_with_no_grace(cls, size_ms: Duration) -> "TimeWindows":
        """Tumbling windows that close as soon as stream time has passed them (grace 0)."""
        return cls.of_size_and_grace(size_ms, 0)

    def advance_by(self, advance_ms: Duration) -> "TimeWindows":
        """Windows of the same size that start every ``advance_ms``.

        Raises:
            IllegalArgument: the advance is not positive, or longer than the size (records
                between the windows would be lost).
        """
        advance = to_ms(advance_ms, "Window advance")
        if not 0 < advance <= self.size_ms:
            message = (
                f"Window advance must be larger than zero and at most the window size of "
                f"{self.size_ms} ms, it is {advance} ms"
            )
            raise IllegalArgument(message)
        return replace(self, advance_ms=advance)

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
        """Size + grace (semantics section 6)."""
        return self.size_ms + self.grace_ms


@dataclass(frozen=True)
class SlidingWindows(Windows):
    """Sliding windows of KIP-450: both ends inclusive, aligned to the records.

    A window ``[s, s + time_difference_ms]`` is closed for a record once
    ``s + time_difference_ms < stream time - grace_ms``. A time difference of 0 is
    supported: a window then holds the records of one ms.
    """

    time_difference_ms: int
    grace_ms: int

    @classmethod
    def of_time_difference_and_grace(
        cls, time_difference_ms: Duration, grace_ms: Duration
    ) -> "SlidingWindows":
        """Windows whose records are at most ``time_difference_ms`` apart.

        Raises:
            IllegalArgument: a duration is negative, or 2 * time difference + grace is
                longer than a time of this system can be.
        """
        difference = to_ms_not_negative(time_difference_ms, "Window time difference")
        grace = checked_grace(grace_ms)
        refuse_too_long("2 * time difference + grace", 2 * difference + grace)
        return cls(difference, grace)

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
        """2 * time difference + grace (semantics section 6)."""
        return 2 * self.time_difference_ms + self.grace_ms


@dataclass(frozen=True)
class SessionWindows(Windows):
    """Sessions of KIP-94: records at most ``inactivity_gap_ms`` apart are one session.

    A session ``[a, b]`` goes from its first to its last record, both inclusive, and is
    closed for a record once ``b < stream time - grace_ms - inactivity_gap_ms``.
    """

    inactivity_gap_ms: int
    grace_ms: int

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
        gap = to_ms_not_negative(inactivity_gap_ms, "Session inactivity gap")
        grace = checked_grace(grace_ms)
        refuse_too_long("inactivity gap + grace", gap + grace)
        return cls(gap, grace)

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
        """Inactivity gap + grace (semantics section 6)."""
        return self.inactivity_gap_ms + self.grace_ms


@dataclass(frozen=True)
class NoWindows(Windows):
    """A grouping without windows: one row a key, over all of its records."""

    grace_ms: int = 0

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


def checked_grace(grace: Duration) -> int:
    """Return a grace period in ms.

    Raises:
        IllegalArgument: it is negative.
    """
    return to_ms_not_negative(grace, "Window grace period")


def refuse_too_long(what: str, span_ms: int) -> None:
    """Refuse spans that the time arithmetic can't hold.

    Raises:
        IllegalArgument: the span is too long; the message says which.
    """
    if span_ms > _MAX_SPAN_MS:
        message = f"{what} must not exceed {_MAX_SPAN_MS} ms, it is {span_ms} ms"
        raise IllegalArgument(message)
