"""Read single DECIMAL, DATE and BINARY values as Spark's ``from_json`` does.

Spark reads them with Java's and Jackson's parsers, which accept more than the usual notations. A
property test compares each function with Spark.
"""

import re
from base64 import b64decode
from contextlib import suppress
from datetime import date
from decimal import ROUND_HALF_UP, Context, Decimal

import pyarrow as pa

_INT32 = range(-(2**31), 2**31)

#: A number in Java's notation. A digit is a decimal digit of any script.
_JAVA_DECIMAL = re.compile(r"[+-]?(?=\.?\d)\d*(?:\.(\d*))?(?:[eE]([+-]?\d+))?")
#: The digits of a result, with one more for a number that is rounded to the next power of ten.
_ROUNDING = Context(prec=39)
#: If Java has to drop this many digits of a number, it raises an error instead of rounding to zero.
_TOO_MANY_DROPPED = 536_870_920

#: A date in Spark's notation, without the characters that Spark trims.
_DATE = re.compile(r"([+-]?[0-9]{4,7})(?:-([0-9]{1,2})(?:-([0-9]{1,2})(?:[ T].*)?)?)?", re.DOTALL)
_TRIMMED = "".join(map(chr, [*range(0x21), 0x7F]))
_JAVA_INTEGER = re.compile(r"[+-]?\d+")
_EPOCH = date(1970, 1, 1).toordinal()
#: The Gregorian calendar repeats itself after this many years and days.
_CYCLE_YEARS, _CYCLE_DAYS = 400, 146_097
#: The first day of the Gregorian calendar, in days since 1970, and the day 0000-03-01 of the
#: Julian calendar.
_GREGORIAN_START, _JULIAN_ORIGIN = -141_427, -719_470

#: Base64 as Jackson reads it: groups of four characters with blanks only between them. Each group
#: can be padded.
_GROUP = r"[A-Za-z0-9+/]{2}(?:[A-Za-z0-9+/]{2}|[A-Za-z0-9+/]=|==)"
_BASE64 = re.compile(rf"[\x00-\x20]*(?:{_GROUP}[\x00-\x20]*)*")
_BLANKS = re.compile(r"[\x00-\x20]+")
#: Characters with the padding after them.
_PADDED = re.compile(r"[^=]+=*")


def decimal_value(text: str, decimal_type: pa.Decimal128Type) -> Decimal | None:
    """Return a number rounded half up to the scale of a DECIMAL, or None if it is invalid.

    Args:
        text: The number in JSON, or the content of a string.
        decimal_type: The type of the column.
    """
    found = _JAVA_DECIMAL.fullmatch(text)
    if found is None or max(text) > "\uffff":
        return None
    exponent = int(Decimal(found[2] or 0))
    scale = len(found[1] or "") - exponent
    if exponent not in _INT32 or scale not in _INT32:
        return None
    number = Decimal(text)
    if not number:
        return Decimal(0)
    whole_digits = decimal_type.precision - decimal_type.scale
    dropped = scale - decimal_type.scale
    if number.adjusted() >= whole_digits or dropped >= _TOO_MANY_DROPPED:
        return None
    unit = Decimal(1).scaleb(-decimal_type.scale)
    rounded = number.quantize(unit, ROUND_HALF_UP, _ROUNDING)
    return rounded if not rounded or rounded.adjusted() < whole_digits else None


def date_days(text: str) -> int | None:
    """Return a date in days since 1970, or None if it is invalid.

    Spark also accepts a date around the text ``GMT``, and days since 1970 as a string, if it is
    not a year of four to seven digits. It reads days before 1582 in the Julian calendar.
    """
    for each in dict.fromkeys((text, text.replace("GMT", "", 1))):
        found = _DATE.fullmatch(each.strip(_TRIMMED))
        if found is not None:
            with suppress(ValueError):
                days = _gregorian_days(int(found[1]), int(found[2] or 1), int(found[3] or 1))
                if days in _INT32:
                    return days
    if _JAVA_INTEGER.fullmatch(text) is None or max(text) > "\uffff":
        return None
    days = int(Decimal(text))
    return _rebased(days) if days in _INT32 else None


def _gregorian_days(year: int, month: int, day: int) -> int:
    """Return a date in days since 1970. Raise ValueError if the date does not exist."""
    cycles, year_of_cycle = divmod(year, _CYCLE_YEARS)
    # The first cycle of Python's dates starts after the year 0, so the second one is used.
    ordinal = date(year_of_cycle + _CYCLE_YEARS, month, day).toordinal()
    return ordinal + (cycles - 1) * _CYCLE_DAYS - _EPOCH


def _rebased(days: int) -> int:
    """Return a day with the same date in the Gregorian calendar as ``days`` in the Julian one."""
    if days >= _GREGORIAN_START:
        return days
    leap_cycles, day_of_cycle = divmod(days - _JULIAN_ORIGIN, 4 * 365 + 1)
    # A year starts in March here, so a leap day is its last day.
    year_of_cycle = min(day_of_cycle // 365, 3)
    day_of_year = day_of_cycle - 365 * year_of_cycle
    month = (5 * day_of_year + 2) // 153
    day = day_of_year - (153 * month + 2) // 5
    year = 4 * leap_cycles + year_of_cycle + (month >= 10)
    return _gregorian_days(year, (month + 2) % 12 + 1, 1) + day


def base64_bytes(text: str) -> bytes | None:
    """Return the bytes of a text in Base64, or None if it is invalid."""
    if _BASE64.fullmatch(text) is None:
        return None
    return b"".join(map(b64decode, _PADDED.findall(_BLANKS.sub("", text))))
