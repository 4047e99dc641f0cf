"""Row-wise steps that Arrow runs, wherever the rows are: in a Python task or in the driver.

They give what ``RowSteps`` gives, row by row and column by column. Steps that only choose columns,
and a key that is one text or integer column, need nothing of Spark's.
"""

import re
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from oriel.pipeline.dead_letters import Reason
from oriel.pipeline.hops import BESIDE_RESULT, RAW, STEPPED_FIELDS, joined_values
from oriel.pipeline.language import SCOPE, Filter, Input, Side, Source, arrow_schema, refuse_taken

#: SQL text that names a column and is nothing else.
_NAME = re.compile(r"(?!(?:null|true|false)$)[a-z_][a-z_0-9]*", re.IGNORECASE)


class ArrowSteps:
    """The steps of one input; plain data, so that tasks can be sent them."""

    def __init__(self, values: pa.Schema, key: str, *, joined: bool) -> None:
        """Keep the columns ``values`` and group by the column ``key``.

        ``joined``: records are a join's results, else decoded ones.
        """
        #: The Arrow schema of the value columns after the steps.
        self.values = values
        self._key = key
        self._joined = joined

    @property
    def arrow(self) -> "ArrowSteps":
        """See ``oriel.pipeline.plan.Steps``."""
        return self

    def select(self, used: Sequence[str], *, null_values: bool, keeps_raw: bool = False) -> None:
        """Choose what ``rows`` gives: the value columns ``used``.

        ``null_values``: records without a value are used, else they are dead letters;
        ``keeps_raw``: the raw bytes of good records are kept, too.
        """
        self._used = list(used)
        self._null_values = null_values
        self._keeps_raw = keeps_raw

    def rows(self, records: pa.Table) -> pa.Table:
        """Return the rows for the stamp, as many as ``records`` and in their order.

        Columns: those of ``STEPPED_FIELDS``, for a join's results those of ``BESIDE_RESULT``,
        and the chosen value columns.
        """
        length = len(records)
        if self._joined:
            values = {name: records[name] for name in joined_values(records.schema).names}
            # Rows that report to the driver pass through: no step touches a row with a reason.
            is_report = pc.is_valid(records["report"])
            reason = pc.if_else(is_report, "report", pa.scalar(None, pa.string()))
            null_value = pa.array(np.zeros(length, dtype=np.bool_))
        else:
            values = _unpacked(records["value"])
            reason, null_value = records["reason"], pc.is_null(records["value"])
        in_use = pc.is_null(reason)
        columns = values | {name: records[name] for name in SCOPE}
        key = _where(in_use, columns[self._key].cast(pa.string()))
        reason = pc.if_else(pc.and_(in_use, pc.is_null(key)), Reason.NULL_KEY.value, reason)
        if not self._null_values:
            reason = pc.if_else(pc.and_(in_use, null_value), Reason.NULL_VALUE.value, reason)
        raw = pa.repeat(pa.scalar(b"", RAW.type), length) if self._joined else records[RAW.name]
        computed = {
            "reason": reason,
            "keep": pa.array(np.ones(length, dtype=np.bool_)),
            "null_value": null_value,
            "raw": raw if self._keeps_raw else _where(pc.is_valid(reason), raw),
            "key": key,
        }
        fields = (*STEPPED_FIELDS, *(BESIDE_RESULT if self._joined else ()))
        stepped = {
            field.name: computed[field.name] if field.name in computed else records[field.name]
            for field in fields
        }
        return pa.table(stepped | {name: values[name] for name in self._used})


def arrow_steps(origin: Input | Side, read: Source | pa.Schema) -> ArrowSteps | None:
    """The steps of an input in front of decoded records or a join's results; None: Spark's.

    Raises:
        InvalidTopology: the source's schema can't be read, or has a name that is taken.
    """
    if isinstance(read, Source):
        values = arrow_schema(read.schema)
        refuse_taken(str(read), values.names)
    else:
        values = joined_values(read)
    names = list(values.names)
    for step in origin.steps:
        if isinstance(step, Filter) or step.columns:
            return None
        kept = [column for name in step.keep for column in (names if name == "*" else [name])]
        if not set(kept) <= set(names):
            return None
        names = list(dict.fromkeys(kept))
    values = pa.schema([values.field(name) for name in names])
    key = _key_column(origin, values)
    return None if key is None else ArrowSteps(values, key, joined=not isinstance(read, Source))


def _key_column(origin: Input | Side, values: pa.Schema) -> str | None:
    """The column that is the key, if it is one whose text is the same in Arrow and in Spark."""
    if not origin.group_by:
        return "key"
    part, *others = origin.group_by
    if others or not isinstance(part, str) or not _NAME.fullmatch(part):
        return None
    if part in SCOPE:
        return part
    if part not in values.names:
        return None
    key_type = values.field(part).type
    is_plain = pa.types.is_string(key_type) or pa.types.is_integer(key_type)
    return part if is_plain else None


def _unpacked(values: pa.ChunkedArray) -> dict[str, pa.ChunkedArray]:
    """The columns of values, null where there is no value."""
    return {field.name: pc.struct_field(values, field.name) for field in values.type}


def _where(mask: pa.ChunkedArray, column: pa.ChunkedArray) -> pa.ChunkedArray:
    """``column`` where ``mask`` is true, null elsewhere."""
    return column if pc.all(mask).as_py() else pc.if_else(mask, column, None)
