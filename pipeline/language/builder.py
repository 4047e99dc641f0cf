"""The topology language, in Kafka Streams' words.

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

Row-wise steps are Spark column expressions, given as SQL text or as a ``Column``. Each
call returns a new object, so a stream may be used for several stores.
"""

from typing import Literal

from oriel.pipeline.errors import InvalidTopology
from oriel.pipeline.language.arguments import checked_period
from oriel.pipeline.language.formats import JSON_RECORDS, Consumed, checked_consumed
from oriel.pipeline.language.ktables import GlobalKTable, Registry
from oriel.pipeline.language.names import check_topic
from oriel.pipeline.language.other_words import OtherWords
from oriel.pipeline.language.source_tables import SourceTable, VersionedTable
from oriel.pipeline.language.streams import KStream
from oriel.pipeline.language.topology import (
    Input,
    Source,
    Topology,
)
from oriel.pipeline.windows import Duration


class StreamsBuilder(OtherWords):
    """Where a topology begins; ``build`` ends it."""

    def __init__(self) -> None:
        """Begin an empty topology."""
        self.registry = Registry()

    def stream(self, topic: str, schema: str, consumed: Consumed = JSON_RECORDS) -> KStream:
        """Read ``topic``; ``schema`` names the value's columns in Spark's DDL.

        For example ``"carrier STRING, dep_delay DOUBLE"``. A record whose value does not fit goes
        to the dead letters. ``consumed`` says in what bytes keys and values are, what the
        records' time is, and which headers are columns.

        Raises:
            InvalidTopology: the topic's name is not valid (Kafka's rule), the schema is empty or
                no text, or does not fit ``consumed``. (Whether it can be read shows when the
                topology is run.)
        """
        source = _source("stream", topic, schema, consumed)
        return KStream(self.registry, (Input(source, (), ()),))

    def table(self, topic: str, schema: str, consumed: Consumed = JSON_RECORDS) -> SourceTable:
        """Read ``topic`` as a table: a key's newest record is its row, no value deletes it.

        Raises:
            InvalidTopology: the topic's name is not valid (Kafka's rule), the schema is empty or
                no text, or does not fit ``consumed``.
        """
        source = _source("table", topic, schema, consumed)
        return SourceTable(self.registry, (Input(source, (), ()),))

    def versioned_table(
        self,
        topic: str,
        schema: str,
        history_retention_ms: Duration,
        consumed: Consumed = JSON_RECORDS,
    ) -> VersionedTable:
        """Read ``topic`` as a table whose rows a stream joins as of its records' time.

        Versions are kept for ``history_retention_ms`` (a number of ms or a ``timedelta``) behind
        the newest record of their partition; the newest one of a key stays for good. It is what
        Kafka Streams has with ``Stores.persistentVersionedKeyValueStore``.

        Raises:
            InvalidTopology: as from ``table``, or the retention is negative.
            IllegalArgument: the retention is no number of ms that fits into 64 bits.
        """
        source = _source("versioned_table", topic, schema, consumed)
        step = f"versioned_table({topic!r}): history_retention_ms"
        history_ms = checked_period(step, history_retention_ms)
        return VersionedTable(self.registry, Input(source, (), ()), history_ms)

    def global_table(
        self, topic: str, schema: str, consumed: Consumed = JSON_RECORDS
    ) -> GlobalKTable:
        """Read ``topic`` as a global table, which streams look up by any key that they make.

        Kafka Streams reads such a topic to its end before a stream begins. Here the table's
        records of a batch take effect before the stream's of that batch, as with ``table``.

        Raises:
            InvalidTopology: as from ``table``.
        """
        source = _source("global_table", topic, schema, consumed)
        return GlobalKTable(self.registry, Input(source, (), ()))

    def build(self) -> Topology:
        """Return the topology.

        Raises:
            InvalidTopology: there is neither a store nor a stream that is written to a topic, an
                aggregation was never materialized, or a topic is written that the topology reads.
        """
        if self.registry.waiting:
            lost = "; ".join(self.registry.waiting.values())
            message = f"aggregation without a store, add .materialize(name): {lost}"
            raise InvalidTopology(message)
        topology = Topology(tuple(self.registry.stores), tuple(self.registry.sinks))
        if not topology.units:
            message = (
                "the topology has no store: end an aggregation with .materialize(name), or a "
                "stream with .to(topic)"
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
            f"{step}: reads one topic, not {topic!r}. Merge the streams of several: "
            "stream('a', schema).merge(stream('b', schema))"
        )
        raise InvalidTopology(message)
    for argument, text in (("topic", topic), ("schema", schema)):
        if not isinstance(text, str) or not text.strip():
            message = f"{step}: {argument} must be a text that is not empty, not {text!r}"
            raise InvalidTopology(message)
    check_topic(topic)
    return Source(topic, schema, step, checked_consumed(f"{step}({topic!r})", schema, consumed))
