"""Durations in whole milliseconds: the types that users pass, and the bounds (semantics.md#6)."""

from datetime import timedelta

from oriel.pipeline.windows.definitions.errors import IllegalArgument

#: The latest record time that is accepted: the last millisecond of the year 9999. The type
#: TIMESTAMP of SQL has the same bound.
MAX_TIMESTAMP_MS = 253_402_300_799_999

#: Delta stores times as signed 64-bit microseconds. The sum of two record times and a span of at
#: most this many ms fits into this type.
_MAX_SPAN_MS = 2**63 // 1000 - 2 * MAX_TIMESTAMP_MS

#: The longest duration of Kafka Streams: a signed 64-bit number of ms.
_MAX_DURATION_MS = 2**63 - 1

GRACE = "Window grace period"

Duration = int | timedelta


def to_ms(duration: Duration, name: str) -> int:
    """Return ``duration`` in whole milliseconds. A ``timedelta`` is rounded down.

    Raises:
        IllegalArgument: ``duration`` is neither an integer nor a ``timedelta``, or exceeds 64 bits.
            The message starts with ``name``.
    """
    if isinstance(duration, timedelta):
        duration = duration // timedelta(milliseconds=1)
    if not _is_integer(duration):
        message = f"{name} must be an integer number of ms or a timedelta, not {duration!r}"
        raise IllegalArgument(message)
    if duration > _MAX_DURATION_MS:
        message = f"{name} must not exceed {_MAX_DURATION_MS} ms, but it is {duration} ms"
        raise IllegalArgument(message)
    return duration


def check_integer_ms(duration_ms: int, name: str) -> None:
    """Reject a field of a definition that is not an integer.

    Raises:
        IllegalArgument: The field is not an integer, for example a ``timedelta``.
    """
    if not _is_integer(duration_ms):
        message = f"{name} must be an integer number of ms, not {duration_ms!r}"
        raise IllegalArgument(message)


def check_not_negative_ms(duration_ms: int, name: str) -> None:
    """Reject a field of a definition that is not an integer of at least 0.

    Raises:
        IllegalArgument: The field is negative, or not an integer.
    """
    check_integer_ms(duration_ms, name)
    if duration_ms < 0:
        message = f"{name} must not be negative, but it is {duration_ms} ms"
        raise IllegalArgument(message)


def check_span_ms(span_ms: int, name: str) -> None:
    """Reject a span that does not fit into the 64-bit time arithmetic of the engine.

    Raises:
        IllegalArgument: The span does not fit. The message starts with ``name``.
    """
    if span_ms > _MAX_SPAN_MS:
        message = f"{name} must not exceed {_MAX_SPAN_MS} ms, but it is {span_ms} ms"
        raise IllegalArgument(message)


def _is_integer(value: object) -> bool:
    # In Python, a bool is an int, but not a number of milliseconds.
    return isinstance(value, int) and not isinstance(value, bool)
