"""All stores' stages of a batch as one Spark job; and which step made it fail.

The job is the feed (decoding, row-wise steps, stream tasks), and for each level of channels a
shuffle of envelopes and the tasks after it. What Arrow runs goes through Spark as envelopes. Steps
that only Spark can run are projections of its own: rows are decoded before them and become
envelopes again after them. Where an expression fails on a record, the steps are run again one by
one, to name the store and the step in one line.
"""

import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException, PythonException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.pandas.types import from_arrow_schema

from oriel.pipeline.decoding import BlockDecoder
from oriel.pipeline.errors import ExpressionFailed
from oriel.pipeline.hops import REASON, TASK
from oriel.pipeline.language import Source, StoreSource
from oriel.pipeline.plan import Steps, StorePlans
from oriel.pipeline.rows import RowSteps
from oriel.pipeline.sources import Decoder, Log, SparkDecoder, spark_refuse_ahead
from oriel.pipeline.spark import first_line, map_in_arrow
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
    feed,
    hop,
)

_ENVELOPES = from_arrow_schema(ENVELOPE_SCHEMA)
#: The columns of envelopes among rows that are decoded for Spark.
_CARRIED = pa.schema([field.with_name(f"_envelope_{field.name}") for field in ENVELOPE_SCHEMA])


class SparkRunner(RouteRunner):
    """Runs routes as one job over one batch's ``rows``, as its log gives them."""

    def __init__(
        self,
        rows: DataFrame,
        log: Log,
        decoders: Mapping[Source, Decoder],
        latest_ms: int | None = None,
        final_rows: Mapping[Source, pa.Table] | None = None,
    ) -> None:
        """Read ``rows``; a record with a time behind ``latest_ms`` is bad.

        ``final_rows`` are records that are there already, each source's of one partition.
        """
        super().__init__()
        self._latest_ms = latest_ms
        self._rows = rows
        self._log = log
        self._decoders = decoders
        self._tasks = 1
        #: Channel of rows on their way through Spark's steps -> these, and the rows' columns.
        self._spark_steps: dict[int, tuple[RowSteps, pa.Schema]] = {}
        self._records: dict[Source, DataFrame] = {
            source: self._of_one_partition(records)
            for source, records in (final_rows or {}).items()
        }

    def step(self, rows: Chains, steps: Steps) -> Chains:
        if not isinstance(steps, RowSteps):
            return super().step(rows, steps)
        if steps.arrow is not None:
            return super().step(rows, steps.arrow)
        (chain,) = rows
        if isinstance(chain.base, Source):
            return super().step(rows, steps)
        assert chain.schema is not None
        channel = self.add_channel(rows, None)
        self._levels[channel] = self.level(chain.base)
        self._spark_steps[channel] = (steps, chain.schema)
        return (Chain(channel),)

    def by_task(self, rows: Chains, tasks: int, *, together: bool = False) -> Chains:
        self._tasks = max(self._tasks, tasks)
        return super().by_task(rows, tasks, together=together)

    def envelopes(self) -> pa.Table:
        frame = self._fed()
        for level in range(1, max(self._levels.values()) + 1):
            routes = self.routes_from(level)
            in_hop = [route for route in routes if route.base not in self._spark_steps]
            behind_spark = [route for route in routes if route.base in self._spark_steps]
            frame = map_in_arrow(
                frame.repartitionById(self._tasks, TASK.name), hop(in_hop), _ENVELOPES
            )
            for route in behind_spark:
                frame = self._through_spark(frame, route)
        try:
            return frame.toArrow()
        finally:
            for records in self._records.values():
                records.unpersist()

    def records(self, source: Source) -> DataFrame:
        """The batch's records of a source, as Spark's rows."""
        if source not in self._records:
            decoder = self._decoders[source]
            if isinstance(decoder, SparkDecoder):
                raw = self._log.raw_rows(self._rows.filter(F.col("topic") == source.topic))
                self._records[source] = spark_refuse_ahead(decoder.decode(raw), self._latest_ms)
            else:
                decoding = decode_task(self._log.row_opener(), source, decoder, self._latest_ms)
                schema = from_arrow_schema(decoder.schema)
                of_topic = self._rows.filter(F.col("topic") == source.topic)
                self._records[source] = map_in_arrow(of_topic, decoding, schema)
        return self._records[source]

    def _of_one_partition(self, records: pa.Table) -> DataFrame:
        """Records in their order, for one task."""
        frame = self._rows.sparkSession.createDataFrame(records)
        return frame.coalesce(1).sortWithinPartitions("offset")

    def _fed(self) -> DataFrame:
        """The envelopes of the feed."""
        routes = self.routes_from(0)
        # One pass over the raw rows for all sources of which Spark need not see a record.
        with_spark = {
            route.base
            for route in routes
            if isinstance(route.base, Source)
            and (
                isinstance(route.base, StoreSource)
                or isinstance(self._decoders[route.base], SparkDecoder)
                or isinstance(route.operations[0], RowSteps)
            )
        }
        in_feed = [route for route in routes if route.base not in with_spark]
        frames = []
        if in_feed:
            decoders = {
                source: decoder
                for source, decoder in self._decoders.items()
                if isinstance(decoder, BlockDecoder) and source not in with_spark
            }
            feeding = feed(self._log.row_opener(), decoders, in_feed, self._latest_ms)
            frames.append(map_in_arrow(self._rows, feeding, _ENVELOPES))
        for source in with_spark:
            assert isinstance(source, Source)
            of_source = [route for route in routes if route.base == source]
            records = self.records(source)
            if len(of_source) > 1:
                # One read and one parse, however many stores and sides of joins read it.
                records.persist()
            for route in of_source:
                first, *others = route.operations
                if isinstance(first, RowSteps):
                    remaining = replace(route, operations=tuple(others))
                    frames.append(map_in_arrow(first.rows(records), remaining.run, _ENVELOPES))
                else:
                    frames.append(map_in_arrow(records, route.run, _ENVELOPES))
        return reduce(DataFrame.union, frames)

    def _through_spark(self, sent: DataFrame, route: Route) -> DataFrame:
        """Run the rows of a channel through the steps of Spark and then the route."""
        assert isinstance(route.base, int)
        steps, schema = self._spark_steps[route.base]
        opened_schema = pa.schema([*_CARRIED, *schema])
        opening = _open_channel(route.base, opened_schema)
        rows = map_in_arrow(sent, opening, from_arrow_schema(opened_schema))
        stepped = steps.rows(rows, carried=_CARRIED.names)
        return map_in_arrow(stepped, _close_channel(route), _ENVELOPES)


def _open_channel(channel: int, schema: pa.Schema) -> PartitionFunction:
    """Return the function from envelopes to rows of ``schema``, for one channel.

    ``schema`` begins with the columns of the envelopes of other channels, and of reports, which are
    carried along. These rows have a reason, so no step reads them.
    """
    row_fields = list(schema)[len(_CARRIED) :]

    def opening(batches: Batches) -> Batches:
        for batch in batches:
            of_channel = pc.equal(batch[CHANNEL.name], channel)
            values = batch[ROWS.name].filter(of_channel).drop_null()
            if len(values):
                rows = decoded_rows(values)
                not_carried = (pa.nulls(len(rows), field.type) for field in _CARRIED)
                table = pa.table([*not_carried, *rows.columns], schema=schema)
                yield from table.combine_chunks().to_batches()
            rest = pc.if_else(of_channel, pa.scalar(None, ROWS.type), batch[ROWS.name])
            carried = batch.set_column(batch.schema.get_field_index(ROWS.name), ROWS, rest).filter(
                pc.or_(pc.invert(of_channel), pc.is_valid(batch[REPORTS.name]))
            )
            reason = pa.array(["envelope"] * carried.num_rows, REASON.type)
            no_row = (
                reason if field.name == REASON.name else pa.nulls(carried.num_rows, field.type)
                for field in row_fields
            )
            yield pa.RecordBatch.from_arrays([*carried.columns, *no_row], schema=schema)

    return opening


def _close_channel(route: Route) -> PartitionFunction:
    """Return the function from rows after Spark's steps to envelopes."""

    def closing(batches: Batches) -> Batches:
        of_others: list[pa.RecordBatch] = []
        reports: list[Reports] = []

        def records() -> Iterator[pa.RecordBatch]:
            for batch in batches:
                is_envelope = pc.is_valid(batch[f"_envelope_{CHANNEL.name}"])
                carried = batch.filter(is_envelope).select(_CARRIED.names)
                carried = carried.rename_columns(ENVELOPE_SCHEMA.names)
                of_channel = pc.equal(carried[CHANNEL.name], route.base)
                reports.append(decoded_reports(carried.filter(of_channel)[REPORTS.name]))
                of_others.append(carried.filter(pc.invert(of_channel)))
                yield batch.filter(pc.invert(is_envelope)).drop_columns(_CARRIED.names)

        yield from route.run(records(), forwarded=reports)
        yield from of_others

    return closing


#: The errors with which Spark or Java stop a job.
SPARK_ERRORS = (PySparkException, Py4JJavaError)


def refuse_failing(
    error: Exception, steps_and_records: Iterable[tuple[str, RowSteps, DataFrame]]
) -> None:
    """Look for the step that stopped a batch, in stores' steps and the records that they read.

    Spark's error names an expression at best. So the steps are run again, one by one; the
    records are still there, and whoever is to mend the step waits anyway.

    Raises:
        ExpressionFailed: it was found. A Python function's error says more by itself, so there
            the error is only given a note.
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
    """The steps of a store with what they read; of those behind a join, a row of nulls."""
    for input_plan in plans.inputs:
        for plan in (*input_plan.sides, input_plan):
            if not isinstance(plan.steps, RowSteps):
                continue
            if plan.join is None:
                yield plans.store.name, plan.steps, runner.records(plan.source)
            else:
                # A join's results are gone with its tasks. What fails on every record, like a
                # pattern that is none, fails on a row of nulls too.
                yield plans.store.name, plan.steps, plan.steps.a_null_row()


def warm_up(spark: SparkSession, cores: int) -> None:
    """Let Spark's Python workers start and import what tasks need, while the query is prepared.

    Spark starts them for its first job and keeps them. In the first large batch that would be
    two seconds in which it waits for imports.
    """

    def importing(batches: Batches) -> Batches:
        import oriel.pipeline.tasks  # noqa: F401, PLC0415 - in the worker

        yield from batches

    def run_a_job() -> None:
        # It only helps: if the run ends before it, or no worker starts, the batches will tell.
        with suppress(Exception):
            map_in_arrow(spark.range(0, cores, 1, cores), importing, "id BIGINT").collect()

    threading.Thread(target=run_a_job, name="warm-up", daemon=True).start()
