"""A store's batch as Spark sees it: stamps, joins, row-wise steps and engine tasks in one job."""

from collections.abc import Mapping, Sequence
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_schema

from pipeline.grouping import RESULT_SCHEMA, group_with
from pipeline.joining import join_with
from pipeline.plan import BatchPlan, GroupReport, JoinPlan
from pipeline.stamping import route_with, stamp_for_join, stamp_looked_up, stamp_with
from pipeline.store_plans import InputPlan, StorePlans
from pipeline.topology import Source

#: The decoded records of each source, as Spark reads them.
Records = Mapping[Source, DataFrame]


def run_tasks(
    plans: StorePlans, plan: BatchPlan, joins: Sequence[JoinPlan], records: Records
) -> list[GroupReport]:
    """Run a batch's tasks and return what the engine's tasks report."""
    by_place = {join.place: join for join in joins}
    stamped = [
        _joined(one, plan, by_place[place], records)
        if place in by_place
        else _stamped(one, plan, records)
        for place, one in enumerate(plans.inputs)
    ]
    everything = reduce(DataFrame.union, stamped)
    grouped = everything.repartitionById(plan.tasks, "task").mapInArrow(
        group_with(plan), from_arrow_schema(RESULT_SCHEMA)
    )
    return [GroupReport.from_text(row.report) for row in grouped.collect()]


def _stamped(one: InputPlan, plan: BatchPlan, records: Records) -> DataFrame:
    rows: DataFrame = one.steps.rows(records[one.source])
    return rows.mapInArrow(stamp_with(plan, one.stamp), from_arrow_schema(plan.stamped_schema))


def _joined(one: InputPlan, plan: BatchPlan, join: JoinPlan, records: Records) -> DataFrame:
    """Both sides through the join, its results through the steps behind it."""
    assert one.join is not None
    arriving = from_arrow_schema(join.arriving_schema)
    sides = [
        side.steps.rows(records[side.source]).mapInArrow(
            stamp_for_join(plan, side.stamp, join.arriving_schema), arriving
        )
        for side in (one.join.left, one.join.right)
    ]
    results = (
        sides[0]
        .union(sides[1])
        .repartitionById(plan.tasks, "task")
        .mapInArrow(join_with(plan, join), from_arrow_schema(join.joined_schema))
    )
    behind = route_with
    if join.stage.is_lookup:
        # The stream's clock goes on here, so the records of a partition have to meet again.
        results, behind = results.repartitionById(plan.tasks, "task"), stamp_looked_up
    rows: DataFrame = one.steps.rows(results)
    return rows.mapInArrow(behind(plan, one.stamp), from_arrow_schema(plan.stamped_schema))
