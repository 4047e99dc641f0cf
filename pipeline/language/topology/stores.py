"""A topology as data: the stores and sinks that are kept of inputs; in words, and as a drawing."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from oriel.pipeline.language.topology.aggregations import (
    Aggregation,
    Publication,
    Records,
    TableRows,
)
from oriel.pipeline.language.topology.inputs import Input, side_of
from oriel.pipeline.language.topology.sources import Source, StoreSource
from oriel.pipeline.language.topology.steps import AggregatedRows, Filter, MapValues
from oriel.pipeline.windows import EmitStrategy, Windows
from oriel.storage import TEXT, KeyType


@dataclass(frozen=True)
class Store:
    """One materialized aggregation, or a sink: everything the pipeline has to know about it.

    A sink is the end of a stream in a topic. It has no table; what it has of a store are clocks,
    the state of joins in front, dead letters and counters. ``row_steps`` are those between the
    aggregation and the table.
    """

    name: str
    inputs: tuple[Input, ...]
    windows: Windows
    aggregation: Aggregation
    emit: EmitStrategy
    retention_ms: int | None
    publications: tuple[Publication, ...] = ()
    row_steps: tuple[Filter | MapValues, ...] = ()

    @property
    def aggregated_rows(self) -> AggregatedRows:
        """The rows that the aggregation gives, with their steps."""
        return AggregatedRows(self.row_steps, self.windows.kind != "none")

    @property
    def is_sink(self) -> bool:
        """Whether records go to a topic as they are."""
        return isinstance(self.aggregation, Records)

    @property
    def sources(self) -> tuple[Source, ...]:
        """The distinct sources, in the order of first use."""
        sources = (source for origin in self.inputs for source in origin.sources)
        return tuple(dict.fromkeys(sources))

    @property
    def topics(self) -> tuple[str, ...]:
        """The distinct topics, in the order of first use."""
        return tuple(dict.fromkeys(source.topic for source in self.sources))

    @property
    def streams(self) -> tuple[int, ...]:
        """Which stream of a cogroup each input is, from 0; merged ones are one."""
        return tuple(origin.stream for origin in self.inputs)

    @property
    def reads_stores(self) -> tuple[StoreSource, ...]:
        """The stores whose rows it reads."""
        return tuple(source for source in self.sources if isinstance(source, StoreSource))

    @property
    def key_type(self) -> KeyType:
        """What the keys are, one type for all inputs."""
        return self.inputs[0].key_type

    @property
    def kind(self) -> str:
        """Its windows and what differs from the default, for people."""
        return ", ".join([
            "no windows" if self.windows.kind == "none" else repr(self.windows),
            *([] if self.emit == EmitStrategy.on_window_update() else [self.emit.name]),
            *([] if self.retention_ms is None else [f"retention_ms={self.retention_ms}"]),
            *([] if self.key_type is TEXT else [f"keys: {self.key_type.name}"]),
        ])  # fmt: skip

    @property
    def grouped_by(self) -> str:
        """How the records are joined and grouped; kept in the table, to refuse another topology."""
        return "; ".join(dict.fromkeys(origin.grouping for origin in self.inputs))


@dataclass(frozen=True)
class Topology:
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
                read: object = side_of(origin) if is_table else origin
                lines.append(f"    Input: {read}")
            lines.append(f"    Rows: {store.aggregation}")
            if store.row_steps:
                lines.append(f"    Steps: {store.aggregated_rows}")
            for publication in store.publications:
                final = ", final rows only" if publication.final_only else ""
                lines.append(f"    Sink: topic {publication.topic!r}{final}")
        for sink in self.sinks:
            lines.append(f"  Sink: topic {sink.publications[0].topic!r}")
            # No grouping either: a record goes on with the key that it has.
            lines += [f"    Input: {side_of(origin)}" for origin in sink.inputs]
        return "\n".join(lines) + "\n"

    def to_mermaid(self) -> str:
        """A drawing of the topology in Mermaid's language, which many pages of text draw."""
        lines = ["flowchart LR"]
        drawn = {topic: f"topic{number}" for number, topic in enumerate(self.topics)}
        lines += [f"    {name}[({_quoted(topic)})]" for topic, name in drawn.items()]
        for number, store in enumerate(self.stores):
            drawn[StoreSource.of(store.name).topic] = f"store{number}"
        for number, store in enumerate(self.stores):
            label = "<br>".join(map(str, (store.name, store.kind, *store.row_steps)))
            lines.append(f"    store{number}[{_quoted(label)}]")
            lines += _arrows(store, drawn, f"store{number}")
            for place, publication in enumerate(store.publications):
                published = f"sink{number}_{place}[({_quoted(publication.topic)})]"
                lines.append(f"    store{number} --> {published}")
        for number, sink in enumerate(self.sinks):
            lines.append(f"    sink{number}[({_quoted(sink.publications[0].topic)})]")
            lines += _arrows(sink, drawn, f"sink{number}")
        return "\n".join(lines) + "\n"


def _arrows(unit: Store, drawn: Mapping[str, str], node: str) -> Iterator[str]:
    """From what ``unit`` reads, as it is ``drawn``, to its ``node``, with the steps in between."""
    for origin in unit.inputs:
        for side, join in origin.read_sides:
            steps = _quoted("<br>".join(map(str, (*side.steps, *([join] if join else ())))))
            label = f"|{steps}|" if len(steps) > len('""') else ""
            yield f"    {drawn[side.source.topic]} -->{label} {node}"


def _quoted(text: str) -> str:
    """A label of Mermaid's."""
    return '"' + text.replace("&", "&amp;").replace('"', "&quot;") + '"'
