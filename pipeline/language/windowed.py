"""Grouped streams with windows, and the table that an aggregation returns."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from oriel.pipeline.errors import InvalidTopology
from oriel.pipeline.language.arguments import (
    aggregation_text,
    checked_aggregation,
    checked_reducer,
    checked_strategy,
)
from oriel.pipeline.language.kafka_hints import CallHints
from oriel.pipeline.language.registry import Registry
from oriel.pipeline.language.step_checks import require_log_order
from oriel.pipeline.language.tables import KTable
from oriel.pipeline.language.topology import Aggregated, Aggregation, Late, Node
from oriel.pipeline.windows import Aggregate, Aggregator, EmitStrategy, Merger, Windows, count

if TYPE_CHECKING:
    from oriel.pipeline.language.streams import KStream


@dataclass(frozen=True)
class TimeWindowedKStream(CallHints):
    """A grouped stream whose records are divided into windows.

    ``KGroupedStream.windowed_by`` returns it for all kinds of windows. It corresponds to
    ``TimeWindowedKStream`` and ``SessionWindowedKStream`` of Kafka Streams.

    Example:
        >>> hour = TimeWindows.of_size_and_grace(3_600_000, 60_000)
        >>> flights.group_by_key().windowed_by(hour).count().materialize("flights_per_hour")
        <KTable flights: aggregate(count=count())>
    """

    registry: Registry = field(repr=False)
    origins: tuple[Node, ...]
    windows: Windows
    strategy: EmitStrategy = field(default_factory=EmitStrategy.on_window_update)

    def emit(self, strategy: EmitStrategy) -> "TimeWindowedKStream":
        """Choose when the row of a window is written (semantics.md#2-5, semantics.md#2-6).

        It corresponds to ``TimeWindowedKStream.emitStrategy`` of Kafka Streams (KIP-825).

        Args:
            strategy: ``EmitStrategy.on_window_update()`` writes a window in each batch that changes
                it, and once more when it becomes final. ``EmitStrategy.on_window_close()`` writes
                it once, when it is final. Default: ``on_window_update()``.

        Returns:
            The windowed stream with the strategy.

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

    def late_records(self) -> "KStream":
        """Return the records that miss a window, because the window is closed when they arrive.

        A store with these windows drops a record from each closed window, and counts it as late if
        all of its windows are closed. Kafka Streams only logs such a record. In Flink, it
        corresponds to ``sideOutputLateData``, which lacks partly late records.

        A record has the key of the grouping, its own time and value, and these columns:

        - ``record_topic``, ``record_partition`` and ``record_offset``: its record id.
        - ``late_by_ms``: With a grace that is this much longer, it misses no window.
        - ``partly_late``: True if it still counts in other windows (semantics.md#2-3).
        - ``first_missed_start_ms`` and ``first_missed_end_ms``: the first window that it misses.
        - ``last_missed_start_ms`` and ``last_missed_end_ms``: the last window that it misses.

        For tumbling windows, the first and the last window are the same. Sliding windows between
        them start where records define them. For sessions, both are the record's own time.

        Returns:
            The stream of late and of partly late records. Write it with ``to`` or store it.

        Raises:
            InvalidTopology: The stream has results of a stream-stream join, updates of a table, or
                records that waited for a table. If the stream already has such a column,
                ``build`` raises it.

        Example:
            >>> hour = TimeWindows.of_size_and_grace(3_600_000, 60_000)
            >>> hourly = flights.group_by_key().windowed_by(hour)
            >>> late = hourly.late_records().filter("not partly_late")
            >>> late_flights = late.group_by_key().count().materialize("late_flights")
        """
        from oriel.pipeline.language.streams import KStream  # noqa: PLC0415 - knows windows itself

        return KStream(self.registry, self._late("late_records"))

    def late_to(
        self, topic: str, *, headers: Mapping[str, str] | None = None
    ) -> "TimeWindowedKStream":
        """Write the records that miss a window to a Kafka topic.

        It is short for ``late_records().to(topic)``. In Flink, it corresponds to
        ``sideOutputLateData``.

        Args:
            topic: The name of the topic, as for ``KStream.to``.
            headers: The name of each further header and its column, as for ``KStream.to``.

        Returns:
            The same windowed stream, to aggregate.

        Raises:
            InvalidTopology: ``late_records`` or ``KStream.to`` raises it.

        Example:
            >>> hour = TimeWindows.of_size_and_grace(3_600_000, 60_000)
            >>> hourly = flights.group_by_key().windowed_by(hour).late_to("late-flights")
            >>> flights_per_hour = hourly.count().materialize("flights_per_hour")
        """
        self.registry.add_sink(self._late("late_to"), topic, headers or {})
        return self

    def _late(self, step: str) -> tuple[Node, ...]:
        require_log_order(step, self.origins)
        return tuple(Node(Late(origin, self.windows)) for origin in self.origins)

    def count(self) -> "KTable":
        """Count the records of each key and window.

        It corresponds to ``TimeWindowedKStream.count`` of Kafka Streams. It is short for
        ``aggregate(count=count())``.

        Returns:
            A table with one row per key and window, and a column ``count`` of type BIGINT.

        Example:
            >>> visits = SessionWindows.of_inactivity_gap_and_grace(1_800_000, 60_000)
            >>> flights.group_by_key().windowed_by(visits).count().materialize("visits")
            <KTable flights: aggregate(count=count())>
        """
        return self.aggregate(count=count())

    def reduce(self, reducer: Callable[[Any, Any], Any]) -> "KTable":
        """Combine the values of each key and window into one value (semantics.md#9).

        It corresponds to ``TimeWindowedKStream.reduce`` of Kafka Streams. The first value of a
        window is kept without a call. A record on which the function raises becomes a dead letter.

        Args:
            reducer: ``reducer(kept, new)`` returns the value to keep, or None to remove the row.
                Both values are dicts of the columns. It also merges the values of two partitions or
                two sessions.

        Returns:
            A table with one row per key and window, and the columns of the stream.

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

        It corresponds to ``TimeWindowedKStream.aggregate`` of Kafka Streams. Pass either named
        aggregates, or functions with a schema. Named aggregates run on whole batches. Functions run
        on records in the order of arrival within a partition (semantics.md#9). A record on which a
        function raises becomes a dead letter.

        Args:
            initializer: ``initializer()`` returns the aggregate of a new row.
            aggregator: ``aggregator(key, value, aggregate)`` returns the new aggregate, or None to
                remove the row. The value is a dict, or None for a record with a null value.
            merger: ``merger(key, left, right)`` merges the aggregates of two partitions or two
                sessions. Required for sessions, and for keys with records in several partitions.
            schema: The columns of the aggregate as Spark DDL, for example ``"total DOUBLE"``. With
                one column, the functions receive its value. With several, they receive a dict.
            **aggregates: Named aggregates, for example ``flights=count()``. Each is a column.

        Returns:
            A table with one row per key and window.

        Raises:
            InvalidTopology: Both forms or neither form is passed, an argument is invalid, a merger
                is missing for sessions, or the name of a column is invalid or reserved.

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
    streams: tuple[tuple[Node, ...], ...],
    windows: Windows,
    aggregation: Aggregation,
    strategy: EmitStrategy | None = None,
) -> KTable:
    """Return the table of an aggregation.

    Args:
        registry: The registry of the builder.
        streams: The inputs of each stream. Only a cogroup has several streams.
        windows: The windows, or ``NoWindows``.
        aggregation: The named aggregates or the functions.
        strategy: The emit strategy. Default: ``EmitStrategy.on_window_update()``.

    Raises:
        InvalidTopology: Functions aggregate sessions, and the merger is missing.
    """
    emit = strategy or EmitStrategy.on_window_update()
    if windows.kind == "session" and aggregation.lacks_merger:
        message = "aggregate: sessions merge, so pass merger=(key, left, right) -> aggregate"
        raise InvalidTopology(message)
    rows = Aggregated(streams=streams, windows=windows, aggregation=aggregation, emit=emit)
    topics = ", ".join(node.operation.source.topic for node in rows.inputs)
    return KTable(registry, rows, f"{topics}: {aggregation_text(aggregation)}")
