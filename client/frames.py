"""Pages of Arrow as tables of pyarrow, pandas and Polars, which are imported on use."""

from collections.abc import Sequence
from importlib import import_module
from typing import Any


def arrow_table(stream: bytes) -> Any:
    """A page, an Arrow IPC stream, as a ``pyarrow.Table``."""
    with _imported("pyarrow.ipc").open_stream(stream) as reader:
        return reader.read_all()


def joined(tables: Sequence[Any]) -> Any:
    """The pages of one read as one ``pyarrow.Table``."""
    # A page without items doesn't know which columns were chosen.
    tables = [table for table in tables if len(table)] or tables[:1]
    return _imported("pyarrow").concat_tables(tables)


def pandas_frame(table: Any) -> Any:
    """A ``pyarrow.Table`` as a ``pandas.DataFrame``."""
    _imported("pandas")
    return table.to_pandas()


def polars_frame(table: Any) -> Any:
    """A ``pyarrow.Table`` as a ``polars.DataFrame``."""
    return _imported("polars").from_arrow(table)


def _imported(name: str) -> Any:
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        error.add_note(f"tables need it: pip install {name.partition('.')[0]}")
        raise
