"""What a builder has so far: stores and sinks, and which topics are written."""

from dataclasses import dataclass, field, replace

from oriel.pipeline.errors import InvalidTopology
from oriel.pipeline.language.aggregation import Publication, Records
from oriel.pipeline.language.names import check_new_store, check_topic
from oriel.pipeline.language.topology import Input, Store
from oriel.pipeline.windows import EmitStrategy, NoWindows
from oriel.storage import sink_name


@dataclass
class Registry:
    """What a builder has so far: stores, sinks, and aggregations that wait for a store."""

    stores: list[Store] = field(default_factory=list)
    sinks: list[Store] = field(default_factory=list)
    #: As they are written.
    waiting: dict[object, str] = field(default_factory=dict)

    def new_store_name(self, name: str) -> str:
        """Return ``name``.

        Raises:
            InvalidTopology: it is no store name, or taken by another store of the builder.
        """
        return check_new_store(name, [store.name for store in self.stores])

    def publish(self, store_name: str | None, topic: str, *, final_only: bool) -> None:
        """Let the rows of a store be written to a Kafka topic.

        Raises:
            InvalidTopology: there is no such store, it has no final rows where these are asked
                for, or the topic's name is not valid or taken.
        """
        number = next((n for n, s in enumerate(self.stores) if s.name == store_name), None)
        if number is None:
            message = f"to({topic!r}): give it a store first, with materialize"
            raise InvalidTopology(message)
        store = self.stores[number]
        if final_only and isinstance(store.windows, NoWindows):
            message = f"to({topic!r}): without windows there are no final rows"
            raise InvalidTopology(message)
        publication = Publication(self._new_topic(topic), final_only)
        self.stores[number] = replace(store, publications=(*store.publications, publication))

    def add_sink(self, inputs: tuple[Input, ...], topic: str) -> None:
        """Let the records of ``inputs`` be written to a Kafka topic.

        Raises:
            InvalidTopology: the topic's name is not valid or taken.
        """
        published = (Publication(self._new_topic(topic)),)
        emit = EmitStrategy.on_window_update()
        sink = Store(sink_name(topic), inputs, NoWindows(), Records(), emit, None, published)
        self.sinks.append(sink)

    def _new_topic(self, topic: str) -> str:
        """Return ``topic``.

        Raises:
            InvalidTopology: its name is not valid, or somebody writes to it already.
        """
        writers = (*self.stores, *self.sinks)
        if check_topic(topic) in {each.topic for one in writers for each in one.publications}:
            message = (
                f"to({topic!r}): two calls write to this topic; merge the streams, or use another"
            )
            raise InvalidTopology(message)
        return topic
