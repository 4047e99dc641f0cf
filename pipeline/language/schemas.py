"""Schemas as Spark's DDL writes them, read without Spark.

Enough of the language for columns of records: numbers, text, booleans, and arrays,
structs and maps of them. Whoever has a Spark session lets Spark read the text instead.
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
}

_TOKEN = re.compile(r"\s*(`(?:[^`]|``)+`|[A-Za-z_0-9]+|[<>,:])")


def arrow_schema(ddl: str, place: str = "") -> pa.Schema:
    """Return the columns of ``ddl``, such as ``"carrier STRING, delays ARRAY<DOUBLE>"``.

    Raises:
        InvalidTopology: the text is no schema, or has a type that is not listed here; the
            message begins with ``place``, the stream or the step that it was given to.
    """
    told = f"{place}: schema {ddl!r}" if place else f"schema {ddl!r}"
    parser = _Parser(ddl, told)
    fields = parser.fields(end=None)
    names = [field.name.lower() for field in fields]
    if len(set(names)) != len(names):
        message = f"{told}: two columns have one name"
        raise InvalidTopology(message)
    return pa.schema(fields)


class _Parser:
    """A reader of one DDL text, token by token."""

    def __init__(self, ddl: str, told: str) -> None:
        self._told = told
        self._tokens: list[str] = []
        place = 0
        text = ddl.rstrip()
        while place < len(text):
            found = _TOKEN.match(text, place)
            if found is None:
                self._refuse(f"{text[place:].strip()[:20]!r} is not understood")
            self._tokens.append(found[1])
            place = found.end()
        self._place = 0

    def fields(self, end: str | None) -> list[pa.Field]:
        """Columns up to ``end`` (None: the end of the text)."""
        fields = [self._field()]
        while self._peek() == ",":
            self._next()
            fields.append(self._field())
        if end is None:
            if self._peek() is not None:
                self._refuse(f"{self._peek()!r} was not expected")
        else:
            self._expect(end)
        return fields

    def _field(self) -> pa.Field:
        name = self._next()
        if name in {"<", ">", ",", ":"}:
            self._refuse(f"{name!r} was not expected, a column's name was")
        if self._peek() == ":":
            self._next()
        return pa.field(name.strip("`").replace("``", "`"), self._type())

    def _type(self) -> pa.DataType:
        name = self._next().lower()
        if name in _TYPES:
            return _TYPES[name]
        if name not in {"array", "struct", "map"}:
            self._refuse(f"the type {name.upper()} is not one of {sorted(_TYPES)}, ARRAY<...>")
        self._expect("<")
        if name == "struct":
            return pa.struct(self.fields(end=">"))
        first = self._type()
        if name == "map":
            self._expect(",")
            first = pa.map_(first, self._type())
        else:
            first = pa.list_(first)
        self._expect(">")
        return first

    def _peek(self) -> str | None:
        return self._tokens[self._place] if self._place < len(self._tokens) else None

    def _next(self) -> str:
        token = self._peek()
        if token is None:
            self._refuse("it ends too early")
        self._place += 1
        return token

    def _expect(self, token: str) -> None:
        found = self._next()
        if found != token:
            self._refuse(f"{token!r} was expected, not {found!r}")

    def _refuse(self, what: str) -> NoReturn:
        message = f"{self._told}: {what}"
        raise InvalidTopology(message)
