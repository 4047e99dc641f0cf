"""What a row-wise step may compute: from one record alone, the same result each time.

Spark's analysed plan tells: it must be projections only, deterministic, without functions of
the clock. A batch is cut anywhere and read again after a crash, so anything else would make
results depend on it.
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
from pyspark.sql.types import DataType, StructType, TimestampType

from oriel.pipeline.errors import InvalidTopology
from oriel.pipeline.spark import kind

_NOT_ROW_WISE = (
    "is not row-wise: it may read one record only, so no aggregates, window functions, explode "
    "or subqueries (aggregates come behind group_by)"
)
_CHANGES = (
    "gives another result each time: it must depend on the record only, so no random numbers, "
    "no numbers that Spark gives, no clock (the record's own time is timestamp_ms)"
)
#: Spark reads these while it parses the text, so no plan shows them.
_CLOCK_LITERAL = re.compile(
    r"\b(?:date|timestamp(?:_ltz|_ntz)?)\s*(['\"])\s*(?:now|today|tomorrow|yesterday)\b",
    re.IGNORECASE,
)
#: How Spark refuses some of what is not row-wise.
_SEVERAL_ROWS = ("MISSING_GROUP_BY", "UNSUPPORTED_GENERATOR")
#: Their value is a setting, which is the same in every run.
_SETTLED = frozenset({"CurrentTimeZone"})


@dataclass(frozen=True)
class Written:
    """One step as it is written: the rows that it reads, and its expressions by what they are."""

    step: str
    rows: DataFrame
    expressions: Mapping[str, "str | Column"]

    def fault(self) -> str | None:
        """Which of the expressions is at fault and why, or None."""
        for place, expression in self.expressions.items():
            try:
                fault = _fault(self.rows.select(as_column(expression)), self.rows, [expression])
            except PySparkException as error:
                several = kind(error).startswith(_SEVERAL_ROWS)
                fault = _NOT_ROW_WISE if several else None
            if fault is not None:
                return f"{place} {fault}"
        return None


def as_column(expression: "str | Column") -> Column:
    """SQL text as a column."""
    return F.expr(expression) if isinstance(expression, str) else expression


def refuse_unsteady(
    store: str, first: DataFrame, last: DataFrame, steps: Sequence[Written]
) -> None:
    """Refuse steps that lead from ``first`` to ``last`` otherwise than record by record.

    Raises:
        InvalidTopology: an expression is not row-wise, or gives another result each time; the
            message names the store and the step.
    """
    expressions = [one for step in steps for one in step.expressions.values()]
    fault = _fault(last, first, expressions)
    if fault is None:
        return
    # Only now is it worth while to look at each expression by itself.
    found = ((one.step, one.fault()) for one in steps)
    told = next((f"step {step}: {why}" for step, why in found if why), f"a step {fault}")
    message = f"store {store!r}, {told}"
    raise InvalidTopology(message)


def carried(store: str, schema: StructType, makers: Mapping[str, str]) -> pa.Schema:
    """The Arrow schema of the value columns behind the steps.

    ``makers`` names, for the columns that a step makes, that step; "" is for all others.

    Raises:
        InvalidTopology: a column has a type that can't go on from here.
    """
    fields = []
    for field in schema:
        try:
            found = to_arrow_type(field.dataType)
        except (AssertionError, ValueError, PySparkException) as error:
            maker = makers.get(field.name, makers[""])
            message = (
                f"store {store!r}, {maker}: column {field.name!r} can't have the type "
                f"{field.dataType.simpleString().upper()}: {_way_out(field.dataType)}"
            )
            raise InvalidTopology(message) from error
        fields.append(pa.field(field.name, found, nullable=field.nullable))
    return pa.schema(fields)


def _way_out(found: DataType) -> str:
    if isinstance(found, TimestampType):
        return (
            "make it a number with unix_millis(...), or compute with it inside the expression that "
            "needs it"
        )
    return "cast it to a number, text, boolean or an array of these"


def _fault(rows: DataFrame, base: DataFrame, expressions: Sequence["str | Column"]) -> str | None:
    """What is wrong with the way from ``base`` to ``rows``, or None."""
    plan, patterns = _plan(rows), _patterns(rows)
    below = _below_projections(plan)
    if not below.fastEquals(_below_projections(_plan(base))):
        return _NOT_ROW_WISE
    if plan.containsPattern(patterns.PLAN_EXPRESSION()):
        return _NOT_ROW_WISE
    if not plan.deterministic():
        return _CHANGES
    if _reads_clock(plan, patterns.CURRENT_LIKE()):
        return _CHANGES
    if _casts_clock(rows, plan) or any(_CLOCK_LITERAL.search(str(one)) for one in expressions):
        return _CHANGES
    return None


def _plan(rows: DataFrame) -> Any:
    return rows._jdf.queryExecution().analyzed()  # noqa: SLF001 - Spark has no other way


def _patterns(rows: DataFrame) -> Any:
    return rows.sparkSession._jvm.org.apache.spark.sql.catalyst.trees.TreePattern  # type: ignore[union-attr] # noqa: SLF001


def _below_projections(plan: Any) -> Any:
    while plan.nodeName() == "Project":
        plan = plan.child()
    return plan


def _reads_clock(plan: Any, current: Any) -> bool:
    """Whether projections have a function of the clock, of the user or the like."""
    while plan.nodeName() == "Project" and plan.containsPattern(current):
        expressions = _items(plan.expressions())
        if any(_is_current(one, current) for one in expressions if one.containsPattern(current)):
            return True
        plan = plan.child()
    return False


def _is_current(expression: Any, current: Any) -> bool:
    """Whether such a function is in an expression that has the mark of one."""
    inner = [one for one in _items(expression.children()) if one.containsPattern(current)]
    if not inner:
        return expression.getClass().getSimpleName() not in _SETTLED
    return any(_is_current(one, current) for one in inner)


def _items(sequence: Any) -> list[Any]:
    return [sequence.apply(place) for place in range(sequence.size())]


def _casts_clock(rows: DataFrame, plan: Any) -> bool:
    """Whether a text like 'now' is cast to a time, which Spark's optimizer then reads."""
    rules = rows.sparkSession._jvm.org.apache.spark.sql.catalyst.optimizer  # type: ignore[union-attr] # noqa: SLF001
    try:
        # Some functions are casts only once Spark has put in what they stand for.
        plan = rules.ReplaceExpressions.apply(plan)
        return not rules.SpecialDatetimeValues.apply(plan).fastEquals(plan)
    except (PySparkException, Py4JJavaError):
        # A constant that can't be computed; it fails with the first record.
        return False
