"""The steps of one input over Arrow tables.

Rows are never dropped here, only marked, as ``oriel.pipeline.rows`` does it and for its reasons.
No function that Arrow runs can fail on a record, so each is computed for all rows; those that a
filter has dropped, and bad ones, then get null.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from oriel.pipeline.arrow_steps.expressions import (
    Expression,
    column_names,
    evaluate,
)
from oriel.pipeline.arrow_steps.functions import Operand, in_one
from oriel.pipeline.arrow_steps.typed_keys import TypedKeys
from oriel.pipeline.dead_letters import Reason
from oriel.pipeline.hops import (
    BESIDE_RESULT,
    FIRST_ELEMENT,
    MESSAGE,
    RAW,
    REASON,
    STEPPED_FIELDS,
    StepsOutput,
    joined_values,
)
from oriel.pipeline.language import (
    SCOPE,
)
from oriel.pipeline.windows import NULL_VALUE, PARTNERS
from oriel.storage import KEY_BYTES_MAX


@dataclass(frozen=True)
class Keep:
    """Filter out the rows for which ``condition`` is false or null."""

    condition: Expression


@dataclass(frozen=True)
class Delete:
    """Take the value of the rows for which ``condition`` is true: a table deletes them.

    What comes behind finds nulls in all columns that there are so far, but for ``key``: a stream
    that became a table may have made keys before.
    """

    condition: Expression
    key: str


@dataclass(frozen=True)
class Compute:
    """A new column; no other column has its name, also none before it."""

    name: str
    expression: Expression


@dataclass(frozen=True)
class Explode:
    """A row for each element of the array ``elements``, which is then the column ``name``.

    No other column has the name. A row that is in use and has no element, or no value, is filtered
    out.
    """

    name: str
    elements: str


ProgramStep = Keep | Delete | Compute | Explode


def _read_by(step: ProgramStep) -> set[str]:
    """The columns that a step reads."""
    if isinstance(step, Explode):
        return {step.elements}
    return set(column_names(step.expression if isinstance(step, Compute) else step.condition))


@dataclass(frozen=True)
class Program:
    """What steps do, in order, beginning with the record's columns and the value's.

    ``outputs`` maps the names of the value columns after the steps to those within; ``key`` is
    a text.
    """

    steps: tuple[ProgramStep, ...]
    outputs: Mapping[str, str]
    key: Expression

    def pruned(self, used: Sequence[str]) -> "Program":
        """The same without columns that neither ``used`` nor a condition nor the key needs."""
        outputs = {name: self.outputs[name] for name in used}
        needed = {*outputs.values(), *column_names(self.key)}
        steps: list[ProgramStep] = []
        for step in reversed(self.steps):
            # What an explosion makes are rows, which count whoever reads the element.
            if not isinstance(step, Compute) or step.name in needed:
                needed.update(_read_by(step))
                steps.append(step)
        return Program(tuple(reversed(steps)), outputs, self.key)

    def read_from(self, place: int) -> set[str]:
        """The columns that the steps from ``place`` on read, or what comes behind all of them."""
        behind = {*self.outputs.values(), *column_names(self.key)}
        return behind.union(*map(_read_by, self.steps[place:]))


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
        return self

    def select(self, output: StepsOutput) -> None:
        """Choose what ``rows`` gives."""
        self._selected = self.program.pruned(output.used)
        self._output = output

    def rows(self, records: pa.Table) -> pa.Table:
        """Return the rows for the stamp in the order of ``records``, one for each or its elements.

        Columns: those of ``STEPPED_FIELDS``, for a join's results those of ``BESIDE_RESULT`` and
        perhaps ``PARTNERS``, for elements ``FIRST_ELEMENT``, and the chosen values.
        """
        rows = Rows.of(records, joined=self._joined)
        rows.run(self._selected)
        key = rows.in_use_only(evaluate(self._selected.key, rows.columns))
        reason = rows.reason
        if not self._output.any_key:
            key, reason = self._checked_key(key, rows.in_use, reason)
        if not self._output.null_values:
            is_null = pc.and_(rows.in_use, rows.null_value)
            reason = pc.if_else(is_null, Reason.NULL_VALUE.value, reason)
        keep = rows.keep
        if self._joined:
            # That a row is gone is no bad record: who has no use for it does without.
            gone = pc.and_(pc.and_(rows.in_use, rows.null_value), pc.is_valid(reason))
            reason = pc.if_else(gone, pa.scalar(None, pa.string()), reason)
            keep = pc.and_not(keep, gone)
        raw, message = self._bytes(rows, pc.is_valid(reason))
        computed = {
            MESSAGE.name: message,
            "reason": reason,
            "keep": keep,
            "null_value": rows.null_value,
            "raw": raw,
            "key": key,
        }
        fields = [*STEPPED_FIELDS, *(BESIDE_RESULT if self._joined else ())]
        if PARTNERS.name in records.column_names:
            fields.append(PARTNERS)
        if rows.elements is not None:
            computed[FIRST_ELEMENT.name] = rows.elements.is_first
            fields.append(FIRST_ELEMENT)
        stepped = {
            field.name: computed[field.name]
            if field.name in computed
            else rows.of_records(field.name)
            for field in fields
        }
        values = {name: rows.columns[within] for name, within in self._selected.outputs.items()}
        # Rows that are gone have no value, whatever steps make of none, or of a window's bounds.
        deletes = any(isinstance(step, Delete) for step in self._selected.steps)
        if (self._joined or deletes) and pc.any(rows.null_value).as_py():
            has_value = pc.invert(rows.null_value)
            values = {name: _in_use(has_value, column) for name, column in values.items()}
        return pa.table(stepped | values)

    def _checked_key(
        self, key: Operand, in_use: Operand, reason: Operand
    ) -> tuple[Operand, Operand]:
        """The keys of these texts, and why rows are bad, for their keys or before."""
        reason = pc.if_else(pc.and_(in_use, pc.is_null(key)), Reason.NULL_KEY.value, reason)
        if self._typed_keys is not None:
            texts = in_one(key)
            key = self._typed_keys.typed(texts)
            is_unfit = pc.and_(pc.is_valid(texts), pc.is_null(key))
            reason = pc.if_else(pc.and_(in_use, is_unfit), Reason.UNFIT_KEY.value, reason)
        is_too_long = pc.fill_null(
            pc.greater(pc.binary_length(key), KEY_BYTES_MAX), fill_value=False
        )
        reason = pc.if_else(pc.and_(in_use, is_too_long), Reason.KEY_TOO_LONG.value, reason)
        return key, reason

    def _bytes(self, rows: "Rows", is_bad: Operand) -> tuple[Operand, Operand]:
        """The raw bytes and the message of rows, where somebody behind has use for them."""
        length, has_bad = len(is_bad), pc.any(is_bad).as_py()
        if self._joined:
            raw = pa.repeat(pa.scalar(b"", RAW.type), length)
        elif has_bad or self._output.keeps_raw:
            raw = rows.of_records(RAW.name)
        else:
            # They are not copied for each element to be dropped then.
            raw = pa.nulls(length, RAW.type)
        if self._joined or not has_bad:
            message = pa.nulls(length, MESSAGE.type)
        else:
            message = _in_use(is_bad, rows.of_records(MESSAGE.name))
        return raw if self._output.keeps_raw else _in_use(is_bad, raw), message


@dataclass
class Rows:
    """Rows on their way through the steps: their columns, and what has become of each so far.

    ``in_use``: neither bad, for a ``reason``, nor filtered out (``keep``). ``elements`` says whose
    elements they are, None while they are the ``records``.
    """

    records: pa.Table
    columns: dict[str, Operand]
    reason: Operand
    null_value: Operand
    keep: Operand
    in_use: Operand
    elements: "_Elements | None" = None

    @classmethod
    def of(cls, records: pa.Table, *, joined: bool) -> "Rows":
        """Decoded records, or the results of a join."""
        if joined:
            columns = {name: records[name] for name in joined_values(records.schema).names}
            reason = records[REASON.name]
            null_value = pa.array(np.zeros(len(records), dtype=np.bool_))
            if NULL_VALUE.name in records.column_names:
                null_value = pc.fill_null(records[NULL_VALUE.name], fill_value=False)
        else:
            columns = _unpacked(records["value"])
            reason, null_value = records["reason"], pc.is_null(records["value"])
        columns |= {name: records[name] for name in SCOPE}
        keep = pa.array(np.ones(len(records), dtype=np.bool_))
        return cls(records, columns, reason, null_value, keep, pc.is_null(reason))

    @classmethod
    def aggregated(cls, rows: pa.Table, is_gone: Operand) -> "Rows":
        """The rows of an aggregation; those that it has removed have no value."""
        columns = {name: rows[name] for name in rows.column_names}
        stands = pc.invert(is_gone)
        reason = pa.nulls(len(rows), pa.string())
        return cls(rows, columns, reason, is_gone, stands, stands)

    def run(self, program: Program) -> None:
        """Do the steps of ``program``."""
        for place, step in enumerate(program.steps):
            if isinstance(step, Explode):
                self._explode(step, program.read_from(place + 1))
            elif isinstance(step, Compute):
                column = evaluate(step.expression, self.columns)
                self.columns[step.name] = self.in_use_only(column)
            elif isinstance(step, Delete):
                deleted = pc.and_(self.in_use, evaluate(step.condition, self.columns))
                self.null_value = pc.or_(self.null_value, deleted)
                has_value = pc.invert(self.null_value)
                for name in self.columns.keys() - {*SCOPE, step.key}:
                    self.columns[name] = _in_use(has_value, self.columns[name])
            else:
                # Null is not true: as in SQL's WHERE, such a record is filtered out.
                holds = pc.fill_null(evaluate(step.condition, self.columns), fill_value=False)
                self.keep = self.in_use = pc.and_(self.in_use, holds)

    def in_use_only(self, column: Operand) -> Operand:
        """``column`` of rows in use, null of the others."""
        return _in_use(self.in_use, column)

    def of_records(self, name: str) -> Operand:
        """A column of the records, for each row."""
        column = self.records[name]
        return column if self.elements is None else self.elements.spread(column)

    def _explode(self, step: Explode, read: set[str]) -> None:
        """Go on with elements, and of their records with the columns that are ``read``."""
        # A step behind a table's filter may have made columns of no value.
        lists = _in_use(pc.invert(self.null_value), self.columns[step.elements])
        elements = _Elements.of(lists)
        has_any = pc.or_(pc.invert(self.in_use), elements.has_any)
        self.keep = elements.spread(pc.and_(self.keep, has_any))
        self.reason, self.null_value = map(elements.spread, (self.reason, self.null_value))
        self.in_use = pc.and_(pc.is_null(self.reason), self.keep)
        spread = {name: elements.spread(one) for name, one in self.columns.items() if name in read}
        self.columns = {**spread, step.name: elements.values}
        self.elements = elements if self.elements is None else elements.within(self.elements)


def _unpacked(values: pa.ChunkedArray) -> dict[str, pa.ChunkedArray]:
    """The columns of values, null where there is no value."""
    return {field.name: pc.struct_field(values, field.name) for field in values.type}


@dataclass(frozen=True)
class _Elements:
    """The rows that come of one array a record: its elements, or one row where it has none.

    ``row_of`` is the record's row of each, ``is_first`` whether it is its first element and
    ``values`` the element, both null where there is none; ``has_any`` tells of each record if it
    has elements.
    """

    row_of: pa.Array
    is_first: pa.Array
    values: pa.ChunkedArray
    has_any: pa.Array

    @classmethod
    def of(cls, lists: pa.ChunkedArray) -> "_Elements":
        """The elements of ``lists``, in their order."""
        lengths = np.asarray(pc.fill_null(pc.list_value_length(lists), 0), dtype=np.int64)
        rows = np.maximum(lengths, 1)
        row_of = np.repeat(np.arange(len(rows)), rows)
        place = np.arange(len(row_of)) - (np.cumsum(rows) - rows)[row_of]
        is_none = lengths[row_of] == 0
        number = pa.array(np.cumsum(~is_none) - 1, mask=is_none)
        return cls(
            pa.array(row_of),
            pa.array(place == 0, mask=is_none),
            pc.list_flatten(lists).take(number),
            pa.array(lengths > 0),
        )

    def within(self, outer: "_Elements") -> "_Elements":
        """The same rows as elements of the records whose elements ``outer`` are."""
        # Of an element's elements the first goes on in its place.
        is_further = pc.fill_null(pc.invert(self.is_first), fill_value=False)
        is_first = pc.and_(pc.invert(is_further), outer.is_first.take(self.row_of))
        return replace(self, row_of=outer.row_of.take(self.row_of), is_first=is_first)

    def spread(self, column: Operand) -> Operand:
        """A column of the records, for each of their rows."""
        return column.take(self.row_of)


def _in_use(mask: Operand, column: Operand) -> Operand:
    """``column``, or a constant, where ``mask`` is true; null elsewhere."""
    if pc.all(mask).as_py() and not isinstance(column, pa.Scalar):
        return column
    return pc.if_else(mask, column, pa.scalar(None, column.type))
