"""Grouped streams, and cogroups of several streams (KIP-150).

Each step returns a new object, so you can use one grouping for several aggregations.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

from oriel.pipeline.errors import InvalidTopology
from oriel.pipeline.language.arguments import (
    checked_aggregation,
    checked_columns,
    checked_functions,
    checked_reducer,
    checked_strategy,
    checked_windows,
)
from oriel.pipeline.language.kafka_hints import CallHints
from oriel.pipeline.language.registry import Registry
from oriel.pipeline.language.step_checks import check_inputs
from oriel.pipeline.language.tables import KTable
from oriel.pipeline.language.topology import Aggregation, Node
from oriel.pipeline.language.windowed import TimeWindowedKStream, aggregated
from oriel.pipeline.windows import (
    Aggregate,
    Aggregator,
    EmitStrategy,
    Merger,
    NoWindows,
    Windows,
    count,
)


@dataclass(frozen=True)
class KGroupedStream(CallHints):
    """A stream whose records are grouped by key.

    ``KStream.group_by_key`` and ``KStream.group_by`` return it. It corresponds to
    ``KGroupedStream`` of Kafka Streams. An aggregation without windows has one row per key.

    Example:
        >>> carriers = flights.group_by("carrier")
        >>> carriers.count().materialize("flights_by_carrier")
        <KTable flights: aggregate(count=count())>
    """

    registry: Registry = field(repr=False)
    origins: tuple[Node, ...]

    def windowed_by(self, windows: Windows) -> "TimeWindowedKStream":
        """Divide the records of each key into windows.

        It corresponds to ``KGroupedStream.windowedBy`` of Kafka Streams. Without windows, no record
        is late, and no row is final. The rules of windows are in semantics.md#2, semantics.md#3 and
        semantics.md#4.

        Args:
            windows: ``TimeWindows``, ``SlidingWindows`` or ``SessionWindows``.

        Returns:
            The windowed stream, to aggregate.

        Raises:
            InvalidTopology: ``windows`` is not a window definition.

        Example:
            >>> hour = TimeWindows.of_size_and_grace(3_600_000, 60_000)
            >>> hourly = flights.group_by_key().windowed_by(hour)
        """
        return TimeWindowedKStream(self.registry, self.origins, checked_windows(windows))

    def emit(self, strategy: EmitStrategy) -> "KGroupedStream":
        """Choose when rows are written.

        Without windows, rows never become final. The only valid strategy is therefore the default,
        which writes each changed row in each batch.

        Args:
            strategy: ``EmitStrategy.on_window_update()``.

        Returns:
            The same grouped stream.

        Raises:
            InvalidTopology: ``strategy`` is something else.

        Example:
            >>> updated = flights.group_by_key().emit(EmitStrategy.on_window_update())
        """
        checked_strategy(strategy, NoWindows())
        return self

    def count(self) -> "KTable":
        """Count the records of each key.

        It corresponds to ``KGroupedStream.count`` of Kafka Streams. It is short for
        ``aggregate(count=count())``.

        Returns:
            A table with one row per key, and a column ``count`` of type BIGINT.

        Example:
            >>> flights.group_by_key().count().materialize("flights_by_airport")
            <KTable flights: aggregate(count=count())>
        """
        return self.aggregate(count=count())

    def reduce(self, reducer: Callable[[Any, Any], Any]) -> "KTable":
        """Combine the values of each key into one value (semantics.md#9).

        It corresponds to ``KGroupedStream.reduce`` of Kafka Streams. The first value of a key is
        kept without a call. A record on which the function raises becomes a dead letter.

        Args:
            reducer: ``reducer(kept, new)`` returns the value to keep, or None to remove the row.
                Both values are dicts of the columns. If a key has records in several partitions, it
                also merges the values of the partitions.

        Returns:
            A table with one row per key, and the columns of the stream.

        Raises:
            InvalidTopology: ``reducer`` is not a function of two arguments.

        Example:
            >>> def longer(kept, new):
            ...     return new if new["delay"] > kept["delay"] else kept
            >>> worst = flights.group_by("carrier").reduce(longer).materialize("worst_flights")
        """
        return aggregated(self.registry, (self.origins,), NoWindows(), checked_reducer(reducer))

    def aggregate(
        self,
        initializer: Callable[[], Any] | None = None,
        aggregator: Aggregator | None = None,
        merger: Merger | None = None,
        schema: str | None = None,
        **aggregates: Aggregate,
    ) -> "KTable":
        """Aggregate all records of each key.

        It corresponds to ``KGroupedStream.aggregate`` of Kafka Streams. Pass either named
        aggregates, or functions with a schema. ``TimeWindowedKStream.aggregate`` has the rules for
        functions.

        Args:
            initializer: ``initializer()`` returns the aggregate of a new row.
            aggregator: ``aggregator(key, value, aggregate)`` returns the new aggregate, or None to
                remove the row.
            merger: ``merger(key, left, right)`` merges the aggregates of two partitions. Required
                for keys with records in several partitions.
            schema: The columns of the aggregate as Spark DDL, for example ``"total DOUBLE"``.
            **aggregates: Named aggregates, for example ``flights=count()``. Each is a column.

        Returns:
            A table with one row per key.

        Raises:
            InvalidTopology: Both forms or neither form is passed, an argument is invalid, or the
                name of a column is invalid or reserved.

        Example:
            >>> by_carrier = flights.group_by("carrier")
            >>> carriers = by_carrier.aggregate(flights=count(), worst=max("delay"))
            >>> carriers.materialize("carriers")
            <KTable flights: aggregate(flights=count(), worst=max(delay))>
        """
        aggregation = checked_aggregation(initializer, aggregator, merger, schema, aggregates)
        return aggregated(self.registry, (self.origins,), NoWindows(), aggregation)

    def cogroup(
        self, aggregator: Aggregator | None = None, **aggregates: Aggregate
    ) -> "CogroupedKStream":
        """Start an aggregation of several streams, with this stream as the first (KIP-150).

        It corresponds to ``KGroupedStream.cogroup`` of Kafka Streams. Pass either an aggregator or
        named aggregates. Each stream has its own stream time (semantics.md#9).

        Args:
            aggregator: ``aggregator(key, value, aggregate)`` for the records of this stream.
            **aggregates: Named aggregates of the columns of this stream.

        Returns:
            The cogroup. Add streams with ``cogroup``, and call ``aggregate`` last.

        Raises:
            InvalidTopology: Both forms or neither form is passed.

        Example:
            >>> hotels = builder.stream("hotels", schema="rooms INT").group_by_key()
            >>> departures = flights.group_by_key().cogroup(flights=count())
            >>> both = departures.cogroup(hotels, hotels=count())
            >>> trips = both.aggregate().materialize("trips")
        """
        return CogroupedKStream(self.registry, (), (), ()).cogroup(self, aggregator, **aggregates)


@dataclass(frozen=True)
class CogroupedKStream(CallHints):
    """Several grouped streams that you aggregate into one row per key and window (KIP-150).

    ``KGroupedStream.cogroup`` returns it. It corresponds to ``CogroupedKStream`` of Kafka Streams.
    Either all streams have an aggregator, or all streams have named aggregates.

    Example:
        >>> canceled = builder.stream("canceled", schema="reason STRING").group_by_key()
        >>> departures = flights.group_by_key().cogroup(flights=count())
        >>> departures.cogroup(canceled, canceled=count()).aggregate().materialize("departures")
        <KTable flights, canceled: aggregate(flights=count(), canceled=count())>
    """

    registry: Registry = field(repr=False)
    streams: tuple[tuple[Node, ...], ...]
    aggregators: tuple[Aggregator | None, ...]
    columns: tuple[Mapping[str, Aggregate], ...]
    windows: Windows = field(default_factory=NoWindows)
    strategy: EmitStrategy = field(default_factory=EmitStrategy.on_window_update)

    def cogroup(
        self,
        grouped: KGroupedStream,
        aggregator: Aggregator | None = None,
        **aggregates: Aggregate,
    ) -> "CogroupedKStream":
        """Add a stream with its aggregator, or with aggregates of its columns.

        It corresponds to ``CogroupedKStream.cogroup`` of Kafka Streams.

        Args:
            grouped: The grouped stream, from the same builder.
            aggregator: ``aggregator(key, value, aggregate)`` for the records of this stream.
            **aggregates: Named aggregates of the columns of this stream.

        Returns:
            The cogroup with the stream.

        Raises:
            InvalidTopology: Both forms or neither form is passed, the other streams have the other
                form, or ``grouped`` is not a grouped stream of this builder. It is also raised if
                all streams together have more than 128 inputs.

        Example:
            >>> canceled = builder.stream("canceled", schema="reason STRING").group_by_key()
            >>> departures = flights.group_by_key().cogroup(flights=count())
            >>> both = departures.cogroup(canceled, canceled=count())
        """
        if not isinstance(grouped, KGroupedStream):
            message = (
                f"cogroup: the argument must be a grouped stream, not {grouped!r}. Use "
                "group_by_key()"
            )
            raise InvalidTopology(message)
        if grouped.registry is not self.registry:
            message = "cogroup: the streams are from different builders. Use one builder"
            raise InvalidTopology(message)
        if (aggregator is None) == (not aggregates):
            message = "cogroup: pass an aggregator or named aggregates for each stream"
            raise InvalidTopology(message)
        if self.streams and (self.aggregators[0] is None) != (aggregator is None):
            message = (
                "cogroup: all streams must have an aggregator, or all must have named aggregates"
            )
            raise InvalidTopology(message)
        check_inputs("cogroup", len([*chain(*self.streams), *grouped.origins]))
        return replace(
            self,
            streams=(*self.streams, grouped.origins),
            aggregators=(*self.aggregators, aggregator),
            columns=(*self.columns, aggregates),
        )

    def windowed_by(self, windows: Windows) -> "CogroupedKStream":
        """Divide the records of all streams into the same windows.

        It corresponds to ``CogroupedKStream.windowedBy`` of Kafka Streams.

        Args:
            windows: ``TimeWindows``, ``SlidingWindows`` or ``SessionWindows``.

        Returns:
            The cogroup with windows.

        Raises:
            InvalidTopology: ``windows`` is not a window definition.

        Example:
            >>> minute = TimeWindows.of_size_with_no_grace(60_000)
            >>> by_minute = flights.group_by_key().cogroup(n=count()).windowed_by(minute)
        """
        return replace(self, windows=checked_windows(windows))

    def emit(self, strategy: EmitStrategy) -> "CogroupedKStream":
        """Choose when rows are written (semantics.md#2-5, semantics.md#2-6).

        Args:
            strategy: ``EmitStrategy.on_window_update()`` or ``EmitStrategy.on_window_close()``, as
                for ``TimeWindowedKStream.emit``. Default: ``on_window_update()``.

        Returns:
            The cogroup with the strategy.

        Raises:
            InvalidTopology: ``strategy`` is not an emit strategy, or it is ``on_window_close()``
                before ``windowed_by``.

        Example:
            >>> minute = TimeWindows.of_size_with_no_grace(60_000)
            >>> by_minute = flights.group_by_key().cogroup(n=count()).windowed_by(minute)
            >>> final = by_minute.emit(EmitStrategy.on_window_close())
        """
        return replace(self, strategy=checked_strategy(strategy, self.windows))

    def aggregate(
        self,
        initializer: Callable[[], Any] | None = None,
        merger: Merger | None = None,
        schema: str | None = None,
    ) -> "KTable":
        """Aggregate the records of all streams.

        It corresponds to ``CogroupedKStream.aggregate`` of Kafka Streams. For named aggregates,
        pass no arguments. If the streams have aggregators, pass ``initializer`` and ``schema``.

        With a merger, each stream is aggregated separately, and the aggregates are merged. Without
        a merger, the aggregators of all streams update one aggregate in the order in which the
        records arrive (semantics.md#9).

        Args:
            initializer: ``initializer()`` returns the aggregate of a new row.
            merger: ``merger(key, left, right)`` merges the aggregates of two streams, partitions or
                sessions. Required for sessions.
            schema: The columns of the aggregate as Spark DDL, for example ``"balance DOUBLE"``.

        Returns:
            A table with one row per key, or per key and window.

        Raises:
            InvalidTopology: An argument is missing, invalid, or not allowed for the form of the
                streams.

        Example:
            >>> paid = builder.stream("paid", schema="amount DOUBLE").group_by_key()
            >>> refunds = builder.stream("refunds", schema="amount DOUBLE").group_by_key()
            >>> both = paid.cogroup(lambda key, value, total: total + value["amount"]).cogroup(
            ...     refunds, lambda key, value, total: total - value["amount"]
            ... )
            >>> balance = both.aggregate(lambda: 0.0, schema="balance DOUBLE")
            >>> balance.materialize("balance")
            <KTable paid, refunds: aggregate(functions)>
        """
        if self.aggregators[0] is None:
            if initializer is not None or merger is not None or schema is not None:
                message = "aggregate: named aggregates accept no initializer, merger or schema"
                raise InvalidTopology(message)
            aggregation: Aggregation = checked_columns("cogroup", self.columns)
        else:
            aggregators = tuple(function for function in self.aggregators if function is not None)
            aggregation = checked_functions(initializer, aggregators, merger, schema)
        return aggregated(self.registry, self.streams, self.windows, aggregation, self.strategy)
