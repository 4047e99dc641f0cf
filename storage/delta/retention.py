"""How long a table keeps log entries and removed files: two table properties of Delta."""

import re
from collections.abc import Mapping

LOG_RETENTION = "delta.logRetentionDuration"
DELETED_FILE_RETENTION = "delta.deletedFileRetentionDuration"

#: One day: a follower of the table can be this late without reading the whole table again.
LOG_RETENTION_MS = 86_400_000
#: One hour: the time that a reader has for the files of the version that it opened.
DELETED_FILE_RETENTION_MS = 3_600_000
#: It is false, because delta-rs and Spark would also delete the entry with the last position.
#: Oriel's clean-up keeps needed entries.
EXPIRED_LOG_CLEANUP = "delta.enableExpiredLogCleanup"
#: The minimum time for which a file is kept that no version names yet.
_UNCOMMITTED_MS = 120_000
#: The time that is used if a property can't be parsed.
_UNREADABLE_MS = 30 * 86_400_000

_INTERVAL = re.compile(r"\s*(?:interval\s+)?(\d+)\s+([a-z]+?)s?\s*", re.IGNORECASE)
_UNITS_MS = {
    "millisecond": 1, "second": 1000, "minute": 60_000, "hour": 3_600_000,
    "day": 86_400_000, "week": 604_800_000,
}  # fmt: skip


def interval(time_ms: int) -> str:
    """Return a duration in the format of Delta's properties, in the largest exact unit."""
    for unit, unit_ms in reversed(_UNITS_MS.items()):
        if time_ms % unit_ms == 0 and time_ms >= unit_ms:
            return f"interval {time_ms // unit_ms} {unit}s"
    return f"interval {time_ms} milliseconds"


def log_retention_ms(properties: Mapping[str, str]) -> int:
    """Return how long entries of the log are kept."""
    return _duration_ms(properties.get(LOG_RETENTION), LOG_RETENTION_MS)


def deleted_file_retention_ms(properties: Mapping[str, str]) -> int:
    """Return how long files are kept after they left the table."""
    return _duration_ms(properties.get(DELETED_FILE_RETENTION), DELETED_FILE_RETENTION_MS)


def uncommitted_ms(properties: Mapping[str, str]) -> int:
    """Return how long a file stays that no version names. Its writer commits in half this time."""
    return max(deleted_file_retention_ms(properties), _UNCOMMITTED_MS)


def _duration_ms(text: str | None, default_ms: int) -> int:
    """Parse a duration such as ``interval 1 days``. Only one unit per string is supported."""
    if text is None:
        return default_ms
    match = _INTERVAL.fullmatch(text)
    if match is None or match[2].lower() not in _UNITS_MS:
        return _UNREADABLE_MS
    return int(match[1]) * _UNITS_MS[match[2].lower()]
