"""How long a table keeps log entries and removed files: Delta's two table properties."""

import re
from collections.abc import Mapping

LOG_RETENTION = "delta.logRetentionDuration"
DELETED_FILE_RETENTION = "delta.deletedFileRetentionDuration"

#: A day: who follows the table may be so far behind without reading all of it anew.
LOG_RETENTION_MS = 86_400_000
#: An hour: what a reader may take that has opened the table's files of one version.
DELETED_FILE_RETENTION_MS = 3_600_000
#: Ours goes by what is still needed; delta-rs and Spark would also remove the last position.
EXPIRED_LOG_CLEANUP = "delta.enableExpiredLogCleanup"
#: The least time that a file is kept which no version names yet.
_UNCOMMITTED_MS = 120_000
#: What is kept for a time that can't be read.
_UNREADABLE_MS = 30 * 86_400_000

_INTERVAL = re.compile(r"\s*(?:interval\s+)?(\d+)\s+([a-z]+?)s?\s*", re.IGNORECASE)
_UNITS_MS = {
    "millisecond": 1, "second": 1000, "minute": 60_000, "hour": 3_600_000,
    "day": 86_400_000, "week": 604_800_000,
}  # fmt: skip


def interval(time_ms: int) -> str:
    """A duration as Delta's properties have it, in the largest unit that is whole."""
    for unit, unit_ms in reversed(_UNITS_MS.items()):
        if time_ms % unit_ms == 0 and time_ms >= unit_ms:
            return f"interval {time_ms // unit_ms} {unit}s"
    return f"interval {time_ms} milliseconds"


def log_retention_ms(properties: Mapping[str, str]) -> int:
    """How long entries of the log are kept."""
    return _duration_ms(properties.get(LOG_RETENTION), LOG_RETENTION_MS)


def deleted_file_retention_ms(properties: Mapping[str, str]) -> int:
    """How long files are kept after they left the table."""
    return _duration_ms(properties.get(DELETED_FILE_RETENTION), DELETED_FILE_RETENTION_MS)


def uncommitted_ms(properties: Mapping[str, str]) -> int:
    """How long a file is kept that no version names: who wrote it commits it in half the time."""
    return max(deleted_file_retention_ms(properties), _UNCOMMITTED_MS)


def _duration_ms(text: str | None, default_ms: int) -> int:
    """Read Delta's ``interval 1 days``; several units in one text are not understood."""
    if text is None:
        return default_ms
    match = _INTERVAL.fullmatch(text)
    if match is None or match[2].lower() not in _UNITS_MS:
        return _UNREADABLE_MS
    return int(match[1]) * _UNITS_MS[match[2].lower()]
