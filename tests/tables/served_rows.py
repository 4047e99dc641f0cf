"""Current rows as the service returns them."""

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc


def served(rows: pa.Table) -> list[dict[str, Any]]:
    """Return rows as objects of the API, in the order of ``CompactedTable.expected``."""
    columns: dict[str, Any] = {}
    for name in rows.column_names:
        column = rows[name]
        if pa.types.is_timestamp(column.type):
            micros = column.cast(pa.timestamp("us", tz="UTC")).cast(pa.int64())
            columns[f"{name}_ms"] = pc.divide(micros, 1000)
        else:
            columns[name] = column
    return sorted(pa.table(columns).to_pylist(), key=place)


def place(row: dict[str, Any]) -> tuple[bytes, int, int]:
    """Return the key and the window of a row, to sort rows by."""
    return row["key"].encode(), row.get("window_start_ms", 0), row.get("window_end_ms", 0)
