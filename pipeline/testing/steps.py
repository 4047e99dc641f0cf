"""Row-wise steps for the test driver: without Spark where no expression needs it."""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from oriel.pipeline.dead_letters import Reason
from oriel.pipeline.hops import BESIDE_RESULT, STEPPED_FIELDS, decoded_schema, joined_values
from oriel.pipeline.language import Filter, Input, Side, Source, arrow_schema, refuse_taken

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_NAME = re.compile(r"[A-Za-z_][A-Za-z_0-9]*")


def steps_for(origin: Input | Side, read: Source | pa.Schema, store: str) -> Any:
    """The steps of an input in front of decoded records or a join's results.

    Raises:
        InvalidTopology: a step does not fit the schema; the message names it.
    """
    if isinstance(read, Source):
        values = arrow_schema(read.schema)
        refuse_taken(str(read), values.names)
    else:
        values = joined_values(read)
    names = _plain_names(origin, values)
    if names is None:
        return SparkSteps(origin, read, store)
    values = pa.schema([values.field(name) for name in names])
    return PlainSteps(origin, values, joined=not isinstance(read, Source))


def _plain_names(origin: Input | Side, values: pa.Schema) -> list[str] | None:
    """The value columns after steps that only choose columns, else None."""
    names = list(values.names)
    for step in origin.steps:
        if isinstance(step, Filter) or step.columns:
            return None
        columns = [column for name in step.keep for column in (names if name == "*" else [name])]
        if not set(columns) <= set(names):
            return None
        names = list(dict.fromkeys(columns))
    for part in origin.group_by:
        if not isinstance(part, str) or len(origin.group_by) > 1 or part not in names:
            return None
        key_type = values.field(part).type
        if not _NAME.fullmatch(part) or not (
            pa.types.is_string(key_type) or pa.types.is_integer(key_type)
        ):
            return None
    return names


class PlainSteps:
    """Steps that only choose columns and group by one of them."""

    def __init__(self, origin: Input | Side, values: pa.Schema, *, joined: bool) -> None:
        """Keep the columns ``values`` of decoded records, or of a join's results."""
        self.values = values
        self._group_by = origin.group_by
        self._joined = joined

    def select(
        self, used: Sequence[str], key_groups: int, *, null_values: bool, keeps_raw: bool = False
    ) -> None:
        """See ``oriel.pipeline.plan.Steps``; the driver has one task and keeps raw bytes."""
        del key_groups, keeps_raw
        self._used = list(used)
        self._null_values = null_values

    def rows(self, records: pa.Table) -> pa.Table:
        """The rows for the stamp."""
        length = len(records)
        if self._joined:
            values, reason = records, pa.nulls(length, pa.string())
            null_value = pa.array(np.zeros(length, dtype=np.bool_))
        else:
            values, reason = _unpacked(records["value"]), records["reason"]
            null_value = pc.is_null(records["value"])
        key = values[str(self._group_by[0])] if self._group_by else records["key"]
        key = key.cast(pa.string())
        if not self._null_values:
            empty = pc.and_(pc.is_null(reason), null_value)
            reason = pc.if_else(empty, Reason.NULL_VALUE.value, reason)
        reason = pc.if_else(
            pc.and_(pc.is_null(reason), pc.is_null(key)), Reason.NULL_KEY.value, reason
        )
        columns = {
            "partition": records["partition"],
            "offset": records["offset"],
            "reason": reason,
            "keep": pa.array(np.ones(length, dtype=np.bool_)),
            "null_value": null_value,
            "raw": pa.repeat(b"", length) if self._joined else records["raw"],
            "key": key,
            "key_group": pa.array(np.zeros(length, dtype=np.int32)),
            **{field.name: records[field.name] for field in BESIDE_RESULT if self._joined},
            "timestamp_ms": records["timestamp_ms"],
        }
        fields = (*STEPPED_FIELDS, *(BESIDE_RESULT if self._joined else ()))
        return pa.table({
            **{field.name: columns[field.name] for field in fields},
            **{name: values[name] for name in self._used},
        })  # fmt: skip


class SparkSteps:
    """Steps with expressions: the pipeline's own, on a local Spark session."""

    def __init__(self, origin: Input | Side, read: Source | pa.Schema, store: str) -> None:
        """Start the session if none runs, and check the steps.

        Raises:
            InvalidTopology: a step does not fit the schema; the message names it.
        """
        from pyspark.sql.pandas.types import from_arrow_schema  # noqa: PLC0415 - only if needed

        from oriel.pipeline.rows import RowSteps  # noqa: PLC0415

        self._spark = spark_session()
        self._store = store
        if isinstance(read, Source):
            read = decoded_schema(pa.struct(list(arrow_schema(read.schema))))
        self._schema = read
        empty = self._spark.createDataFrame([], from_arrow_schema(read))
        self._steps = RowSteps(empty, origin, store)
        self.values = self._steps.values

    def select(
        self, used: Sequence[str], key_groups: int, *, null_values: bool, keeps_raw: bool = False
    ) -> None:
        """See ``oriel.pipeline.plan.Steps``; the driver keeps all raw bytes."""
        del keeps_raw
        self._steps.select(used, key_groups, null_values=null_values, keeps_raw=True)

    def rows(self, records: pa.Table) -> pa.Table:
        """The rows for the stamp."""
        from oriel.pipeline.run import SPARK_ERRORS, refuse_failing  # noqa: PLC0415

        frame = self._spark.createDataFrame(records.cast(self._schema)).coalesce(1)
        try:
            return self._steps.rows(frame).toArrow()
        except SPARK_ERRORS as error:
            refuse_failing(error, self._store, [(self._steps, frame)])
            raise


def _unpacked(values: pa.ChunkedArray) -> dict[str, pa.ChunkedArray]:
    """The columns of values, null where there is no value."""
    return {field.name: pc.struct_field(values, field.name) for field in values.type}


def spark_session() -> "SparkSession":
    """The local Spark session of this process, started if there is none.

    Drivers start it themselves. Only who writes a ``Column`` needs it before.
    """
    from pyspark.sql import SparkSession  # noqa: PLC0415 - only topologies with expressions

    from oriel.pipeline.spark import build_session  # noqa: PLC0415

    return SparkSession.getActiveSession() or build_session("topology-test-driver", cores=1)
