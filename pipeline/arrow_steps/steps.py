"""The steps of one input over Arrow tables.

As in ``oriel.pipeline.rows``, rows are never dropped, only marked. No function that Arrow runs can
fail on a record, so a function computes all rows. Then invalid rows and rows that a filter dropped
become null.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from oriel.pipeline.arrow_steps.typed_keys import TypedKeys
from oriel.pipeline.dead_letters import Reason
from oriel.pipeline.language import SCOPE_COLUMNS
from oriel.pipeline.row_program import (
    ROW_KEY,
    Filter,
    Generate,
    Project,
    RowOperation,
    RowProgram,
    Tombstone,
)
from oriel.pipeline.stage_columns import (
    FIRST_ELEMENT,
    MESSAGE,
    RAW,
    REASON,
    RESULT_EXTRA_FIELDS,
    STEPPED_FIELDS,
    StepsOutput,
    joined_values,
)
from oriel.pipeline.windows import NULL_VALUE
from oriel.storage import KEY_BYTES_MAX
from oriel.storage.expressions import Expression, Operand, as_one_array, column_names


class ArrowSteps:
    """The steps of one input, as plain data that can be sent to tasks."""

    def __init__(
        self,
        values: pa.Schema,
        program: RowProgram[Expression],
        typed_keys: TypedKeys | None = None,
        *,
        joined: bool,
    ) -> None:
        """Prepare the run of a program.

        Args:
            values: The value columns after the steps.
            program: The steps and the key.
            typed_keys: The conversion of strings to keys. None: the strings are the keys.
            joined: True if the records are join results, False if they are decoded records.
        """
        #: The Arrow schema of the value columns after the steps.
        self.values = values
        self.program = program
        self._typed_keys = typed_keys
        self._joined = joined

    @property
    def arrow(self) -> "ArrowSteps":
        return self

    def select(self, output: StepsOutput) -> None:
        """Choose the output of ``rows``."""
        self._selected = self.program.pruned([*output.used, ROW_KEY], column_names)
        self._output = output

    def rows(self, records: pa.Table) -> pa.Table:
        """Return the rows for the stream-time assigner, in the order of ``records``.

        A record has one row, or one row per element. The columns are ``STEPPED_FIELDS`` and the
        chosen values. Join results also have ``RESULT_EXTRA_FIELDS``, and flattened records also
        have ``FIRST_ELEMENT``.
        """
        rows = Rows.of(records, joined=self._joined)
        rows.run(self._selected)
        key, reason = rows.columns[ROW_KEY], rows.reason
        if not self._output.any_key:
            key, reason = self._checked_key(key, rows.in_use, reason)
        if not self._output.null_values:
            is_null = pc.and_(rows.in_use, rows.null_value)
            reason = pc.if_else(is_null, Reason.NULL_VALUE.value, reason)
        keep = rows.keep
        if self._joined:
            # A deleted row of a join is not an invalid record. If the next operator cannot use it,
            # the row is filtered out.
            is_deleted = pc.and_(pc.and_(rows.in_use, rows.null_value), pc.is_valid(reason))
            reason = pc.if_else(is_deleted, pa.scalar(None, pa.string()), reason)
            keep = pc.and_not(keep, is_deleted)
        raw, message = self._bytes(rows, pc.is_valid(reason))
        computed = {
            MESSAGE.name: message,
            "reason": reason,
            "keep": keep,
            "null_value": rows.null_value,
            "raw": raw,
            "key": key,
        }
        fields = [*STEPPED_FIELDS, *(RESULT_EXTRA_FIELDS if self._joined else ())]
        if rows.elements is not None:
            computed[FIRST_ELEMENT.name] = rows.elements.is_first
            fields.append(FIRST_ELEMENT)
        stepped = {
            field.name: computed[field.name]
            if field.name in computed
            else rows.of_records(field.name)
            for field in fields
        }
        values = {name: rows.columns[name] for name in self._output.used}
        # Deleted rows have no value, although steps can compute one from nulls or window bounds.
        if rows.has_deleted and pc.any(rows.null_value).as_py():
            has_value = pc.invert(rows.null_value)
            values = {name: _where(has_value, column) for name, column in values.items()}
        return pa.table(stepped | values)

    def _checked_key(
        self, key: Operand, in_use: Operand, reason: Operand
    ) -> tuple[Operand, Operand]:
        """Return the valid keys, and why rows are invalid, also for other reasons than the key."""
        reason = pc.if_else(pc.and_(in_use, pc.is_null(key)), Reason.NULL_KEY.value, reason)
        if self._typed_keys is not None:
            texts = as_one_array(key)
            key = self._typed_keys.typed(texts)
            is_unfit = pc.and_(pc.is_valid(texts), pc.is_null(key))
            reason = pc.if_else(pc.and_(in_use, is_unfit), Reason.UNFIT_KEY.value, reason)
        is_too_long = pc.fill_null(
            pc.greater(pc.binary_length(key), KEY_BYTES_MAX), fill_value=False
        )
        reason = pc.if_else(pc.and_(in_use, is_too_long), Reason.KEY_TOO_LONG.value, reason)
        return key, reason

    def _bytes(self, rows: "Rows", is_invalid: Operand) -> tuple[Operand, Operand]:
        """Return the raw bytes and the messages of rows, if a later operator needs them."""
        length, has_invalid = len(is_invalid), pc.any(is_invalid).as_py()
        if self._joined:
            raw = pa.repeat(pa.scalar(b"", RAW.type), length)
        elif has_invalid or self._output.keeps_raw:
            raw = rows.of_records(RAW.name)
        else:
            # No row needs its bytes, so they are not copied for each element.
            raw = pa.nulls(length, RAW.type)
        if self._joined or not has_invalid:
            message = pa.nulls(length, MESSAGE.type)
        else:
            message = _where(is_invalid, rows.of_records(MESSAGE.name))
        return raw if self._output.keeps_raw else _where(is_invalid, raw), message


@dataclass
class Rows:
    """Rows during the steps: their columns and their status so far.

    Attributes:
        records: The records from which the rows are created.
        columns: The columns by name.
        reason: The reason why a row is invalid, otherwise null.
        null_value: True if a row has a null value.
        keep: False if a filter has dropped the row.
        in_use: True if a row is neither invalid nor filtered out.
        has_deleted: True if rows can be deleted. Then a row with a null value has no columns.
        elements: The record and the element of each row. None: the rows are the records.
    """

    records: pa.Table
    columns: dict[str, Operand]
    reason: Operand
    null_value: Operand
    keep: Operand
    in_use: Operand
    has_deleted: bool = False
    elements: "_Elements | None" = None

    @classmethod
    def of(cls, records: pa.Table, *, joined: bool) -> "Rows":
        """Return the rows of decoded records or of join results."""
        if joined:
            columns = {name: records[name] for name in joined_values(records.schema).names}
            reason = records[REASON.name]
            null_value = pa.array(np.zeros(len(records), dtype=np.bool_))
            if NULL_VALUE.name in records.column_names:
                null_value = pc.fill_null(records[NULL_VALUE.name], fill_value=False)
        else:
            # The columns of the value. They are null for a null value.
            value = records["value"]
            columns = {field.name: pc.struct_field(value, field.name) for field in value.type}
            reason, null_value = records["reason"], pc.is_null(records["value"])
        columns |= {name: records[name] for name in SCOPE_COLUMNS}
        keep = pa.array(np.ones(len(records), dtype=np.bool_))
        return cls(records, columns, reason, null_value, keep, pc.is_null(reason), joined)

    @classmethod
    def aggregated(cls, rows: pa.Table, is_deleted: Operand) -> "Rows":
        """Return the rows of an aggregation. Removed rows (``is_deleted``) have a null value."""
        columns = {name: rows[name] for name in rows.column_names}
        exists = pc.invert(is_deleted)
        reason = pa.nulls(len(rows), pa.string())
        return cls(rows, columns, reason, is_deleted, exists, exists)

    def run(self, program: RowProgram[Expression]) -> None:
        """Run the operations of a program."""
        for operation in program.operations:
            _RUN[type(operation)](self, operation)

    def filter(self, operation: Filter[Expression]) -> None:
        """Run the filter of a stream."""
        # As in SQL's WHERE, a null condition counts as false.
        holds = pc.fill_null(operation.condition.evaluate(self.columns), fill_value=False)
        self.keep = self.in_use = pc.and_(self.in_use, holds)

    def delete(self, operation: Tombstone[Expression]) -> None:
        """Run the filter of a table."""
        deleted = pc.and_(self.in_use, operation.condition.evaluate(self.columns))
        self.null_value = pc.or_(self.null_value, deleted)
        self.has_deleted = True
        has_value = pc.invert(self.null_value)
        for name in self.columns.keys() - {*SCOPE_COLUMNS}:
            self.columns[name] = _where(has_value, self.columns[name])

    def project(self, operation: Project[Expression]) -> None:
        """Compute columns from all columns so far."""
        is_computed = self.in_use
        if operation.guard is not None:
            is_computed = pc.and_(is_computed, self.columns[operation.guard])
        computed = {
            name: _where(is_computed, expression.evaluate(self.columns))
            for name, expression in operation.computed.items()
        }
        kept = {name: self.columns[old] for name, old in operation.kept.items()}
        self.columns = {**kept, **computed}

    def generate(self, operation: Generate[Expression]) -> None:
        """Replace rows by their elements."""
        # After the filter of a table, a step can compute an array for a deleted row.
        lists = _where(pc.invert(self.null_value), self.columns[operation.name])
        elements = _Elements.of(lists)
        has_any = pc.or_(pc.invert(self.in_use), elements.has_any)
        self.keep = elements.spread(pc.and_(self.keep, has_any))
        self.reason, self.null_value = map(elements.spread, (self.reason, self.null_value))
        self.in_use = pc.and_(pc.is_null(self.reason), self.keep)
        # Only the columns that are needed are repeated for each element.
        kept = self.columns.keys() - {operation.name}
        kept &= kept if operation.kept is None else operation.kept
        spread = {name: elements.spread(self.columns[name]) for name in kept}
        self.columns = {**spread, operation.name: elements.values}
        self.elements = elements if self.elements is None else elements.within(self.elements)

    def in_use_only(self, column: Operand) -> Operand:
        """Return ``column`` for rows in use, and null for all other rows."""
        return _where(self.in_use, column)

    def of_records(self, name: str) -> Operand:
        """Return a column of the records, for each row."""
        column = self.records[name]
        return column if self.elements is None else self.elements.spread(column)


_RUN: Mapping[type[RowOperation[Any]], Callable[[Rows, Any], None]] = {
    Filter: Rows.filter,
    Generate: Rows.generate,
    Project: Rows.project,
    Tombstone: Rows.delete,
}


@dataclass(frozen=True)
class _Elements:
    """The rows of records with arrays: one row per element, or one row without elements.

    Attributes:
        row_of: The index of the record of each row.
        is_first: True if a row is the first element of its record, null without elements.
        values: The element of each row, null without elements.
        has_any: True for each record with elements.
    """

    row_of: pa.Array
    is_first: pa.Array
    values: pa.ChunkedArray
    has_any: pa.Array

    @classmethod
    def of(cls, lists: pa.ChunkedArray) -> "_Elements":
        """Return the elements of ``lists``, in order."""
        lengths = np.asarray(pc.fill_null(pc.list_value_length(lists), 0), dtype=np.int64)
        rows = np.maximum(lengths, 1)
        row_of = np.repeat(np.arange(len(rows)), rows)
        index = np.arange(len(row_of)) - (np.cumsum(rows) - rows)[row_of]
        is_none = lengths[row_of] == 0
        number = pa.array(np.cumsum(~is_none) - 1, mask=is_none)
        return cls(
            pa.array(row_of),
            pa.array(index == 0, mask=is_none),
            pc.list_flatten(lists).take(number),
            pa.array(lengths > 0),
        )

    def within(self, outer: "_Elements") -> "_Elements":
        """Return the same rows, as elements of the records from which ``outer`` was created."""
        # The first element of a flattened record has the mark of that record.
        is_further = pc.fill_null(pc.invert(self.is_first), fill_value=False)
        is_first = pc.and_(pc.invert(is_further), outer.is_first.take(self.row_of))
        return replace(self, row_of=outer.row_of.take(self.row_of), is_first=is_first)

    def spread(self, column: Operand) -> Operand:
        """Return a column of the records, repeated for each row."""
        return column.take(self.row_of)


def _where(mask: Operand, column: Operand) -> Operand:
    """Return a column or a constant where ``mask`` is true, and null elsewhere."""
    if pc.all(mask).as_py() and not isinstance(column, pa.Scalar):
        return column
    return pc.if_else(mask, column, pa.scalar(None, column.type))
