"""The registry of a builder: its stores, its output topics and its unfinished aggregations."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from oriel.pipeline.errors import InvalidTopology
from oriel.pipeline.language.names import OWN_HEADERS, check_new_store, check_topic
from oriel.pipeline.language.topology import Node, Publication, SinkNode, StoreNode


@dataclass
class Registry:
    """The stores and sinks of a builder, and its unfinished aggregations.

    Attributes:
        stores: The stores, in the order of the calls of ``materialize``.
        sinks: The output topics of streams, in the order of the calls of ``to``.
        waiting: The texts of the aggregations that are neither materialized nor read.
    """

    stores: list[StoreNode] = field(default_factory=list)
    sinks: list[SinkNode] = field(default_factory=list)
    #: The key is an object of the table.
    waiting: dict[object, str] = field(default_factory=dict)

    def new_store_name(self, name: str) -> str:
        """Return ``name`` if a new store can have it.

        Raises:
            InvalidTopology: ``name`` is not a valid store name, or another store has it.
        """
        return check_new_store(name, [store.name for store in self.stores])

    def publish(self, store_name: str | None, topic: str, *, final_only: bool) -> None:
        """Also write the rows of a store to a Kafka topic.

        Raises:
            InvalidTopology: The store does not exist, it has no final rows although ``final_only``
                is set, or the topic name is invalid or used by another call.
        """
        number = next((n for n, s in enumerate(self.stores) if s.name == store_name), None)
        if number is None:
            message = (
                f"to({topic!r}): the table needs a store, whose rows are written. Call materialize "
                f"first, or write each update with to_stream().to({topic!r})"
            )
            raise InvalidTopology(message)
        store = self.stores[number]
        if store.windows.kind == "versioned":
            message = (
                f"to({topic!r}): the store {store.name!r} keeps all versions, and a topic gets the "
                f"newest rows. Write each record with to_stream().to({topic!r}), or also "
                "materialize the table without versions=True"
            )
            raise InvalidTopology(message)
        if final_only and store.windows.kind == "none":
            message = (
                f"to({topic!r}): without windows, rows never become final. Call windowed_by() "
                "before the aggregation"
            )
            raise InvalidTopology(message)
        publication = Publication(self._new_topic(topic), final_only)
        self.stores[number] = replace(store, publications=(*store.publications, publication))

    def add_sink(self, inputs: tuple[Node, ...], topic: str, headers: Mapping[str, str]) -> None:
        """Write the records of ``inputs`` to a Kafka topic, with ``headers`` from their columns.

        Raises:
            InvalidTopology: The topic name is invalid or used by another call, or a header has an
                invalid name or column.
        """
        for name, column in headers.items():
            if not isinstance(name, str) or not name or name in OWN_HEADERS:
                message = (
                    f"to({topic!r}): a header needs a name other than {' and '.join(OWN_HEADERS)}, "
                    f"which each message has, not {name!r}"
                )
                raise InvalidTopology(message)
            if not isinstance(column, str):
                message = (
                    f"to({topic!r}): header {name!r} must be a column of the value, not {column!r}"
                )
                raise InvalidTopology(message)
        publication = Publication(self._new_topic(topic), headers=tuple(headers.items()))
        self.sinks.append(SinkNode(inputs, (publication,)))

    def _new_topic(self, topic: str) -> str:
        """Return ``topic`` if no other call writes to it.

        Raises:
            InvalidTopology: The topic name is invalid or used by another call.
        """
        writers: tuple[StoreNode | SinkNode, ...] = (*self.stores, *self.sinks)
        if check_topic(topic) in {each.topic for one in writers for each in one.publications}:
            message = (
                f"to({topic!r}): two calls write to it. Merge the streams or use another topic"
            )
            raise InvalidTopology(message)
        return topic
