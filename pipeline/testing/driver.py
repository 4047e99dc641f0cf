"""Kafka Streams' TopologyTestDriver for these topologies: one process, one batch at a time."""

from collections.abc import Iterable, Sequence
from copy import deepcopy
from itertools import chain
from typing import Any, Self, overload

import pyarrow as pa

from oriel.pipeline.dead_letters import Reason
from oriel.pipeline.decoding import refuse_ahead
from oriel.pipeline.errors import FunctionRaised
from oriel.pipeline.language import (
    KStream,
    Source,
    Store,
    StoreSource,
    Topology,
    arrow_schema,
)
from oriel.pipeline.plan import ClockSettings, WallClock
from oriel.pipeline.testing.other_words import DriverWords
from oriel.pipeline.testing.output import OutputReader, rows_for_users
from oriel.pipeline.testing.records import Record, decoded, refuse_unknown_columns
from oriel.pipeline.testing.store_driver import Counters, StoreDriver
from oriel.pipeline.testing.stores import (
    ReadOnlyKeyValueStore,
    ReadOnlySessionStore,
    ReadOnlyWindowStore,
)
from oriel.pipeline.testing.streams import StreamDriver, StreamReader, stream_sink
from oriel.pipeline.windows import Duration, IllegalArgument, IllegalArgumentType, to_ms
from oriel.storage import sink_name

#: Kafka's partitions have 32 bits.
_PARTITIONS = range(2**31)

#: Which method reads a store of which kind of windows.
_READ_BY = {
    "tumbling": "window_store",
    "hopping": "window_store",
    "sliding": "window_store",
    "session": "session_store",
    "none": "key_value_store",
}


class TopologyTestDriver(DriverWords):
    """Runs a topology in this process with the pipeline's own stamps and engines.

    Row-wise expressions, if the topology has any, run on one local Spark session that is
    started when it is first needed; a topology without any needs neither Spark nor Java.
    """

    def __init__(
        self,
        topology: Topology,
        *,
        initial_wall_clock_ms: int = 0,
        max_ahead_ms: Duration | None = None,
        idle_after_ms: Duration | None = None,
        collect_function_errors: bool = False,
    ) -> None:
        """Check the topology and begin with empty stores.

        Wall clock stands still at ``initial_wall_clock_ms`` until ``advance_wall_clock_time``. As
        with ``oriel run``, a record more than ``max_ahead_ms`` ahead of it is a dead letter, and a
        partition silent for more than ``idle_after_ms`` of it is not waited for; None: off.

        If a function of the topology raises, ``pipe_input`` raises FunctionRaised. With
        ``collect_function_errors`` it only adds a dead letter, as ``oriel run`` does.

        Raises:
            IllegalArgument: it is no topology, but a builder, say; or a time is no duration.
            InvalidTopology: a step does not fit; the message names it.
        """
        if not isinstance(topology, Topology):
            message = (
                "TopologyTestDriver: expects the topology that a builder's build() returns, "
                f"not {topology!r}"
            )
            raise IllegalArgument(message)
        self._topology = topology
        self._collects_function_errors = collect_function_errors
        # First: whoever reads a schema later doesn't know whose it is.
        self._schemas = {
            source: arrow_schema(source.schema, str(source)) for source in topology.sources
        }
        self._stores: dict[str, StoreDriver] = {}
        for store in topology.stores:
            self._stores[store.name] = StoreDriver(store, self._stores)
        self._sinks = {sink.name: StreamDriver(sink, self._stores) for sink in topology.sinks}
        self._streams: list[StreamDriver] = []
        settings = ClockSettings(
            None if max_ahead_ms is None else to_ms(max_ahead_ms, "max_ahead_ms"),
            None if idle_after_ms is None else to_ms(idle_after_ms, "idle_after_ms"),
        )
        self._wall_clock = WallClock(initial_wall_clock_ms, initial_wall_clock_ms, settings)
        self._offsets: dict[tuple[str, int], int] = {}

    def pipe_input(
        self, topic: str, records: Sequence[Record] | Record, partition: int = 0
    ) -> None:
        """Process ``records`` of one partition of ``topic`` as one micro-batch.

        Offsets count the records of each partition from 0. A partition is known from its first
        batch on, which may be empty: windows wait for all partitions that are known, and one
        that appears later begins at the slowest clock of the others.

        Raises:
            FunctionRaised: a function of the topology raised, and the driver does not collect
                function errors. The batch is processed, and the record is a dead letter.
            IllegalArgument: the topology does not read the topic, the partition is no number
                from 0 to 2**31 - 1, or a record has a column that the topic's schema does not have.
            IllegalArgumentType: one is no ``Record``.
            InvalidTopology: the partition's number is too large for a join of streams.
        """
        self._check_partition(topic, partition)
        if not isinstance(records, Record | Iterable):
            message = f"pipe_input: pass a Record or a list of records, not {records!r}"
            raise IllegalArgumentType(message)
        batch = [records] if isinstance(records, Record) else list(records)
        self._clear_output()
        self._process(topic, partition, batch)

    def pipe_inputs(self, inputs: Iterable[tuple[str, Record] | tuple[str, Record, int]]) -> None:
        """Process records of any topics and partitions in this order.

        Each is what ``pipe_input`` takes: a topic, a record, and its partition if it is not 0.
        Records of one partition that follow each other are one micro-batch.

        Raises:
            FunctionRaised: as from ``pipe_input``; records after the batch are not processed.
            IllegalArgument: as from ``pipe_input``; nothing is processed if a topic or a partition
                is wrong.
        """
        batches: list[tuple[str, int, list[Record]]] = []
        for one in inputs:
            if not isinstance(one, tuple) or len(one) not in {2, 3}:
                message = (
                    "pipe_inputs: expects a list of (topic, record) or (topic, record, partition), "
                    f"and one is {one!r}"
                )
                raise IllegalArgumentType(message)
            topic, record, partition = one if len(one) == 3 else (*one, 0)
            self._check_partition(topic, partition)
            if not batches or batches[-1][:2] != (topic, partition):
                batches.append((topic, partition, []))
            batches[-1][2].append(record)
        self._clear_output()
        for batch in batches:
            self._process(*batch)

    def _check_partition(self, topic: str, partition: int) -> None:
        topics = dict.fromkeys(source.topic for source in self._schemas)
        if topic not in topics:
            known = ", ".join(topics)
            message = f"the topology does not read topic {topic!r}. Its topics are: {known}"
            raise IllegalArgument(message)
        is_number = isinstance(partition, int) and not isinstance(partition, bool)
        if not is_number or partition not in _PARTITIONS:
            message = f"a partition is a number from 0 to {_PARTITIONS[-1]}, not {partition!r}"
            raise IllegalArgument(message)

    def _clear_output(self) -> None:
        for store in self._stores.values():
            store.output = []

    def _process(self, topic: str, partition: int, batch: list[Record]) -> None:
        schemas = [schema for source, schema in self._schemas.items() if source.topic == topic]
        refuse_unknown_columns(topic, batch, schemas)
        letters = [(unit, len(unit.dead_letters)) for unit in self._units]
        first = self._offsets.get((topic, partition), 0)
        piped: dict[Source, pa.Table] = {
            source: refuse_ahead(
                decoded(batch, schema, partition, first, source.consumed),
                self._wall_clock.latest_ms,
            )
            for source, schema in self._schemas.items()
            if source.topic == topic
        }
        self._offsets[topic, partition] = first + len(batch)
        # Stores stand behind those that they read.
        for store_driver in self._units:
            store = store_driver.store
            of_store = {source: rows for source, rows in piped.items() if source in store.sources}
            if of_store:
                store_driver.process(of_store, partition, self._wall_clock)
                self._pipe_final_rows(store, piped)
        if not self._collects_function_errors:
            _raise_function_error(chain(*(unit.dead_letters[old:] for unit, old in letters)))

    def _pipe_final_rows(self, store: Store, piped: dict[Source, pa.Table]) -> None:
        """Let the stores behind ``store`` read what it made final in this batch."""
        source = StoreSource.of(store.name)
        drivers = self._units
        if any(source in other.store.reads_stores for other in drivers):
            first = self._offsets.get((source.topic, 0), 0)
            piped[source] = self._stores[store.name].final_records(first)
            self._offsets[source.topic, 0] = first + len(piped[source])

    def advance_wall_clock_time(self, advance_ms: Duration) -> None:
        """Let wall clock go on by ``advance_ms``; what that changes shows with the next batch.

        Raises:
            IllegalArgument: it is no duration.
        """
        now_ms = self._wall_clock.now_ms + to_ms(advance_ms, "advance_ms")
        self._wall_clock = self._wall_clock.at(now_ms)

    def read_output(self, store: str) -> list[dict[str, Any]]:
        """The rows that the last call of ``pipe_input`` or ``pipe_inputs`` wrote to ``store``.

        By key and window, batch by batch. Each has key, window_start_ms, window_end_ms, the
        aggregates, timestamp_ms, final and deleted; a store without windows has no window and no
        final. What was never written is not deleted here, though it may be in a table.

        Raises:
            IllegalArgument: there is no such store.
        """
        store_driver = self._store(store)
        return rows_for_users(store_driver, store_driver.output)

    @overload
    def create_output_reader(self, of: str) -> OutputReader: ...

    @overload
    def create_output_reader(self, of: KStream) -> StreamReader: ...

    def create_output_reader(self, of: str | KStream) -> OutputReader | StreamReader:
        """A reader of all rows of a store, or of all records of a stream, each once.

        Of a store, which is named, it begins with the first row that was written. A stream is
        read behind its last step or join, whatever is behind that, as if it were written to a
        topic. Its reader is made before the first record is piped; its topics may be piped into
        from then on. Several readers don't hinder each other.

        Raises:
            IllegalArgument: there is no such store; or it is made too late for a stream, or for
                something else.
            InvalidTopology: a step of the stream does not fit; the message names it.
        """
        if isinstance(of, str):
            return OutputReader(self._store(of))
        if not isinstance(of, KStream):
            message = (
                "create_output_reader: expects the name of a store, or a stream (of a table its "
                f"to_stream()), not {of!r}"
            )
            raise IllegalArgument(message)
        if self._offsets:
            message = (
                "create_output_reader: create the reader of a stream before the first "
                "record is piped, because a join needs all records"
            )
            raise IllegalArgument(message)
        store = stream_sink(of)
        stream_driver = StreamDriver(store, self._stores)
        for source in store.sources:
            if not isinstance(source, StoreSource):
                self._schemas[source] = arrow_schema(source.schema, str(source))
        self._streams.append(stream_driver)
        return StreamReader(stream_driver)

    def create_output_topic(self, topic: str) -> StreamReader:
        """A reader of all records that a stream has written to ``topic``, each once.

        It begins with the first one that was written.

        Raises:
            IllegalArgument: no stream is written to the topic. (A store's rows, whatever topic
                they are written to, are read by ``create_output_reader``.)
        """
        sink = self._sinks.get(sink_name(topic))
        if sink is None:
            known = [each.publications[0].topic for each in self._topology.sinks]
            message = (
                f"no stream is written to topic {topic!r}. Output topics are: "
                f"{', '.join(known) or 'none'}. Rows of a store: create_output_reader(store)"
            )
            raise IllegalArgument(message)
        return StreamReader(sink, f"topic {topic!r}")

    def window_store(self, name: str) -> ReadOnlyWindowStore:
        """The store of tumbling, hopping or sliding windows of that name, as it is at each read.

        Raises:
            IllegalArgument: there is none, or it is of another kind.
        """
        return ReadOnlyWindowStore(self._of_kind(name, "window_store").content)

    def session_store(self, name: str) -> ReadOnlySessionStore:
        """The store of sessions of that name, as it is at each read.

        Raises:
            IllegalArgument: there is none, or it is of another kind.
        """
        return ReadOnlySessionStore(self._of_kind(name, "session_store").content)

    def key_value_store(self, name: str) -> ReadOnlyKeyValueStore:
        """The store without windows of that name, as it is at each read.

        Raises:
            IllegalArgument: there is none, or it is of another kind.
        """
        return ReadOnlyKeyValueStore(self._of_kind(name, "key_value_store").content)

    def counters(self, store: str) -> Counters:
        """What became of the records that ``store`` was given; a stream's topic is ``to(TOPIC)``.

        Raises:
            IllegalArgument: there is no such store.
        """
        return self._unit(store).counters

    @property
    def late(self) -> int:
        """Records, their elements, and results of joins, that came too late, over all stores.

        And over all topics that streams are written to.
        """
        counters = [unit.counters for unit in (*self._stores.values(), *self._sinks.values())]
        return sum(one.late + one.late_results + one.elements_late for one in counters)

    @property
    def dropped(self) -> int:
        """Records, their elements, and results of joins, that are dead letters, over all stores.

        And over all topics that streams are written to.
        A record that is left out of some sliding windows only, because a function raised, has
        dead letters but isn't one of these: it counts as applied.
        """
        counters = [unit.counters for unit in (*self._stores.values(), *self._sinks.values())]
        return sum(one.dropped + one.dropped_results + one.elements_dropped for one in counters)

    def dead_letters(self, store: str) -> list[dict[str, Any]]:
        """All dead letters of ``store``: topic, partition, offset, store, reason, detail, raw.

        And key, timestamp_ms and headers, where they are known. A stream's topic is ``to(TOPIC)``.

        Raises:
            IllegalArgument: there is no such store.
        """
        return deepcopy(self._unit(store).dead_letters)

    def close(self) -> None:
        """Nothing is held open; for those who end their tests with it."""

    def __enter__(self) -> Self:
        """Use the driver in a ``with`` statement."""
        return self

    def __exit__(self, *_error: object) -> None:
        """End."""
        self.close()

    def _store(self, name: str) -> StoreDriver:
        if name not in self._stores:
            known = ", ".join(self._stores) or "none"
            message = f"store {name!r} does not exist. The stores are: {known}"
            if sink_name(name) in self._sinks:
                message += (
                    f". A stream writes a topic of that name: create_output_topic({name!r}), "
                    f"and counters and dead letters of {sink_name(name)!r}"
                )
            raise IllegalArgument(message)
        return self._stores[name]

    @property
    def _units(self) -> tuple[StoreDriver, ...]:
        """All that batches are processed by, each behind the stores that it reads."""
        return (*self._stores.values(), *self._sinks.values(), *self._streams)

    def _unit(self, name: str) -> StoreDriver:
        """A store or a sink."""
        return self._sinks.get(name) or self._store(name)

    def _of_kind(self, name: str, method: str) -> StoreDriver:
        store_driver = self._store(name)
        kind = store_driver.store.windows.kind
        fitting = _READ_BY[kind]
        if fitting != method:
            windows = "no windows" if kind == "none" else f"{kind} windows"
            message = f"store {name!r} has {windows}: read it with {fitting}({name!r})"
            raise IllegalArgument(message)
        return store_driver


def _raise_function_error(letters: Iterable[dict[str, Any]]) -> None:
    """Raise for the first dead letter of a function that raised, if there is one."""
    raised = [letter for letter in letters if letter["reason"] == Reason.FUNCTION_RAISED]
    if not raised:
        return
    first = raised[0]
    others = f" ({len(raised):,} dead letters in this batch)" if len(raised) > 1 else ""
    message = (
        f"topic {first['topic']!r}, partition {first['partition']}, offset {first['offset']}: "
        f"{first['detail']}{others}. To collect such errors as dead letters, create the driver "
        "with collect_function_errors=True"
    )
    raise FunctionRaised(message)
