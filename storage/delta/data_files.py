"""The Parquet files of a Delta table: written by tasks, with the statistics that readers skip by.

A file is no part of the table before a commit names it.
"""

import uuid
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from oriel.storage.files import current_files

#: How many leading columns get statistics: key, window start and window end, which readers
#: filter by. A store without windows has its aggregates right after the key. These may be lists,
#: of which Delta has no statistics, so there only the key gets them.
_STATISTICS_COLUMNS = 3
_STATISTICS_COLUMNS_WITHOUT_WINDOWS = 1


@dataclass(frozen=True)
class AddedFile:
    """A Parquet file that a task wrote, not yet part of the table.

    ``path`` is relative to the table, ``size`` in bytes, ``stats`` Delta's statistics as JSON.
    """

    path: str
    size: int
    rows: int
    stats: str
    modified_ms: int

    def to_action(self, *, data_change: bool = True) -> dict[str, Any]:
        """The Delta add action: of new rows, or (not ``data_change``) of rows that were there."""
        add = {
            "path": quote(self.path),
            "partitionValues": {},
            "size": self.size,
            "modificationTime": self.modified_ms,
            "dataChange": data_change,
            "stats": self.stats,
        }
        return {"add": add}


def write_file(
    folder: Path, rows: pa.Table, name: str, *, sync: bool, group_rows: int | None = None
) -> AddedFile:
    """Write ``rows`` as one Parquet file into a table's folder.

    ``group_rows`` is the number of rows of a row group, which readers can skip; None: a million.

    ``name`` becomes part of the file name; the file gets a unique suffix, so an attempt
    that is repeated never overwrites what another may have committed. With ``sync`` the content
    is on disk; the folder is synced once for all files, by who is about to refer to them.
    """
    path = folder / f"{name}-{uuid.uuid4()}.parquet"
    # Texts repeat, a key as often as it has windows; numbers and times rarely do.
    texts = [field.name for field in rows.schema if pa.types.is_string(field.type)]

    def fill(sink: pa.NativeFile) -> None:
        pq.write_table(
            rows, sink, row_group_size=group_rows, compression="zstd", compression_level=1,
            use_dictionary=texts,
        )  # fmt: skip

    written = current_files().write(path, fill, sync=sync)
    return AddedFile(path.name, written.size, len(rows), _statistics(rows), written.modified_ms)


def statistics_columns(schema: pa.Schema) -> int:
    """How many leading columns of a table of this schema have statistics."""
    key_alone = schema.names[0] == "key" and "window_start" not in schema.names
    return _STATISTICS_COLUMNS_WITHOUT_WINDOWS if key_alone else _STATISTICS_COLUMNS


def _statistics(rows: pa.Table) -> str:
    """Delta's file statistics: row count, and least and greatest of the leading columns.

    The bounds are whole, however long a key is, and of all columns or of none: a reader
    that finds one column without bounds may skip the file (delta-rs does).
    """
    least, greatest, nulls = {}, {}, {}
    try:
        for name in rows.column_names[: statistics_columns(rows.schema)]:
            bounds = pc.min_max(rows.column(name))
            least[name] = _statistics_value(bounds["min"])
            greatest[name] = _statistics_value(bounds["max"])
            nulls[name] = rows.column(name).null_count
    except OverflowError:
        # A window that ends after the year 9999, which the statistics can't say.
        return orjson.dumps({"numRecords": len(rows)}).decode()
    statistics = {
        "numRecords": len(rows), "minValues": least, "maxValues": greatest, "nullCount": nulls,
    }  # fmt: skip
    return orjson.dumps(statistics).decode()


def _statistics_value(bound: pa.Scalar) -> object:
    """Times as Delta's statistics write them (UTC, ms), the rest as it is.

    Raises:
        OverflowError: the time is after the year 9999.
    """
    value = bound.as_py()
    if isinstance(value, datetime):
        return value.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"
    return value
