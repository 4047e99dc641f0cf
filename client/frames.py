"""Convert pages of Arrow to tables of pyarrow, pandas and Polars, which are imported on use."""

from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa


def arrow_table(stream: bytes) -> "pa.Table":
    """Return a page, an Arrow IPC stream, as a ``pyarrow.Table``."""
    with _imported("pyarrow.ipc").open_stream(stream) as reader:
        return reader.read_all()


def joined(tables: "Sequence[pa.Table]") -> "pa.Table":
    """Return the pages of one read as one ``pyarrow.Table``."""
    # A page without items does not have the selected columns.
    tables = [table for table in tables if len(table)] or tables[:1]
    return _imported("pyarrow").concat_tables(tables)


def pandas_frame(table: "pa.Table") -> "pd.DataFrame":
    """Return a ``pyarrow.Table`` as a ``pandas.DataFrame``. Integers keep all digits.

    If a column of integers has nulls, all integers have pandas' nullable type. The plain type of
    pandas has no nulls, and doubles would round the integers.
    """
    arrow, pandas = _imported("pyarrow"), _imported("pandas")
    has_gaps = any(column.null_count and column.type == arrow.int64() for column in table.columns)
    nullable = {arrow.int64(): pandas.Int64Dtype()} if has_gaps else {}
    return table.to_pandas(types_mapper=nullable.get)


def polars_frame(table: "pa.Table") -> "pl.DataFrame":
    """Return a ``pyarrow.Table`` as a ``polars.DataFrame``."""
    frame: pl.DataFrame = _imported("polars").from_arrow(table)
    return frame


def _imported(name: str) -> Any:
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        package = name.partition(".")[0]
        error.add_note(f"{package} is not installed. Run pip install {package}")
        raise
