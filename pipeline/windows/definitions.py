"""Window definitions in Kafka Streams' words, validated when made (semantics section 6)."""

from dataclasses import dataclass
from datetime import timedelta

from pipeline.windows.errors import IllegalArgument

#: The latest record time that is accepted: the last ms of the year 9999, which is also
#: where SQL's TIMESTAMP ends.
MAX_TIMESTAMP_MS = 253_402_300_799_999

#: Bound of the engine's time arithmetic: Delta stores times as signed 64-bit microseconds.
_MAX_SPAN_MS = 2**63 // 1000 - 2 * MAX_TIMESTAMP_MS

Duration = int | timedelta


def to_ms(duration: Duration, what: str) -> int:
    """Return ``duration`` in whole ms; a timedelta is cut to whole ms.

    Raises:
        IllegalArgument: it is neither an integer nor a timedelta.
    """
    if isinstance(duration, timedelta):
        return duration // timedelta(milliseconds=1)
    if isinstance(duration, bool) or not isinstance(duration, int):
        message = f"{what} must be an integer number of ms or a timedelta, not {duration!r}"
        raise IllegalArgument(message)
    return duration


@dataclass(frozen=True)
class SlidingWindows:
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
        difference = to_ms(time_difference_ms, "Window time difference")
        grace = to_ms(grace_ms, "Window grace period")
        if difference < 0:
            message = f"Window time difference must not be negative, it is {difference} ms"
            raise IllegalArgument(message)
        if grace < 0:
            message = f"Window grace period must not be negative, it is {grace} ms"
            raise IllegalArgument(message)
        if 2 * difference + grace > _MAX_SPAN_MS:
            message = (
                f"2 * time difference + grace must not exceed {_MAX_SPAN_MS} ms, it is "
                f"{2 * difference + grace} ms"
            )
            raise IllegalArgument(message)
        return cls(difference, grace)

    @classmethod
    def of_time_difference_with_no_grace(cls, time_difference_ms: Duration) -> "SlidingWindows":
        """Windows that close as soon as stream time has passed them (grace 0)."""
        return cls.of_time_difference_and_grace(time_difference_ms, 0)

    @property
    def least_retention_ms(self) -> int:
        """The shortest retention that a store of these windows may have (semantics section 6)."""
        return 2 * self.time_difference_ms + self.grace_ms
