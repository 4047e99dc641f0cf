"""``oriel sql STATEMENT``: print the rows of a query over the stores of a data directory."""

import argparse
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from oriel.sql.queries import Limits, open_queries, store_tables
from oriel.sql.rendering import csv_lines, json_lines, table_lines
from oriel.storage import StorageError, UnknownStore

_FORMS = {"json": json_lines, "csv": csv_lines, "table": table_lines}
_UNITS = {"MB": 10**6, "GB": 10**9}


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
        "--timeout", type=float, default=60.0, metavar="SECONDS",
        help="stop the query after this time. Default: 60",
    )  # fmt: skip
    parser.add_argument(
        "--limit-rows", type=int, default=10_000, metavar="N",
        help="print at most this number of rows. Default: 10000",
    )  # fmt: skip
    parser.add_argument(
        "--memory", type=_size, default="2GB", metavar="SIZE",
        help="use at most this memory, for example 500MB. If a query needs more, it writes "
        "temporary files. Default: 2GB",
    )  # fmt: skip
    parser.add_argument(
        "--temporary-files", type=_size, default="10GB", metavar="SIZE",
        help="stop the query if its temporary files have more bytes. Default: 10GB",
    )  # fmt: skip
    form = parser.add_mutually_exclusive_group()
    form.add_argument(
        "--json", action="store_const", dest="form", const="json",
        help="print one JSON object per row",
    )  # fmt: skip
    form.add_argument(
        "--csv", action="store_const", dest="form", const="csv",
        help="print CSV with a header",
    )  # fmt: skip
    parser.set_defaults(form="table")
    options = parser.parse_args(arguments)
    limits = Limits(
        options.timeout, options.limit_rows, options.memory, options.temporary_files
    )  # fmt: skip
    try:
        tables = store_tables(options.data)
        if not tables:
            message = f"{options.data} has no store. Use the --data directory of `oriel run`"
            raise UnknownStore(message)
        with open_queries(tables, options.statement, limits) as queries:
            result = queries.run(options.statement)
        lines = list(_FORMS[options.form](result.rows))
    except (StorageError, OSError) as error:
        print(f"oriel sql: {error}", file=sys.stderr)
        return 1
    for store, position in queries.positions.items():
        print(f"{store}: version {position['version']}", file=sys.stderr)
    if result.is_cut:
        line = f"the query has more than {limits.rows} rows, and the others are cut"
        print(f"oriel sql: {line}. Set --limit-rows", file=sys.stderr)
    sys.stdout.writelines(lines)
    return 0


def _size(text: str) -> int:
    match = re.fullmatch(r"([1-9][0-9]{0,8})(MB|GB)", text)
    if match is None:
        message = "must be a number of MB or GB, for example 500MB or 4GB"
        raise argparse.ArgumentTypeError(message)
    return int(match[1]) * _UNITS[match[2]]
