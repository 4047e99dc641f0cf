"""Grouped records with windows, and the table that an aggregation returns."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from oriel.pipeline.errors import InvalidTopology
from oriel.pipeline.language.arguments import (
    aggregation_text,
    checked_aggregation,
    checked_reducer,
    checked_strategy,
)
from oriel.pipeline.language.other_words import OtherWords
from oriel.pipeline.language.registry import Registry
from oriel.pipeline.language.tables import KTable
from oriel.pipeline.language.topology import Aggregation, Functions, Input, Store
from oriel.pipeline.windows import Aggregate, Aggregator, EmitStrategy, Merger, Windows, count


@dataclass(frozen=True)
class TimeWindowedKStream(OtherWords):
    """Grouped records that are divided into windows.

    You get it from ``KGroupedStream.windowed_by``.

    Example:
        >>> hour = TimeWindows.of_size_and_grace(3_600_000, 60_000)
        >>> flights.group_by_key().windowed_by(hour).count().materialize("flights_per_hour")
        <KTable flights: aggregate(count=count())>
    """

    registry: Registry = field(repr=False)
    origins: tuple[Input, ...]
    windows: Windows
    strategy: EmitStrategy = field(default_factory=EmitStrategy.on_window_update)

    def emit(self, strategy: EmitStrategy) -> "TimeWindowedKStream":
        """Choose when the row of a window is written (semantics.md#2-5, semantics.md#2-6).

        Args:
            strategy: ``EmitStrategy.on_window_update()`` writes a window in each batch that changes
                it. ``EmitStrategy.on_window_close()`` writes it once, when it is final. Default:
                ``on_window_update()``.

        Returns:
            The windowed records with the strategy.

        Raises:
            InvalidTopology: ``strategy`` is not an emit strategy.

        Example:
            >>> hour = TimeWindows.of_size_and_grace(3_600_000, 60_000)
            >>> hourly = flights.group_by_key().windowed_by(hour)
            >>> final = hourly.emit(EmitStrategy.on_window_close())
            >>> final.count().materialize("final_hours")
            <KTable flights: aggregate(count=count())>
        """
        return replace(self, strategy=checked_strategy(strategy, self.windows))

    def count(self) -> "KTable":
        """Count the records of each key and window.

        Returns:
            A table with a column ``count`` of type BIGINT.

        Example:
            >>> visits = SessionWindows.of_inactivity_gap_and_grace(1_800_000, 60_000)
            >>> flights.group_by_key().windowed_by(visits).count().materialize("visits")
            <KTable flights: aggregate(count=count())>
        """
        return self.aggregate(count=count())

    def reduce(self, reducer: Callable[[Any, Any], Any]) -> "KTable":
        """Keep one value per key and window (semantics.md#9).

        The first value is kept without a call. The columns of the stream are the columns of the
        table.

        Args:
            reducer: ``reducer(kept, new)`` returns the value to keep, or None to remove the row.
                Both values are dicts. It also merges the values of two partitions or two sessions.

        Returns:
            The table of the kept values.

        Raises:
            InvalidTopology: ``reducer`` is not a function of two arguments.

        Example:
            >>> def longer(kept, new):
            ...     return new if new["delay"] > kept["delay"] else kept
            >>> hour = TimeWindows.of_size_and_grace(3_600_000, 60_000)
            >>> worst = flights.group_by_key().windowed_by(hour).reduce(longer).materialize("worst")
        """
        aggregation = checked_reducer(reducer)
        return aggregated(self.registry, (self.origins,), self.windows, aggregation, self.strategy)

    def aggregate(
        self,
        initializer: Callable[[], Any] | None = None,
        aggregator: Aggregator | None = None,
        merger: Merger | None = None,
        schema: str | None = None,
        **aggregates: Aggregate,
    ) -> "KTable":
        """Aggregate the records of each key and window.

        Pass either named aggregates or functions. Named aggregates run on whole batches, and
        functions run for each record, in the order of arrival within a partition (semantics.md#9).
        A record on which a function raises becomes a dead letter.

        Args:
            initializer: Returns the aggregate of no records.
            aggregator: ``aggregator(key, value, aggregate)`` returns the new aggregate, or None to
                remove the row. The value is a dict, or None for a record with a null value.
            merger: ``merger(key, left, right)`` merges the aggregates of two partitions or two
                sessions. Required for sessions, and for keys with records in several partitions.
            schema: The columns of the aggregate in Spark SQL, for example ``"total DOUBLE"``. With
                one column, the functions receive its value. With several, they receive a dict.
            **aggregates: Named aggregates. Each is a column of the table.

        Returns:
            A table with one row per key and window.

        Raises:
            InvalidTopology: Both forms or neither form is passed, an argument is not valid, or a
                name is a column of every store.

        Example:
            >>> hour = TimeWindows.of_size_and_grace(3_600_000, 60_000)
            >>> hourly = flights.group_by_key().windowed_by(hour)
            >>> delays = hourly.aggregate(flights=count(), worst=max("delay")).materialize("delays")
            >>> def add(key, value, total):
            ...     return total + value["distance"]
            >>> distances = hourly.aggregate(lambda: 0, add, schema="total BIGINT")
            >>> distances.materialize("distances")
            <KTable flights: aggregate(functions)>
        """
        aggregation = checked_aggregation(initializer, aggregator, merger, schema, aggregates)
        return aggregated(self.registry, (self.origins,), self.windows, aggregation, self.strategy)


def aggregated(
    registry: Registry,
    streams: tuple[tuple[Input, ...], ...],
    windows: Windows,
    aggregation: Aggregation,
    strategy: EmitStrategy | None = None,
) -> KTable:
    """Return the table of an aggregation. ``streams`` has the inputs of each stream.

    Raises:
        InvalidTopology: Functions aggregate sessions, and the merger is missing.
    """
    emit = strategy or EmitStrategy.on_window_update()
    if isinstance(aggregation, Functions) and windows.kind == "session" and not aggregation.merger:
        message = "aggregate: sessions merge, so pass merger=(key, left, right) -> aggregate"
        raise InvalidTopology(message)
    inputs = tuple(
        replace(origin, stream=number)
        for number, origins in enumerate(streams)
        for origin in origins
    )
    topics = ", ".join(origin.source.topic for origin in inputs)
    text = f"{topics}: {aggregation_text(aggregation)}"
    return KTable(registry, Store("", inputs, windows, aggregation, emit, None), text)
