"""Slow reference model of the declarative aggregates: plain Python over a window's members.

``tests.windows.engine_runs`` defines the columns and the names of the aggregates.
"""

import math
import statistics
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from tests.models.tables import Window

Row = Mapping[str, Any]


def check_window(row: Row, window: Window) -> None:
    """Compare one row with aggregates that plain Python computes from the window's members."""
    for name, wanted in wanted_row(window).items():
        assert repr(row[name]) == repr(wanted), f"{name} is {row[name]}, not {wanted}: {row}"
    v = window.values("v")
    _check_spread(row["spread"], v)
    if v:
        assert min(v) <= row["middle"] <= max(v)
    else:
        assert row["middle"] is None


def wanted_row(window: Window) -> dict[str, Any]:
    """Return every aggregate that has exactly one correct value."""
    v, x, i, j, s = (window.values(column) for column in "vxijs")
    return {
        "timestamp_ms": window.timestamp,
        "final": window.final,
        "n": len(window.members),
        "values": len(v),
        "total": exact_sum(v),
        "least": min(v, default=None),
        "most": max(v, default=None),
        "mean": exact_mean(v),
        "first": v[0] if v else None,
        "last": v[-1] if v else None,
        "all": v,
        "awkward_total": exact_sum(x),
        "awkward_mean": exact_mean(x),
        "awkward_least": min(x, key=_nan_last, default=None),
        "awkward_most": max(x, key=_nan_last, default=None),
        "wrapped": (sum(i) + 2**63) % 2**64 - 2**63 if i else None,
        "least_integer": min(i, default=None),
        "most_integer": max(i, default=None),
        "small_mean": sum(j) / len(j) if j else None,
        "least_word": min(s, key=str.encode, default=None),
        "most_word": max(s, key=str.encode, default=None),
        "first_word": s[0] if s else None,
        "last_word": s[-1] if s else None,
        "words": s,
        "different": len(set(s)),
    }


def exact_sum(values: Sequence[float]) -> float | None:
    """Return the exact sum, rounded once.

    ``math.fsum`` raises if a partial sum overflows. In that case, fractions compute the sum.
    """
    if not values:
        return None
    infinite = {value for value in values if math.isinf(value)}
    if any(map(math.isnan, values)) or len(infinite) == 2:
        return math.nan
    if infinite:
        return infinite.pop()
    try:
        return math.fsum(values)
    except OverflowError:
        total = sum(map(Fraction, values), Fraction(0))
    try:
        return float(total)
    except OverflowError:
        return math.inf if total > 0 else -math.inf


def exact_mean(values: Sequence[float]) -> float | None:
    """Return the exact sum divided by the count."""
    total = exact_sum(values)
    return None if total is None else total / len(values)


def _nan_last(value: float) -> tuple[bool, float]:
    return (True, 0.0) if math.isnan(value) else (False, value)


def _check_spread(found: float | None, values: Sequence[float]) -> None:
    if len(values) < 2:
        assert found is None
        return
    assert found is not None
    wanted = statistics.stdev(map(Fraction, values))
    assert math.isclose(found, wanted, rel_tol=1e-9, abs_tol=1e-12), f"spread {found}, not {wanted}"
