"""What is kept of inputs: stores, and the topics that streams end in."""

from dataclasses import dataclass

from oriel.pipeline.language.topology.aggregations import (
    Aggregation,
    Publication,
    Records,
)
from oriel.pipeline.language.topology.inputs import Input
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
