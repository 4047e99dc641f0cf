"""Times and durations as text for people."""

from datetime import UTC, datetime


def time_text(time_ms: int) -> str:
    """Write a time in UTC to the second, or ``-`` before the first record."""
    if time_ms < 0:
        return "-"
    try:
        return f"{datetime.fromtimestamp(time_ms // 1000, UTC):%Y-%m-%d %H:%M:%S}"
    except (OverflowError, ValueError):
        return f"{time_ms} ms"


def duration_text(span_ms: int) -> str:
    """Write a duration, which can be negative, in the largest unit that fits."""
    sign, seconds = ("-" if span_ms < 0 else ""), abs(span_ms) / 1000
    for unit, size in (("d", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= size:
            return f"{sign}{seconds / size:,.1f} {unit}"
    return f"{sign}{seconds:.1f} s"
