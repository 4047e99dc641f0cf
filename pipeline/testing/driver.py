"""A test driver like the TopologyTestDriver of Kafka Streams: one process, batch by batch."""

from collections.abc import Iterable, Sequence
from copy import deepcopy
from itertools import chain
from typing import Any, Self, overload

import pyarrow as pa

from oriel.pipeline.decoding import reject_ahead
from oriel.pipeline.language import KStream, Source, StoreSource, Topology, arrow_schema
from oriel.pipeline.lowered import lower
from oriel.pipeline.plan import WallClock, WallClockLimits
from oriel.pipeline.testing.kafka_hints import DriverHints
from oriel.pipeline.testing.output import OutputReader, rows_for_users
from oriel.pipeline.testing.records import Record, check_columns, decoded
from oriel.pipeline.testing.session_store import DriverSessionStore
from oriel.pipeline.testing.store_driver import Counters, StoreDriver, raise_function_error
from oriel.pipeline.testing.stores import DriverKeyValueStore, DriverWindowStore
from oriel.pipeline.testing.streams import StreamDriver, StreamReader, stream_sink
from oriel.pipeline.testing.versioned_store import DriverVersionedStore
from oriel.pipeline.windows import Duration, IllegalArgument, IllegalArgumentType, to_ms
from oriel.storage import sink_name

#: Kafka's partitions have 32 bits.
_PARTITIONS = range(2**31)


class TopologyTestDriver(DriverHints):
    """Runs a topology in a unit test with the engine of ``oriel run``.

    The driver needs no broker and no files. If the topology has SQL expressions, the driver starts
    one local Spark session, which needs Java. Use the driver as a context manager if you like.

    Example:
        >>> worst = flights.group_by_key().aggregate(worst=max("delay")).materialize("worst_delay")
        >>> driver = TopologyTestDriver(builder.build())
        >>> driver.pipe_input("flights", Record("EWR", {"delay": 7}, timestamp_ms=5))
        >>> driver.read_output("worst_delay")
        [{'key': 'EWR', 'worst': 7, 'timestamp_ms': 5, 'deleted': False}]
        >>> driver.key_value_store("worst_delay").get("EWR").value
        {'worst': 7}
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
        """Check the topology and create empty stores.

        Args:
            topology: The topology that ``StreamsBuilder.build()`` returns.
            initial_wall_clock_ms: Wall-clock time in ms since 1970. It does not change until you
                call ``advance_wall_clock_time``.
            max_ahead_ms: A record becomes a dead letter if its time is later than wall-clock time
                by more than this (``oriel run --max-ahead``). Default: no limit.
            idle_after_ms: Windows do not wait for a partition without records for more than this
                of wall-clock time (``oriel run --idle-after``). Default: windows always wait.
            collect_function_errors: Add a dead letter if a function of the topology raises, as
                ``oriel run`` does. Default: ``pipe_input`` raises FunctionRaised.

        Raises:
            IllegalArgument: ``topology`` is not a topology, for example a builder, or a time is
                not a duration.
            InvalidTopology: a step of the topology is invalid. The message names the step.
        """
        if not isinstance(topology, Topology):
            message = (
                "TopologyTestDriver: the argument must be a topology from builder.build(), not "
                f"{topology!r}"
            )
            raise IllegalArgument(message)
        self._topology = lower(topology)
        self._collects_function_errors = collect_function_errors
        # Check schemas first, because only this message can name the source of a schema.
        self._schemas = {
            source: arrow_schema(source.schema, str(source)) for source in self._topology.sources
        }
        self._stores: dict[str, StoreDriver] = {}
        for store in self._topology.stores:
            self._stores[store.name] = StoreDriver(store, self._stores)
        self._sinks = {sink.name: StreamDriver(sink, self._stores) for sink in self._topology.sinks}
        self._streams: list[StreamDriver] = []
        settings = WallClockLimits(
            None if max_ahead_ms is None else to_ms(max_ahead_ms, "max_ahead_ms"),
            None if idle_after_ms is None else to_ms(idle_after_ms, "idle_after_ms"),
        )
        self._wall_clock = WallClock(initial_wall_clock_ms, initial_wall_clock_ms, settings)
        self._offsets: dict[tuple[str, int], int] = {}

    def pipe_input(
        self, topic: str, records: Sequence[Record] | Record, partition: int = 0
    ) -> None:
        """Process records of one partition as one micro-batch.

        Offsets count the records of each partition from 0. Windows wait for every partition that
        you have piped into, also with an empty list. A partition that you add later starts at the
        least stream time of the others.

        Args:
            topic: A topic that the topology reads.
            records: A ``Record`` or a list of them, in the order of the partition.
            partition: The number of the partition. Default: 0.

        Raises:
            FunctionRaised: a function of the topology raised, and the driver does not collect
                function errors. The batch is processed, and the record is a dead letter.
            IllegalArgument: the topology does not read the topic, the partition is not a number
                from 0 to 2**31 - 1, or a record has a column that the schema does not have.
            IllegalArgumentType: one of ``records`` is not a ``Record``.
            InvalidTopology: the number of the partition is too large for a join of streams.
        """
        self._check_partition(topic, partition)
        if not isinstance(records, Record | Iterable):
            message = f"pipe_input: pass a Record or a list of records, not {records!r}"
            raise IllegalArgumentType(message)
        batch = [records] if isinstance(records, Record) else list(records)
        self._clear_output()
        self._process(topic, partition, batch)

    def pipe_inputs(self, inputs: Iterable[tuple[str, Record] | tuple[str, Record, int]]) -> None:
        """Process records of several topics and partitions in this order.

        Successive records of the same partition are one micro-batch.

        Args:
            inputs: Tuples of a topic, a record, and the partition if it is not 0.

        Raises:
            FunctionRaised: as from ``pipe_input``. Records after the batch are not processed.
            IllegalArgument: as from ``pipe_input``. If a topic or a partition is invalid, no record
                is processed.
            IllegalArgumentType: an input is not such a tuple.
        """
        batches: list[tuple[str, int, list[Record]]] = []
        for one in inputs:
            if not isinstance(one, tuple) or len(one) not in {2, 3}:
                message = (
                    "pipe_inputs: each input must be (topic, record) or (topic, record, "
                    f"partition), not {one!r}"
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
            message = f"partition must be an integer from 0 to {_PARTITIONS[-1]}, not {partition!r}"
            raise IllegalArgument(message)

    def _clear_output(self) -> None:
        for store in self._stores.values():
            store.output = []

    def _process(self, topic: str, partition: int, batch: list[Record]) -> None:
        schemas = [schema for source, schema in self._schemas.items() if source.topic == topic]
        check_columns(topic, batch, schemas)
        dead_letter_counts = [(unit, len(unit.dead_letters)) for unit in self._store_drivers]
        first = self._offsets.get((topic, partition), 0)
        piped: dict[Source, pa.Table] = {
            source: reject_ahead(
                decoded(batch, schema, partition, first, source.consumed),
                self._wall_clock.latest_ms,
            )
            for source, schema in self._schemas.items()
            if source.topic == topic
        }
        self._offsets[topic, partition] = first + len(batch)
        # A store is after the stores that it reads.
        for store_driver in self._store_drivers:
            store = store_driver.store
            of_store = {source: rows for source, rows in piped.items() if source in store.sources}
            if of_store:
                store_driver.process(of_store, partition, self._wall_clock)
                # Pass the rows that this batch made final to the stores that read this store.
                source = StoreSource.of(store.name)
                if any(source in other.store.reads_stores for other in self._store_drivers):
                    first = self._offsets.get((source.topic, 0), 0)
                    piped[source] = self._stores[store.name].final_records(first)
                    self._offsets[source.topic, 0] = first + len(piped[source])
        if not self._collects_function_errors:
            raise_function_error(
                chain(*(unit.dead_letters[old:] for unit, old in dead_letter_counts))
            )

    def advance_wall_clock_time(self, advance_ms: Duration) -> None:
        """Advance wall-clock time. The next batch uses the new time.

        Args:
            advance_ms: A number of milliseconds or a ``timedelta``.

        Raises:
            IllegalArgument: ``advance_ms`` is not a duration.
        """
        now_ms = self._wall_clock.now_ms + to_ms(advance_ms, "advance_ms")
        self._wall_clock = self._wall_clock.at(now_ms)

    def read_output(self, store: str) -> list[dict[str, Any]]:
        """Return the rows that the last ``pipe_input`` or ``pipe_inputs`` wrote to a store.

        Args:
            store: The name of the store.

        Returns:
            The rows by batch, key and window. A row has ``key``, ``window_start_ms``,
            ``window_end_ms``, the aggregates, ``timestamp_ms``, ``final`` and ``deleted``. Without
            windows, it has no window and no ``final``. A table can have rows with ``deleted`` for
            windows that never existed, but this list does not.

        Raises:
            IllegalArgument: the store does not exist.
        """
        store_driver = self._store(store)
        return rows_for_users(store_driver, store_driver.output)

    @overload
    def create_output_reader(self, of: str) -> OutputReader: ...

    @overload
    def create_output_reader(self, of: KStream) -> StreamReader: ...

    def create_output_reader(self, of: str | KStream) -> OutputReader | StreamReader:
        """Create a reader that returns each row of a store or each record of a stream once.

        A reader of a store starts at the first row that was written. A reader of a stream returns
        the records after its last step or join, as if you wrote the stream to a topic. Create it
        before you pipe the first record. You can create several readers.

        Args:
            of: The name of a store, or a stream of the topology's builder.

        Returns:
            An ``OutputReader`` for a store, a ``StreamReader`` for a stream.

        Raises:
            IllegalArgument: the store does not exist, ``of`` is neither a name nor a stream, or a
                record has already been piped and ``of`` is a stream.
            InvalidTopology: a step of the stream is invalid. The message names the step.
        """
        if isinstance(of, str):
            return OutputReader(self._store(of))
        if not isinstance(of, KStream):
            message = (
                "create_output_reader: the argument must be the name of a store, or a stream, not "
                f"{of!r}. For a table, use its to_stream()"
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
            if not source.store_name:
                self._schemas[source] = arrow_schema(source.schema, str(source))
        self._streams.append(stream_driver)
        return StreamReader(stream_driver)

    def create_output_topic(self, topic: str) -> StreamReader:
        """Create a reader that returns each record of an output topic once, from the first.

        Args:
            topic: The topic of ``KStream.to``.

        Returns:
            The reader.

        Raises:
            IllegalArgument: no stream is written to the topic. For the rows of a store, use
                ``create_output_reader``.
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

    def window_store(self, name: str) -> DriverWindowStore:
        """Return a store of tumbling, hopping or sliding windows.

        Args:
            name: The name of the store.

        Returns:
            The store. Each read returns the newest rows.

        Raises:
            IllegalArgument: the store does not exist or has another kind.
        """
        return DriverWindowStore(self._store(name).read_by("window_store"))

    def session_store(self, name: str) -> DriverSessionStore:
        """Return a store of sessions.

        Args:
            name: The name of the store.

        Returns:
            The store. Each read returns the newest sessions.

        Raises:
            IllegalArgument: the store does not exist or has another kind.
        """
        return DriverSessionStore(self._store(name).read_by("session_store"))

    def key_value_store(self, name: str) -> DriverKeyValueStore:
        """Return a table or an aggregation without windows.

        Args:
            name: The name of the store.

        Returns:
            The store. Each read returns the newest entries.

        Raises:
            IllegalArgument: the store does not exist or has another kind.
        """
        return DriverKeyValueStore(self._store(name).read_by("key_value_store"))

    def versioned_store(self, name: str) -> DriverVersionedStore:
        """Return a versioned table whose store has its versions.

        Args:
            name: The name of the store.

        Returns:
            The store. Each read returns the newest content.

        Raises:
            IllegalArgument: the store does not exist or has another kind.
        """
        return DriverVersionedStore(self._store(name).read_by("versioned_store"))

    def counters(self, store: str) -> Counters:
        """Count the records of a store by what happened to them.

        Args:
            store: The name of the store, or ``to(TOPIC)`` for an output topic.

        Returns:
            The counters since the driver was created.

        Raises:
            IllegalArgument: the store does not exist.
        """
        return self._unit(store).counters

    def explain(self, store: str) -> str:
        """Return how a store or an output topic is computed.

        Args:
            store: The name of the store, or ``to(TOPIC)`` for an output topic.

        Returns:
            The aggregation, and if it has functions, whether they are compiled or why not.

        Raises:
            IllegalArgument: the store does not exist.

        Example:
            >>> last = flights.group_by_key().reduce(lambda kept, new: new).materialize("last")
            >>> print(TopologyTestDriver(builder.build()).explain("last"))
            Rows: reduce(functions)
            Functions: compiled
        """
        return self._unit(store).plans.explained

    @property
    def late(self) -> int:
        """Late records, flattened records and join results of all stores and output topics."""
        counters = [unit.counters for unit in (*self._stores.values(), *self._sinks.values())]
        return sum(one.late + one.late_results + one.elements_late for one in counters)

    @property
    def dropped(self) -> int:
        """Dead-lettered records and join results of all stores and output topics.

        A record counts as applied if a function raises for some of its sliding windows only.
        """
        counters = [unit.counters for unit in (*self._stores.values(), *self._sinks.values())]
        return sum(one.dropped + one.dropped_results + one.elements_dropped for one in counters)

    def dead_letters(self, store: str) -> list[dict[str, Any]]:
        """Return the dead letters of a store.

        Args:
            store: The name of the store, or ``to(TOPIC)`` for an output topic.

        Returns:
            Dicts with ``topic``, ``partition``, ``offset``, ``store``, ``reason``, ``detail`` and
            ``raw``. They also have ``key``, ``timestamp_ms`` and ``headers`` if these are known.

        Raises:
            IllegalArgument: the store does not exist.
        """
        return deepcopy(self._unit(store).dead_letters)

    def close(self) -> None:
        """Do nothing. The method exists because tests of Kafka Streams call it."""

    def __enter__(self) -> Self:
        """Use the driver in a ``with`` statement."""
        return self

    def __exit__(self, *_error: object) -> None:
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
    def _store_drivers(self) -> tuple[StoreDriver, ...]:
        """All stores, output topics and readers, each after the stores that it reads."""
        return (*self._stores.values(), *self._sinks.values(), *self._streams)

    def _unit(self, name: str) -> StoreDriver:
        """Return a store or an output topic."""
        return self._sinks.get(name) or self._store(name)
