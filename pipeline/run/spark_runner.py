"""Stages as one Spark job: rows are DataFrames, tasks are Spark's.

Nothing runs before the reports are collected: Spark then makes one job of all stages, with a
shuffle wherever rows go to the task that they name.
"""

from collections.abc import Mapping

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_schema

from oriel.pipeline.language import Source
from oriel.pipeline.plan import Steps
from oriel.pipeline.tasks import TaskFunction

#: The decoded records of each source, as Spark reads them.
Records = Mapping[Source, DataFrame]


class SparkRunner:
    """A ``Runner`` over one batch's decoded records."""

    def __init__(self, records: Records) -> None:
        """Read ``records``."""
        self.records = records

    def read(self, source: Source, steps: Steps) -> DataFrame:
        """See ``Runner``."""
        return self.step(self.records[source], steps)

    def step(self, rows: DataFrame, steps: Steps) -> DataFrame:
        """See ``Runner``."""
        stepped: DataFrame = steps.rows(rows)
        return stepped

    def map(self, rows: DataFrame, function: TaskFunction, schema: pa.Schema) -> DataFrame:
        """See ``Runner``."""
        return rows.mapInArrow(function, from_arrow_schema(schema))

    def union(self, rows: DataFrame, others: DataFrame) -> DataFrame:
        """See ``Runner``."""
        return rows.union(others)

    def by_task(self, rows: DataFrame, tasks: int) -> DataFrame:
        """See ``Runner``."""
        return rows.repartitionById(tasks, "task")

    def reports(self, rows: DataFrame) -> list[str]:
        """See ``Runner``."""
        return [row.report for row in rows.collect()]
