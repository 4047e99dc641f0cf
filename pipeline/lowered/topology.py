"""A topology as the pipeline runs it: its stores and sinks with lowered inputs, and its texts."""

from dataclasses import dataclass

from oriel.pipeline.language import Source, StoreSource
from oriel.pipeline.lowered.drawing import drawn
from oriel.pipeline.lowered.inputs import as_join_input
from oriel.pipeline.lowered.stores import Store
from oriel.pipeline.lowered.written import step_calls, written
from oriel.storage import Drawing


@dataclass(frozen=True)
class LoweredTopology:
    """The stores and sinks of a ``Topology``, with lowered inputs.

    Attributes:
        stores: The stores, in the order of the calls of ``materialize``.
        sinks: The output topics of streams, in the order of the calls of ``KStream.to``.
    """

    stores: tuple[Store, ...]
    sinks: tuple[Store, ...] = ()

    @property
    def units(self) -> tuple[Store, ...]:
        """All nodes that a batch computes: the stores, then the sinks."""
        return (*self.stores, *self.sinks)

    @property
    def sources(self) -> tuple[Source, ...]:
        """The sources that are topics, without duplicates, in the order of first use."""
        sources = dict.fromkeys(source for node in self.units for source in node.sources)
        return tuple(source for source in sources if not source.store_name)

    @property
    def topics(self) -> tuple[str, ...]:
        """The names of the topics, without duplicates, in the order of first use."""
        return tuple(dict.fromkeys(source.topic for source in self.sources))

    @property
    def levels(self) -> tuple[tuple[str, ...], ...]:
        """The names of stores and sinks in levels. A level only reads stores of earlier levels."""
        depth_of: dict[str, int] = {}
        for store in self.units:
            upstream_depths = [depth_of[source.store_name] for source in store.reads_stores]
            depth_of[store.name] = 1 + max(upstream_depths, default=-1)
        depths = range(1 + max(depth_of.values(), default=-1))
        return tuple(
            tuple(name for name, depth in depth_of.items() if depth == level) for level in depths
        )

    def readers_of(self, store: str) -> list[str]:
        """Return the names of the stores and sinks that read the rows of a store."""
        source = StoreSource.of(store)
        return [reader.name for reader in self.units if source in reader.reads_stores]

    def describe(self) -> str:
        """Return the text of ``Topology.describe``."""
        lines = ["Topology"]
        for store in self.stores:
            lines.append(f"  Store: {store.name} ({store.kind})")
            # The inputs of a table are not grouped.
            is_table = store.aggregation.is_table
            for origin in store.inputs:
                read = as_join_input(origin) if is_table else origin
                lines.append(f"    Input: {written(read, is_table=is_table)}")
            lines.append(f"    Rows: {store.aggregation}")
            if store.row_steps:
                lines.append(f"    Steps: {'.'.join(step_calls(store.row_steps))}")
            for publication in store.publications:
                final = ", final rows only" if publication.final_only else ""
                lines.append(f"    Sink: topic {publication.topic!r}{final}")
        for sink in self.sinks:
            lines.append(f"  Sink: topic {sink.publications[0].topic!r}")
            # A record is written with its own key, without a grouping.
            lines += [f"    Input: {written(as_join_input(origin))}" for origin in sink.inputs]
        return "\n".join(lines) + "\n"

    def drawing(self) -> Drawing:
        """Return the nodes and arrows of the topology."""
        return drawn(self.topics, self.stores, self.sinks)
