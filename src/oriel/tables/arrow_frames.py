"""The current rows as an Arrow table, by the same steps as the SQL text."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from oriel.storage.delta import TIMESTAMP, Range
from oriel.storage.index import newest_row_indices
from oriel.tables.steps import Selection, Step, Windows


def arrow_rows(selection: Selection) -> Any:
    """Return the current rows as an Arrow table."""
    parts = [_step(step, selection) for step in selection.steps]
    return pa.concat_tables([empty_rows(selection), *parts])


def _step(step: Step, selection: Selection) -> Any:
    conditions = _conditions(selection)
    columns = selection.columns
    if step.repeats:
        rows = table_files(step.paths, selection).to_table(filter=_all_of(conditions))
        if not len(rows):  # All rows of the layer have expired.
            return empty_rows(selection)
        rows = rows.take(newest_row_indices(rows, selection.definition))
        rows = rows.filter(pc.invert(rows["deleted"])).select(columns)
    else:
        condition = _all_of([~ds.field("deleted"), *conditions])
        rows = table_files(step.paths, selection).to_table(columns=columns, filter=condition)
    if not step.newer or not len(rows):
        return rows
    newer = pa.concat_tables([_windows(each, selection) for each in step.newer])
    # Joins of Arrow do not support lists, so only the windows are joined.
    windows = rows.select(selection.window).append_column("row", pa.array(np.arange(len(rows))))
    remaining = windows.join(newer, selection.window, join_type="left anti")["row"]
    mask = np.zeros(len(rows), np.bool_)
    mask[remaining.to_numpy()] = True
    return rows.filter(pa.array(mask))


def _windows(windows: Windows, selection: Selection) -> Any:
    conditions = [] if windows.starts is None else [_between(windows.starts)]
    dataset = table_files(windows.paths, selection)
    return dataset.to_table(columns=selection.window, filter=_all_of(conditions))


def empty_rows(selection: Selection) -> Any:
    """Return an Arrow table with the columns of the current rows, and without rows."""
    return selection.schema.empty_table().select(selection.columns)


def table_files(paths: Sequence[Path], selection: Selection) -> Any:
    """Return the rows of files as an Arrow dataset with the columns and types of the table."""
    # Spark writes times as INT96, which Arrow reads as nanoseconds by default.
    file_format = ds.ParquetFileFormat(
        read_options=ds.ParquetReadOptions(coerce_int96_timestamp_unit="us")
    )
    return ds.dataset(list(map(str, paths)), schema=selection.schema, format=file_format)


def _conditions(selection: Selection) -> list[Any]:
    found = []
    if selection.earliest is not None:
        column, time = selection.earliest
        found.append(ds.field(column) >= _time(time))
    return found


def _between(starts: Range) -> Any:
    start = ds.field("window_start")
    return (start >= _time(starts.least)) & (start <= _time(starts.greatest))


def _time(time: int) -> Any:
    return pa.scalar(time, pa.int64()).cast(TIMESTAMP)


def _all_of(conditions: Sequence[Any]) -> Any:
    """Return one condition, or None without conditions."""
    joined = None
    for condition in conditions:
        joined = condition if joined is None else joined & condition
    return joined
