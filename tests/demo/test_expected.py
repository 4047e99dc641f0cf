"""The plain recomputation of the demo's check agrees with examples of the semantics."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from oriel.demo.check import check_windows, expected_windows
from oriel.demo.errors import CheckFailed
from oriel.demo.expected import Arrivals, Rules, departed, is_late, windows_between


def _arrivals(rules: Rules, *times: int) -> Arrivals:
    time = np.array(times)
    delay = time.astype(float)
    return Arrivals(time, delay, np.maximum.accumulate(time) - rules.grace_ms)


def _held(arrivals: Arrivals, rules: Rules) -> dict[tuple[int, int], int]:
    return {
        (window["window_start_ms"], window["window_end_ms"]): window["departures"]
        for window in windows_between(arrivals, rules, 0, 1_000)
    }


def _records(*rows: tuple[str, int, float | None]) -> pa.Table:
    keys, times, delays = zip(*rows, strict=True)
    return pa.table({
        "key": keys, "timestamp_ms": times, "dep_delay": pa.array(delays, pa.float64()),
    })  # fmt: skip


def test_the_figure_of_kip_450() -> None:
    """Four records create the seven windows of the figure in KIP-450."""
    rules = Rules(difference_ms=10, grace_ms=100)
    assert _held(_arrivals(rules, 10, 14, 19, 26), rules) == {
        (0, 10): 1, (4, 14): 2, (9, 19): 3, (11, 21): 2, (15, 25): 1, (16, 26): 2, (20, 30): 1,
    }  # fmt: skip


def test_a_late_record_is_refused() -> None:
    """A record whose last window has closed is late and in no window."""
    rules = Rules(difference_ms=10, grace_ms=5)
    arrivals = _arrivals(rules, 40, 24, 25)
    assert is_late(arrivals, rules).tolist() == [False, True, False]
    # The window [15, 25] of 25 is closed at 35. The window [26, 36] right of it has no record.
    assert _held(arrivals, rules) == {(30, 40): 1}


def test_a_partly_late_record_joins_open_windows_only() -> None:
    """A partly late record does not create its closed left window (semantics.md#2-3)."""
    rules = Rules(difference_ms=1, grace_ms=0)
    assert _held(_arrivals(rules, 1, 3, 2), rules) == {(0, 1): 1, (2, 3): 2, (3, 4): 1}


def test_cancelled_flights_are_no_departures() -> None:
    """A record without a delay is filtered: no window has it, and stream time does not change."""
    rules = Rules(difference_ms=10, grace_ms=0)
    records = _records(("EWR", 20, 1.0), ("EWR", 500, None), ("EWR", 22, 3.0))
    assert departed(records, "EWR", rules).close_ms.tolist() == [20, 22]


def _served(records: pa.Table, rules: Rules) -> list[dict[str, Any]]:
    return [dict(window) for window in expected_windows(records, "EWR", rules)]


def test_the_check_accepts_equal_windows() -> None:
    """Equal windows pass the check, which returns their number."""
    rules = Rules(difference_ms=10, grace_ms=0)
    records = _records(("EWR", 20, 1.0), ("JFK", 40, 1.0), ("LGA", 40, 1.0), ("EWR", 50, 0.0))
    assert [window["final"] for window in _served(records, rules)] == [True, False]
    assert check_windows(_served(records, rules), records, "EWR", rules) == 2


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda served: served[0].update(mean_delay=1.5), "window 0 of EWR differs"),
        (lambda served: served.pop(), "must have 2 windows, but the service returned 1"),
        (
            lambda served: served.append(served[-1]),
            "must have 2 windows, but the service returned 3",
        ),
    ],
)
def test_the_check_refuses_other_windows(change: Any, complaint: str) -> None:
    """A wrong, missing or superfluous window fails the check, and the message shows it."""
    rules = Rules(difference_ms=10, grace_ms=0)
    records = _records(("EWR", 20, 1.0), ("EWR", 50, 0.0))
    served = _served(records, rules)
    change(served)
    with pytest.raises(CheckFailed, match=complaint):
        check_windows(served, records, "EWR", rules)
