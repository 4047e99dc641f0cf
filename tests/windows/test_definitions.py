"""Window definitions accept the valid values of semantics.md#6 and reject all others."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import numpy as np
import pytest

from oriel import IllegalArgument, JoinWindows, SessionWindows, SlidingWindows, TimeWindows
from oriel.pipeline.windows import MAX_WINDOWS_PER_RECORD, NoWindows, Windows


@pytest.mark.parametrize(
    ("difference", "grace", "message"),
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
def test_invalid_durations_are_illegal_arguments(difference: Any, grace: Any, message: str) -> None:
    """Negative, overflowing and non-integer durations fail at definition time."""
    with pytest.raises(IllegalArgument, match=message):
        SlidingWindows.of_time_difference_and_grace(difference, grace)


def test_durations_are_cut_to_whole_ms() -> None:
    """A timedelta of 1,999 microseconds is 1 ms."""
    windows = SlidingWindows.of_time_difference_and_grace(timedelta(microseconds=1999), 0)
    assert windows.time_difference_ms == 1


def test_no_grace_is_grace_zero() -> None:
    """The no-grace form is the other form with grace 0, and retention needs 2D + G."""
    windows = SlidingWindows.of_time_difference_with_no_grace(7)
    assert windows == SlidingWindows.of_time_difference_and_grace(7, 0)
    assert SlidingWindows.of_time_difference_and_grace(7, 3).least_retention_ms == 17


@pytest.mark.parametrize(
    ("construct", "message"),
    [
        (lambda: TimeWindows(0, 0, 1), "Window size must be larger than zero, but it is 0 ms"),
        (lambda: TimeWindows(10, -1, 10), "Window grace period must not be negative"),
        (lambda: TimeWindows(10, 0, 20), "at most the window size of 10 ms, but it is 20 ms"),
        (lambda: TimeWindows(10, 0, 0), "Window advance must be larger than zero"),
        (lambda: TimeWindows(2**62, 0, 2**62), r"size \+ grace must not exceed"),
        (lambda: SlidingWindows(-1, 0), "Window time difference must not be negative"),
        (lambda: SlidingWindows(0, -1), "Window grace period must not be negative"),
        (lambda: SlidingWindows(2**62, 0), r"2 \* time difference \+ grace must not exceed"),
        (lambda: SessionWindows(-1, 0), "Session inactivity gap must not be negative"),
        (lambda: SessionWindows(0, -1), "Window grace period must not be negative"),
        (lambda: SessionWindows(2**62, 0), r"inactivity gap \+ grace must not exceed"),
        (lambda: JoinWindows(-1, 0, 0), r"before \+ after must not be negative"),
        (lambda: JoinWindows(0, 0, -1), "Window grace period must not be negative"),
    ],
)
def test_a_constructor_rejects_what_the_named_forms_reject(
    construct: Callable[[], object], message: str
) -> None:
    """The constructor checks the same rules as the ``of_`` methods."""
    with pytest.raises(IllegalArgument, match=message):
        construct()


@pytest.mark.parametrize("value", [None, 1.5, True, "1", timedelta(seconds=1)])
@pytest.mark.parametrize(
    ("construct", "name"),
    [
        (lambda value: TimeWindows(value, 0, 1), "Window size"),
        (lambda value: TimeWindows(1, value, 1), "Window grace period"),
        (lambda value: TimeWindows(1, 0, value), "Window advance"),
        (lambda value: SlidingWindows(value, 0), "Window time difference"),
        (lambda value: SlidingWindows(0, value), "Window grace period"),
        (lambda value: SessionWindows(value, 0), "Session inactivity gap"),
        (lambda value: SessionWindows(0, value), "Window grace period"),
        (lambda value: JoinWindows(value, 0, 0), "Join window before"),
        (lambda value: JoinWindows(0, value, 0), "Join window after"),
        (lambda value: JoinWindows(0, 0, value), "Window grace period"),
    ],
)
def test_a_constructor_accepts_only_whole_ms(
    construct: Callable[[Any], object], name: str, value: Any
) -> None:
    """Fields are integers in ms. Only the ``of_`` methods also accept a timedelta."""
    with pytest.raises(IllegalArgument, match=f"{name} must be an integer number of ms"):
        construct(value)


def test_the_windows_of_a_record_are_bounded() -> None:
    """An advance of 1 ms over a day is rejected: 86 million windows per record. The error helps."""
    day = TimeWindows.of_size_with_no_grace(timedelta(days=1))
    with pytest.raises(IllegalArgument) as refused:
        day.advance_by(1)
    for part in ("86400000 windows", f"at most {MAX_WINDOWS_PER_RECORD}", "8640 ms"):
        assert part in str(refused.value)
    assert day.advance_by(8_640).advance_ms == 8_640
    with pytest.raises(IllegalArgument, match="10002 windows"):
        day.advance_by(8_639)


def test_the_last_window_of_a_record_counts_when_it_is_partial() -> None:
    """If the advance does not divide the size, all windows that start in (t - size, t] count."""
    size = MAX_WINDOWS_PER_RECORD * 3
    assert TimeWindows(size, 0, 3).advance_ms == 3
    with pytest.raises(IllegalArgument, match=f"{MAX_WINDOWS_PER_RECORD + 1} windows"):
        TimeWindows(size + 1, 0, 3)


@pytest.mark.parametrize(
    ("windows", "kind", "length_ms", "least_retention_ms", "close_delay_ms", "last_end_ms"),
    [
        (TimeWindows(10, 3, 10), "tumbling", 10, 13, 3, [10, 20]),
        (TimeWindows(10, 3, 4), "hopping", 10, 13, 3, [18, 22]),
        (SlidingWindows(10, 3), "sliding", 10, 23, 3, [19, 22]),
        (SessionWindows(10, 3), "session", 10, 13, 13, [2**61] * 2),
        (NoWindows(), "none", 0, 0, 0, [2**61] * 2),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_the_numbers_of_a_kind_of_windows(
    windows: Windows,
    kind: str,
    length_ms: int,
    least_retention_ms: int,
    close_delay_ms: int,
    last_end_ms: list[int],
) -> None:
    """Length, minimum retention, close delay, and the last window end of records at 9 and 12 ms."""
    assert windows.kind == kind
    assert windows.length_ms == length_ms
    assert windows.least_retention_ms == least_retention_ms
    assert windows.close_delay_ms == close_delay_ms
    assert windows.last_end_ms(np.array([9, 12])).tolist() == last_end_ms


def test_the_records_of_a_join_are_as_far_apart_as_its_greater_bound() -> None:
    """Either bound can be the greater one."""
    assert JoinWindows(2, 5, 0).reach_ms == 5
    assert JoinWindows(7, -3, 0).reach_ms == 7
