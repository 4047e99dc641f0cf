"""What a row-wise step may compute: from one record alone, the same result each time.

A store is a pure function of the log. A batch is cut anywhere and read again after a crash, so an
expression that sees other rows, the clock or chance would make results depend on that. Whether one
does is not read off its text: an alias, a registered function or a ``Column`` would hide it. It is
asked of Spark's analysed plan, in which every name is resolved.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import ArrayType, BooleanType, MapType, NullType, StructType, TimestampType

from oriel.pipeline.errors import InvalidTopology
from oriel.pipeline.spark import error_kind

#: What a step's expressions make: a condition, and a key or the parts of one by their numbers.
CONDITION = "the condition"
KEY = "the key"

_NOT_ROW_WISE = (
    "is not row-wise: it can read one record only, so it cannot have aggregates, window "
    "functions, explode or subqueries. Call aggregates after group_by"
)
_NOT_DETERMINISTIC = (
    "is not deterministic: it must depend on the record only, so it cannot have random numbers, "
    "ids of Spark, or the current time. Use timestamp_ms, the time of the record"
)
#: Spark's parser replaces these by the time of parsing, so no plan shows them.
_CLOCK_LITERAL = re.compile(
    r"\b(?:date|timestamp(?:_ltz|_ntz)?)\s*(['\"])\s*(?:now|today|tomorrow|yesterday)\b",
    re.IGNORECASE,
)
#: The conditions with which Spark refuses an aggregate or a generator within a projection.
_NOT_ROW_WISE_CONDITIONS = ("MISSING_GROUP_BY", "UNSUPPORTED_GENERATOR")
#: Functions with the mark of the clock's whose value is a setting, the same in every run.
_CONSTANT_FUNCTIONS = frozenset({"CurrentTimeZone"})


@dataclass(frozen=True)
class StepExpressions:
    """One step: how it is written, the rows that it reads, its expressions by what they make."""

    step: str
    rows: DataFrame
    expressions: Mapping[str, "str | Column"]

    def fault(self) -> str | None:
        """The first expression that is at fault and why (``the condition is not row-wise ...``).

        None if each of them is row-wise and deterministic, or if Spark refuses one for another
        reason, which its own error tells.
        """
        for role, expression in self.expressions.items():
            try:
                fault = _fault(self.rows.select(as_column(expression)), self.rows, [expression])
            except PySparkException as error:
                refused = error_kind(error).startswith(_NOT_ROW_WISE_CONDITIONS)
                fault = _NOT_ROW_WISE if refused else None
            if fault is not None:
                return f"{role} {fault}"
        return None

    def hint(self, error: Exception) -> str:
        """What to do where a foreign key names a column of a joined table; else empty."""
        is_unknown = error_kind(error).startswith("UNRESOLVED_COLUMN")
        if not is_unknown or not self.step.startswith("join(foreign_key="):
            return ""
        return (
            ". A foreign key reads the columns of the first joined table. Call "
            ".map_values('*') after the join to read all columns"
        )

    def wrong_type(self) -> str | None:
        """The first condition or part of a key that is of no such type, and why; None: none is.

        Spark would cast it: a text that is no truth to null, a struct to a text such as ``{1}``.
        """
        typed = {
            role: as_column(expression)
            for role, expression in self.expressions.items()
            if role == CONDITION or role.startswith(KEY)
        }
        if not typed:
            return None
        fields = self.rows.select(*typed.values()).schema
        for role, field in zip(typed, fields, strict=True):
            name = field.dataType.simpleString().upper()
            if role == CONDITION and not isinstance(field.dataType, BooleanType | NullType):
                return f"{role} must be BOOLEAN, not {name}. Use a comparison, such as delay > 15"
            if role != CONDITION and isinstance(field.dataType, ArrayType | MapType | StructType):
                return f"{role} cannot be {name}. Use its fields or elements, or to_json(...)"
        return None


def as_column(expression: "str | Column") -> Column:
    """SQL text as a column; a column as it is."""
    return F.expr(expression) if isinstance(expression, str) else expression


def refuse_unsteady(
    store: str,
    first: DataFrame,
    last: DataFrame,
    steps: Sequence[StepExpressions],
    flattened: int = 0,
) -> None:
    """Refuse steps that lead from ``first`` to ``last`` otherwise than record by record.

    ``flattened`` of them give a row for each element of an array.

    Raises:
        InvalidTopology: an expression is not row-wise, or gives another result each time; the
            message names the store and the step.
    """
    expressions = [expression for step in steps for expression in step.expressions.values()]
    fault = _fault(last, first, expressions, flattened)
    if fault is None:
        return
    # Asking Spark takes some ms, so all steps are checked at once; only a faulty topology is
    # looked at expression by expression, to name the one.
    faults = ((step.step, step.fault()) for step in steps)
    named = next((f"step {step}: {why}" for step, why in faults if why), f"a step {fault}")
    message = f"store {store!r}, {named}"
    raise InvalidTopology(message)


def carried_schema(store: str, schema: StructType, step_of: Mapping[str, str]) -> pa.Schema:
    """The Arrow schema of the value columns behind the steps.

    ``step_of`` names the step that makes a column, by the column's name; "" is for all others.

    Raises:
        InvalidTopology: Arrow has no such type, so the column can't reach the Python workers.
    """
    fields = []
    for field in schema:
        try:
            column_type = to_arrow_type(field.dataType)
        except (AssertionError, ValueError, PySparkException) as error:
            way_out = "Cast it to a number, string, boolean or an array of them"
            if isinstance(field.dataType, TimestampType):
                way_out = (
                    "Convert it to a number with unix_millis(...), or use it inside the "
                    "expression that needs it"
                )
            message = (
                f"store {store!r}, {step_of.get(field.name, step_of[''])}: column {field.name!r} "
                f"cannot have the type {field.dataType.simpleString().upper()}. {way_out}"
            )
            raise InvalidTopology(message) from error
        fields.append(pa.field(field.name, column_type, nullable=field.nullable))
    return pa.schema(fields)


def _fault(
    rows: DataFrame, base: DataFrame, expressions: Sequence["str | Column"], flattened: int = 0
) -> str | None:
    """What is wrong with the way from ``base`` to ``rows``, or None.

    It may lead through as many generators as steps ``flattened``.
    """
    plan = _analysed_plan(rows)
    jvm: Any = rows.sparkSession._jvm  # noqa: SLF001 - plans are the JVM's
    catalyst = jvm.org.apache.spark.sql.catalyst
    patterns = catalyst.trees.TreePattern
    # A Project is a function of one row. An aggregate, a window, a generator or a join puts a
    # node of its own between the projections; a subquery hides one inside an expression.
    below = _below_projections(plan)
    for _ in range(flattened):
        below = _below_projections(below.child())
    if not below.fastEquals(_below_projections(_analysed_plan(base))):
        return _NOT_ROW_WISE
    if plan.containsPattern(patterns.PLAN_EXPRESSION()):
        return _NOT_ROW_WISE
    # rand, uuid, monotonically_increasing_id and Python functions marked as such.
    if not plan.deterministic():
        return _NOT_DETERMINISTIC
    # Within one query Spark calls the clock and the user deterministic: it puts in one value.
    # The next batch would have another one.
    if (
        _calls_current(plan, patterns.CURRENT_LIKE())
        or _casts_clock_text(plan, catalyst.optimizer)
        or any(_CLOCK_LITERAL.search(str(expression)) for expression in expressions)
    ):
        return _NOT_DETERMINISTIC
    return None


def _analysed_plan(rows: DataFrame) -> Any:
    return rows._jdf.queryExecution().analyzed()  # noqa: SLF001 - Spark has no other way


def _below_projections(plan: Any) -> Any:
    while plan.nodeName() == "Project":
        plan = plan.child()
    return plan


def _calls_current(plan: Any, current_like: Any) -> bool:
    """Whether a projection calls ``now()``, ``current_user()`` or the like.

    The mark of such a function is on each expression around it, so the walk goes down marked
    ones only, to those that have no marked child.
    """
    # A generator of ours only passes on what a projection has computed.
    while plan.nodeName() in {"Project", "Generate"} and plan.containsPattern(current_like):
        marked = [plan.expressions()]
        while marked:
            expressions = marked.pop()
            for index in range(expressions.size()):
                expression = expressions.apply(index)
                if not expression.containsPattern(current_like):
                    continue
                children = expression.children()
                if any(
                    children.apply(child).containsPattern(current_like)
                    for child in range(children.size())
                ):
                    marked.append(children)
                elif expression.getClass().getSimpleName() not in _CONSTANT_FUNCTIONS:
                    return True
        plan = plan.child()
    return False


def _casts_clock_text(plan: Any, optimizer: Any) -> bool:
    """Whether a text like 'now' is cast to a time.

    In the analysed plan that is a cast like any other; it is Spark's optimizer that puts in the
    clock. So its rule is applied here: a plan that it changes has such a cast.
    """
    try:
        # Some functions become casts only when Spark puts in what they stand for.
        plan = optimizer.ReplaceExpressions.apply(plan)
        return not optimizer.SpecialDatetimeValues.apply(plan).fastEquals(plan)
    except (PySparkException, Py4JJavaError):
        # A constant that can't be computed; it fails with the first record.
        return False
