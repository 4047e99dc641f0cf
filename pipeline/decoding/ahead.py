"""Records from the future: those whose time is too far ahead of wall clock (decision 0032)."""

import pyarrow as pa
import pyarrow.compute as pc

from oriel.pipeline.dead_letters import Reason

#: What a record with a reason has no more.
_MEANING = ("key", "timestamp_ms", "value")


def refuse_ahead(records: pa.Table, latest_ms: int | None) -> pa.Table:
    """Decoded records, those with a time behind ``latest_ms`` as bad ones; None: any time will do.

    Before any step of a store sees them, so that they are bad for every store.
    """
    if latest_ms is None or not len(records):
        return records
    ahead = pc.fill_null(pc.greater(records["timestamp_ms"], latest_ms), fill_value=False)
    if not pc.any(ahead).as_py():
        return records
    refused = {name: pa.scalar(None, records.schema.field(name).type) for name in _MEANING}
    refused["reason"] = pa.scalar(Reason.TIMESTAMP_AHEAD.value)
    columns = [
        pc.if_else(ahead, refused[name], column) if name in refused else column
        for name, column in zip(records.column_names, records.columns, strict=True)
    ]
    return pa.table(columns, schema=records.schema)
