"""The check of ``oriel demo --exit``: a served key against the plain recomputation."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa

from oriel.demo.errors import CheckFailed
from oriel.demo.expected import Rules, departed, windows_between
from oriel.demo.records import ORIGINS

_LATEST_MS = 2**62


def check_windows(
    served: Iterable[dict[str, Any]], records: pa.Table, key: str, rules: Rules
) -> int:
    """Compare all served windows of ``key`` with the expected windows. Return their number.

    All fields must be equal, the mean to its last bit.

    Raises:
        CheckFailed: a window is missing, superfluous or different. The message shows the
            first such window.
    """
    expected = expected_windows(records, key, rules)
    windows = list(served)
    for number, (expected_window, window) in enumerate(zip(expected, windows, strict=False)):
        if expected_window != window:
            message = (
                f"window {number} of {key} differs\n  expected {expected_window}\n"
                f"  served   {window}"
            )
            raise CheckFailed(message)
    if len(expected) != len(windows):
        message = (
            f"{key} must have {len(expected)} windows, but the service returned {len(windows)}"
        )
        raise CheckFailed(message)
    return len(windows)


def expected_windows(records: pa.Table, key: str, rules: Rules) -> list[dict[str, Any]]:
    """Return all windows of ``key`` as the API returns them."""
    # A window is final when every partition has passed it.
    closed_ms = min(
        int(np.max(departed(records, origin, rules).close_ms, initial=0)) for origin in ORIGINS
    )
    windows = windows_between(departed(records, key, rules), rules, 0, _LATEST_MS)
    return [
        {"key": key, **window, "final": window["window_end_ms"] < closed_ms} for window in windows
    ]
