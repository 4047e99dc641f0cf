"""The current rows as a lazy frame of Polars, by the same steps as the SQL text.

Only ``CurrentRows.polars`` imports this module, because other users do not need Polars.
"""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import polars as pl

from oriel.storage.delta import Range
from oriel.tables.arrow_frames import empty_rows, table_files
from oriel.tables.steps import Selection, Step, Windows

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def polars_rows(selection: Selection) -> pl.LazyFrame:
    """Return the current rows as a lazy frame."""
    if not selection.steps:
        return pl.DataFrame(empty_rows(selection)).lazy()
    return pl.concat([_step(step, selection) for step in selection.steps])


def _step(step: Step, selection: Selection) -> pl.LazyFrame:
    rows = _scan(step.paths, selection, foreign=step.foreign)
    for condition in _conditions(selection):
        rows = rows.filter(condition)
    if step.repeats:
        # Of equal revisions, a window counts before its removal.
        rows = rows.sort("revision", "deleted", descending=[False, True])
        rows = rows.unique(selection.window, keep="last", maintain_order=True)
    rows = rows.filter(~pl.col("deleted")).select(selection.columns)
    if not step.newer:
        return rows
    newer = pl.concat([_windows(each, selection) for each in step.newer])
    return rows.join(newer, on=selection.window, how="anti")


def _windows(windows: Windows, selection: Selection) -> pl.LazyFrame:
    rows = _scan(windows.paths, selection, foreign=windows.foreign)
    if windows.starts is not None:
        rows = rows.filter(_between(windows.starts))
    return rows.select(selection.window)


def _scan(paths: Sequence[Path], selection: Selection, *, foreign: bool) -> pl.LazyFrame:
    if foreign:
        # These files can have other types, which Arrow casts to the types of the table.
        return pl.DataFrame(table_files(paths, selection).to_table()).lazy()
    return pl.scan_parquet(list(paths), glob=False)


def _conditions(selection: Selection) -> list[pl.Expr]:
    found = []
    if selection.earliest is not None:
        column, time = selection.earliest
        found.append(pl.col(column) >= _moment(time))
    return found


def _between(starts: Range) -> pl.Expr:
    return pl.col("window_start").is_between(_moment(starts.least), _moment(starts.greatest))


def _moment(time: int) -> datetime:
    return _EPOCH + timedelta(microseconds=time)
