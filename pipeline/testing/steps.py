"""Row-wise steps for the test driver. They use Spark only for expressions that need it."""

from functools import lru_cache
from typing import TYPE_CHECKING

import pyarrow as pa

from oriel.pipeline.arrow_steps import selecting_steps
from oriel.pipeline.language import AggregatedRows, Input, Source, arrow_schema
from oriel.pipeline.plan import Steps
from oriel.pipeline.stage_columns import StepsOutput, decoded_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def steps_for(input_: Input | AggregatedRows, read: Source | pa.Schema, store: str) -> Steps:
    """Return the steps after decoded records, join results or aggregated rows.

    Raises:
        InvalidTopology: a step does not fit the schema. The message names the step.
    """
    return selecting_steps(input_, read) or SparkSteps(input_, read, store).arrow


class SparkSteps:
    """Steps with expressions, which run in a local Spark session."""

    def __init__(
        self, input_: Input | AggregatedRows, read: Source | pa.Schema, store: str
    ) -> None:
        """Start the session if necessary, and check the steps.

        Raises:
            InvalidTopology: a step does not fit the schema. The message names the step.
        """
        from oriel.pipeline.rows import row_steps  # noqa: PLC0415 - only if needed

        self._spark = spark_session()
        self._store = store
        if isinstance(read, Source):
            read = decoded_schema(pa.struct(list(arrow_schema(read.columns))))
        self._schema = read
        self._steps = row_steps(_no_rows(self._spark, read), input_, store)
        self.values = self._steps.values

    @property
    def arrow(self) -> Steps:
        """The same steps without Spark if Arrow has all their expressions, otherwise these steps.

        Spark needs one job per batch, which is slower than all other work of the driver.
        """
        return self._steps.arrow or self

    def select(self, output: StepsOutput) -> None:
        self._steps.select(output)

    def rows(self, records: pa.Table) -> pa.Table:
        """Return the rows after the steps."""
        from oriel.pipeline.run import SPARK_ERRORS, raise_failing_step  # noqa: PLC0415

        # PySpark loses the last rows of a table that has an empty chunk.
        whole = records.cast(self._schema).combine_chunks()
        frame = self._spark.createDataFrame(whole).coalesce(1)
        try:
            return self._steps.rows(frame).toArrow()
        except SPARK_ERRORS as error:
            raise_failing_step(error, [(self._store, self._steps, frame)])
            raise


def spark_session() -> "SparkSession":
    """Return the local Spark session of this process. Start it if necessary.

    The driver calls this function if it needs Spark. Call it yourself before you write a Spark
    ``Column``, for example ``F.col("delay") + 1``, because Spark needs a session for that.

    Returns:
        The active session, or a new session with one core.

    Example:
        >>> spark_session().range(3).count()
        3
    """
    from pyspark.sql import SparkSession  # noqa: PLC0415 - only topologies with expressions

    from oriel.pipeline.spark import build_session  # noqa: PLC0415

    return SparkSession.getActiveSession() or build_session("topology-test-driver", cores=1)


@lru_cache
def _no_rows(spark: "SparkSession", schema: pa.Schema) -> "DataFrame":
    return spark.createDataFrame(schema.empty_table())
