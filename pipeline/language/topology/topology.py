"""A topology as data: the stores and sinks that are kept of inputs; in words, and as a drawing."""

from dataclasses import dataclass

from oriel.pipeline.language.other_words import OtherWords
from oriel.pipeline.language.topology.aggregations import TableRows
from oriel.pipeline.language.topology.drawing import drawn
from oriel.pipeline.language.topology.inputs import side_of
from oriel.pipeline.language.topology.sources import Source, StoreSource
from oriel.pipeline.language.topology.stores import Store
from oriel.pipeline.language.topology.written import step_words, written


@dataclass(frozen=True)
class Topology(OtherWords):
    """What a pipeline runs: stores in the order in which they were materialized, and sinks."""

    stores: tuple[Store, ...]
    sinks: tuple[Store, ...] = ()

    @property
    def units(self) -> tuple[Store, ...]:
        """All that batches are computed for: the stores, then the sinks."""
        return (*self.stores, *self.sinks)

    @property
    def sources(self) -> tuple[Source, ...]:
        """The distinct sources of topics, in the order of first use."""
        sources = dict.fromkeys(source for unit in self.units for source in unit.sources)
        return tuple(source for source in sources if not isinstance(source, StoreSource))

    @property
    def topics(self) -> tuple[str, ...]:
        """The distinct topics, in the order of first use."""
        return tuple(dict.fromkeys(source.topic for source in self.sources))

    @property
    def waves(self) -> tuple[tuple[str, ...], ...]:
        """Stores and sinks, by how many stores stand in front: each reads those before it."""
        depth_of: dict[str, int] = {}
        for store in self.units:
            in_front = [depth_of[source.store] for source in store.reads_stores]
            depth_of[store.name] = 1 + max(in_front, default=-1)
        depths = range(1 + max(depth_of.values(), default=-1))
        return tuple(
            tuple(name for name, depth in depth_of.items() if depth == wave) for wave in depths
        )

    def readers_of(self, store: str) -> list[str]:
        """The stores that read the rows of a store."""
        source = StoreSource.of(store)
        return [reader.name for reader in self.units if source in reader.reads_stores]

    def describe(self) -> str:
        """The topology in words, as in Kafka: each store with what it reads and writes."""
        lines = ["Topology"]
        for store in self.stores:
            lines.append(f"  Store: {store.name} ({store.kind})")
            # The inputs of a table have no grouping.
            is_table = isinstance(store.aggregation, TableRows)
            for origin in store.inputs:
                read = side_of(origin) if is_table else origin
                lines.append(f"    Input: {written(read, is_table=is_table)}")
            lines.append(f"    Rows: {store.aggregation}")
            if store.row_steps:
                lines.append(f"    Steps: {'.'.join(step_words(store.row_steps))}")
            for publication in store.publications:
                final = ", final rows only" if publication.final_only else ""
                lines.append(f"    Sink: topic {publication.topic!r}{final}")
        for sink in self.sinks:
            lines.append(f"  Sink: topic {sink.publications[0].topic!r}")
            # No grouping either: a record goes on with the key that it has.
            lines += [f"    Input: {written(side_of(origin))}" for origin in sink.inputs]
        return "\n".join(lines) + "\n"

    def to_mermaid(self) -> str:
        """A drawing of the topology in Mermaid's language, which many pages of text draw."""
        return drawn(self.topics, self.stores, self.sinks)
