"""Row-wise steps for the test driver: without Spark where no expression needs it."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from oriel.pipeline.arrow_steps import arrow_steps
from oriel.pipeline.hops import decoded_schema
from oriel.pipeline.language import Input, Side, Source, arrow_schema
from oriel.pipeline.plan import Steps

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def steps_for(origin: Input | Side, read: Source | pa.Schema, store: str) -> Steps:
    """The steps of an input in front of decoded records or a join's results.

    Raises:
        InvalidTopology: a step does not fit the schema; the message names it.
    """
    return arrow_steps(origin, read) or SparkSteps(origin, read, store)


class SparkSteps:
    """Steps with expressions: the pipeline's own, on a local Spark session."""

    def __init__(self, origin: Input | Side, read: Source | pa.Schema, store: str) -> None:
        """Start the session if none runs, and check the steps.

        Raises:
            InvalidTopology: a step does not fit the schema; the message names it.
        """
        from pyspark.sql.pandas.types import from_arrow_schema  # noqa: PLC0415 - only if needed

        from oriel.pipeline.rows import RowSteps  # noqa: PLC0415

        self._spark = spark_session()
        self._store = store
        if isinstance(read, Source):
            read = decoded_schema(pa.struct(list(arrow_schema(read.columns))))
        self._schema = read
        empty = self._spark.createDataFrame([], from_arrow_schema(read))
        self._steps = RowSteps(empty, origin, store)
        self.values = self._steps.values

    @property
    def arrow(self) -> Steps:
        """The same steps without Spark, if Arrow has their expressions; else themselves.

        They take Arrow tables, too, but by a Spark job for each batch, which takes longer than
        all else that the driver does.
        """
        return self._steps.arrow or self

    def select(self, used: Sequence[str], *, null_values: bool, keeps_raw: bool = False) -> None:
        """See ``oriel.pipeline.plan.Steps``."""
        self._steps.select(used, null_values=null_values, keeps_raw=keeps_raw)

    def rows(self, records: pa.Table) -> pa.Table:
        """The rows for the stamp."""
        from oriel.pipeline.run import SPARK_ERRORS, refuse_failing  # noqa: PLC0415

        frame = self._spark.createDataFrame(records.cast(self._schema)).coalesce(1)
        try:
            return self._steps.rows(frame).toArrow()
        except SPARK_ERRORS as error:
            refuse_failing(error, [(self._store, self._steps, frame)])
            raise


def spark_session() -> "SparkSession":
    """The local Spark session of this process, started if there is none.

    Drivers start it themselves. Only who writes a ``Column`` needs it before.
    """
    from pyspark.sql import SparkSession  # noqa: PLC0415 - only topologies with expressions

    from oriel.pipeline.spark import build_session  # noqa: PLC0415

    return SparkSession.getActiveSession() or build_session("topology-test-driver", cores=1)
