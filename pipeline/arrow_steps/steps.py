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
from oriel.pipeline.hops import (
    BESIDE_ELEMENT,
    BESIDE_RESULT,
    MESSAGE,
    RAW,
    STEPPED_FIELDS,
    joined_values,
)
from oriel.pipeline.language import (
    SCOPE,
    Input,
    MapValues,
    Side,
    Source,
    arrow_schema,
    refuse_taken,
)
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
    """Take the value of the rows for which ``condition`` is true: a table deletes them."""

    condition: Expression


@dataclass(frozen=True)
class Compute:
    """A new column; no other column has its name, also none before it."""

    name: str
    expression: Expression


@dataclass(frozen=True)
class Explode:
    """A row for each element of the array ``elements``, which is then the column ``name``.

    No other column has the name. A row that is in use and has no element is filtered out.
    """

    name: str
    elements: str


ProgramStep = Keep | Delete | Compute | Explode


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
            if isinstance(step, Keep | Delete):
                needed.update(column_names(step.condition))
            elif isinstance(step, Explode):
                # Its rows are counted, whoever reads the element.
                needed.add(step.elements)
            elif step.name in needed:
                needed.update(column_names(step.expression))
            else:
                continue
            steps.append(step)
        return Program(tuple(reversed(steps)), outputs, self.key)

    def read_from(self, place: int) -> set[str]:
        """The columns that the steps from ``place`` on read, or what comes behind all of them."""
        read = {*self.outputs.values(), *column_names(self.key)}
        for step in self.steps[place:]:
            if isinstance(step, Explode):
                read.add(step.elements)
            else:
                is_new = isinstance(step, Compute)
                read.update(column_names(step.expression if is_new else step.condition))
        return read


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
        """Return the rows for the stamp in the order of ``records``, one for each or its elements.

        Columns: those of ``STEPPED_FIELDS``, for a join's results those of ``BESIDE_RESULT``,
        for elements those of ``BESIDE_ELEMENT``, and the chosen value columns.
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
        #: Whose elements rows are, and which: None while they are records.
        flattened: _Elements | None = None
        for place, step in enumerate(self._selected.steps):
            if isinstance(step, Explode):
                flattened = _Elements.of(columns[step.elements])
                keep = pc.and_(keep, pc.or_(pc.invert(in_use), flattened.has_any))
                keep, reason, null_value = (
                    _spread(column, flattened) for column in (keep, reason, null_value)
                )
                in_use = pc.and_(pc.is_null(reason), keep)
                read = self._selected.read_from(place + 1)
                columns = {n: _spread(one, flattened) for n, one in columns.items() if n in read}
                columns[step.name] = flattened.values
            elif isinstance(step, Compute):
                columns[step.name] = _in_use(in_use, evaluate(step.expression, columns))
            elif isinstance(step, Delete):
                deleted = pc.and_(in_use, evaluate(step.condition, columns))
                null_value = pc.or_(null_value, deleted)
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
        is_bad = pc.is_valid(reason)
        has_bad = pc.any(is_bad).as_py()
        # Bytes are not copied for each element that has no use for them.
        if self._joined:
            raw = pa.repeat(pa.scalar(b"", RAW.type), len(keep))
        elif has_bad or self._keeps_raw:
            raw = _spread(records[RAW.name], flattened)
        else:
            raw = pa.nulls(len(keep), RAW.type)
        if self._joined or not has_bad:
            message = pa.nulls(len(keep), MESSAGE.type)
        else:
            message = _in_use(is_bad, _spread(records[MESSAGE.name], flattened))
        computed = {
            MESSAGE.name: message,
            "reason": reason,
            "keep": keep,
            "null_value": null_value,
            "raw": raw if self._keeps_raw else _in_use(is_bad, raw),
            "key": key,
        }
        fields = [*STEPPED_FIELDS, *(BESIDE_RESULT if self._joined else ())]
        if flattened is not None:
            suborder, first_element = BESIDE_ELEMENT
            computed |= {suborder.name: flattened.place, first_element.name: flattened.is_first}
            fields += [field for field in BESIDE_ELEMENT if field not in fields]
        stepped = {
            field.name: computed[field.name]
            if field.name in computed
            else _spread(records[field.name], flattened)
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
        if not isinstance(step, MapValues) or step.columns:
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


@dataclass(frozen=True)
class _Elements:
    """The rows that come of one array a record: its elements, or one row where it has none.

    ``row_of`` is the record's row of each, ``place`` the element's in its array and ``values`` the
    element, both null where there is none; ``has_any`` tells of each record if it has elements.
    """

    row_of: pa.Array
    place: pa.Array
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
            pa.array(place, mask=is_none),
            pa.array(place == 0, mask=is_none),
            pc.list_flatten(lists).take(number),
            pa.array(lengths > 0),
        )


def _spread(column: Operand, elements: _Elements | None) -> Operand:
    """A column of records as one of their elements; as it is where nothing is flattened."""
    return column if elements is None else column.take(elements.row_of)


def _in_use(mask: Operand, column: Operand) -> Operand:
    """``column``, or a constant, where ``mask`` is true; null elsewhere."""
    if pc.all(mask).as_py() and not isinstance(column, pa.Scalar):
        return column
    return pc.if_else(mask, column, pa.scalar(None, column.type))
