"""The builder of topologies, with the method names of Kafka Streams.

    builder = StreamsBuilder()
    (
        builder.stream("flights", schema="carrier STRING, dep_delay DOUBLE")
        .filter("dep_delay IS NOT NULL")
        .group_by_key()
        .windowed_by(SlidingWindows.of_time_difference_and_grace(1_800_000, 7_200_000))
        .aggregate(departures=count(), mean_delay=avg("dep_delay"))
        .materialize("departures_by_origin")
    )
    topology = builder.build()

Row-wise steps accept Spark expressions, as SQL strings or as a ``Column``. Each call returns a new
object, so several stores can read one stream.
"""

from typing import Literal

from oriel.pipeline.errors import InvalidTopology
from oriel.pipeline.language.arguments import checked_period
from oriel.pipeline.language.formats import JSON_RECORDS, Consumed, checked_consumed
from oriel.pipeline.language.kafka_hints import CallHints
from oriel.pipeline.language.names import check_topic
from oriel.pipeline.language.registry import Registry
from oriel.pipeline.language.streams import KStream
from oriel.pipeline.language.tables import GlobalKTable, SourceTable, VersionedTable
from oriel.pipeline.language.topology import (
    Node,
    Read,
    Source,
    Topology,
)
from oriel.pipeline.windows import Duration


class StreamsBuilder(CallHints):
    """Define a topology, like ``StreamsBuilder`` of Kafka Streams.

    Read topics with ``stream``, ``table``, ``versioned_table`` and ``global_table``, and call
    ``build`` last.

    Example:
        >>> builder = StreamsBuilder()
        >>> clicks = builder.stream("clicks", schema="page STRING, ms BIGINT")
        >>> store = clicks.group_by("page").count().materialize("clicks_by_page")
        >>> topology = builder.build()
    """

    def __init__(self) -> None:
        self.registry = Registry()

    def stream(self, topic: str, schema: str, consumed: Consumed = JSON_RECORDS) -> KStream:
        """Read a topic as a stream of records.

        It corresponds to ``StreamsBuilder.stream`` of Kafka Streams. To read several topics, call
        it for each topic, and ``merge`` the streams. A record whose value does not fit the schema
        becomes a dead letter.

        Args:
            topic: The name of the topic: 1 to 249 characters of ``A-Z``, ``a-z``, ``0-9``, ``.``,
                ``_`` and ``-``.
            schema: The columns of the value as Spark DDL, for example
                ``"carrier STRING, dep_delay DOUBLE"``. Spark checks it when the pipeline starts.
            consumed: The formats of keys and values, the time of a record, and the headers that
                become columns. Default: string keys, JSON values, the time of the message.

        Returns:
            The stream. Oriel reads each topic once, also if several calls read it.

        Raises:
            InvalidTopology: The name of the topic is invalid, ``schema`` is not a non-empty string,
                or ``consumed`` is not a ``Consumed`` or does not fit the schema.

        Example:
            >>> builder.stream("clicks", schema="page STRING, ms BIGINT")
            <KStream stream('clicks')>
        """
        source = _source("stream", topic, schema, consumed)
        return KStream(self.registry, (Node(Read(source)),))

    def table(self, topic: str, schema: str, consumed: Consumed = JSON_RECORDS) -> SourceTable:
        """Read a topic as a table, in which the newest record of a key is its row.

        It corresponds to ``StreamsBuilder.table`` of Kafka Streams. A record with a null value is a
        tombstone and deletes the row of its key (semantics.md#1-2). A record with a null key
        becomes a dead letter.

        Args:
            topic: The name of the topic, as for ``stream``.
            schema: The columns of the value as Spark DDL.
            consumed: The formats, time and headers of the records, as for ``stream``.

        Returns:
            The table, for joins, ``group_by``, ``to_stream`` and ``materialize``.

        Raises:
            InvalidTopology: An argument is invalid for ``stream``.

        Example:
            >>> users = builder.table("users", schema="city STRING")
            >>> in_cities = flights.join(users)
        """
        source = _source("table", topic, schema, consumed)
        return SourceTable(self.registry, Node(Read(source)))

    def versioned_table(
        self,
        topic: str,
        schema: str,
        history_retention_ms: Duration,
        consumed: Consumed = JSON_RECORDS,
    ) -> VersionedTable:
        """Read a topic as a table that keeps earlier versions of its rows.

        A stream that joins the table finds the row as of the time of its record. It corresponds to
        a table with ``Stores.persistentVersionedKeyValueStore`` in Kafka Streams (KIP-889).

        Args:
            topic: The name of the topic, as for ``stream``.
            schema: The columns of the value as Spark DDL.
            history_retention_ms: How long a version is kept after the time of the newest record of
                its partition, in milliseconds or as a ``timedelta``. The newest version of a key is
                always kept.
            consumed: The formats, time and headers of the records, as for ``stream``.

        Returns:
            The table. Join it with ``stream.join(table)`` or ``left_join``.

        Raises:
            InvalidTopology: An argument is invalid for ``stream``, or the retention is negative.
            IllegalArgument: The retention is not an integer number of milliseconds or a
                ``timedelta``, or it exceeds the times that the pipeline supports.

        Example:
            >>> fares = builder.versioned_table("fares", "price DOUBLE", 86_400_000)
            >>> priced = flights.join(fares, grace_ms=60_000)
        """
        source = _source("versioned_table", topic, schema, consumed)
        step = f"versioned_table({topic!r}): history_retention_ms"
        history_ms = checked_period(step, history_retention_ms)
        return VersionedTable(self.registry, Node(Read(source)), history_ms)

    def global_table(
        self, topic: str, schema: str, consumed: Consumed = JSON_RECORDS
    ) -> GlobalKTable:
        """Read a topic as a global table, which a stream joins by any expression.

        It corresponds to ``StreamsBuilder.globalTable`` of Kafka Streams (KIP-99), which reads the
        topic to its end before it processes a stream. In Oriel, the table records of a batch apply
        before the stream records of the batch, as with ``table``.

        Args:
            topic: The name of the topic, as for ``stream``.
            schema: The columns of the value as Spark DDL.
            consumed: The formats, time and headers of the records, as for ``stream``.

        Returns:
            The table. Join it with ``stream.join(table, key="expression")`` or ``left_join``.

        Raises:
            InvalidTopology: An argument is invalid for ``stream``.

        Example:
            >>> carriers = builder.global_table("carriers", schema="name STRING")
            >>> named = flights.left_join(carriers, key="upper(carrier)")
        """
        source = _source("global_table", topic, schema, consumed)
        return GlobalKTable(self.registry, Node(Read(source)))

    def build(self) -> Topology:
        """Return the topology that ``oriel run`` and ``TopologyTestDriver`` run.

        It corresponds to ``StreamsBuilder.build`` of Kafka Streams. In a file for ``oriel run``,
        assign the result to ``topology``.

        Returns:
            The topology, with all stores and output topics of this builder.

        Raises:
            InvalidTopology: The topology has neither a store nor an output topic, an aggregation is
                neither materialized nor read, or the topology reads a topic that it writes.

        Example:
            >>> store = flights.group_by_key().count().materialize("flights")
            >>> print(builder.build().describe(), end="")
            Topology
              Store: flights (no windows)
                Input: stream('flights').group_by_key()
                Rows: count=count()
        """
        if self.registry.waiting:
            lost = " and ".join(self.registry.waiting.values())
            message = f"an aggregation has no store: {lost}. Add .materialize(name)"
            raise InvalidTopology(message)
        topology = Topology(tuple(self.registry.stores), tuple(self.registry.sinks))
        if not topology.units:
            message = (
                "the topology has no store and no output topic. End an aggregation with "
                ".materialize(name), or a stream with .to(topic)"
            )
            raise InvalidTopology(message)
        for unit in topology.units:
            for publication in unit.publications:
                if publication.topic in topology.topics:
                    message = (
                        f"to({publication.topic!r}): the topology reads this topic, so it would "
                        "read what it writes. Continue with the stream that to() returns, or "
                        "use another topic"
                    )
                    raise InvalidTopology(message)
        return topology


def _source(
    step: Literal["stream", "table", "versioned_table", "global_table"],
    topic: str,
    schema: str,
    consumed: Consumed,
) -> Source:
    if isinstance(topic, list | tuple | set):
        message = (
            f"{step}: topic must be one topic, not {topic!r}. To read several topics, merge: "
            "stream('a', schema).merge(stream('b', schema))"
        )
        raise InvalidTopology(message)
    for argument, text in (("topic", topic), ("schema", schema)):
        if not isinstance(text, str) or not text.strip():
            message = f"{step}: {argument} must be a non-empty string, not {text!r}"
            raise InvalidTopology(message)
    check_topic(topic)
    return Source(topic, schema, step, checked_consumed(f"{step}({topic!r})", schema, consumed))
