"""Row-wise steps as one Spark projection in front of the stamp.

Rows are never dropped here, only marked (``__keep``, ``__reason``), so that every record is counted
once (input = applied + late + dead-lettered + filtered) and partitions keep their order. Where a
step flattens, a record with elements becomes as many rows, each other one stays one. A step's
expression is evaluated only for rows that are still wanted, except that Spark calls Python
functions for every row.

On the way through the steps a row has the value's columns under their own names, ``key`` and
``timestamp_ms``, and everything else behind the prefix ``__``: so expressions find what they name,
and nothing of the pipeline's gets in their way.
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
from oriel.pipeline.hops import FIRST_ELEMENT, MESSAGE, StepsOutput
from oriel.pipeline.language import (
    NO_ROW_KEY,
    OWN_KEY,
    SCOPE,
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
    told_step,
)
from oriel.pipeline.rows.catalyst import arrow_program
from oriel.pipeline.rows.columns import (
    columns_of,
    holding,
    in_use,
    key_text,
    renewed,
    shown,
    with_key_of,
)
from oriel.pipeline.rows.expressions import (
    CONDITION,
    KEY,
    StepExpressions,
    carried_schema,
    refuse_unsteady,
)
from oriel.pipeline.rows.fork import Fork
from oriel.pipeline.rows.unpacking import JOIN_COLUMNS, JOINED, unpacked
from oriel.pipeline.spark import error_kind, first_line
from oriel.pipeline.windows import FOREIGN_KEY
from oriel.storage import KEY_BYTES_MAX


class RowSteps:
    """The steps of one input, checked and built once; ``rows`` then applies them to each batch."""

    def __init__(self, records: DataFrame, origin: Input | AggregatedRows, store: str) -> None:
        """Build the projections for records like ``records`` (which may be empty).

        Records are decoded ones, with their value in the column ``value``, or a join's results,
        whose value is the columns that no join needs. Of the steps behind an aggregation only
        ``values`` and ``arrow`` are of use: Spark doesn't come to see these rows.

        Raises:
            InvalidTopology: a step names an unknown column, isn't valid SQL, is not row-wise
                or makes a column of a type that can't go on; the message names the store and
                the step.
        """
        self._projections: list[list[Column]] = []
        self._steps: list[StepExpressions] = []
        self._output: StepsOutput | None = None
        self._store = store
        self._records = records
        self._meta, columns, read = unpacked(records, origin)
        self._deletes = read == JOINED or any(
            isinstance(step, Filter) and step.of_table for step in origin.steps
        )
        unpacked_rows = rows = self._project(records, columns)
        step_of = {"": read}
        for each in _all_of(origin.steps):
            if isinstance(each, MapValues | FlatMapValues):
                step_of.update(dict.fromkeys(each.columns, f"step {each}"))
        for number, step in enumerate(origin.steps):
            if isinstance(step, Branches):
                rows = self._branched(step, rows)
                continue
            build = partial(self._applied, step=step)
            told = told_step(origin.steps, number)
            rows = self._checked(told, rows, _expressions_by_name(step), build)
            if isinstance(step, FlatMapValues):
                rows = self._flattened(step, rows)
        self._rows = self._checked(
            f"group_by({grouping_text(origin.group_by)})",
            rows,
            _key_parts(origin.group_by),
            partial(self._with_key, group_by=origin.group_by),
        )
        refuse_unsteady(
            store, unpacked_rows, self._rows, self._steps,
            flattened=sum(isinstance(step, FlatMapValues) for step in origin.steps),
        )  # fmt: skip
        #: The Arrow schema of the value columns after the steps.
        self.values: pa.Schema = carried_schema(
            store, rows.drop(*self._meta, *SCOPE).schema, step_of
        )
        program = arrow_program(self._rows, self._records)
        self._typed_keys = None if isinstance(origin, AggregatedRows) else TypedKeys.of(origin)
        #: The same steps over Arrow tables; None: only Spark can run them (decision 0021).
        self.arrow = (
            None
            if program is None
            else ArrowSteps(self.values, program, self._typed_keys, joined=read == JOINED)
        )

    def select(self, output: StepsOutput) -> None:
        """Choose what ``rows`` gives, once."""
        self._output = output
        if self.arrow is not None:
            self.arrow.select(output)

    @cached_property
    def _output_projections(self) -> list[list[Column]]:
        """What makes the chosen columns of the rows behind the steps.

        Built when Spark first runs the steps: most runs are done by Arrow, and for each column Java
        is asked several times.
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
            # That a row is gone is no bad record: who has no use for it does without.
            gone = in_use() & F.col("__null_value") & reason.isNotNull()
            reason, keep = F.when(~gone, reason), keep & ~gone
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

    def rows(self, records: DataFrame, carried: Sequence[str] = ()) -> DataFrame:
        """Return the rows for the stamp.

        Columns: partition, offset, reason, keep, null_value, raw (of dead letters, or of
        all), the message of dead letters, key, timestamp_ms, for a join's results suborder,
        stream_time_ms, for elements ``FIRST_ELEMENT``, and the chosen value
        columns; behind these the columns ``carried`` of ``records``, which no step sees. A row that
        is flattened is followed by no other row before its last element.
        """
        unpacked, *others = (*self._projections, *self._output_projections)
        if not carried:
            for columns in (unpacked, *others):
                records = records.select(*columns)
            return records
        # Behind a prefix of their own, as a step or an aggregate may have made such a name.
        hidden = {name: f"__carried_{name}" for name in carried}
        records = records.select(*unpacked, *(F.col(n).alias(h) for n, h in hidden.items()))
        for columns in others:
            records = records.select(*columns, *hidden.values())
        return records.withColumnsRenamed({h: n for n, h in hidden.items()})

    def failing_step(self, records: DataFrame, error: Exception) -> str | None:
        """The first step that fails on ``records`` in the way of ``error``; None: none does."""
        rows = records.select(*self._projections[0])
        for step, columns in zip(self._steps, self._projections[1:], strict=False):
            rows = rows.select(*columns)
            try:
                # The RDD: a count of the rows alone would leave the columns out, and an action
                # of the DataFrame's logs the error as well.
                rows._jdf.queryExecution().toRdd().count()  # noqa: SLF001
            except (PySparkException, Py4JJavaError) as step_error:
                return step.step if error_kind(step_error) == error_kind(error) else None
        return None

    def a_null_row(self) -> DataFrame:
        """One row like the records, of nulls only."""
        fields = [StructField(field.name, field.dataType) for field in self._records.schema]
        row = tuple(None for _ in fields)
        return self._records.sparkSession.createDataFrame([row], StructType(fields))

    def _value(self, name: str) -> Column:
        column = F.col(f"`{name}`")
        # Rows that are gone have no value, whatever steps make of none, or of a window's bounds.
        return F.when(~F.col("__null_value"), column).alias(name) if self._deletes else column

    def _values_of(self, rows: DataFrame) -> StructType:
        """The value columns of rows on their way."""
        hidden = {*self._meta, *SCOPE}
        return StructType([field for field in rows.schema if field.name not in hidden])

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
        """Build one step from the names of the value columns, and let Spark analyse it at once."""
        values = self._values_of(rows).names
        step_expressions = StepExpressions(step, rows, expressions)
        self._steps.append(step_expressions)
        try:
            built = self._project(rows, build(values))
            why = step_expressions.wrong_type()
        except (PySparkException, Py4JJavaError) as error:
            # What Spark says of an aggregate or a generator here is advice for a whole query.
            why = step_expressions.fault() or f"{first_line(error)}{step_expressions.hint(error)}"
            message = f"store {self._store!r}, step {step}: {why}"
            raise InvalidTopology(message) from error
        if why is not None:
            message = f"store {self._store!r}, step {step}: {why}"
            raise InvalidTopology(message)
        return built

    def _flattened(self, step: FlatMapValues, rows: DataFrame) -> DataFrame:
        """A row for each element of the array that ``step`` has computed; one for what has none.

        Raises:
            InvalidTopology: of the step's columns none is an array, or several are.
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
            # What a table's filter has deleted still has its columns.
            elements = F.when(~F.col("__null_value"), F.col(f"`{name}`")).alias(name)
            others = (value for value in values if value != name)
            return [*columns_of((*self._meta, *SCOPE, *others)), elements]

        def exploded(values: list[str]) -> list[Column]:
            elements = F.col(f"`{name}`")
            has_any = F.coalesce(F.size(elements) > 0, F.lit(False))  # noqa: FBT003
            kept = F.when(in_use(), has_any).otherwise(F.col("__keep")).alias("__keep")
            # "outer": what has no element has a row all the same, or it could not be counted.
            return [
                *columns_of(m for m in self._meta if m != "__keep"),
                kept,
                *columns_of((*SCOPE, *(value for value in values if value != name))),
                F.posexplode_outer(elements).alias("__place", name),
            ]

        others = tuple(m for m in self._meta if m != FIRST_ELEMENT.name)

        def marked(values: list[str]) -> list[Column]:
            is_first = F.col("__place") == 0
            if others != self._meta:
                # Of an element's elements the first goes on in its place.
                is_further = F.col("__place") > 0
                is_first = F.when(is_further, F.lit(False)).otherwise(F.col(FIRST_ELEMENT.name))  # noqa: FBT003
            return [
                *columns_of(others),
                is_first.alias(FIRST_ELEMENT.name),
                *columns_of((*SCOPE, *(value for value in values if value != "__place"))),
            ]

        for build in (of_values, exploded, marked):
            rows = self._checked(str(step), rows, {}, build)
        self._meta = (*others, FIRST_ELEMENT.name)
        return rows

    def _branched(self, step: Branches, rows: DataFrame) -> DataFrame:
        """Each row behind the branch that it takes; those that take none are filtered out.

        Raises:
            InvalidTopology: the branches give other columns.
        """
        meta, fork = self._meta, Fork(step, self._meta, self._values_of(rows).names)
        rows = self._checked(str(step), rows, {}, fork.parted)
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
        rows = self._checked(str(step), rows, {}, fork.chosen)
        self._meta = meta
        return rows

    def _applied(self, values: list[str], step: RowStep) -> list[Column]:
        if isinstance(step, MapValues | FlatMapValues):
            return [*columns_of(self._meta), *renewed(values, step, in_use())]
        if isinstance(step, LookupKey):
            scope = with_key_of(F.coalesce(key_text((step.key,)), F.lit(NO_ROW_KEY)), in_use())
            own_key = F.when(in_use(), F.col("key")).alias(OWN_KEY)
            return [*columns_of(self._meta), *scope, *columns_of(values), own_key]
        if isinstance(step, ForeignKey):
            foreign_key = F.when(in_use(), key_text(step.key)).alias(FOREIGN_KEY.name)
            return [
                *columns_of((*self._meta, *SCOPE, *(values if step.beside else ()))),
                foreign_key,
            ]
        if isinstance(step, OwnKey):
            names = [name for name in values if name != OWN_KEY]
            return [
                *columns_of(self._meta),
                *with_key_of(F.col(OWN_KEY), in_use()),
                *columns_of(names),
            ]
        if isinstance(step, Peek):
            meta = [name for name in self._meta if name != "__keep"]
            keep = (F.col("__keep") & shown(values, step, in_use())).alias("__keep")
            return [*columns_of(meta), keep, *columns_of((*SCOPE, *values))]
        return self._filtered(values, step)

    def _filtered(self, values: list[str], step: Filter) -> list[Column]:
        holds = holding(step)
        if step.of_table:
            # As a record without a value does it: what comes behind finds no column of it.
            deleted = F.when(in_use(), F.col("__null_value") | ~holds).otherwise(
                F.col("__null_value")
            )
            meta = [name for name in self._meta if name != "__null_value"]
            left = (F.when(~deleted, F.col(f"`{name}`")).alias(name) for name in values)
            return [*columns_of(meta), deleted.alias("__null_value"), *columns_of(SCOPE), *left]
        keep = F.when(in_use(), holds).otherwise(F.lit(False))  # noqa: FBT003
        meta = [name for name in self._meta if name != "__keep"]
        return [*columns_of(meta), keep.alias("__keep"), *columns_of((*SCOPE, *values))]

    def _with_key(self, values: list[str], group_by: tuple["str | Column", ...]) -> list[Column]:
        key = key_text(group_by) if group_by else F.col("key")
        key = F.when(in_use(), key).alias("__key")
        return [*columns_of((*self._meta, *SCOPE, *values)), key]


def _all_of(steps: Iterable[Step]) -> Iterator[RowStep]:
    """The steps, of branches those of all."""
    for step in steps:
        yield from (step,) if not isinstance(step, Branches) else chain(*step.chains)


def _expressions_by_name(step: RowStep) -> dict[str, "str | Column"]:
    """What a step computes with, by what to call it."""
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
    """Value columns and their types; nobody minds their order."""
    return ", ".join(sorted(f"{field.name} {field.dataType.simpleString()}" for field in values))


def _key_parts(parts: tuple["str | Column", ...]) -> dict[str, "str | Column"]:
    """The expressions that make a key, by what to call them."""
    if len(parts) == 1:
        return {KEY: parts[0]}
    return {f"{KEY} {number}": part for number, part in enumerate(parts, start=1)}


def _typed(typed_keys: TypedKeys) -> Callable[[Column], Column]:
    """What makes the keys, as a function of Spark."""

    def typed(texts: pa.Array) -> pa.Array:
        return typed_keys.typed(texts)

    # Its overloads don't know the default of their last argument.
    function: Callable[[Column], Column] = F.arrow_udf(typed, "string")  # type: ignore[call-overload]
    return function
