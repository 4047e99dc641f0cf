"""Stores, and the output topics of streams."""

from dataclasses import dataclass

from oriel.pipeline.language.topology.aggregations import (
    Aggregation,
    Publication,
)
from oriel.pipeline.language.topology.inputs import Input
from oriel.pipeline.language.topology.sources import Source
from oriel.pipeline.language.topology.steps import AggregatedRows, Filter, MapValues
from oriel.pipeline.windows import EmitStrategy, Windows
from oriel.storage import TEXT, KeyType


@dataclass(frozen=True)
class Store:
    """A materialized aggregation or table, or a sink.

    A sink writes the records of a stream to a topic. It has no table. Like a store, it has stream
    times, the state of upstream joins, dead letters and counters.

    Attributes:
        name: The name of the store. A sink has the name ``to(TOPIC)``.
        inputs: The inputs. Merged streams, cogroups and joined tables have several.
        windows: The windows, or ``NoWindows``.
        aggregation: The aggregation, or the rows or records to write without one.
        emit: The emit strategy.
        retention_ms: How much history reads show, in milliseconds. None: all.
        publications: The Kafka topics that the rows or records are written to.
        row_steps: The steps between the aggregation and the table.
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
        """The rows of the aggregation, with their steps."""
        return AggregatedRows(self.row_steps, self.windows.kind != "none")

    @property
    def sources(self) -> tuple[Source, ...]:
        """The sources without duplicates, in the order of first use."""
        sources = (source for origin in self.inputs for source in origin.sources)
        return tuple(dict.fromkeys(sources))

    @property
    def topics(self) -> tuple[str, ...]:
        """The names of the topics without duplicates, in the order of first use."""
        return tuple(dict.fromkeys(source.topic for source in self.sources))

    @property
    def streams(self) -> tuple[int, ...]:
        """The index of each input's stream in a cogroup, from 0. Merged inputs share an index."""
        return tuple(origin.stream for origin in self.inputs)

    @property
    def reads_stores(self) -> tuple[Source, ...]:
        """The sources that are final rows of other stores."""
        return tuple(source for source in self.sources if source.store_name)

    @property
    def key_type(self) -> KeyType:
        """The type of the keys, which is the same for all inputs."""
        return self.inputs[0].key_type

    @property
    def kind(self) -> str:
        """The windows, and the options that are not the default, for ``describe``."""
        return ", ".join([
            "no windows" if self.windows.kind == "none" else repr(self.windows),
            *([] if self.emit == EmitStrategy.on_window_update() else [self.emit.name]),
            *([] if self.retention_ms is None else [f"retention_ms={self.retention_ms}"]),
            *([] if self.key_type is TEXT else [f"keys: {self.key_type.name}"]),
        ])  # fmt: skip

    @property
    def grouped_by(self) -> str:
        """The joins and groupings as text. The table records it to detect a changed topology."""
        return "; ".join(dict.fromkeys(origin.grouping for origin in self.inputs))
