"""Which records of two streams pair, and how long a record waits for its partners."""

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
from oriel.pipeline.windows.definitions.other_words import WindowWords

#: The sides of a join, as the column ``side`` has them.
LEFT, RIGHT = 0, 1

_DIFFERENCE, _BEFORE, _AFTER = "Join time difference", "Join window before", "Join window after"


@dataclass(frozen=True)
class JoinWindows(WindowWords):
    """Which records of two streams pair: ``l.t - before_ms <= r.t <= l.t + after_ms``.

    One of ``before_ms`` and ``after_ms`` may be negative; both bounds are inclusive.
    """

    before_ms: int
    after_ms: int
    grace_ms: int

    def __post_init__(self) -> None:
        """Refuse ranges that are empty, and times that are longer than any of this system.

        Raises:
            IllegalArgument: a field is no integer, before + after or the grace is negative,
                or their sum too long.
        """
        check_integer_ms(self.before_ms, _BEFORE)
        check_integer_ms(self.after_ms, _AFTER)
        check_not_negative_ms(self.grace_ms, GRACE)
        if self.before_ms + self.after_ms < 0:
            message = (
                f"Join window before + after must not be negative, it is {self.before_ms} + "
                f"{self.after_ms} ms. To make one side negative, set the other one first"
            )
            raise IllegalArgument(message)
        # Each bound alone is added to a record's time, so each alone has to fit.
        check_span_ms(self.before_ms, "before")
        check_span_ms(self.after_ms, "after")
        check_span_ms(self.before_ms + self.after_ms + self.grace_ms, "before + after + grace")

    @classmethod
    def of_time_difference_and_grace(
        cls, difference_ms: Duration, grace_ms: Duration
    ) -> "JoinWindows":
        """Pair records that are at most ``difference_ms`` apart, either first.

        Raises:
            IllegalArgument: a duration is negative, or 2 * difference + grace is longer than
                a time of this system can be.
        """
        difference_ms = to_ms(difference_ms, _DIFFERENCE)
        # The constructor would name before + after, which the caller did not write.
        check_not_negative_ms(difference_ms, _DIFFERENCE)
        return cls(difference_ms, difference_ms, to_ms(grace_ms, GRACE))

    @classmethod
    def of_time_difference_with_no_grace(cls, difference_ms: Duration) -> "JoinWindows":
        """Pair records at most ``difference_ms`` apart, with grace 0."""
        return cls.of_time_difference_and_grace(difference_ms, 0)

    def before(self, before_ms: Duration) -> "JoinWindows":
        """Let the right record be at most ``before_ms`` earlier; negative: at least so much later.

        Raises:
            IllegalArgument: before + after is negative, so that nothing could pair, or too long.
        """
        return replace(self, before_ms=to_ms(before_ms, _BEFORE))

    def after(self, after_ms: Duration) -> "JoinWindows":
        """Let the right record be at most ``after_ms`` later; negative: at least so much earlier.

        Raises:
            IllegalArgument: before + after is negative, so that nothing could pair, or too long.
        """
        return replace(self, after_ms=to_ms(after_ms, _AFTER))

    @property
    def reach_ms(self) -> int:
        """How far apart the records of a pair can be."""
        return max(self.before_ms, self.after_ms)

    def allowed_lateness_ms(self, side: int) -> int:
        """How far a record of ``side`` may be behind its own stream time."""
        # The times of its partners are a window that ends at t + after (of a right record at
        # t + before). It is open while its end >= st - G, as any inclusive one (semantics.md#0-2).
        # A bound below 0 does not close it before the record's own time.
        return max(self.after_ms if side == LEFT else self.before_ms, 0) + self.grace_ms

    def wait_ms(self, side: int, held_ms: int = 0) -> int:
        """How far the other side's clock must be past a record of ``side`` for it to leave.

        ``held_ms``: so far behind that clock a record may be that a join in front has held back.
        """
        # Its last partner has time t + ahead, and is refused once its own stream, the other
        # side's, is further ahead of that than such a record may be behind.
        ahead_ms = self.after_ms if side == LEFT else self.before_ms
        return ahead_ms + max(self.allowed_lateness_ms(RIGHT if side == LEFT else LEFT), held_ms)
