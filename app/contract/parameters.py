"""Query parameters: each is described once, for reading it and for the OpenAPI document.

An unknown parameter is an error, because a typing error (``from`` for ``from_ms``) would
otherwise silently give other windows than were asked for.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote_to_bytes

from oriel.app.contract.errors import InvalidKey, InvalidParameter, UnknownParameter
from oriel.storage import parse_offset_bound

LIMIT_DEFAULT = 100
LIMIT_MAX = 10_000
WAIT_MS_MAX = 30_000
_INT64_MIN, _INT64_MAX = -(2**63), 2**63 - 1

_INTEGER = re.compile(r"-?\d{1,19}", re.ASCII)
_BROKEN_ESCAPE = re.compile(rb"%(?![0-9A-Fa-f]{2})")


@dataclass(frozen=True)
class Parameter:
    """One query parameter: its name, JSON schema, meaning, and how its text is read.

    ``read`` raises ``InvalidParameter``. A repeatable parameter gives a tuple of values.
    """

    name: str
    schema: Mapping[str, Any]
    description: str
    read: Callable[[str], Any]
    default: Any = None
    repeatable: bool = False
    example: Any = None


def integer(name: str, low: int, high: int) -> Callable[[str], int]:
    """Make a reader of integers from ``low`` to ``high``, both inclusive."""

    def read(text: str) -> int:
        if _INTEGER.fullmatch(text) and low <= int(text) <= high:
            return int(text)
        message = f"{name} must be an integer from {low} to {high}, not {text[:80]!r}"
        raise InvalidParameter(message)

    return read


def _read_offset_bound(text: str) -> Any:
    bound = parse_offset_bound(text)
    if bound is None:
        message = (
            f"min_offset must be TOPIC:PARTITION:OFFSET, for example flights:0:12345, "
            f"not {text[:80]!r}"
        )
        raise InvalidParameter(message)
    return bound


_TIME_SCHEMA = {"type": "integer", "format": "int64"}

FROM_MS = Parameter(
    "from_ms",
    _TIME_SCHEMA,
    "Least window start in ms since the epoch, inclusive. Below 0 is read as 0. Default: no bound.",
    integer("from_ms", _INT64_MIN, _INT64_MAX),
    default=0,
    example=1357034400000,
)
TO_MS = Parameter(
    "to_ms",
    _TIME_SCHEMA,
    "Greatest window start in ms since the epoch, inclusive. Less than from_ms: no windows, no "
    "error. Default: no bound.",
    integer("to_ms", _INT64_MIN, _INT64_MAX),
    default=_INT64_MAX,
    example=1357038000000,
)
EARLIEST_END_MS = Parameter(
    "earliest_end_ms",
    _TIME_SCHEMA,
    "Least end of a session in ms since the epoch, inclusive. Default: no bound.",
    integer("earliest_end_ms", _INT64_MIN, _INT64_MAX),
    default=0,
    example=1357034400000,
)
LATEST_START_MS = Parameter(
    "latest_start_ms",
    _TIME_SCHEMA,
    "Greatest start of a session in ms since the epoch, inclusive. Below 0: no sessions, no "
    "error. Default: no bound.",
    integer("latest_start_ms", _INT64_MIN, _INT64_MAX),
    default=_INT64_MAX,
    example=1357038000000,
)
LIMIT = Parameter(
    "limit",
    {"type": "integer", "minimum": 1, "maximum": LIMIT_MAX, "default": LIMIT_DEFAULT},
    "Most items of one page.",
    integer("limit", 1, LIMIT_MAX),
    default=LIMIT_DEFAULT,
)
CURSOR = Parameter(
    "cursor",
    {"type": "string"},
    "`next_cursor` of the page before; opaque. All other parameters but `limit` must be those of "
    "that page. The next page is read from the then newest version, never from an older one.",
    str,
)
MIN_VERSION = Parameter(
    "min_version",
    {"type": "integer", "minimum": 0},
    "Least table version that the answer may come from (monotonic reads: send the `version` of "
    "the last answer).",
    integer("min_version", 0, _INT64_MAX),
    default=-1,
    example=17,
)
MIN_OFFSET = Parameter(
    "min_offset",
    {"type": "string", "pattern": r"^[^:]+:\d{1,9}:\d{1,18}$"},
    "TOPIC:PARTITION:OFFSET, repeatable: the answer must include every record of that partition "
    "below that offset (read your writes: the event log's file size after the append).",
    _read_offset_bound,
    default=(),
    repeatable=True,
    example="flights:0:12345",
)
WAIT_MS = Parameter(
    "wait_ms",
    {"type": "integer", "minimum": 0, "maximum": WAIT_MS_MAX, "default": 0},
    "How long to wait for the position asked for, in ms, before giving up with 503.",
    integer("wait_ms", 0, WAIT_MS_MAX),
    default=0,
)
PREFIX = Parameter(
    "prefix", {"type": "string", "default": ""}, "Only keys that begin with this.", str, default=""
)

POSITION_PARAMETERS = (MIN_VERSION, MIN_OFFSET, WAIT_MS)
RANGE_PARAMETERS = (FROM_MS, TO_MS, LIMIT, CURSOR, *POSITION_PARAMETERS)
SESSION_PARAMETERS = (EARLIEST_END_MS, LATEST_START_MS, LIMIT, CURSOR, *POSITION_PARAMETERS)
KEYS_PARAMETERS = (PREFIX, LIMIT, CURSOR, *POSITION_PARAMETERS)


class Query:
    """The parameters that one operation has."""

    def __init__(self, parameters: tuple[Parameter, ...] = ()) -> None:
        """Name the parameters, in the order in which messages list them."""
        self.parameters = parameters
        self._by_name = {parameter.name: parameter for parameter in parameters}
        self._defaults = {parameter.name: parameter.default for parameter in parameters}

    def read(self, query_string: bytes) -> Mapping[str, Any]:
        """The value of each parameter, its default where the request has none.

        Raises:
            UnknownParameter: there is no parameter of that name.
            InvalidParameter: a value can't be read, or a parameter is there twice.
        """
        if not query_string:
            return self._defaults
        values = dict(self._defaults)
        seen: set[str] = set()
        for part in query_string.split(b"&"):
            if part:
                self._read_part(part, values, seen)
        return values

    def _read_part(self, part: bytes, values: dict[str, Any], seen: set[str]) -> None:
        raw_name, _, raw_value = part.partition(b"=")
        name = _decode(raw_name)
        parameter = self._by_name.get(name)
        if parameter is None:
            known = ", ".join(self._by_name) or "none"
            message = f"no parameter {name[:80]!r} here; the parameters are: {known}"
            raise UnknownParameter(message)
        value = parameter.read(_decode(raw_value))
        if parameter.repeatable:
            values[name] = (*values[name], value)
        elif name in seen:
            message = f"{name} is there twice; give it once"
            raise InvalidParameter(message)
        else:
            values[name] = value
        seen.add(name)


def decode_path(raw: bytes) -> str:
    """Decode one part of a raw path (``%2F`` is a slash of the key, not of the path).

    Raises:
        InvalidKey: a broken escape, or bytes that are not UTF-8.
    """
    if b"%" not in raw:
        return _utf8(raw)
    broken = _BROKEN_ESCAPE.search(raw)
    if broken:
        message = f"byte {broken.start()} of the path part: '%' must begin two hex digits (%25)"
        raise InvalidKey(message)
    return _utf8(unquote_to_bytes(raw))


def _utf8(content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        message = f"the path part is not UTF-8 after percent-decoding: {error.reason}"
        raise InvalidKey(message) from error


def _decode(raw: bytes) -> str:
    """Decode a name or value of the query (``+`` is a space there)."""
    try:
        return unquote_to_bytes(raw.replace(b"+", b" ")).decode()
    except UnicodeDecodeError as error:
        message = f"the query is not UTF-8 after percent-decoding: {error.reason}"
        raise InvalidParameter(message) from error
