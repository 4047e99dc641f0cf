"""Random SQL expressions that Arrow supports, and columns with hostile values for them."""

from datetime import date
from decimal import Decimal
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from oriel.pipeline.language import arrow_schema

SCHEMA = (
    "v DOUBLE, x DOUBLE, f FLOAT, n SMALLINT, i INT, j INT, b BIGINT, c BIGINT, t BOOLEAN, "
    "u BOOLEAN, w STRING, y STRING, s STRUCT<a: INT, d: STRUCT<z: DOUBLE>>, d DATE, e DATE, "
    "g BINARY, h BINARY, p DECIMAL(10, 2), q DECIMAL(22, 7), r DECIMAL(38, 30)"
)
VALUES = arrow_schema(SCHEMA)

_NAN, _INF = float("nan"), float("inf")
_FRACTIONS = (
    None, _NAN, _INF, -_INF, 0.0, -0.0, 1.0, 1.5, -1.5, 0.1, 3.0, 127.5, -128.9, 32768.0, 2.0**31,
    -(2.0**31), 2147483647.5, 2.0**63, -(2.0**63), 9.223372036854775e18, 1e300, -1e300, 5e-324,
)  # fmt: skip
_TEXTS = (
    None, "", " ", "a", "b", "ab", "ba", "aab", "A", " a b ", "\ta\n", "%", "_", "a_", "a%", "\\",
    "\\a", "|", "a|b", "\0", "a\0", "é", "e\u0301", "ß", "ẞ", "😀", "a😀b", "\uffff", "\ud7ff",
    "\u00a0a\u00a0", "0", "-1", "true", "null", "NaN",
)  # fmt: skip


def _integers(bits: int) -> tuple[int | None, ...]:
    greatest = 2 ** (bits - 1) - 1
    return (None, 0, 1, -1, 2, 3, -3, 7, 100, greatest, greatest - 1, -greatest - 1, -greatest)


def _digits(precision: int) -> tuple[int, ...]:
    nines, nearly_half = 10**precision - 1, 10 ** (precision - 1) * 5 - 1
    return (0, 1, -1, 150, -250, 12345, 10 ** (precision - 3), nearly_half, nines, -nines)


_BY_TYPE = {
    pa.float64(): _FRACTIONS,
    pa.float32(): tuple(
        None if x is None else float(np.float32(x))
        for x in _FRACTIONS
        if x is None or not 1e38 < abs(x) < _INF
    ),
    pa.int16(): _integers(16),
    pa.int32(): _integers(32),
    pa.int64(): (*_integers(64), 2**53 + 1, 2**31),
    pa.bool_(): (None, True, False),
    pa.string(): _TEXTS,
    pa.date32(): (
        None, date(1, 1, 1), date(1582, 10, 10), date(1969, 12, 31), date(1970, 1, 1),
        date(2024, 2, 29), date(9999, 12, 31),
    ),
    pa.binary(): (None, b"", b"\0", b"a", b"ab", b"\x7f", b"\x80", b"\xff\xfe", b"\xff"),
    **{
        each.type: (
            None,
            *(Decimal(f"{n}e-{each.type.scale}") for n in _digits(each.type.precision)),
        )
        for each in VALUES
        if pa.types.is_decimal(each.type)
    },
}  # fmt: skip


def hostile_rows(count: int, seed: int) -> list[dict[str, Any]]:
    """Return `count` rows of `SCHEMA` with extreme, odd and null values in any combination."""
    random = Random(seed)
    structs: tuple[Any, ...] = (
        None, {"a": None, "d": None}, {"a": -(2**31), "d": {"z": None}}, {"a": 3, "d": {"z": _NAN}},
    )  # fmt: skip
    choices: dict[str, tuple[Any, ...]] = {
        field.name: _BY_TYPE.get(field.type, structs) for field in VALUES
    }
    return [{name: random.choice(values) for name, values in choices.items()} for _ in range(count)]


_INTEGER = st.sampled_from((
    "n", "i", "j", "b", "c", "s.a", "timestamp_ms", "0", "1", "-1", "3", "7Y", "100S",
    "-2147483648", "2147483647", "9223372036854775807", "CAST(NULL AS INT)",
))  # fmt: skip
_FRACTION = st.sampled_from((
    "v", "x", "f", "s.d.z", "0.0D", "1.5D", "-2.5F", "1e300D", "DOUBLE('NaN')",
    "DOUBLE('Infinity')", "CAST(NULL AS DOUBLE)",
))  # fmt: skip
_BOOLEAN = st.sampled_from(("t", "u", "true", "false", "CAST(NULL AS BOOLEAN)"))
_TEXT = st.sampled_from(("w", "y", "key", "'a'", "''", "'é😀'", "' b '", "CAST(NULL AS STRING)"))
#: Patterns and other arguments that must be constants.
_PATTERN = st.sampled_from(("", "a", "b", "ab", " ", "é", "😀", "|", "A"))
_DATE = st.sampled_from(("d", "e", "DATE'2024-02-29'", "CAST(NULL AS DATE)"))
_DECIMAL = st.sampled_from((
    "p", "q", "r", "1.5BD", "-2.50BD", "0BD", "CAST(NULL AS DECIMAL(5, 1))",
))  # fmt: skip
_BINARY = st.sampled_from(("g", "h", "X'FFFE'", "X''", "CAST(NULL AS BINARY)"))
_TYPE = st.sampled_from(("TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE"))
_COMPARISON = st.sampled_from(("=", "<>", "<", "<=", ">", ">=", "<=>"))


def _made(pattern: str, **parts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Return SQL text from a pattern and the expressions for its placeholders."""
    return st.fixed_dictionaries(parts).map(lambda found: pattern.format(**found))


def _common(
    this: st.SearchStrategy[str], condition: st.SearchStrategy[str]
) -> st.SearchStrategy[str]:
    """Return expressions of one type. They exist for each type."""
    return st.one_of(
        _made("coalesce({a}, {b})", a=this, b=this),
        _made("if({c}, {a}, {b})", a=this, b=this, c=condition),
        _made(
            "CASE WHEN {c} THEN {a} WHEN {d} THEN {b} END", a=this, b=this, c=condition, d=condition
        ),
        _made("CASE {a} WHEN {b} THEN {c} ELSE {a} END", a=this, b=this, c=this),
        _made("nullif({a}, {b})", a=this, b=this),
        _made("greatest({a}, {b}, {c})", a=this, b=this, c=this),
        _made("least({a}, {b})", a=this, b=this),
        _made("nvl2({a}, {b}, {c})", a=this, b=this, c=this),
    )


def _conditions(
    inner: st.SearchStrategy[str], numbers: st.SearchStrategy[str], texts: st.SearchStrategy[str]
) -> st.SearchStrategy[str]:
    kinds = (numbers, texts, inner, _DATE, _BINARY, st.sampled_from(("p", "p", "-2.50BD")))
    compared = st.one_of([st.tuples(kind, kind, kind) for kind in kinds])
    return st.one_of(
        st.tuples(compared, _COMPARISON).map(lambda it: f"({it[0][0]} {it[1]} {it[0][1]})"),
        compared.map(lambda it: f"({it[0]} BETWEEN {it[1]} AND {it[2]})"),
        compared.map(lambda it: f"({it[0]} NOT IN ({it[1]}, {it[2]}))"),
        compared.map(lambda it: f"({it[0]} IN ({it[1]}, {it[2]}, NULL))"),
        compared.map(lambda it: f"({it[0]} IS NULL)"),
        compared.map(lambda it: f"({it[0]} IS NOT NULL)"),
        _made("({a} AND {b})", a=inner, b=inner),
        _made("({a} OR {b})", a=inner, b=inner),
        _made("(NOT {a})", a=inner),
        _made("isnan(CAST({a} AS DOUBLE))", a=numbers),
        _made("CAST({a} AS BOOLEAN)", a=numbers),
        _made("startswith({a}, '{p}')", a=texts, p=_PATTERN),
        _made("endswith({a}, '{p}')", a=texts, p=_PATTERN),
        _made("contains({a}, '{p}')", a=texts, p=_PATTERN),
        _made("({a} LIKE '{b}{p}{c}')", a=texts, p=_PATTERN, b=_PERCENT, c=_PERCENT),
    )


_PERCENT = st.sampled_from(("", "%"))
_ARITHMETIC = st.sampled_from(("+", "-", "*", "/", "%"))


def _numbers(
    inner: st.SearchStrategy[str], conditions: st.SearchStrategy[str], texts: st.SearchStrategy[str]
) -> st.SearchStrategy[str]:
    integers = _INTEGER | _made("CAST({a} AS BIGINT)", a=inner)
    return st.one_of(
        _made("({a} {o} {b})", a=inner, b=inner, o=_ARITHMETIC),
        _made("({a} {o} {b})", a=integers, b=integers, o=st.sampled_from(("div", "%", "-", "*"))),
        _made("pmod({a}, {b})", a=integers, b=integers),
        _made("(- {a})", a=inner),
        _made("abs({a})", a=inner),
        _made("floor(CAST({a} AS DOUBLE))", a=inner),
        _made("ceil({a})", a=integers),
        _made("ceil(CAST({a} AS DOUBLE))", a=inner),
        _made("CAST({a} AS {k})", a=inner, k=_TYPE),
        _made("CAST({a} AS {k})", a=conditions, k=_TYPE),
        _made("length({a})", a=texts),
        _made("CAST({a} AS {k})", a=_DECIMAL, k=st.sampled_from(("FLOAT", "DOUBLE"))),
        _common(inner, conditions),
    )


def _texts(
    inner: st.SearchStrategy[str],
    numbers: st.SearchStrategy[str],
    conditions: st.SearchStrategy[str],
) -> st.SearchStrategy[str]:
    place = st.integers(0, 5).map(str)
    return st.one_of(
        _made("({a} || {b})", a=inner, b=inner),
        _made("concat({a}, {b}, {c})", a=inner, b=inner, c=inner),
        _made("concat_ws('{p}', {a}, {b}, {c})", a=inner, b=inner, c=inner, p=_PATTERN),
        _made("substring({a}, {p}, {q})", a=inner, p=place, q=place),
        _made("substring({a}, {p})", a=inner, p=place),
        _made("left({a}, {p})", a=inner, p=place),
        _made("{f}({a})", a=inner, f=st.sampled_from(("trim", "ltrim", "rtrim"))),
        _made("replace({a}, '{p}', '{q}')", a=inner, p=_PATTERN, q=_PATTERN),
        _made("CAST(CAST({a} AS BIGINT) AS STRING)", a=numbers),
        _made("CAST({a} AS STRING)", a=conditions),
        _made("CAST({a} AS STRING)", a=_DATE | _DECIMAL),
        _common(inner, conditions),
    )


def _nested(depth: int) -> tuple[st.SearchStrategy[str], ...]:
    """Return numbers, conditions and strings with at most `depth` levels of nesting."""
    if depth == 0:
        return _INTEGER | _FRACTION, _BOOLEAN, _TEXT
    numbers, conditions, texts = _nested(depth - 1)
    return (
        numbers | _numbers(numbers, conditions, texts),
        conditions | _conditions(conditions, numbers, texts),
        texts | _texts(texts, numbers, conditions),
    )


NUMBERS, CONDITIONS, TEXTS = _nested(3)
EXPRESSIONS = st.one_of(
    NUMBERS, CONDITIONS, TEXTS, _common(_DATE, _BOOLEAN), _common(_BINARY, _BOOLEAN),
    _common(st.sampled_from(("p", "p", "1.50BD")), _BOOLEAN),
)  # fmt: skip
