"""Define the parameters of Prometheus' HTTP API, with Prometheus' names and values."""

import re

from oriel.app.contract.limits import SERIES_LISTED_MAX
from oriel.app.contract.parameters import QueryParameter
from oriel.app.contract.problems import InvalidParameter
from oriel.app.contract.values import TEXT, Values, integers, iso_time_ms

#: Seconds since the epoch, with a fraction. Go and JavaScript can write an exponent.
_SECONDS_PATTERN = r"-?\d{1,13}(?:\.\d{1,20})?(?:[eE]\+?\d{1,2})?"
_SECONDS = re.compile(_SECONDS_PATTERN, re.ASCII)
_ISO_PATTERN = r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:[Zz]|[+-]\d\d:\d\d)"
_ISO = re.compile(r"([^.]*)(?:\.(\d{1,9}))?([Zz]|[+ -]\d\d:\d\d)", re.ASCII)
#: The range of the times of a query: the years 1 to 9999.
_EARLIEST_MS, _LATEST_MS = -62_135_596_800_000, 253_402_300_799_999

#: The units of a duration, in the order in which a duration has them, in ms.
_UNITS = {
    "y": 365 * 86_400_000, "w": 7 * 86_400_000, "d": 86_400_000, "h": 3_600_000, "m": 60_000,
    "s": 1000, "ms": 1,
}  # fmt: skip
_DURATION_PATTERN = "".join(rf"(?:\d{{1,15}}{unit})?" for unit in _UNITS)
_DURATION = re.compile("".join(rf"(?:(?P<{unit}>\d{{1,15}}){unit})?" for unit in _UNITS), re.ASCII)
#: The greatest step, which is longer than the range of times.
_DURATION_MAX_MS = _LATEST_MS - _EARLIEST_MS


def _read_instant(name: str, text: str) -> int:
    time_ms = None
    if _SECONDS.fullmatch(text):
        time_ms = round(float(text) * 1000)
    elif match := _ISO.fullmatch(text):
        # Digits beyond milliseconds have no effect on windows.
        time_ms = iso_time_ms(f"{match[1]}.{(match[2] or '')[:3]:0<3}{match[3]}")
    if time_ms is not None and _EARLIEST_MS <= time_ms <= _LATEST_MS:
        return time_ms
    message = (
        f"{name} must be seconds since the epoch, or a time like 2013-01-01T10:00:00Z, not "
        f"{text[:80]!r}"
    )
    raise InvalidParameter(message)


def _read_duration(name: str, text: str) -> int:
    duration_ms = 0
    if _SECONDS.fullmatch(text):
        duration_ms = round(float(text) * 1000)
    elif match := _DURATION.fullmatch(text):
        parts = match.groupdict(default="0")
        duration_ms = sum(int(parts[unit]) * unit_ms for unit, unit_ms in _UNITS.items())
    if 0 < duration_ms <= _DURATION_MAX_MS:
        return duration_ms
    message = f"{name} must be a positive duration like 15s or 0.5, not {text[:80]!r}"
    raise InvalidParameter(message)


#: A time in seconds or as RFC 3339, which is read in ms.
_INSTANT = Values(
    {"type": "string", "pattern": f"^({_SECONDS_PATTERN}|{_ISO_PATTERN})$"}, _read_instant
)
#: A duration in seconds or with units, which is read in ms.
_DURATION_VALUES = Values(
    {"type": "string", "pattern": f"^({_SECONDS_PATTERN}|{_DURATION_PATTERN})$"}, _read_duration
)

_TIMES = "in seconds since the epoch, or as RFC 3339"

PROMQL = QueryParameter(
    "query",
    TEXT,
    "A PromQL expression. It can have selectors, `offset`, arithmetic, comparisons, and functions "
    "of one number. Its aggregations can be `sum`, `avg`, `min`, `max`, `count`, `group`, `topk` "
    "and `bottomk`. Functions of ranges such as `rate` are rejected.",
    is_required=True,
    example="topk(3, departures_departures)",
)
TIME_OF_QUERY = QueryParameter(
    "time", _INSTANT, f"The time {_TIMES}. Default: now.", example="1357036200"
)
RANGE_START = QueryParameter(
    "start", _INSTANT, f"First time {_TIMES}.", is_required=True, example="1357036200"
)
RANGE_END = QueryParameter(
    "end", _INSTANT, f"Last time {_TIMES}, inclusive.", is_required=True, example="1357038000"
)
STEP = QueryParameter(
    "step",
    _DURATION_VALUES,
    "Time between two values in seconds, or as a duration, for example `15s` or `1m30s`.",
    is_required=True,
    example="30m",
)
LOOKBACK_DELTA = QueryParameter(
    "lookback_delta",
    _DURATION_VALUES,
    "How long a value is valid after the end of its window. Default: until the next window can "
    "end. This is the size of tumbling windows, the advance of hopping windows, and the gap of "
    "sessions. A sliding window is valid until its newest record leaves it.",
)
MATCH = QueryParameter(
    "match[]",
    TEXT,
    "A selector. Can be repeated.",
    absent=(),
    repeatable=True,
    is_required=True,
    example="departures_departures",
)
MATCHES = QueryParameter(
    "match[]",
    TEXT,
    "A selector. Can be repeated. Default: all series.",
    absent=(),
    repeatable=True,
    example="departures_departures",
)
SERIES_START = QueryParameter("start", _INSTANT, f"A time {_TIMES}, which has no effect.")
SERIES_END = QueryParameter("end", _INSTANT, f"A time {_TIMES}, which has no effect.")
PROMETHEUS_LIMIT = QueryParameter(
    "limit",
    integers(0, 2**31 - 1),
    f"Maximum number of items. 0 and greater numbers mean {SERIES_LISTED_MAX:,}. If more items "
    "exist, the response has a warning.",
    default=0,
)
METRIC = QueryParameter(
    "metric", TEXT, "The name of a metric. Default: all metrics.", example="departures_departures"
)
