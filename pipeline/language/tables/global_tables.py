"""Global tables, which streams join by any key."""

from dataclasses import dataclass

from oriel.pipeline.language.kafka_hints import CallHints
from oriel.pipeline.language.registry import Registry
from oriel.pipeline.language.topology import Node


@dataclass(frozen=True, repr=False)
class GlobalKTable(CallHints):
    """A topic as a table that streams join by any key.

    Create it with ``StreamsBuilder.global_table``, and join a stream with ``stream.join(table,
    key="expression")``. It corresponds to ``GlobalKTable`` of Kafka Streams, and has no other
    steps.

    Example:
        >>> countries = builder.global_table("countries", schema="title STRING")
        >>> named = flights.left_join(countries, key="upper(carrier)")
    """

    registry: Registry
    origin: Node

    def __repr__(self) -> str:
        """Return the call that creates the table, for messages."""
        return f"<GlobalKTable {self.origin.operation.source}>"
