"""Run a batch of all stores as one Spark job, and find the step that made it fail.

The first stage of the job decodes records and runs row-wise steps and the tasks of streams. Each
later stage is a shuffle of envelopes and the tasks after it. Arrow runs its steps inside the tasks.
Steps that only Spark can run are Spark projections: rows are decoded before them, and become
envelopes again after them. If an expression fails on a record, the steps run again one by one, so
that the error names the store and the step in one line.
"""

import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import reduce
from typing import cast

import pyarrow as pa
import pyarrow.compute as pc
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException, PythonException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.pandas.types import from_arrow_schema

from oriel.pipeline.decoding import BlockDecoder
from oriel.pipeline.errors import ExpressionFailed
from oriel.pipeline.language import Source
from oriel.pipeline.plan import Steps, StorePlans
from oriel.pipeline.rows import RowSteps
from oriel.pipeline.sources import Decoder, Log, SparkDecoder, spark_reject_ahead
from oriel.pipeline.spark import first_line, map_in_arrow
from oriel.pipeline.stage_columns import REASON, TASK
from oriel.pipeline.tasks import (
    CHANNEL,
    ENVELOPE_SCHEMA,
    REPORTS,
    ROWS,
    Batches,
    Chain,
    Chains,
    PartitionFunction,
    Reports,
    Route,
    RouteRunner,
    decode_task,
    decoded_reports,
    decoded_rows,
    level_task,
    source_task,
)

_ENVELOPES = from_arrow_schema(ENVELOPE_SCHEMA)
#: The columns of envelopes, next to the columns of rows that are decoded for Spark.
_ENVELOPE_COLUMNS = pa.schema(
    [field.with_name(f"_envelope_{field.name}") for field in ENVELOPE_SCHEMA]
)


class SparkRunner(RouteRunner):
    """Runs routes as one Spark job over the ``rows`` of one batch, in the format of the log."""

    def __init__(
        self,
        rows: DataFrame,
        log: Log,
        decoders: Mapping[Source, Decoder],
        latest_ms: int | None = None,
        final_rows: Mapping[Source, pa.Table] | None = None,
    ) -> None:
        """Read ``rows``. A record with a time after ``latest_ms`` is invalid.

        ``final_rows`` has records that already exist, by source. Each source has one partition.
        """
        super().__init__()
        self._latest_ms = latest_ms
        self._rows = rows
        self._log = log
        self._decoders = decoders
        self._tasks = 1
        #: Exchange of rows that pass through Spark's steps -> these steps, and the rows' columns.
        self._spark_steps: dict[int, tuple[RowSteps, pa.Schema]] = {}
        self._records: dict[Source, DataFrame] = {}
        for source, records in (final_rows or {}).items():
            # In their order, for one task.
            frame = rows.sparkSession.createDataFrame(records).coalesce(1)
            self._records[source] = frame.sortWithinPartitions("offset")

    def step(self, rows: Chains, steps: Steps) -> Chains:
        if steps.arrow is not None:
            return super().step(rows, steps.arrow)
        (chain,) = rows
        if isinstance(chain.base, Source):
            return super().step(rows, steps)
        assert chain.schema is not None
        exchange = self.add_channel(rows, None)
        self._levels[exchange] = self.level(chain.base)
        self._spark_steps[exchange] = (cast("RowSteps", steps), chain.schema)
        return (Chain(exchange),)

    def by_task(self, rows: Chains, tasks: int, *, together: bool = False) -> Chains:
        self._tasks = max(self._tasks, tasks)
        return super().by_task(rows, tasks, together=together)

    def envelopes(self) -> pa.Table:
        frame = self._first_stage()
        for stage in range(1, max(self._levels.values()) + 1):
            routes = self.routes_from(stage)
            in_stage = [route for route in routes if route.base not in self._spark_steps]
            after_spark = [route for route in routes if route.base in self._spark_steps]
            frame = map_in_arrow(
                frame.repartitionById(self._tasks, TASK.name), level_task(in_stage), _ENVELOPES
            )
            for route in after_spark:
                # The rows of the exchange run through Spark's steps, and then through the route.
                assert isinstance(route.base, int)
                steps, schema = self._spark_steps[route.base]
                opened_schema = pa.schema([*_ENVELOPE_COLUMNS, *schema])
                to_rows = _rows_of_exchange(route.base, opened_schema)
                rows = map_in_arrow(frame, to_rows, from_arrow_schema(opened_schema))
                stepped = steps.rows(rows, passed_through=_ENVELOPE_COLUMNS.names)
                frame = map_in_arrow(stepped, _envelopes_after_spark(route), _ENVELOPES)
        try:
            return frame.toArrow()
        finally:
            for records in self._records.values():
                records.unpersist()

    def records(self, source: Source) -> DataFrame:
        """Return the batch's records of a source, as rows of Spark."""
        if source not in self._records:
            decoder = self._decoders[source]
            if isinstance(decoder, SparkDecoder):
                raw = self._log.raw_rows(self._rows.filter(F.col("topic") == source.topic))
                self._records[source] = spark_reject_ahead(decoder.decode(raw), self._latest_ms)
            else:
                decoding = decode_task(self._log.row_opener(), source, decoder, self._latest_ms)
                schema = from_arrow_schema(decoder.schema)
                of_topic = self._rows.filter(F.col("topic") == source.topic)
                self._records[source] = map_in_arrow(of_topic, decoding, schema)
        return self._records[source]

    def _first_stage(self) -> DataFrame:
        """Return the envelopes of the first stage."""
        routes = self.routes_from(0)
        # One pass over the raw rows for all sources whose records do not pass through Spark.
        with_spark = {
            route.base
            for route in routes
            if isinstance(route.base, Source)
            and (
                route.base.store_name
                or isinstance(self._decoders[route.base], SparkDecoder)
                or isinstance(route.operations[0], RowSteps)
            )
        }
        in_first_stage = [route for route in routes if route.base not in with_spark]
        frames = []
        if in_first_stage:
            decoders = {
                source: decoder
                for source, decoder in self._decoders.items()
                if isinstance(decoder, BlockDecoder) and source not in with_spark
            }
            first_stage = source_task(
                self._log.row_opener(), decoders, in_first_stage, self._latest_ms
            )
            frames.append(map_in_arrow(self._rows, first_stage, _ENVELOPES))
        for source in with_spark:
            assert isinstance(source, Source)
            of_source = [route for route in routes if route.base == source]
            records = self.records(source)
            if len(of_source) > 1:
                # Read and parse once, however many stores and join inputs read the records.
                records.persist()
            for route in of_source:
                first, *others = route.operations
                if isinstance(first, RowSteps):
                    remaining = replace(route, operations=tuple(others))
                    frames.append(map_in_arrow(first.rows(records), remaining.run, _ENVELOPES))
                else:
                    frames.append(map_in_arrow(records, route.run, _ENVELOPES))
        return reduce(DataFrame.union, frames)


def _rows_of_exchange(exchange: int, schema: pa.Schema) -> PartitionFunction:
    """Return the function from envelopes to rows of ``schema``, for one exchange.

    ``schema`` starts with the columns of envelopes. They contain the envelopes of other exchanges,
    and reports. Their rows have a reason, so no step reads them.
    """
    row_fields = list(schema)[len(_ENVELOPE_COLUMNS) :]

    def to_rows(batches: Batches) -> Batches:
        for batch in batches:
            of_exchange = pc.equal(batch[CHANNEL.name], exchange)
            values = batch[ROWS.name].filter(of_exchange).drop_null()
            if len(values):
                rows = decoded_rows(values)
                not_carried = (pa.nulls(len(rows), field.type) for field in _ENVELOPE_COLUMNS)
                table = pa.table([*not_carried, *rows.columns], schema=schema)
                yield from table.combine_chunks().to_batches()
            rest = pc.if_else(of_exchange, pa.scalar(None, ROWS.type), batch[ROWS.name])
            envelope_rows = batch.set_column(
                batch.schema.get_field_index(ROWS.name), ROWS, rest
            ).filter(pc.or_(pc.invert(of_exchange), pc.is_valid(batch[REPORTS.name])))
            reason = pa.array(["envelope"] * envelope_rows.num_rows, REASON.type)
            no_row = (
                reason
                if field.name == REASON.name
                else pa.nulls(envelope_rows.num_rows, field.type)
                for field in row_fields
            )
            yield pa.RecordBatch.from_arrays([*envelope_rows.columns, *no_row], schema=schema)

    return to_rows


def _envelopes_after_spark(route: Route) -> PartitionFunction:
    """Return the function from rows after Spark's steps to envelopes."""

    def to_envelopes(batches: Batches) -> Batches:
        other_envelopes: list[pa.RecordBatch] = []
        reports: list[Reports] = []

        def records() -> Iterator[pa.RecordBatch]:
            for batch in batches:
                is_envelope = pc.is_valid(batch[f"_envelope_{CHANNEL.name}"])
                envelope_rows = batch.filter(is_envelope).select(_ENVELOPE_COLUMNS.names)
                envelope_rows = envelope_rows.rename_columns(ENVELOPE_SCHEMA.names)
                of_exchange = pc.equal(envelope_rows[CHANNEL.name], route.base)
                reports.append(decoded_reports(envelope_rows.filter(of_exchange)[REPORTS.name]))
                other_envelopes.append(envelope_rows.filter(pc.invert(of_exchange)))
                yield batch.filter(pc.invert(is_envelope)).drop_columns(_ENVELOPE_COLUMNS.names)

        yield from route.run(records(), forwarded=reports)
        yield from other_envelopes

    return to_envelopes


#: The errors with which Spark or Java stop a job.
SPARK_ERRORS = (PySparkException, Py4JJavaError)


def raise_failing_step(
    error: Exception, steps_and_records: Iterable[tuple[str, RowSteps, DataFrame]]
) -> None:
    """Find the step that stopped a batch, among the steps of stores and the records that they read.

    Spark's error names an expression at best. So the steps run again one by one. The records still
    exist, and the time does not matter, because the user must correct the step first.

    Raises:
        ExpressionFailed: the step was found. The error of a Python function already names its
            cause, so only a note with the step is added to it.
    """
    for store, steps, records in steps_and_records:
        step = steps.failing_step(records, error)
        if step is None:
            continue
        where = f"store {store!r}, step {step}"
        if isinstance(error, PythonException):
            error.add_note(where)
            return
        message = (
            f"{where}: fails on a record: {first_line(error)}. Correct the expression, or drop "
            "such records with a filter first"
        )
        raise ExpressionFailed(message) from error


def steps_of(plans: StorePlans, runner: SparkRunner) -> Iterator[tuple[str, RowSteps, DataFrame]]:
    """Yield the steps of a store that Spark runs, with the records that they read.

    After a join, they read a row of nulls.
    """
    for input_plan in plans.inputs:
        for plan in (*input_plan.sides, input_plan):
            if plan.steps.arrow is not None:
                continue
            steps = cast("RowSteps", plan.steps)
            if plan.join is None:
                yield plans.store.name, steps, runner.records(plan.source)
            else:
                # The results of a join are deleted with its tasks. A step that fails on every
                # record, like an invalid pattern, also fails on a row of nulls.
                yield plans.store.name, steps, steps.null_row()


def warm_up(spark: SparkSession, cores: int) -> None:
    """Start Spark's Python workers and import their modules while the query is prepared.

    Spark starts the workers for its first job and keeps them. Otherwise, the first large batch
    would wait two seconds for imports.
    """

    def importing(batches: Batches) -> Batches:
        import oriel.pipeline.tasks  # noqa: F401, PLC0415 - in the worker

        yield from batches

    def run_a_job() -> None:
        # This only saves time. If no worker starts, the batches report it.
        with suppress(Exception):
            map_in_arrow(spark.range(0, cores, 1, cores), importing, "id BIGINT").collect()

    threading.Thread(target=run_a_job, name="warm-up", daemon=True).start()
