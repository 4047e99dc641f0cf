"""The steps of one input: checked, lowered to a program, and run by Spark or by Arrow.

Spark analyzes each operation of the program at once, so that an error names its step. Rows are
never dropped here, only marked (``__keep``, ``__reason``). So every record is counted once
(input = applied + late + dead-lettered + filtered), and partitions keep their order. A step that
flattens replaces a record by one row per element. All other records have one row.

During the steps, a row has the columns of the value under their own names, ``key`` and
``timestamp_ms``. All other columns have the prefix ``__``. So expressions find the columns that
they name, and never an internal column.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import NamedTuple

import pyarrow as pa
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import DataType, StructField, StructType

from oriel.pipeline.arrow_steps import ArrowSteps, TypedKeys
from oriel.pipeline.dead_letters import Reason
from oriel.pipeline.errors import InvalidTopology
from oriel.pipeline.language import AggregatedRows, Input, grouping_text, step_for_message
from oriel.pipeline.row_program import ROW_KEY, RowOperation
from oriel.pipeline.rows.catalyst import AnalyzedOperation, arrow_program
from oriel.pipeline.rows.columns import columns_of, in_use, key_text
from oriel.pipeline.rows.expressions import (
    StepExpressions,
    check_deterministic,
    invalid_type,
    value_schema,
)
from oriel.pipeline.rows.lowering import (
    LOWERINGS,
    Roles,
    RowColumns,
    chain_steps,
    key_roles,
    project,
)
from oriel.pipeline.rows.projections import Projection, Status, projections
from oriel.pipeline.rows.unpacking import JOIN_COLUMNS, JOINED, input_columns
from oriel.pipeline.spark import error_kind, first_line
from oriel.pipeline.stage_columns import FIRST_ELEMENT, MESSAGE, StepsOutput
from oriel.storage import KEY_BYTES_MAX


class _Projected(NamedTuple):
    """A projection, and the step that it belongs to."""

    columns: Projection
    step: str


class _Builder:
    """A ``ProgramBuilder`` over the rows of one input.

    Attributes:
        columns: The columns of the rows after the last operation, without status columns.
        status: The status columns.
        rows: The rows.
        step: The step that is lowered, for messages.
        projected: The projections.
        operations: The operations.
        expressions: The expressions of the user, by step.
    """

    def __init__(
        self, store: str, records: DataFrame, unpacked: Projection, status: Status,
        columns: RowColumns,
    ) -> None:  # fmt: skip
        """Start with the projection that unpacks ``records``."""
        self.store = store
        self.columns = columns
        self.status = status
        self.rows = records.select(*unpacked)
        self.step = ""
        self.projected = [_Projected(unpacked, "")]
        self.operations: list[AnalyzedOperation] = []
        self.expressions: list[StepExpressions] = []

    @contextmanager
    def naming(self, step: str) -> Iterator[None]:
        """See ``ProgramBuilder``."""
        outer, self.step = self.step, step
        try:
            yield
        except (PySparkException, Py4JJavaError) as error:
            # Spark's message about an aggregate or a generator is advice for a whole query.
            last = self.expressions[-1:]
            why = next(filter(None, (each.problem() for each in last)), None)
            why = why or f"{first_line(error)}{''.join(each.hint(error) for each in last)}"
            message = f"store {self.store!r}, step {step}: {why}"
            raise InvalidTopology(message) from error
        self.step = outer

    def add(
        self, operation: RowOperation[Column], columns: RowColumns, roles: Roles | None = None
    ) -> None:
        """See ``ProgramBuilder``."""
        expressions = StepExpressions(self.step, self.rows, roles or {})
        self.expressions.append(expressions)
        # The expressions are also columns without the condition that the row is in use. So each can
        # be checked and translated alone.
        typed = expressions.typed()
        own = (*operation.expressions, *typed.values())
        prefix = f"__expression_{len(self.operations)}"
        own_columns = [each.alias(f"{prefix}_{n}") for n, each in enumerate(own)]
        names = tuple(f"{prefix}_{n}" for n in range(len(own)))
        self.operations.append(AnalyzedOperation(operation, names, self.columns.names))
        made, status = projections(operation, self.status, self.columns, columns)
        for projection in made:
            self.projected.append(_Projected(projection, self.step))
            self.rows = self.rows.select(*projection, *own_columns)
            own_columns = []
        if typed:
            fields = self.rows.schema.fields[-len(typed) :]
            types = dict(zip(typed, (field.dataType for field in fields), strict=True))
            if (why := invalid_type(types)) is not None:
                message = f"store {self.store!r}, step {self.step}: {why}"
                raise InvalidTopology(message)
        # An expression of the next operation must not read them.
        self.rows = self.rows.drop(*names) if names else self.rows
        self.columns, self.status = columns, status

    def type_of(self, column: str) -> DataType:
        """See ``ProgramBuilder``."""
        return self.rows.schema[column].dataType

    @property
    def value_types(self) -> StructType:
        """The columns of the value with their types."""
        fields = {field.name: field for field in self.rows.schema.fields}
        return StructType([fields[name] for name in self.columns.values])


class RowSteps:
    """The steps of one input, checked and built once. ``rows`` applies them to each batch."""

    def __init__(self, records: DataFrame, origin: Input | AggregatedRows, store: str) -> None:
        """Build the projections for records with the schema of ``records``, which can be empty.

        Records are decoded records with their value in the column ``value``, or join results. The
        value of a join result is the columns that no join needs. For steps after an aggregation,
        use only ``values`` and ``arrow``, because these rows never reach Spark.

        Raises:
            InvalidTopology: A step names an unknown column, is not valid SQL, is not row-wise or
                deterministic, or computes a column of a type that Arrow does not have. The message
                names the store and the step.
        """
        self._output: StepsOutput | None = None
        self._records = records
        status, columns, unpacked, read = input_columns(records, origin)
        self._deletes = read == JOINED or any(step.deletes_rows for step in origin.steps)
        builder = _Builder(store, records, unpacked, status, columns)
        first_rows = builder.rows
        for number, step in enumerate(origin.steps):
            with builder.naming(step_for_message(origin.steps, number)):
                LOWERINGS[type(step)](builder, step)
        with builder.naming(f"group_by({grouping_text(origin.group_by)})"):
            key = key_text(origin.group_by) if origin.group_by else F.col("key")
            copies = (*builder.columns.copies, ROW_KEY)
            project(builder, {ROW_KEY: key}, roles=key_roles(origin.group_by), copies=copies)
        flattened = sum(step.flattens for step in origin.steps)
        check_deterministic(store, first_rows, builder.rows, builder.expressions, flattened)
        step_of = {"": read}
        for each in (each for step in origin.steps for each in chain_steps(step)):
            step_of.update(dict.fromkeys(each.computed, f"step {each}"))
        #: The Arrow schema of the value columns after the steps.
        self.values: pa.Schema = value_schema(store, builder.value_types, step_of)
        self._status, self._columns = builder.status, builder.columns.names
        self._projected = builder.projected
        self._typed_keys = TypedKeys.of(origin)
        program = arrow_program(builder.rows, builder.operations)
        #: The same steps over Arrow tables. None: only Spark can run them (decision 0021).
        self.arrow = (
            None
            if program is None
            else ArrowSteps(self.values, program, self._typed_keys, joined=read == JOINED)
        )

    def select(self, output: StepsOutput) -> None:
        """Choose the output of ``rows``. Call this method once."""
        self._output = output
        if self.arrow is not None:
            self.arrow.select(output)

    @cached_property
    def _output_projections(self) -> list[list[Column]]:
        """The projections from rows after the steps to the chosen columns.

        They are built when Spark first runs the steps. Arrow runs most steps, and each column needs
        several calls to Java.
        """
        assert self._output is not None
        output = self._output
        null_key, null_value = Reason.NULL_KEY.value, Reason.NULL_VALUE.value
        text, key = F.col(ROW_KEY), F.col(ROW_KEY)
        projections: list[list[Column]] = []
        if self._typed_keys is not None:
            key = F.col("__typed_key")
            typed = _typed(self._typed_keys)(text).alias("__typed_key")
            projections.append([*columns_of((*self._status, *self._columns)), typed])
        reason = F.col("__reason")
        if not output.any_key:
            reason = F.when(in_use() & text.isNull(), null_key).otherwise(reason)
        if self._typed_keys is not None:
            is_unfit = text.isNotNull() & key.isNull()
            reason = F.when(in_use() & is_unfit, Reason.UNFIT_KEY.value).otherwise(reason)
        if not output.any_key:
            is_too_long = F.octet_length(key) > KEY_BYTES_MAX
            reason = F.when(in_use() & is_too_long, Reason.KEY_TOO_LONG.value).otherwise(reason)
        if not output.null_values:
            reason = F.when(in_use() & F.col("__null_value"), null_value).otherwise(reason)
        join_columns = [name for name in JOIN_COLUMNS.values() if name in self._status]
        keep = F.col("__keep")
        if join_columns:
            # A deleted row of a join is not an invalid record. If the next operator cannot use it,
            # the row is filtered out.
            is_deleted = in_use() & F.col("__null_value") & reason.isNotNull()
            reason, keep = F.when(~is_deleted, reason), keep & ~is_deleted
        raw = F.col("__raw") if output.keeps_raw else F.when(reason.isNotNull(), F.col("__raw"))
        first_element = [FIRST_ELEMENT.name] if FIRST_ELEMENT.name in self._status else []
        selected = [
            F.col("__partition").alias("partition"),
            F.col("__offset").alias("offset"),
            reason.alias("reason"),
            keep.alias("keep"),
            F.col("__null_value").alias("null_value"),
            raw.alias("raw"),
            F.when(reason.isNotNull(), F.col(MESSAGE.name)).alias(MESSAGE.name),
            key.alias("key"),
            F.col("timestamp_ms"),
            *(F.col(name).alias(name.removeprefix("__")) for name in join_columns),
            *columns_of(first_element),
            *(self._value(name) for name in output.used),
        ]
        return [*projections, selected]

    def rows(self, records: DataFrame, passed_through: Sequence[str] = ()) -> DataFrame:
        """Return the rows for the stream-time assigner.

        Columns: partition, offset, reason, keep, null_value, raw, message, key and timestamp_ms.
        Join results also have their lineage and stream_time_ms.
        Flattened records also have ``FIRST_ELEMENT``. The last columns are the chosen value
        columns, and the columns ``passed_through`` of ``records``, which no step reads.

        Only dead letters have a message. Only dead letters have raw bytes, unless the output keeps
        the bytes of all rows. The rows of a flattened record are adjacent.
        """
        projected = (each.columns for each in self._projected)
        first_projection, *others = (*projected, *self._output_projections)
        if not passed_through:
            for columns in (first_projection, *others):
                records = records.select(*columns)
            return records
        # They have their own prefix, because a step or an aggregate can have a column of the same
        # name.
        renamed = {name: f"__carried_{name}" for name in passed_through}
        records = records.select(
            *first_projection, *(F.col(n).alias(h) for n, h in renamed.items())
        )
        for columns in others:
            records = records.select(*columns, *renamed.values())
        return records.withColumnsRenamed({h: n for n, h in renamed.items()})

    def failing_step(self, records: DataFrame, error: Exception) -> str | None:
        """Return the first step that fails on ``records`` in the same way as ``error``, or None."""
        unpacked, *others = self._projected
        rows = records.select(*unpacked.columns)
        for columns, step in others:
            rows = rows.select(*columns)
            try:
                # The rows of the RDD are counted. A count of the DataFrame would not compute the
                # columns, and it would also log the error.
                rows._jdf.queryExecution().toRdd().count()  # noqa: SLF001
            except (PySparkException, Py4JJavaError) as step_error:
                return step if error_kind(step_error) == error_kind(error) else None
        return None

    def null_row(self) -> DataFrame:
        """Return one row with the columns of the records, which are all null."""
        fields = [StructField(field.name, field.dataType) for field in self._records.schema]
        row = tuple(None for _ in fields)
        return self._records.sparkSession.createDataFrame([row], StructType(fields))

    def _value(self, name: str) -> Column:
        column = F.col(f"`{name}`")
        # Deleted rows have no value, although steps can compute one from nulls or window bounds.
        return F.when(~F.col("__null_value"), column).alias(name) if self._deletes else column


def _typed(typed_keys: TypedKeys) -> Callable[[Column], Column]:
    """Return a Spark function from strings to typed keys."""

    def typed(texts: pa.Array) -> pa.Array:
        return typed_keys.typed(texts)

    # Its overloads don't know the default of their last argument.
    function: Callable[[Column], Column] = F.arrow_udf(typed, "string")  # type: ignore[call-overload]
    return function
