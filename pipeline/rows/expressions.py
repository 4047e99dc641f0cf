"""Checks that the expression of a row-wise step reads only one record and is deterministic.

A store is a pure function of the log. A batch can end after any record, and it is read again after
a crash. So an expression that reads other rows, the current time or random numbers would return
results that depend on the batches. The text of an expression does not show this, because an alias,
a registered function or a ``Column`` can hide it. So the checks read Spark's analyzed plan, in
which every name is resolved.
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
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    MapType,
    NullType,
    StructType,
    TimestampType,
)

from oriel.pipeline.errors import InvalidTopology
from oriel.pipeline.spark import error_kind

#: The roles of expressions: the condition of a filter, and a key or its numbered parts.
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
#: Spark's parser replaces these literals by the time of parsing, so no plan shows them.
_CURRENT_TIME_LITERAL = re.compile(
    r"\b(?:date|timestamp(?:_ltz|_ntz)?)\s*(['\"])\s*(?:now|today|tomorrow|yesterday)\b",
    re.IGNORECASE,
)
#: The error conditions with which Spark rejects an aggregate or a generator in a projection.
_NOT_ROW_WISE_CONDITIONS = ("MISSING_GROUP_BY", "UNSUPPORTED_GENERATOR")
#: Functions that Spark marks like ``now()``, although their value is a setting and never changes.
_CONSTANT_FUNCTIONS = frozenset({"CurrentTimeZone"})


@dataclass(frozen=True)
class StepExpressions:
    """One step with its expressions.

    Attributes:
        step: The text of the step.
        rows: The rows that the step reads.
        expressions: The expressions by role, for example ``CONDITION``.
    """

    step: str
    rows: DataFrame
    expressions: Mapping[str, "str | Column"]

    def problem(self) -> str | None:
        """Return the first invalid expression and why (``the condition is not row-wise ...``).

        Return None if each expression is row-wise and deterministic, or if Spark rejects one for
        another reason. In the second case, Spark's own error has the reason.
        """
        for role, expression in self.expressions.items():
            try:
                problem = _problem(self.rows.select(as_column(expression)), self.rows, [expression])
            except PySparkException as error:
                refused = error_kind(error).startswith(_NOT_ROW_WISE_CONDITIONS)
                problem = _NOT_ROW_WISE if refused else None
            if problem is not None:
                return f"{role} {problem}"
        return None

    def hint(self, error: Exception) -> str:
        """Return advice if a foreign key names an unknown column, otherwise an empty string."""
        is_unknown = error_kind(error).startswith("UNRESOLVED_COLUMN")
        if not is_unknown or not self.step.startswith("join(foreign_key="):
            return ""
        return (
            ". A foreign key reads the columns of the first joined table. Call "
            ".map_values('*') after the join to read all columns"
        )

    def typed(self) -> dict[str, Column]:
        """Return the conditions and the parts of keys, whose types are limited, by role."""
        return {
            role: as_column(expression)
            for role, expression in self.expressions.items()
            if role == CONDITION or role.startswith(KEY)
        }


def invalid_type(types: Mapping[str, DataType]) -> str | None:
    """Return the first condition or part of a key with an invalid type and why, or None.

    Spark would cast it. A string that is not a boolean becomes null, and a struct becomes a string
    such as ``{1}``.

    Args:
        types: The types of the expressions ``StepExpressions.typed``, by role.
    """
    for role, found in types.items():
        name = found.simpleString().upper()
        if role == CONDITION and not isinstance(found, BooleanType | NullType):
            return f"{role} must be BOOLEAN, not {name}. Use a comparison, such as delay > 15"
        if role != CONDITION and isinstance(found, ArrayType | MapType | StructType):
            return f"{role} cannot be {name}. Use its fields or elements, or to_json(...)"
    return None


def as_column(expression: "str | Column") -> Column:
    """Return SQL text as a column, and a column unchanged."""
    return F.expr(expression) if isinstance(expression, str) else expression


def check_deterministic(
    store: str,
    first: DataFrame,
    last: DataFrame,
    steps: Sequence[StepExpressions],
    flattened: int = 0,
) -> None:
    """Reject steps from ``first`` to ``last`` that are not row-wise and deterministic.

    Args:
        store: The name of the store, for the message.
        first: The rows before the steps.
        last: The rows after the steps.
        steps: The steps with their expressions.
        flattened: The number of steps that create one row per element of an array.

    Raises:
        InvalidTopology: An expression is not row-wise or not deterministic. The message names the
            store and the step.
    """
    expressions = [expression for step in steps for expression in step.expressions.values()]
    problem = _problem(last, first, expressions, flattened)
    if problem is None:
        return
    # A check by Spark needs some ms, so all steps are checked at once. If the check fails, each
    # expression is checked alone to find the invalid one.
    problems = ((step.step, step.problem()) for step in steps)
    named = next((f"step {step}: {why}" for step, why in problems if why), f"a step {problem}")
    message = f"store {store!r}, {named}"
    raise InvalidTopology(message)


def value_schema(store: str, schema: StructType, step_of: Mapping[str, str]) -> pa.Schema:
    """Return the Arrow schema of the value columns after the steps.

    Args:
        store: The name of the store, for the message.
        schema: The value columns.
        step_of: Column name -> the step that computes it. ``""`` is the step of all other columns.

    Raises:
        InvalidTopology: Arrow does not have the type, so the column cannot be sent to Python
            workers.
    """
    fields = []
    for field in schema:
        try:
            column_type = to_arrow_type(field.dataType)
        except (AssertionError, ValueError, PySparkException) as error:
            advice = "Cast it to a number, string, boolean or an array of them"
            if isinstance(field.dataType, TimestampType):
                advice = (
                    "Convert it to a number with unix_millis(...), or use it inside the "
                    "expression that needs it"
                )
            message = (
                f"store {store!r}, {step_of.get(field.name, step_of[''])}: column {field.name!r} "
                f"cannot have the type {field.dataType.simpleString().upper()}. {advice}"
            )
            raise InvalidTopology(message) from error
        fields.append(pa.field(field.name, column_type, nullable=field.nullable))
    return pa.schema(fields)


def _problem(
    rows: DataFrame, base: DataFrame, expressions: Sequence["str | Column"], flattened: int = 0
) -> str | None:
    """Return why the projections from ``base`` to ``rows`` are invalid, or None.

    The plan can contain as many generators as ``flattened`` steps.
    """
    plan = _analysed_plan(rows)
    jvm: Any = rows.sparkSession._jvm  # noqa: SLF001 - plans are the JVM's
    catalyst = jvm.org.apache.spark.sql.catalyst
    patterns = catalyst.trees.TreePattern
    # A Project is a function of one row. An aggregate, a window, a generator or a join adds its own
    # node between the projections. A subquery is hidden inside an expression.
    below = _below_projections(plan)
    for _ in range(flattened):
        below = _below_projections(below.child())
    if not below.fastEquals(_below_projections(_analysed_plan(base))):
        return _NOT_ROW_WISE
    if plan.containsPattern(patterns.PLAN_EXPRESSION()):
        return _NOT_ROW_WISE
    # rand, uuid, monotonically_increasing_id, and Python functions that are nondeterministic.
    if not plan.deterministic():
        return _NOT_DETERMINISTIC
    # Spark treats the current time and the user as deterministic, because one query has one value.
    # The next batch would have another value.
    if (
        _calls_current(plan, patterns.CURRENT_LIKE())
        or _casts_current_time_string(plan, catalyst.optimizer)
        or any(_CURRENT_TIME_LITERAL.search(str(expression)) for expression in expressions)
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
    """Return whether a projection calls ``now()``, ``current_user()`` or the like.

    Spark marks such a function and each expression around it. So the search follows marked
    expressions down to the last ones, which have no marked child.
    """
    # The generator of a step that flattens only passes on the column that a projection has
    # computed.
    while plan.nodeName() in {"Project", "Generate"} and plan.containsPattern(current_like):
        marked_expressions = [plan.expressions()]
        while marked_expressions:
            expressions = marked_expressions.pop()
            for index in range(expressions.size()):
                expression = expressions.apply(index)
                if not expression.containsPattern(current_like):
                    continue
                children = expression.children()
                if any(
                    children.apply(child).containsPattern(current_like)
                    for child in range(children.size())
                ):
                    marked_expressions.append(children)
                elif expression.getClass().getSimpleName() not in _CONSTANT_FUNCTIONS:
                    return True
        plan = plan.child()
    return False


def _casts_current_time_string(plan: Any, optimizer: Any) -> bool:
    """Return whether a string like 'now' is cast to a time.

    In the analyzed plan, this is a cast like any other. Spark's optimizer replaces it by the
    current time, so its rule is applied here. If the rule changes the plan, the plan has such a
    cast.
    """
    try:
        # Some functions become casts only after Spark replaces them by their definitions.
        plan = optimizer.ReplaceExpressions.apply(plan)
        return not optimizer.SpecialDatetimeValues.apply(plan).fastEquals(plan)
    except (PySparkException, Py4JJavaError):
        # Spark cannot compute a constant expression. It fails on the first record.
        return False
