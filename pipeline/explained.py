"""The logical plan of a topology, as the user wrote it, and the physical plan of the pipeline."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pyarrow as pa

from oriel.pipeline.arrow_steps import selecting_steps
from oriel.pipeline.language import Source, Topology, arrow_schema
from oriel.pipeline.lowered import AggregatedRows, Input, grouping_call, lower, step_calls
from oriel.pipeline.plan import InputPlan, Steps, StorePlans, reasons_by_store
from oriel.pipeline.stage_columns import decoded_schema
from oriel.pipeline.windows import Operator


def explain(topology: Topology) -> str:
    """Return the logical and the physical plan of a topology.

    Raises:
        InvalidTopology: A step or an aggregation is invalid. The message names it.
    """
    lowered = lower(topology)
    reasons = reasons_by_store(lowered)
    plans: dict[str, StorePlans] = {}
    for store in lowered.units:
        steps_of = partial(_steps_of, store.name)
        plans[store.name] = StorePlans(store, steps_of, reasons[store.name], plans)
    physical: list[str] = []
    for plan in plans.values():
        store = plan.store
        functions = [] if plan.functions is None else [f"functions {plan.functions}"]
        inputs = [
            _Node("Late filter", [_stream(definition, input_plan)])
            for definition, input_plan in zip(store.inputs, plan.inputs, strict=True)
        ]
        rows = _operator_node(str(store.aggregation), plan.assembly.engine, inputs, functions)
        if store.row_steps:
            rows = _Node(f"Steps in Arrow: {'.'.join(step_calls(store.row_steps))}", [rows])
        physical += _Node(f"{store.name} ({store.kind})", [rows]).lines()
    return "\n".join(["== Logical plan ==", lowered.describe(), "== Physical plan ==", *physical])


@dataclass(frozen=True)
class _Node:
    """A node of the physical plan, and the nodes that it reads.

    Example:
        >>> _Node("join", [_Node("left"), _Node("right")]).lines()
        ['join', ':- left', '+- right']
    """

    text: str
    children: "list[_Node]" = field(default_factory=list)

    def lines(self, prefix: str = "", follows: str = "") -> list[str]:
        """Return the tree in the format of Spark's ``explain``."""
        lines = [f"{prefix}{self.text}"]
        for number, child in enumerate(self.children, 1):
            is_last = number == len(self.children)
            corner, line = ("+- ", "   ") if is_last else (":- ", ":  ")
            lines += child.lines(f"{follows}{corner}", f"{follows}{line}")
        return lines


def _operator_node(
    text: str, operator: Operator[Any], inputs: list[_Node], more: Sequence[str] = ()
) -> _Node:
    name = type(operator).__name__.removesuffix("Engine")
    details = ", ".join([f"state: {operator.state_words}", *more])
    return _Node(f"{name}: {text} [{details}]", [_Node("Exchange by key", inputs)])


def _stream(definition: Input, plan: InputPlan) -> _Node:
    """Return the node of an input: its stream task, its steps, and the nodes that they read."""
    if plan.join is None:
        rows = _Node(f"Source: {definition.source}")
    else:
        assert definition.join is not None, "both are of one input"
        child_plans = zip(definition.join.inputs, plan.join.sides, strict=True)
        inputs = [_stream(child, child_plan) for child, child_plan in child_plans]
        rows = _operator_node(str(definition.join), plan.join.stage.operator, inputs)
        if plan.stream.advances_stream_time:
            rows = _Node("Exchange by partition", [rows])
    if steps := [*step_calls(definition.steps), *filter(None, [grouping_call(definition)])]:
        backend = "Spark" if plan.steps.arrow is None else "Arrow"
        rows = _Node(f"Steps in {backend}: {'.'.join(steps)}", [rows])
    if not plan.stream.advances_stream_time:
        return rows
    return _Node(f"Stream time: {plan.stream.stream_time.name}", [rows])


def _steps_of(store: str, definition: Input | AggregatedRows, read: Source | pa.Schema) -> Steps:
    """Return steps in Arrow. Start Spark only to check an expression that Arrow does not run."""
    steps = selecting_steps(definition, read)
    if steps is not None:
        return steps
    from pyspark.sql import SparkSession  # noqa: PLC0415 - only for some expressions
    from pyspark.sql.pandas.types import from_arrow_schema  # noqa: PLC0415

    from oriel.pipeline.rows import row_steps  # noqa: PLC0415
    from oriel.pipeline.spark import build_session, no_rows  # noqa: PLC0415

    if isinstance(read, Source):
        read = decoded_schema(pa.struct(list(arrow_schema(read.columns))))
    spark = SparkSession.getActiveSession() or build_session("oriel-explain", cores=1)
    return row_steps(no_rows(spark, from_arrow_schema(read)), definition, store)
