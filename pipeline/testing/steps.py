"""Row-wise steps for the test driver: without Spark where no expression needs it."""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.schemas import arrow_schema
from pipeline.testing.records import DECODED_FIELDS
from pipeline.topology import Filter, Input, Side, Source

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_NAME = re.compile(r"[A-Za-z_][A-Za-z_0-9]*")
#: What a join's results carry beside their records, see ``pipeline.row_steps``.
_JOIN_COLUMNS = ("suborder", "stream_time_ms", "report", "task")
_OWN = (*(field.name for field in DECODED_FIELDS), *_JOIN_COLUMNS)


def steps_for(origin: Input | Side, read: Source | pa.Schema, store: str) -> Any:
    """The steps of an input in front of decoded records or a join's results.

    Raises:
        InvalidTopology: a step does not fit the schema; the message names it.
    """
    schema = arrow_schema(read.schema) if isinstance(read, Source) else read
    values = pa.schema([field for field in schema if field.name not in _OWN])
    names = _plain_names(origin, values)
    if names is None:
        return SparkSteps(origin, read, values, store)
    return PlainSteps(origin, values, names)


def _plain_names(origin: Input | Side, values: pa.Schema) -> list[str] | None:
    """The value columns after steps that only choose columns, else None."""
    names = list(values.names)
    for step in origin.steps:
        if isinstance(step, Filter) or step.columns:
            return None
        kept = [kept for name in step.keep for kept in (names if name == "*" else [name])]
        if not set(kept) <= set(names):
            return None
        names = list(dict.fromkeys(kept))
    for part in origin.group_by:
        if not isinstance(part, str) or len(origin.group_by) > 1 or part not in names:
            return None
        found = values.field(part).type
        if not _NAME.fullmatch(part) or not (
            pa.types.is_string(found) or pa.types.is_integer(found)
        ):
            return None
    return names


class PlainSteps:
    """Steps that only choose columns and group by one of them."""

    def __init__(self, origin: Input | Side, values: pa.Schema, names: Sequence[str]) -> None:
        """Keep the columns ``names`` of ``values``."""
        self.values = pa.schema([values.field(name) for name in names])
        self._group_by = origin.group_by

    def select(
        self, used: Sequence[str], key_groups: int, *, null_values: bool, keeps_raw: bool = False
    ) -> None:
        """See ``pipeline.store_plans.Steps``; the driver has one task and keeps raw bytes."""
        del key_groups, keeps_raw
        self._used = list(used)
        self._null_values = null_values

    def rows(self, records: pa.Table) -> pa.Table:
        """The rows for the stamp."""
        key = records[str(self._group_by[0])] if self._group_by else records["key"]
        key = key.cast(pa.string())
        reason = records["reason"]
        good = pc.is_null(reason)
        if not self._null_values:
            empty = pc.and_(good, records["null_value"])
            reason = pc.if_else(empty, "null-value", reason)
        reason = pc.if_else(pc.and_(pc.is_null(reason), pc.is_null(key)), "null-key", reason)
        length = len(records)
        columns = {
            "partition": records["partition"],
            "offset": records["offset"],
            "reason": reason,
            "keep": pa.array(np.ones(length, dtype=np.bool_)),
            "null_value": records["null_value"],
            "raw": records["raw"],
            "key": key,
            "key_group": pa.array(np.zeros(length, dtype=np.int32)),
            **{name: records[name] for name in _JOIN_COLUMNS if name in records.column_names},
            "timestamp_ms": records["timestamp_ms"],
            **{name: records[name] for name in self._used},
        }
        return pa.table(columns)


class SparkSteps:
    """Steps with expressions: the pipeline's own, on a local Spark session."""

    def __init__(
        self, origin: Input | Side, read: Source | pa.Schema, values: pa.Schema, store: str
    ) -> None:
        """Start the session if none runs, and check the steps.

        Raises:
            InvalidTopology: a step does not fit the schema; the message names it.
        """
        from pyspark.sql.pandas.types import from_arrow_schema  # noqa: PLC0415 - only if needed

        from pipeline.row_steps import RowSteps  # noqa: PLC0415

        self._spark = _session()
        self._names = values.names
        self._is_source = isinstance(read, Source)
        fields = [field for field in DECODED_FIELDS if field.name != "null_value"]
        decoded = pa.schema([*fields, pa.field("value", pa.struct(list(values)))])
        schema = decoded if isinstance(read, Source) else read
        self._schema = from_arrow_schema(schema)
        self._fields = schema.names
        self._steps = RowSteps(self._spark.createDataFrame([], self._schema), origin, store)
        self.values = self._steps.values

    def select(
        self, used: Sequence[str], key_groups: int, *, null_values: bool, keeps_raw: bool = False
    ) -> None:
        """See ``pipeline.store_plans.Steps``; the driver keeps all raw bytes."""
        del keeps_raw
        self._steps.select(used, key_groups, null_values=null_values, keeps_raw=True)

    def rows(self, records: pa.Table) -> pa.Table:
        """The rows for the stamp."""
        rows = records.to_pylist()
        if self._is_source:
            for row in rows:
                value = {name: row.pop(name) for name in self._names}
                row["value"] = None if row["null_value"] else value
        given = [tuple(row[name] for name in self._fields) for row in rows]
        frame = self._spark.createDataFrame(given, self._schema).coalesce(1)
        return self._steps.rows(frame).toArrow()


def _session() -> "SparkSession":
    from pyspark.sql import SparkSession  # noqa: PLC0415 - only topologies with expressions

    from pipeline.session import build_session  # noqa: PLC0415

    return SparkSession.getActiveSession() or build_session("topology-test-driver", cores=1)
