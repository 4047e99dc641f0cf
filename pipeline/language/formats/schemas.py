"""Parse a schema in Spark DDL without Spark, for functions and the test driver.

The parser supports numbers, strings, booleans, dates, bytes, arrays, structs and maps. ``:`` is
allowed between a name and its type, and backquotes around a name. Code with a Spark session uses
Spark's parser.
"""

import re
from typing import NoReturn

import pyarrow as pa

from oriel.pipeline.errors import InvalidTopology

_TYPES = {
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "byte": pa.int8(),
    "smallint": pa.int16(),
    "short": pa.int16(),
    "int": pa.int32(),
    "integer": pa.int32(),
    "bigint": pa.int64(),
    "long": pa.int64(),
    "float": pa.float32(),
    "real": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "date": pa.date32(),
    "binary": pa.binary(),
}
#: The names of DECIMAL. Without precision and scale, it has the type of ``DECIMAL(10, 0)``.
_DECIMALS = frozenset({"decimal", "dec", "numeric"})
_DEFAULT_PRECISION = 10
#: The greatest precision of Spark, and of Arrow's type with 128 bits.
_MAX_PRECISION = 38

_KNOWN = (
    "Write a column as a name and a type, one of "
    f"{', '.join(map(str.upper, _TYPES))}, DECIMAL(precision, scale), ARRAY<...>, "
    "STRUCT<name: ...>, MAP<..., ...>"
)

_TOKEN = re.compile(r"\s*(`(?:[^`]|``)+`|[A-Za-z_0-9]+|[<>,:()])")


def arrow_schema(ddl: str, step: str = "") -> pa.Schema:
    """Return a schema in DDL as an Arrow schema, for example of ``"carrier STRING, delay INT"``.

    Raises:
        InvalidTopology: ``ddl`` is not a schema, it has an unknown type, or two columns have the
            same name. The message starts with ``step``, which is the step with the schema.
    """
    prefix = f"{step}: schema {ddl!r}" if step else f"schema {ddl!r}"
    parser = _Parser(ddl, prefix)
    fields = parser.fields(end=None)
    names = [field.name.lower() for field in fields]
    if len(set(names)) != len(names):
        message = f"{prefix}: two columns have the same name"
        raise InvalidTopology(message)
    return pa.schema(fields)


class _Parser:
    """A parser of one schema, token by token."""

    def __init__(self, ddl: str, prefix: str) -> None:
        """Split ``ddl`` into tokens. Messages of errors start with ``prefix``."""
        self._prefix = prefix
        self._tokens: list[str] = []
        text, position = ddl.rstrip(), 0
        while position < len(text):
            token = _TOKEN.match(text, position)
            if token is None:
                self._refuse(f"{text[position:].strip()[:20]!r} is not valid. {_KNOWN}")
            self._tokens.append(token[1])
            position = token.end()
        self._next_token = 0

    def fields(self, end: str | None) -> list[pa.Field]:
        """Return the columns before the token ``end``, or before the end of the schema if None."""
        fields = [self._field()]
        while self._peek() == ",":
            self._next()
            fields.append(self._field())
        if end is None:
            if self._peek() is not None:
                self._refuse(f"{self._peek()!r} was not expected. {_KNOWN}")
        else:
            self._expect(end)
        return fields

    def _field(self) -> pa.Field:
        name = self._next()
        if name in {"<", ">", ",", ":", "(", ")"}:
            self._refuse(f"the name of a column was expected, not {name!r}")
        if self._peek() == ":":
            self._next()
        return pa.field(name.strip("`").replace("``", "`"), self._type())

    def _type(self) -> pa.DataType:
        name = self._next().lower()
        if name in _TYPES:
            return _TYPES[name]
        if name in _DECIMALS:
            return self._decimal()
        if name not in {"array", "struct", "map"}:
            self._refuse(f"the type {name.upper()} is not supported. {_KNOWN}")
        self._expect("<")
        if name == "struct":
            return pa.struct(self.fields(end=">"))
        inner_type = self._type()
        if name == "map":
            self._expect(",")
            nested_type = pa.map_(inner_type, self._type())
        else:
            nested_type = pa.list_(inner_type)
        self._expect(">")
        return nested_type

    def _decimal(self) -> pa.DataType:
        """Return the type of a DECIMAL, whose name is read."""
        precision, scale = _DEFAULT_PRECISION, 0
        if self._peek() == "(":
            self._next()
            precision = self._number()
            if self._peek() == ",":
                self._next()
                scale = self._number()
            self._expect(")")
        if not 0 < precision <= _MAX_PRECISION or scale > precision:
            self._refuse(
                f"DECIMAL({precision}, {scale}) is not valid. The precision must be from 1 to "
                f"{_MAX_PRECISION}, and the scale must be from 0 to the precision"
            )
        return pa.decimal128(precision, scale)

    def _number(self) -> int:
        digits = self._next()
        if not digits.isdecimal():
            self._refuse(f"a number was expected, not {digits!r}")
        return int(digits)

    def _peek(self) -> str | None:
        return self._tokens[self._next_token] if self._next_token < len(self._tokens) else None

    def _next(self) -> str:
        token = self._peek()
        if token is None:
            self._refuse(f"the end is missing. {_KNOWN}")
        self._next_token += 1
        return token

    def _expect(self, token: str) -> None:
        actual = self._next()
        if actual != token:
            self._refuse(f"{token!r} was expected, not {actual!r}")

    def _refuse(self, problem: str) -> NoReturn:
        message = f"{self._prefix}: {problem}"
        raise InvalidTopology(message)
