"""The stores and the output topics of a topology."""

from dataclasses import dataclass

from oriel.pipeline.language.topology.aggregations import Publication
from oriel.pipeline.language.topology.nodes import Node, Rows, TableHistory
from oriel.pipeline.windows import Windows
from oriel.storage import TEXT, KeyType, sink_name


@dataclass(frozen=True)
class StoreNode:
    """A store, which ``materialize`` creates.

    Attributes:
        name: The name of the store.
        rows: The aggregation, the table, or the versions of a table.
        retention_ms: How much history reads show, in milliseconds. None: all.
        key_type: The type of the keys.
        publications: The Kafka topics that the rows are written to.
        final_table: Whether the final rows are also appended to a table of their own.
        mergeable: Whether the rows keep their partial aggregates.
    """

    name: str
    rows: Rows | Node | TableHistory
    retention_ms: int | None = None
    key_type: KeyType = TEXT
    publications: tuple[Publication, ...] = ()
    final_table: bool = False
    mergeable: bool = False

    @property
    def windows(self) -> Windows:
        """The windows, or ``NoWindows``."""
        return self.rows.windows

    @property
    def inputs(self) -> tuple[Node, ...]:
        """The nodes that it reads."""
        return self.rows.inputs


@dataclass(frozen=True)
class SinkNode:
    """An output topic of a stream, which ``KStream.to`` creates.

    Attributes:
        inputs: The nodes of the stream. Only a merged stream has several nodes.
        publications: The Kafka topic.
    """

    inputs: tuple[Node, ...]
    publications: tuple[Publication, ...]

    @property
    def name(self) -> str:
        """The name of the sink, ``to(TOPIC)``."""
        return sink_name(self.publications[0].topic)
