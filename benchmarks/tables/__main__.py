"""Measure reads of current rows: ``oriel bench tables [--windows N]``.

Writes a table with 1,000 windows per key, and compacts it into one run. Then 63 batches update
1,000 windows each: the newest windows of their keys, or random windows. Each library reads all rows
of the table (a plain scan, which counts updated windows several times), and the current rows
(``oriel.tables.current``). Both reads select all columns, or add up one column.

A figure is the least of all rounds, because other programs disturbed it least. Reads of both kinds
run in turns. Prints a table, and JSON in the last line.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pyarrow.dataset as ds
from deltalake import DeltaTable

from benchmarks.query_runs.tables import SLIDE_MS, BenchTable, make_table
from oriel.storage.delta import MaintenanceSettings, TableMaintenance
from oriel.tables import current

_WINDOWS_OF_A_KEY = 1_000
#: Fewer files than the number that the pipeline compacts at once.
_UPDATES, _ROWS = 63, 1_000
#: The updated windows: "newest" are the last ten windows of a key.
_UPDATED = ("newest", "random")

#: A read, and the measured name.
_Read = Callable[[], Any]


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="oriel bench tables", description=__doc__)
    parser.add_argument(
        "--windows", type=int, default=1_000_000, help="number of windows. Default: 1,000,000"
    )
    parser.add_argument("--rounds", type=int, default=5, help="reads of each kind. Default: 5")
    parser.add_argument("--folder", help="where the table is written. Default: the system's")
    options = parser.parse_args(arguments)
    results: list[dict[str, Any]] = []
    for updated in _UPDATED:
        with tempfile.TemporaryDirectory(prefix="oriel-bench-", dir=options.folder) as directory:
            print(f"writing {options.windows:,} windows", file=sys.stderr)
            path = _write(Path(directory), options.windows, updated)
            for name, plain, ours in _reads(path):
                figures = _measured(plain, ours, options.rounds)
                results.append({"updated": updated, "read": name, **figures})
    print("updated  read                plain s  current s  ratio")
    for row in results:
        plain_s, current_s = row["plain_s"], row["current_s"]
        print(
            f"{row['updated']:8} {row['read']:19} {plain_s:7.3f}  {current_s:9.3f}  "
            f"{current_s / plain_s:5.2f}"
        )
    print(
        json.dumps({
            "benchmark": "tables", "windows": options.windows, "cores": os.cpu_count(),
            "reads": results,
        })
    )  # fmt: skip


def _write(data: Path, windows: int, updated: str) -> Path:
    keys = windows // _WINDOWS_OF_A_KEY
    make_table(data, keys, _WINDOWS_OF_A_KEY)
    table = BenchTable(data)
    TableMaintenance(table.path, MaintenanceSettings(sync=False)).compact_all({})
    table = BenchTable(data)
    chance = np.random.default_rng(38)
    for _ in range(_UPDATES):
        least = _WINDOWS_OF_A_KEY - 10 if updated == "newest" else 0
        numbers = chance.choice(keys, min(keys, _ROWS), replace=False)
        starts = chance.integers(least, _WINDOWS_OF_A_KEY, len(numbers)) * SLIDE_MS
        table.commit(numbers, starts)
    return table.path


def _reads(path: Path) -> Iterator[tuple[str, _Read, _Read]]:
    """Yield the name of a read, the plain scan, and the read of current rows."""
    files = [Path(uri) for uri in DeltaTable(path).file_uris()]
    names = ", ".join(f"'{file}'" for file in files)
    plain = f"SELECT * FROM read_parquet([{names}])"  # noqa: S608 - our own table
    connection = duckdb.connect()
    total = "SELECT sum(count) FROM ({})"

    def text() -> str:
        return current(path).sql("duckdb")

    yield (
        "DuckDB, all columns",
        lambda: connection.sql(plain).to_arrow_table(),
        lambda: connection.sql(text()).to_arrow_table(),
    )
    yield (
        "DuckDB, one column",
        lambda: connection.sql(total.format(plain)).fetchall(),
        lambda: connection.sql(total.format(text())).fetchall(),
    )
    yield (
        "Polars, all columns",
        lambda: pl.scan_parquet(files).collect(),
        lambda: current(path).polars().collect(),
    )
    yield (
        "Polars, one column",
        lambda: pl.scan_parquet(files).select(pl.col("count").sum()).collect(),
        lambda: current(path).polars().select(pl.col("count").sum()).collect(),
    )
    yield (
        "pandas, all columns",
        lambda: ds.dataset(list(map(str, files))).to_table().to_pandas(),
        lambda: current(path).pandas(),
    )
    connection.close()


def _measured(plain: _Read, ours: _Read, rounds: int) -> dict[str, float]:
    """Return the least seconds of both reads, of the wall clock and of all processors."""
    figures: dict[str, float] = {}
    for _ in range(rounds):
        for name, read in (("plain", plain), ("current", ours)):
            before, used = time.perf_counter(), time.process_time()
            read()
            for unit, seconds in (
                ("s", time.perf_counter() - before), ("cpu_s", time.process_time() - used),
            ):  # fmt: skip
                key = f"{name}_{unit}"
                figures[key] = round(min(figures.get(key, seconds), seconds), 4)
    return figures


if __name__ == "__main__":
    main()
