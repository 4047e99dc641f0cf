"""Row-wise steps for the test driver: without Spark where no expression needs it."""

from collections.abc import Iterator
from copy import copy
from typing import TYPE_CHECKING

import pyarrow as pa

from oriel.pipeline.arrow_steps import ArrowSteps, arrow_steps
from oriel.pipeline.hops import StepsOutput, decoded_schema
from oriel.pipeline.language import (
    AggregatedRows,
    Filter,
    FlatMapValues,
    ForeignKey,
    Input,
    LookupKey,
    MapValues,
    Peek,
    Side,
    Source,
    arrow_schema,
)
from oriel.pipeline.plan import Steps

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Steps that Spark has read in this process and Arrow runs, by their text and what they read. It
#: takes Spark longer to read them than a test takes for all else, and a suite's tests share steps.
_already_read: dict[str, ArrowSteps] = {}


def steps_for(origin: Input | Side | AggregatedRows, read: Source | pa.Schema, store: str) -> Steps:
    """The steps of an input behind decoded records or a join's results, or of aggregated rows.

    Raises:
        InvalidTopology: a step does not fit the schema; the message names it.
    """
    steps = arrow_steps(origin, read)
    if steps is not None:
        return steps
    # The text of a ``Column`` doesn't say everything: a function of Python is only named.
    if not all(isinstance(expression, str) for expression in _expressions(origin)):
        return SparkSteps(origin, read, store)
    written = repr((origin, read))
    if written not in _already_read:
        by_spark = SparkSteps(origin, read, store)
        if not isinstance(by_spark.arrow, ArrowSteps):
            return by_spark
        _already_read[written] = by_spark.arrow
    # Whoever gets them selects columns in them.
    return copy(_already_read[written])


def _expressions(origin: Input | Side | AggregatedRows) -> Iterator[object]:
    """All that steps compute with, functions too."""
    for step in origin.steps:
        if isinstance(step, Filter):
            yield step.condition
        elif isinstance(step, LookupKey):
            yield step.key
        elif isinstance(step, ForeignKey):
            yield from step.key
        elif isinstance(step, Peek):
            yield step.function
        elif isinstance(step, MapValues | FlatMapValues):
            yield from step.columns.values()
            yield from step.key if isinstance(step, MapValues) else ()
    yield from origin.group_by


class SparkSteps:
    """Steps with expressions: the pipeline's own, on a local Spark session."""

    def __init__(
        self, origin: Input | Side | AggregatedRows, read: Source | pa.Schema, store: str
    ) -> None:
        """Start the session if none runs, and check the steps.

        Raises:
            InvalidTopology: a step does not fit the schema; the message names it.
        """
        from oriel.pipeline.rows import RowSteps  # noqa: PLC0415 - only if needed

        self._spark = spark_session()
        self._store = store
        if isinstance(read, Source):
            read = decoded_schema(pa.struct(list(arrow_schema(read.columns))))
        self._schema = read
        self._steps = RowSteps(self._spark.createDataFrame(read.empty_table()), origin, store)
        self.values = self._steps.values

    @property
    def arrow(self) -> Steps:
        """The same steps without Spark, if Arrow has their expressions; else themselves.

        They take Arrow tables, too, but by a Spark job for each batch, which takes longer than
        all else that the driver does.
        """
        return self._steps.arrow or self

    def select(self, output: StepsOutput) -> None:
        """See ``oriel.pipeline.plan.Steps``."""
        self._steps.select(output)

    def rows(self, records: pa.Table) -> pa.Table:
        """The rows for the stamp."""
        from oriel.pipeline.run import SPARK_ERRORS, refuse_failing  # noqa: PLC0415

        # Of a table with an empty chunk PySpark loses the last rows.
        whole = records.cast(self._schema).combine_chunks()
        frame = self._spark.createDataFrame(whole).coalesce(1)
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
