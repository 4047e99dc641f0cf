"""Window definitions: what is accepted and what is refused (semantics section 6)."""

from datetime import timedelta
from typing import Any

import pytest

from oriel import IllegalArgument, SlidingWindows


@pytest.mark.parametrize(
    ("difference", "grace", "said"),
    [
        (-1, 0, "Window time difference must not be negative"),
        (0, -1, "Window grace period must not be negative"),
        (2**62, 0, "must not exceed"),
        (1, 2**63 - 2, "must not exceed"),
        (None, 0, "must be an integer number of ms"),
        (1.5, 0, "must be an integer number of ms"),
        (True, 0, "must be an integer number of ms"),
    ],
)
def test_bad_durations_are_illegal_arguments(difference: Any, grace: Any, said: str) -> None:
    """Negative, overflowing and non-integer durations fail at definition time."""
    with pytest.raises(IllegalArgument, match=said):
        SlidingWindows.of_time_difference_and_grace(difference, grace)


def test_durations_are_cut_to_whole_ms() -> None:
    """A timedelta of 1,999 microseconds is one ms."""
    windows = SlidingWindows.of_time_difference_and_grace(timedelta(microseconds=1999), 0)
    assert windows.time_difference_ms == 1


def test_no_grace_is_grace_zero() -> None:
    """The no-grace form is the other form with grace 0, and retention needs 2D + G."""
    windows = SlidingWindows.of_time_difference_with_no_grace(7)
    assert windows == SlidingWindows.of_time_difference_and_grace(7, 0)
    assert SlidingWindows.of_time_difference_and_grace(7, 3).least_retention_ms == 17
