"""The stages of a batch as routes between channels, for the tasks of one Spark job.

A ``RouteRunner`` collects stages before it runs them:

    route      reads the rows of a source or of a channel, applies operations, and writes to a
               channel
    channel    one exchange of one store, after a shuffle
    level      the number of shuffles before a channel

One stage of the Spark job runs all routes of one level, for all stores. It forwards the envelopes
of later levels.

    level 0: the feed     records of a source, decoded once for all routes that start there
    level 1, 2, ...       the tasks of a join or a store, or streams after a join with a table
    sinks                 the reports of each store, for the driver

The functions of the stages are ``source_task`` and ``level_task``. They are plain functions of
Arrow batches, and all their arguments can be pickled.
"""

import gc
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from operator import itemgetter

import numpy as np
import pyarrow as pa

from oriel.pipeline.decoding import BlockDecoder, reject_ahead
from oriel.pipeline.language import Source
from oriel.pipeline.late_pandas import use_imported_pandas
from oriel.pipeline.plan import Steps
from oriel.pipeline.stage_columns import TASK
from oriel.pipeline.tasks.exchange import (
    CHANNEL,
    FROM_SOURCE,
    REPORTS,
    ROWS,
    Batches,
    Output,
    PartitionFunction,
    Received,
    TaskFunction,
    decoded_reports,
    decoded_rows,
    encoded,
    envelopes,
    sent,
)
from oriel.pipeline.tasks.reports import Reports

#: A step of a route.
Operation = Steps | TaskFunction


#: Raw rows as the tasks of a source receive them -> (topic, raw rows), in the order of offsets.
OpenRows = Callable[[Batches], Iterator[tuple[str, pa.RecordBatch]]]


@dataclass(frozen=True)
class Route:
    """The path of rows from a source or a channel to another channel.

    Attributes:
        base: The source, or the channel that the rows are from.
        operations: The operations on the rows, in order.
        to: The channel of the results.
        tasks: The number of tasks of this channel. Each row has the index of its task. None: the
            rows are not shuffled.
    """

    base: Source | int
    operations: tuple[Operation, ...]
    to: int
    tasks: int | None

    def run(
        self,
        batches: Iterable[pa.RecordBatch],
        received: Received = FROM_SOURCE,
        forwarded: Sequence[Reports] = (),
    ) -> Iterator[pa.RecordBatch]:
        """Yield envelopes with the rows after all operations, and with the reports.

        Args:
            batches: The rows of one task.
            received: What the task receives in addition to rows.
            forwarded: Reports that the task forwards, read after the last row.
        """
        outputs: list[Output] = []
        rows: Iterable[pa.RecordBatch] = batches
        for operation in self.operations:
            if callable(operation):
                rows = Output(operation(iter(rows), received))
                outputs.append(rows)
            else:
                rows = _stepped(operation, rows)

        def reports() -> Reports:
            # Each output has its report after its last row. So this function is called after all
            # rows are sent.
            return Reports.of([*forwarded, *(output.reports for output in outputs)])

        if self.tasks is not None:
            yield from sent(rows, reports, self.to, self.tasks)
        else:
            # These rows are not for a task, so they are in one envelope for task 0.
            collected = [batch for batch in rows if batch.num_rows]
            value = encoded(pa.Table.from_batches(collected)) if collected else None
            yield envelopes(self.to, [0], [value], reports())


@dataclass(frozen=True)
class Chain:
    """The rows of a ``RouteRunner``, which are not computed yet.

    Attributes:
        base: The source, or the channel that the rows are from.
        operations: The operations on the rows so far.
        schema: The columns after these operations. None: unknown, as for records of a source and
            after row-wise steps.
    """

    base: Source | int
    operations: tuple[Operation, ...] = ()
    schema: pa.Schema | None = None

    def then(self, operation: Operation, schema: pa.Schema | None = None) -> "Chain":
        """Return the rows after one more operation. Without ``schema``, it is unknown."""
        return Chain(self.base, (*self.operations, operation), schema)


#: Rows of several chains together.
Chains = tuple[Chain, ...]


class RouteRunner(ABC):
    """A ``Runner`` that collects all routes of a batch, and then runs them."""

    def __init__(self) -> None:
        self._routes: list[Route] = []
        #: The number of shuffles before each channel at which routes start.
        self._levels: dict[int, int] = {}
        self._channels = 0

    def read(self, source: Source, steps: Steps) -> Chains:
        return self.step((Chain(source),), steps)

    def step(self, rows: Chains, steps: Steps) -> Chains:
        return tuple(chain.then(steps) for chain in rows)

    def map(self, rows: Chains, function: TaskFunction, schema: pa.Schema) -> Chains:
        return tuple(chain.then(function, schema) for chain in rows)

    def union(self, rows: Chains, others: Chains) -> Chains:
        return (*rows, *others)

    def by_task(self, rows: Chains, tasks: int, *, together: bool = False) -> Chains:
        del together  # Each task is a process.
        channel = self.add_channel(rows, tasks)
        # A task needs the reports of all tasks upstream. So its stage runs after the slowest of its
        # inputs.
        self._levels[channel] = 1 + max(self.level(chain.base) for chain in rows)
        return (Chain(channel, (), rows[0].schema),)

    def reports(self, rows_of: Mapping[str, Chains]) -> dict[str, Reports]:
        # No route starts at these channels, so their envelopes are in the result of the job, which
        # the driver reads.
        sinks = {store: self.add_channel(rows, None) for store, rows in rows_of.items()}
        sent_to_sinks = self.envelopes()
        channel = np.asarray(sent_to_sinks[CHANNEL.name])
        return {
            store: decoded_reports(sent_to_sinks[REPORTS.name].filter(pa.array(channel == sink)))
            for store, sink in sinks.items()
        }

    @abstractmethod
    def envelopes(self) -> pa.Table:
        """Run all routes and return the envelopes of channels at which no route starts."""

    def add_channel(self, rows: Chains, tasks: int | None) -> int:
        """Add routes from ``rows`` to a new channel, and return the channel."""
        self._channels += 1
        self._routes += [Route(c.base, c.operations, self._channels, tasks) for c in rows]
        return self._channels

    def level(self, base: Source | int) -> int:
        """Return the number of shuffles before the rows of ``base``."""
        return 0 if isinstance(base, Source) else self._levels[base]

    def routes_from(self, level: int) -> list[Route]:
        """Return the routes that start at a level."""
        return [route for route in self._routes if self.level(route.base) == level]


def source_task(
    open_rows: OpenRows,
    decoders: Mapping[Source, BlockDecoder],
    routes: Sequence[Route],
    max_timestamp_ms: int | None = None,
) -> PartitionFunction:
    """Return the task from the raw rows of a source partition to envelopes.

    Each record is decoded once.

    Args:
        open_rows: Returns the raw rows of each topic.
        decoders: The decoder of each source.
        routes: The routes that start at these sources.
        max_timestamp_ms: The greatest valid time of a record. None: no limit.
    """
    routes_of = {source: [r for r in routes if r.base == source] for source in decoders}

    def run_source(batches: Batches) -> Batches:
        _prepare_worker()
        for topic, blocks in groupby(open_rows(batches), key=itemgetter(0)):
            of_topic = [(source, r) for source, r in routes_of.items() if source.topic == topic]
            raw: Iterable[pa.RecordBatch] = (block for _, block in blocks)
            # With one route, blocks are read one after the other, so the memory has one block of
            # raw rows. Only several routes need all blocks at once.
            if sum(len(of_source) for _, of_source in of_topic) > 1:
                # Each route reads all records of the partition.
                raw = list(raw)
            for source, of_source in of_topic:
                records: Iterable[pa.RecordBatch] = _decoded(
                    decoders[source], raw, max_timestamp_ms
                )
                # Records are decoded once for all routes, which needs the memory of all decoded
                # records.
                if len(of_source) > 1:
                    records = list(records)
                for route in of_source:
                    yield from route.run(records)

    return run_source


def decode_task(
    open_rows: OpenRows, source: Source, decoder: BlockDecoder, max_timestamp_ms: int | None = None
) -> PartitionFunction:
    """Return the task from raw rows to the decoded records of one source. See ``source_task``."""

    def decoding(batches: Batches) -> Batches:
        of_source = (raw for topic, raw in open_rows(batches) if topic == source.topic)
        yield from _decoded(decoder, of_source, max_timestamp_ms)

    return decoding


def level_task(routes: Sequence[Route]) -> PartitionFunction:
    """Return the task of one level. It runs the routes from the channels of this level.

    It forwards the envelopes of later levels unchanged.
    """

    def run_level(batches: Batches) -> Batches:
        _prepare_worker()
        own = {route.base for route in routes}
        arrived: dict[Source | int, list[pa.RecordBatch]] = {base: [] for base in own}
        for batch in batches:
            channels = np.asarray(batch[CHANNEL.name])
            for channel in np.unique(channels).tolist():
                of_channel = batch.filter(pa.array(channels == channel))
                if channel in own:
                    arrived[channel].append(of_channel)
                else:
                    # An envelope of a later level passes through unchanged. Its task is a task of
                    # the later stage, which shuffles it again.
                    yield of_channel
        # All envelopes have arrived here. A route needs the reports of all tasks upstream before
        # its first row, because the close time depends on the slowest partition.
        for route in routes:
            # Without an envelope, no source of this store has a task in the batch, so its state
            # stays.
            if not arrived[route.base]:
                continue
            envelopes = pa.Table.from_batches(arrived[route.base])
            # A Spark partition has the envelopes of one task, because the shuffle uses the task as
            # the partition id.
            task = envelopes[TASK.name][0].as_py()
            received = Received((task,), decoded_reports(envelopes[REPORTS.name]))
            values = envelopes[ROWS.name].drop_null()
            rows = decoded_rows(values).combine_chunks().to_batches() if len(values) else []
            yield from route.run(rows, received, [received.forwarded])

    return run_level


@cache
def _prepare_worker() -> None:
    """Leave the objects of imported modules out of all later collections of this worker.

    Spark's worker collects garbage after each task. Collections of the objects of modules, which
    are never garbage, were a fifth of the time of a task.
    """
    use_imported_pandas()
    gc.freeze()


def _decoded(
    decoder: BlockDecoder, raw: Iterable[pa.RecordBatch], max_timestamp_ms: int | None
) -> Iterator[pa.RecordBatch]:
    for block in raw:
        yield from (
            reject_ahead(decoder.decode(block), max_timestamp_ms).combine_chunks().to_batches()
        )


def _stepped(steps: Steps, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        if batch.num_rows:
            yield from steps.rows(pa.table(batch)).combine_chunks().to_batches()
