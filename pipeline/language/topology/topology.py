"""``Topology``: the stores and sinks of a builder, with its text, its plan and its drawing."""

from dataclasses import dataclass

from oriel.pipeline.language.kafka_hints import CallHints
from oriel.pipeline.language.topology.drawing import drawn
from oriel.pipeline.language.topology.inputs import as_join_input
from oriel.pipeline.language.topology.sources import Source, StoreSource
from oriel.pipeline.language.topology.stores import Store
from oriel.pipeline.language.topology.written import step_calls, written


@dataclass(frozen=True)
class Topology(CallHints):
    """A topology that ``StreamsBuilder.build`` returns, to run or to test.

    It corresponds to ``Topology`` of Kafka Streams, without processors. A file for ``oriel run``
    must assign it to ``topology``. To test it, pass it to ``TopologyTestDriver``.

    Attributes:
        stores: The stores, in the order of the calls of ``materialize``.
        sinks: The output topics of streams, in the order of the calls of ``KStream.to``.

    Example:
        >>> store = flights.group_by("carrier").count().materialize("flights_by_carrier")
        >>> topology = builder.build()
        >>> topology.topics
        ('flights',)
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
        """Return the topology as text: each store with its inputs and its output topics.

        It corresponds to ``Topology.describe`` of Kafka Streams, with another format.

        Returns:
            Lines of text: each store and each output topic with its inputs.

        Example:
            >>> store = flights.group_by("carrier").count().materialize("flights_by_carrier")
            >>> print(builder.build().describe(), end="")
            Topology
              Store: flights_by_carrier (no windows)
                Input: stream('flights').group_by(carrier)
                Rows: count=count()
        """
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

    def explain(self) -> str:
        """Return the logical and the physical plan as text.

        It corresponds to ``DataFrame.explain`` of Spark. The physical plan shows the operators of
        each store with their state, and the exchanges between them. It also shows whether Arrow or
        Spark runs the row-wise steps, and whether user-defined functions are compiled. To print the
        plans of a file, use ``oriel run --explain``.

        Returns:
            Lines of text.

        Raises:
            InvalidTopology: A step or an aggregation does not fit its columns.

        Example:
            >>> late = flights.filter("delay > 15")
            >>> store = late.group_by_key().count().materialize("late_flights")
            >>> print(builder.build().explain().partition("== Physical plan ==")[2])
            <BLANKLINE>
            late_flights (no windows)
            +- TimeWindow: count=count() [state: rows by key]
               +- Exchange by key
                  +- Late filter
                     +- Stream time: flights
                        +- Steps in Arrow: filter('delay > 15')
                           +- Source: stream('flights')
        """
        # The planner imports this module, so this module cannot import the planner at its top.
        from oriel.pipeline.explained import explain  # noqa: PLC0415

        return explain(self)

    def to_mermaid(self) -> str:
        """Return the topology as a Mermaid flowchart, which Markdown pages can show.

        Returns:
            The text of the flowchart.

        Example:
            >>> store = flights.group_by("carrier").count().materialize("flights_by_carrier")
            >>> print(builder.build().to_mermaid(), end="")
            flowchart LR
                topic0[("flights")]
                store0["flights_by_carrier<br>no windows"]
                topic0 -->|"group_by(carrier)"| store0
        """
        return drawn(self.topics, self.stores, self.sinks)
