"""The steps of one input over Arrow tables.

Rows are never dropped here, only marked, as ``oriel.pipeline.rows`` does it and for its reasons.
No function that Arrow runs can fail on a record, so each is computed for all rows; those that a
filter has dropped, and bad ones, then get null.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from oriel.pipeline.arrow_steps.expressions import (
    Call,
    ColumnRef,
    Expression,
    column_names,
    evaluate,
)
from oriel.pipeline.arrow_steps.functions import Operand
from oriel.pipeline.arrow_steps.typed_keys import TypedKeys
from oriel.pipeline.dead_letters import Reason
from oriel.pipeline.hops import BESIDE_RESULT, MESSAGE, RAW, STEPPED_FIELDS, joined_values
from oriel.pipeline.language import SCOPE, Filter, Input, Side, Source, arrow_schema, refuse_taken
from oriel.storage import KEY_BYTES_MAX

if TYPE_CHECKING:
    from pyspark.sql import Column

#: SQL text that names a column and is nothing else.
_NAME = re.compile(r"(?!(?:null|true|false)$)[a-z_][a-z_0-9]*", re.IGNORECASE)


@dataclass(frozen=True)
class Keep:
    """Filter out the rows for which ``condition`` is false or null."""

    condition: Expression


@dataclass(frozen=True)
class Delete:
    """Take the value of the rows for which ``condition`` is true: a table deletes them.

    What comes behind finds nulls in all columns that there are so far.
    """

    condition: Expression


@dataclass(frozen=True)
class Compute:
    """A new column; no other column has its name, also none before it."""

    name: str
    expression: Expression


@dataclass(frozen=True)
class Program:
    """What steps do, in order, beginning with the record's columns and the value's.

    ``outputs`` maps the names of the value columns after the steps to those within; ``key`` is
    a text.
    """

    steps: tuple[Keep | Delete | Compute, ...]
    outputs: Mapping[str, str]
    key: Expression

    def pruned(self, used: Sequence[str]) -> "Program":
        """The same without columns that neither ``used`` nor a condition nor the key needs."""
        outputs = {name: self.outputs[name] for name in used}
        needed = {*outputs.values(), *column_names(self.key)}
        steps: list[Keep | Delete | Compute] = []
        for step in reversed(self.steps):
            if isinstance(step, Keep | Delete):
                needed.update(column_names(step.condition))
            elif step.name in needed:
                needed.update(column_names(step.expression))
            else:
                continue
            steps.append(step)
        return Program(tuple(reversed(steps)), outputs, self.key)


class ArrowSteps:
    """The steps of one input; plain data, so that tasks can be sent them."""

    def __init__(
        self,
        values: pa.Schema,
        program: Program,
        typed_keys: TypedKeys | None = None,
        *,
        joined: bool,
    ) -> None:
        """Run ``program``, which leaves the value columns ``values``.

        ``typed_keys`` makes the keys of its texts, None: they are it. ``joined``: records are a
        join's results, else decoded ones.
        """
        #: The Arrow schema of the value columns after the steps.
        self.values = values
        self.program = program
        self._typed_keys = typed_keys
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
        self._selected = self.program.pruned(used)
        self._null_values = null_values
        self._keeps_raw = keeps_raw

    def rows(self, records: pa.Table) -> pa.Table:
        """Return the rows for the stamp, as many as ``records`` and in their order.

        Columns: those of ``STEPPED_FIELDS``, for a join's results those of ``BESIDE_RESULT``,
        and the chosen value columns.
        """
        length = len(records)
        if self._joined:
            columns = {name: records[name] for name in joined_values(records.schema).names}
            # Rows that report to the driver pass through: no step touches a row with a reason.
            is_report = pc.is_valid(records["report"])
            reason = pc.if_else(is_report, "report", pa.scalar(None, pa.string()))
            null_value = pa.array(np.zeros(length, dtype=np.bool_))
        else:
            columns = _unpacked(records["value"])
            reason, null_value = records["reason"], pc.is_null(records["value"])
        columns |= {name: records[name] for name in SCOPE}
        keep, in_use = pa.array(np.ones(length, dtype=np.bool_)), pc.is_null(reason)
        for step in self._selected.steps:
            if isinstance(step, Compute):
                columns[step.name] = _in_use(in_use, evaluate(step.expression, columns))
            elif isinstance(step, Delete):
                deleted = pc.and_(in_use, evaluate(step.condition, columns))
                null_value = pc.or_(null_value, deleted)
                columns |= _taken_away(columns, null_value)
            else:
                # Null is not true: as in SQL's WHERE, such a record is filtered out.
                holds = pc.fill_null(evaluate(step.condition, columns), fill_value=False)
                keep = in_use = pc.and_(in_use, holds)
        key = _in_use(in_use, evaluate(self._selected.key, columns))
        reason = pc.if_else(pc.and_(in_use, pc.is_null(key)), Reason.NULL_KEY.value, reason)
        if self._typed_keys is not None:
            texts = key.combine_chunks() if isinstance(key, pa.ChunkedArray) else key
            key = self._typed_keys.typed(texts)
            is_unfit = pc.and_(pc.is_valid(texts), pc.is_null(key))
            reason = pc.if_else(pc.and_(in_use, is_unfit), Reason.UNFIT_KEY.value, reason)
        is_too_long = pc.fill_null(
            pc.greater(pc.binary_length(key), KEY_BYTES_MAX), fill_value=False
        )
        reason = pc.if_else(pc.and_(in_use, is_too_long), Reason.KEY_TOO_LONG.value, reason)
        if not self._null_values:
            reason = pc.if_else(pc.and_(in_use, null_value), Reason.NULL_VALUE.value, reason)
        raw = pa.repeat(pa.scalar(b"", RAW.type), length) if self._joined else records[RAW.name]
        if self._joined or not pc.any(pc.is_valid(reason)).as_py():
            message = pa.nulls(length, MESSAGE.type)
        else:
            message = _in_use(pc.is_valid(reason), records[MESSAGE.name])
        computed = {
            MESSAGE.name: message,
            "reason": reason,
            "keep": keep,
            "null_value": null_value,
            "raw": raw if self._keeps_raw else _in_use(pc.is_valid(reason), raw),
            "key": key,
        }
        fields = (*STEPPED_FIELDS, *(BESIDE_RESULT if self._joined else ()))
        stepped = {
            field.name: computed[field.name] if field.name in computed else records[field.name]
            for field in fields
        }
        values = {name: columns[within] for name, within in self._selected.outputs.items()}
        if any(isinstance(step, Delete) for step in self._selected.steps):
            has_value = pc.invert(null_value)
            values = {name: _in_use(has_value, column) for name, column in values.items()}
        return pa.table(stepped | values)


def arrow_steps(origin: Input | Side, read: Source | pa.Schema) -> ArrowSteps | None:
    """The steps of an input that only choose columns; None if Spark has to read an expression.

    They stand in front of a source's decoded records or a join's results.

    Raises:
        InvalidTopology: the source's schema can't be read, or has a name that is taken.
    """
    if isinstance(read, Source):
        values = arrow_schema(read.columns)
        refuse_taken(str(read), values.names)
    else:
        values = joined_values(read)
    names = list(values.names)
    key: Expression = ColumnRef("key")
    for step in origin.steps:
        if isinstance(step, Filter) or step.columns:
            return None
        next_key = _key(step.key, values, names, key)
        if next_key is None:
            return None
        key = next_key
        kept = [column for name in step.keep for column in (names if name == "*" else [name])]
        if not set(kept) <= set(names):
            return None
        names = list(dict.fromkeys(kept))
    next_key = _key(origin.group_by, values, names, key)
    if next_key is None:
        return None
    values = pa.schema([values.field(name) for name in names])
    program = Program((), {name: name for name in names}, next_key)
    joined = not isinstance(read, Source)
    return ArrowSteps(values, program, TypedKeys.of(origin), joined=joined)


def _key(
    parts: "tuple[str | Column, ...]",
    values: pa.Schema,
    names: list[str],
    key: Expression,
) -> Expression | None:
    """The key that ``parts`` make of the columns ``names`` and the ``key`` before.

    None if it isn't a column whose text is the same in Arrow and in Spark.
    """
    if not parts or parts == ("key",):
        return key
    part, *others = parts
    if others or not isinstance(part, str) or not _NAME.fullmatch(part):
        return None
    if part not in (*SCOPE, *names):
        return None
    is_plain = part in SCOPE or (
        pa.types.is_string(values.field(part).type) or pa.types.is_integer(values.field(part).type)
    )
    return Call("cast", (ColumnRef(part),), {"to": pa.string()}) if is_plain else None


def _unpacked(values: pa.ChunkedArray) -> dict[str, pa.ChunkedArray]:
    """The columns of values, null where there is no value."""
    return {field.name: pc.struct_field(values, field.name) for field in values.type}


def _taken_away(columns: Mapping[str, Operand], null_value: pa.Array) -> dict[str, Operand]:
    """All ``columns`` of values, null where ``null_value`` is true."""
    has_value = pc.invert(null_value)
    return {name: _in_use(has_value, columns[name]) for name in columns.keys() - {*SCOPE}}


def _in_use(mask: Operand, column: Operand) -> Operand:
    """``column``, or a constant, where ``mask`` is true; null elsewhere."""
    if pc.all(mask).as_py() and not isinstance(column, pa.Scalar):
        return column
    return pc.if_else(mask, column, pa.scalar(None, column.type))
