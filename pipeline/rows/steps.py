"""Row-wise steps as one Spark projection before the stream-time assigner.

Rows are never dropped here, only marked (``__keep``, ``__reason``). So every record is counted once
(input = applied + late + dead-lettered + filtered), and partitions keep their order. A step that
flattens replaces a record by one row per element. All other records have one row. Spark evaluates
the expression of a step only for rows in use, but it calls Python functions for every row.

During the steps, a row has the columns of the value under their own names, ``key`` and
``timestamp_ms``. All other columns have the prefix ``__``. So expressions find the columns that
they name, and never an internal column.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from itertools import chain

import pyarrow as pa
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import ArrayType, StructField, StructType

from oriel.pipeline.arrow_steps import ArrowSteps, TypedKeys
from oriel.pipeline.dead_letters import Reason
from oriel.pipeline.errors import InvalidTopology
from oriel.pipeline.language import (
    NO_ROW_KEY,
    OWN_KEY,
    SCOPE_COLUMNS,
    AggregatedRows,
    Branches,
    Filter,
    FlatMapValues,
    ForeignKey,
    Input,
    LookupKey,
    MapValues,
    OwnKey,
    Peek,
    RowStep,
    Step,
    grouping_text,
    step_for_message,
)
from oriel.pipeline.rows.catalyst import arrow_program
from oriel.pipeline.rows.columns import (
    columns_of,
    in_use,
    key_text,
    passes_filter,
    peek_column,
    replaced_columns,
    scope_with_key,
)
from oriel.pipeline.rows.expressions import (
    CONDITION,
    KEY,
    StepExpressions,
    check_deterministic,
    value_schema,
)
from oriel.pipeline.rows.fork import BranchColumns
from oriel.pipeline.rows.unpacking import JOIN_COLUMNS, JOINED, input_columns
from oriel.pipeline.spark import error_kind, first_line
from oriel.pipeline.stage_columns import FIRST_ELEMENT, MESSAGE, StepsOutput
from oriel.pipeline.windows import FOREIGN_KEY
from oriel.storage import KEY_BYTES_MAX


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
        self._projections: list[list[Column]] = []
        self._steps: list[StepExpressions] = []
        self._output: StepsOutput | None = None
        self._store = store
        self._records = records
        self._meta, columns, read = input_columns(records, origin)
        self._deletes = read == JOINED or any(
            isinstance(step, Filter) and step.of_table for step in origin.steps
        )
        unpacked_rows = rows = self._project(records, columns)
        step_of = {"": read}
        for each in _steps_of_branches(origin.steps):
            if isinstance(each, MapValues | FlatMapValues):
                step_of.update(dict.fromkeys(each.columns, f"step {each}"))
        for number, step in enumerate(origin.steps):
            if isinstance(step, Branches):
                rows = self._branched(step, rows)
                continue
            build = partial(self._applied, step=step)
            step_text = step_for_message(origin.steps, number)
            rows = self._checked(step_text, rows, _expressions_by_name(step), build)
            if isinstance(step, FlatMapValues):
                rows = self._flattened(step, rows)
        self._rows = self._checked(
            f"group_by({grouping_text(origin.group_by)})",
            rows,
            _key_parts(origin.group_by),
            partial(self._with_key, group_by=origin.group_by),
        )
        check_deterministic(
            store, unpacked_rows, self._rows, self._steps,
            flattened=sum(isinstance(step, FlatMapValues) for step in origin.steps),
        )  # fmt: skip
        #: The Arrow schema of the value columns after the steps.
        self.values: pa.Schema = value_schema(
            store, rows.drop(*self._meta, *SCOPE_COLUMNS).schema, step_of
        )
        program = arrow_program(self._rows, self._records)
        self._typed_keys = None if isinstance(origin, AggregatedRows) else TypedKeys.of(origin)
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
        text, key = F.col("__key"), F.col("__key")
        projections: list[list[Column]] = []
        if self._typed_keys is not None:
            key = F.col("__typed_key")
            typed = _typed(self._typed_keys)(text).alias("__typed_key")
            projections.append([*columns_of(self._rows.columns), typed])
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
        join_columns = [name for name in JOIN_COLUMNS.values() if name in self._meta]
        keep = F.col("__keep")
        if join_columns:
            # A deleted row of a join is not an invalid record. If the next operator cannot use it,
            # the row is filtered out.
            is_deleted = in_use() & F.col("__null_value") & reason.isNotNull()
            reason, keep = F.when(~is_deleted, reason), keep & ~is_deleted
        raw = F.col("__raw") if output.keeps_raw else F.when(reason.isNotNull(), F.col("__raw"))
        first_element = [FIRST_ELEMENT.name] if FIRST_ELEMENT.name in self._meta else []
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
        first_projection, *others = (*self._projections, *self._output_projections)
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
        rows = records.select(*self._projections[0])
        for step, columns in zip(self._steps, self._projections[1:], strict=False):
            rows = rows.select(*columns)
            try:
                # The rows of the RDD are counted. A count of the DataFrame would not compute the
                # columns, and it would also log the error.
                rows._jdf.queryExecution().toRdd().count()  # noqa: SLF001
            except (PySparkException, Py4JJavaError) as step_error:
                return step.step if error_kind(step_error) == error_kind(error) else None
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

    def _values_of(self, rows: DataFrame) -> StructType:
        """Return the value columns of rows during the steps."""
        renamed = {*self._meta, *SCOPE_COLUMNS}
        return StructType([field for field in rows.schema if field.name not in renamed])

    def _project(self, rows: DataFrame, columns: list[Column]) -> DataFrame:
        self._projections.append(columns)
        return rows.select(*columns)

    def _checked(
        self,
        step: str,
        rows: DataFrame,
        expressions: Mapping[str, "str | Column"],
        build: Callable[[list[str]], list[Column]],
    ) -> DataFrame:
        """Build one step from the names of the value columns, and let Spark analyze it at once."""
        values = self._values_of(rows).names
        step_expressions = StepExpressions(step, rows, expressions)
        self._steps.append(step_expressions)
        try:
            built = self._project(rows, build(values))
            why = step_expressions.invalid_type()
        except (PySparkException, Py4JJavaError) as error:
            # Spark's message about an aggregate or a generator is advice for a whole query.
            why = step_expressions.problem() or f"{first_line(error)}{step_expressions.hint(error)}"
            message = f"store {self._store!r}, step {step}: {why}"
            raise InvalidTopology(message) from error
        if why is not None:
            message = f"store {self._store!r}, step {step}: {why}"
            raise InvalidTopology(message)
        return built

    def _flattened(self, step: FlatMapValues, rows: DataFrame) -> DataFrame:
        """Return one row per element of the array that ``step`` has computed.

        A record without elements has one row.

        Raises:
            InvalidTopology: The step has no array column, or several.
        """
        lists = [name for name in step.columns if isinstance(rows.schema[name].dataType, ArrayType)]
        if len(lists) != 1:
            found = f"{lists} are arrays" if lists else "no column is an array"
            message = (
                f"store {self._store!r}, step {step}: exactly one column must be an array, because "
                f"its elements become records, but {found}. Compute other columns in map_values "
                "first"
            )
            raise InvalidTopology(message)
        (name,) = lists

        def of_values(values: list[str]) -> list[Column]:
            # A deleted row also has an array if the step computes one from nulls.
            elements = F.when(~F.col("__null_value"), F.col(f"`{name}`")).alias(name)
            others = (value for value in values if value != name)
            return [*columns_of((*self._meta, *SCOPE_COLUMNS, *others)), elements]

        def exploded(values: list[str]) -> list[Column]:
            elements = F.col(f"`{name}`")
            has_any = F.coalesce(F.size(elements) > 0, F.lit(False))  # noqa: FBT003
            kept = F.when(in_use(), has_any).otherwise(F.col("__keep")).alias("__keep")
            # "outer" also returns a row for a record without elements, so that it can be counted.
            return [
                *columns_of(m for m in self._meta if m != "__keep"),
                kept,
                *columns_of((*SCOPE_COLUMNS, *(value for value in values if value != name))),
                F.posexplode_outer(elements).alias("__place", name),
            ]

        others = tuple(m for m in self._meta if m != FIRST_ELEMENT.name)

        def marked(values: list[str]) -> list[Column]:
            is_first = F.col("__place") == 0
            if others != self._meta:
                # The first element of a flattened record has the mark of that record.
                is_further = F.col("__place") > 0
                is_first = F.when(is_further, F.lit(False)).otherwise(F.col(FIRST_ELEMENT.name))  # noqa: FBT003
            return [
                *columns_of(others),
                is_first.alias(FIRST_ELEMENT.name),
                *columns_of((*SCOPE_COLUMNS, *(value for value in values if value != "__place"))),
            ]

        for build in (of_values, exploded, marked):
            rows = self._checked(str(step), rows, {}, build)
        self._meta = (*others, FIRST_ELEMENT.name)
        return rows

    def _branched(self, step: Branches, rows: DataFrame) -> DataFrame:
        """Return the rows after merged branches. Rows that belong to no branch are filtered out.

        Raises:
            InvalidTopology: The branches have different value columns.
        """
        meta, fork = self._meta, BranchColumns(step, self._meta, self._values_of(rows).names)
        rows = self._checked(str(step), rows, {}, fork.split_columns)
        given: list[StructType] = []
        for number, steps in enumerate(step.chains):
            self._meta = fork.carried
            rows = self._checked(str(step), rows, {}, partial(fork.begun, number))
            self._meta = fork.carried
            for each in steps:
                build = partial(fork.applied, number, each)
                rows = self._checked(str(each), rows, _expressions_by_name(each), build)
            given.append(self._values_of(rows))
            if _types(given[0]) != _types(given[-1]):
                message = (
                    f"store {self._store!r}, merge: the branches' values must have the same "
                    f"columns, not ({_types(given[0])}) and ({_types(given[-1])}). Convert "
                    "with map_values"
                )
                raise InvalidTopology(message)
            rows = self._checked(str(step), rows, {}, partial(fork.ended, number))
        self._meta = fork.carried
        rows = self._checked(str(step), rows, {}, fork.merged_columns)
        self._meta = meta
        return rows

    def _applied(self, values: list[str], step: RowStep) -> list[Column]:
        if isinstance(step, MapValues | FlatMapValues):
            return [*columns_of(self._meta), *replaced_columns(values, step, in_use())]
        if isinstance(step, LookupKey):
            scope = scope_with_key(F.coalesce(key_text((step.key,)), F.lit(NO_ROW_KEY)), in_use())
            own_key = F.when(in_use(), F.col("key")).alias(OWN_KEY)
            return [*columns_of(self._meta), *scope, *columns_of(values), own_key]
        if isinstance(step, ForeignKey):
            foreign_key = F.when(in_use(), key_text(step.key)).alias(FOREIGN_KEY.name)
            return [
                *columns_of((*self._meta, *SCOPE_COLUMNS, *(values if step.keeps_columns else ()))),
                foreign_key,
            ]
        if isinstance(step, OwnKey):
            names = [name for name in values if name != OWN_KEY]
            return [
                *columns_of(self._meta),
                *scope_with_key(F.col(OWN_KEY), in_use()),
                *columns_of(names),
            ]
        if isinstance(step, Peek):
            meta = [name for name in self._meta if name != "__keep"]
            keep = (F.col("__keep") & peek_column(values, step, in_use())).alias("__keep")
            return [*columns_of(meta), keep, *columns_of((*SCOPE_COLUMNS, *values))]
        return self._filtered(values, step)

    def _filtered(self, values: list[str], step: Filter) -> list[Column]:
        holds = passes_filter(step)
        if step.of_table:
            # As in a record with a null value, all columns are null for later steps.
            deleted = F.when(in_use(), F.col("__null_value") | ~holds).otherwise(
                F.col("__null_value")
            )
            meta = [name for name in self._meta if name != "__null_value"]
            left = (F.when(~deleted, F.col(f"`{name}`")).alias(name) for name in values)
            return [
                *columns_of(meta),
                deleted.alias("__null_value"),
                *columns_of(SCOPE_COLUMNS),
                *left,
            ]
        keep = F.when(in_use(), holds).otherwise(F.lit(False))  # noqa: FBT003
        meta = [name for name in self._meta if name != "__keep"]
        return [*columns_of(meta), keep.alias("__keep"), *columns_of((*SCOPE_COLUMNS, *values))]

    def _with_key(self, values: list[str], group_by: tuple["str | Column", ...]) -> list[Column]:
        key = key_text(group_by) if group_by else F.col("key")
        key = F.when(in_use(), key).alias("__key")
        return [*columns_of((*self._meta, *SCOPE_COLUMNS, *values)), key]


def _steps_of_branches(steps: Iterable[Step]) -> Iterator[RowStep]:
    """Yield the steps. For merged branches, yield the steps of all branches."""
    for step in steps:
        yield from (step,) if not isinstance(step, Branches) else chain(*step.chains)


def _expressions_by_name(step: RowStep) -> dict[str, "str | Column"]:
    """Return the expressions of a step, by their names in messages."""
    if isinstance(step, Filter):
        return {CONDITION: step.condition}
    if isinstance(step, LookupKey):
        return {KEY: step.key}
    if isinstance(step, ForeignKey):
        return _key_parts(step.key)
    if not isinstance(step, MapValues | FlatMapValues):
        return {}
    columns = {f"column {name!r}": value for name, value in step.columns.items()}
    return columns | (_key_parts(step.key) if isinstance(step, MapValues) else {})


def _types(values: StructType) -> str:
    """Return the value columns with their types. Their order is irrelevant, so they are sorted."""
    return ", ".join(sorted(f"{field.name} {field.dataType.simpleString()}" for field in values))


def _key_parts(parts: tuple["str | Column", ...]) -> dict[str, "str | Column"]:
    """Return the expressions of a key, by their names in messages."""
    if len(parts) == 1:
        return {KEY: parts[0]}
    return {f"{KEY} {number}": part for number, part in enumerate(parts, start=1)}


def _typed(typed_keys: TypedKeys) -> Callable[[Column], Column]:
    """Return a Spark function from strings to typed keys."""

    def typed(texts: pa.Array) -> pa.Array:
        return typed_keys.typed(texts)

    # Its overloads don't know the default of their last argument.
    function: Callable[[Column], Column] = F.arrow_udf(typed, "string")  # type: ignore[call-overload]
    return function
