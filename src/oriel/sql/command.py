"""``oriel sql STATEMENT``: print the rows of a query over the stores of a data directory."""

import argparse
import csv
import datetime as dt
import json
import math
import sys
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

from oriel.sql.queries import open_queries
from oriel.storage import StorageError

_SECONDS = 60.0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the query, and print its rows on stdout and the versions of the tables on stderr.

    Returns:
        The exit code: 0 on success, 1 after an error, which is one line on stderr.
    """
    parser = argparse.ArgumentParser(
        prog="oriel sql",
        description="Query the stores of a data directory with a SELECT statement of DuckDB. Each "
        "store is a table with its current rows, and STORE_final has only final rows. A pipeline "
        "can run meanwhile.",
    )
    parser.add_argument("statement", metavar="SELECT", help="statement")
    parser.add_argument(
        "--data", type=Path, required=True, help="query the stores of this data directory"
    )
    parser.add_argument(
        "--timeout", type=float, default=_SECONDS, metavar="SECONDS",
        help="stop the query after this time. Default: 60",
    )  # fmt: skip
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print one JSON object per row")
    form.add_argument("--csv", action="store_true", help="print CSV with a header")
    options = parser.parse_args(arguments)
    try:
        with open_queries(options.data, options.statement) as queries:
            rows = queries.run(options.statement, options.timeout)
    except (StorageError, OSError) as error:
        print(f"oriel sql: {error}", file=sys.stderr)
        return 1
    for store, version in sorted(queries.versions.items()):
        print(f"{store}: version {version}", file=sys.stderr)
    _print(rows, "json" if options.json else "csv" if options.csv else "table")
    return 0


def _print(rows: Any, form: str) -> None:
    names = rows.column_names
    # A query can return several columns of one name, so rows are not dictionaries.
    values = zip(*(column.to_pylist() for column in rows.columns), strict=True)
    if form == "json":
        for row in values:
            print(json.dumps(dict(zip(names, map(_plain, row), strict=True)), ensure_ascii=False))
    elif form == "csv":
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(names)
        writer.writerows(map(_text, row) for row in values)
    else:
        lines = [list(names), *(["NULL" if v is None else _text(v) for v in row] for row in values)]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        for line in lines:
            cells = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
            print("  ".join(cells).rstrip())


def _plain(value: Any) -> Any:
    """Return a value of JSON. NaN and infinity are null, as in responses of the service."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, list):
        return list(map(_plain, value))
    if isinstance(value, dict):
        return {str(name): _plain(each) for name, each in value.items()}
    if isinstance(value, Decimal) and value == value.to_integral_value():
        # The sum of integers has a type with more digits.
        return int(value)
    return value if value is None or isinstance(value, bool | int | str) else _text(value)


def _text(value: Any) -> str:
    if isinstance(value, dt.datetime):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | dict):
        return json.dumps(_plain(value), ensure_ascii=False)
    return "" if value is None else str(value)
