"""Which records of two streams match, and how long a record waits for a match."""

from dataclasses import dataclass, replace

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

#: The inputs of a join, as values of the column ``side``.
LEFT, RIGHT = 0, 1

_DIFFERENCE, _BEFORE, _AFTER = "Join time difference", "Join window before", "Join window after"


@dataclass(frozen=True)
class JoinWindows(WindowHints):
    """Which records of two streams match: ``left - before_ms <= right <= left + after_ms``.

    Both bounds are inclusive, and ``before_ms`` or ``after_ms`` can be negative (semantics.md#5-2).
    A record is late if the time of its last possible match is older than stream time minus the
    grace. Create windows with one of the two class methods.

    Example:
        >>> windows = JoinWindows.of_time_difference_and_grace(60_000, 10_000)
        >>> windows.before(0)
        JoinWindows(before_ms=0, after_ms=60000, grace_ms=10000)
    """

    before_ms: int
    after_ms: int
    grace_ms: int

    def __post_init__(self) -> None:
        """Reject empty ranges, and times that do not fit into 64 bits.

        Raises:
            IllegalArgument: A field is not an integer, before + after or the grace is negative, or
                their sum is too long.
        """
        check_integer_ms(self.before_ms, _BEFORE)
        check_integer_ms(self.after_ms, _AFTER)
        check_not_negative_ms(self.grace_ms, GRACE)
        if self.before_ms + self.after_ms < 0:
            message = (
                f"Join window before + after must not be negative, but it is {self.before_ms} + "
                f"{self.after_ms} ms. If you need a negative side, set the other side first"
            )
            raise IllegalArgument(message)
        # Each bound is added to the time of a record, so each must fit.
        check_span_ms(self.before_ms, "before")
        check_span_ms(self.after_ms, "after")
        check_span_ms(self.before_ms + self.after_ms + self.grace_ms, "before + after + grace")

    @classmethod
    def of_time_difference_and_grace(
        cls, difference_ms: Duration, grace_ms: Duration
    ) -> "JoinWindows":
        """Join records that are at most a time difference apart, in either order.

        Args:
            difference_ms: The greatest difference, in milliseconds or as a ``timedelta``.
            grace_ms: How long records that arrive out of order still match (KIP-633), in
                milliseconds of stream time or as a ``timedelta``.

        Returns:
            The join windows.

        Raises:
            IllegalArgument: A duration is negative, or 2 * difference + grace is too long.

        Example:
            >>> within_a_minute = JoinWindows.of_time_difference_and_grace(60_000, 10_000)
        """
        difference_ms = to_ms(difference_ms, _DIFFERENCE)
        # The constructor would name before + after, which the caller did not write.
        check_not_negative_ms(difference_ms, _DIFFERENCE)
        return cls(difference_ms, difference_ms, to_ms(grace_ms, GRACE))

    @classmethod
    def of_time_difference_with_no_grace(cls, difference_ms: Duration) -> "JoinWindows":
        """Join records that are at most a time difference apart, with grace 0.

        Args:
            difference_ms: The greatest difference, in milliseconds or as a ``timedelta``.

        Returns:
            The join windows.

        Raises:
            IllegalArgument: The difference is negative or too long.

        Example:
            >>> within_a_minute = JoinWindows.of_time_difference_with_no_grace(60_000)
        """
        return cls.of_time_difference_and_grace(difference_ms, 0)

    def before(self, before_ms: Duration) -> "JoinWindows":
        """Set how much earlier the right record can be.

        Args:
            before_ms: The bound, in milliseconds or as a ``timedelta``. If it is negative, the
                right record must be at least that much later.

        Returns:
            The windows with this bound.

        Raises:
            IllegalArgument: before + after is negative, so no record could match, or it is too
                long.

        Example:
            >>> after_the_left = JoinWindows.of_time_difference_with_no_grace(60_000).before(0)
        """
        return replace(self, before_ms=to_ms(before_ms, _BEFORE))

    def after(self, after_ms: Duration) -> "JoinWindows":
        """Set how much later the right record can be.

        Args:
            after_ms: The bound, in milliseconds or as a ``timedelta``. If it is negative, the right
                record must be at least that much earlier.

        Returns:
            The windows with this bound.

        Raises:
            IllegalArgument: before + after is negative, so no record could match, or it is too
                long.

        Example:
            >>> before_the_left = JoinWindows.of_time_difference_with_no_grace(60_000).after(0)
        """
        return replace(self, after_ms=to_ms(after_ms, _AFTER))

    @property
    def reach_ms(self) -> int:
        """The greatest time difference of two records that match."""
        return max(self.before_ms, self.after_ms)

    def allowed_lateness_ms(self, input_index: int) -> int:
        """Return how far a record of ``input_index`` can be older than its own stream time."""
        # The times of possible matches are a window with the end t + after. For a right record, the
        # end is t + before. The window is open while its end >= st - G (semantics.md#0-2). A
        # negative bound does not close it before the time of the record itself.
        return max(self.after_ms if input_index == LEFT else self.before_ms, 0) + self.grace_ms

    def wait_ms(self, input_index: int, upstream_delay_ms: int = 0) -> int:
        """Return how far the other stream time must pass a record before it is unmatched.

        Args:
            input_index: The input of the record, ``LEFT`` or ``RIGHT``.
            upstream_delay_ms: How much older than the other stream time a record can be that an
                upstream join has held back.
        """
        # The last possible match has the time t + ahead. It is late if the stream time of the other
        # input has passed this time by more than the allowed lateness of the other input.
        latest_match_ms = self.after_ms if input_index == LEFT else self.before_ms
        return latest_match_ms + max(
            self.allowed_lateness_ms(RIGHT if input_index == LEFT else LEFT), upstream_delay_ms
        )
