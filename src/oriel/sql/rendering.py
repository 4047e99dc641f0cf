"""Rows of a result as JSON, CSV, a table for terminals, or an Arrow stream."""

import base64
import csv
import datetime as dt
import json
import math
from collections.abc import Iterator, Sequence
from decimal import Decimal
from io import StringIO
from typing import Any

import pyarrow as pa

from oriel.sql.errors import InvalidQuery


def json_lines(rows: Any) -> Iterator[str]:
    """Yield each row of an Arrow table as a JSON object and a line end.

    NaN and infinity are null.
    """
    names = rows.column_names
    for row in _values(rows):
        columns = dict(zip(names, map(_plain, row), strict=True))
        yield json.dumps(columns, ensure_ascii=False) + "\n"


def csv_lines(rows: Any) -> Iterator[str]:
    """Yield the header and each row of an Arrow table as a line of CSV."""
    for row in (rows.column_names, *(map(_text, each) for each in _values(rows))):
        line = StringIO()
        csv.writer(line, lineterminator="\n").writerow(row)
        yield line.getvalue()


def table_lines(rows: Any) -> Iterator[str]:
    """Yield the header and each row of an Arrow table as lines with aligned columns."""
    texts = [["NULL" if v is None else _text(v) for v in row] for row in _values(rows)]
    lines: list[Sequence[str]] = [rows.column_names, *texts]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        cells = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        yield "  ".join(cells).rstrip() + "\n"


def arrow_stream(rows: Any) -> bytes:
    """Return an Arrow table as an Arrow IPC stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as stream:
        stream.write_table(rows)
    body: bytes = sink.getvalue().to_pybytes()
    return body


def _values(rows: Any) -> Iterator[tuple[Any, ...]]:
    try:
        columns = [column.to_pylist() for column in rows.columns]
    except OverflowError as error:
        message = (
            "a date or time is not in the years 1 to 9999. Return it as a text, with "
            "CAST(... AS VARCHAR)"
        )
        raise InvalidQuery(message) from error
    return zip(*columns, strict=True)


def _plain(value: Any) -> Any:
    """Return a value of JSON. NaN and infinity are null, as in responses of the service."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, list | tuple):
        return list(map(_plain, value))
    if isinstance(value, dict):
        return {str(name): _plain(each) for name, each in value.items()}
    if isinstance(value, Decimal) and value.as_tuple().exponent == 0:
        # The sum of integers has a type with more digits.
        return int(value)
    return value if value is None or isinstance(value, bool | int | str) else _text(value)


def _text(value: Any) -> str:
    if isinstance(value, dt.datetime):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple | dict):
        return json.dumps(_plain(value), ensure_ascii=False)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return "" if value is None else str(value)
