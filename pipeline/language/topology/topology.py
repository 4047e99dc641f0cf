"""``Topology``: the stores and sinks of a builder, with its text, its plan and its drawing."""

from dataclasses import dataclass
from itertools import chain

from oriel.pipeline.language import lowered_texts
from oriel.pipeline.language.kafka_hints import CallHints
from oriel.pipeline.language.topology.sources import Source
from oriel.pipeline.language.topology.stores import SinkNode, StoreNode


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

    stores: tuple[StoreNode, ...]
    sinks: tuple[SinkNode, ...] = ()

    @property
    def units(self) -> tuple[StoreNode | SinkNode, ...]:
        """The stores, then the sinks."""
        return (*self.stores, *self.sinks)

    @property
    def sources(self) -> tuple[Source, ...]:
        """The sources that are topics, without duplicates, in the order of first use."""
        inputs = chain(*(unit.inputs for unit in self.units))
        sources = dict.fromkeys(chain(*(each.operation.sources for each in inputs)))
        return tuple(source for source in sources if not source.store_name)

    @property
    def topics(self) -> tuple[str, ...]:
        """The names of the topics, without duplicates, in the order of first use."""
        return tuple(dict.fromkeys(source.topic for source in self.sources))

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
        return lowered_texts.described(self)

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
        return lowered_texts.explained(self)

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
        return lowered_texts.drawn(self)
