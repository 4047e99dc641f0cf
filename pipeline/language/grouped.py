"""The language behind a grouping: windows, emit strategies, aggregations.

Each step returns a new object, so one grouping may be windowed and aggregated in several ways.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from oriel.pipeline.errors import InvalidTopology
from oriel.pipeline.language.arguments import (
    aggregation_text,
    checked_aggregation,
    checked_columns,
    checked_functions,
    checked_reducer,
    checked_strategy,
    checked_windows,
)
from oriel.pipeline.language.other_words import OtherWords
from oriel.pipeline.language.registry import Registry
from oriel.pipeline.language.tables import KTable
from oriel.pipeline.language.topology import Aggregation, Functions, Input, Store
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
class KGroupedStream(OtherWords):
    """Records grouped by key, not yet windowed: without ``windowed_by`` a store has a row a key."""

    registry: Registry = field(repr=False)
    origins: tuple[Input, ...]

    def windowed_by(self, windows: Windows) -> "TimeWindowedKStream":
        """Choose the windows: ``TimeWindows``, ``SlidingWindows`` or ``SessionWindows``.

        Raises:
            InvalidTopology: ``windows`` is no window definition.
        """
        return TimeWindowedKStream(self.registry, self.origins, checked_windows(windows))

    def emit(self, strategy: EmitStrategy) -> "KGroupedStream":
        """Choose when rows are written: without windows only ``EmitStrategy.on_window_update()``.

        Raises:
            InvalidTopology: ``strategy`` is another.
        """
        checked_strategy(strategy, NoWindows())
        return self

    def count(self) -> "KTable":
        """Count the records of each key, in a column named ``count`` (BIGINT)."""
        return self.aggregate(count=count())

    def reduce(self, reducer: Callable[[Any, Any], Any]) -> "KTable":
        """Keep one value a key: the first as it is, then ``reducer(kept, new)``.

        Values are dicts of the stream's columns, which become the store's columns. What is kept
        of several partitions is put together by ``reducer``, too.

        Raises:
            InvalidTopology: ``reducer`` is no function of two values.
        """
        return _table(self.registry, (self.origins,), NoWindows(), checked_reducer(reducer))

    def aggregate(
        self,
        initializer: Callable[[], Any] | None = None,
        aggregator: Aggregator | None = None,
        merger: Merger | None = None,
        schema: str | None = None,
        **aggregates: Aggregate,
    ) -> "KTable":
        """Aggregate all records of each key, however old; see ``TimeWindowedKStream.aggregate``."""
        aggregation = checked_aggregation(initializer, aggregator, merger, schema, aggregates)
        return _table(self.registry, (self.origins,), NoWindows(), aggregation)

    def cogroup(
        self, aggregator: Aggregator | None = None, **aggregates: Aggregate
    ) -> "CogroupedKStream":
        """Begin an aggregation over several streams, this one the first.

        Each stream adds to the same row of a key: by its own ``aggregator``, or by declarative
        ``aggregates`` of its own columns. Each has its own clock (KIP-150, and
        docs/reference/topology/aggregations.md for what differs).

        Raises:
            InvalidTopology: neither or both are given.
        """
        return CogroupedKStream(self.registry, (), (), ()).cogroup(self, aggregator, **aggregates)


@dataclass(frozen=True)
class CogroupedKStream(OtherWords):
    """Several grouped streams that are aggregated into one row a key (and window)."""

    registry: Registry = field(repr=False)
    streams: tuple[tuple[Input, ...], ...]
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
        """Add a stream with its aggregator, or with declarative aggregates of its columns.

        Raises:
            InvalidTopology: neither or both are given, or ``grouped`` is no grouped stream.
        """
        if not isinstance(grouped, KGroupedStream):
            message = f"cogroup: expects a grouped stream (group_by_key()), not {grouped!r}"
            raise InvalidTopology(message)
        if grouped.registry is not self.registry:
            message = "cogroup: the streams are from different builders. Use one builder"
            raise InvalidTopology(message)
        if (aggregator is None) == (not aggregates):
            message = "cogroup: pass an aggregator or declarative aggregates for each stream"
            raise InvalidTopology(message)
        if self.streams and (self.aggregators[0] is None) != (aggregator is None):
            message = "cogroup: either all streams have an aggregator, or all have aggregates"
            raise InvalidTopology(message)
        return replace(
            self,
            streams=(*self.streams, grouped.origins),
            aggregators=(*self.aggregators, aggregator),
            columns=(*self.columns, aggregates),
        )

    def windowed_by(self, windows: Windows) -> "CogroupedKStream":
        """Choose the windows, the same for all streams.

        Raises:
            InvalidTopology: ``windows`` is no window definition.
        """
        return replace(self, windows=checked_windows(windows))

    def emit(self, strategy: EmitStrategy) -> "CogroupedKStream":
        """Choose when rows are written; see ``TimeWindowedKStream.emit``."""
        return replace(self, strategy=checked_strategy(strategy, self.windows))

    def aggregate(
        self,
        initializer: Callable[[], Any] | None = None,
        merger: Merger | None = None,
        schema: str | None = None,
    ) -> "KTable":
        """Aggregate: ``initializer``, ``schema`` and ``merger`` for aggregators, nothing else.

        Raises:
            InvalidTopology: what is given does not fit what ``cogroup`` was given.
        """
        if self.aggregators[0] is None:
            if initializer is not None or merger is not None or schema is not None:
                message = "aggregate: declarative aggregates need no initializer, merger or schema"
                raise InvalidTopology(message)
            aggregation: Aggregation = checked_columns("cogroup", self.columns)
        else:
            aggregators = tuple(function for function in self.aggregators if function is not None)
            aggregation = checked_functions(initializer, aggregators, merger, schema)
        return _table(self.registry, self.streams, self.windows, aggregation, self.strategy)


@dataclass(frozen=True)
class TimeWindowedKStream(OtherWords):
    """Grouped records with windows chosen."""

    registry: Registry = field(repr=False)
    origins: tuple[Input, ...]
    windows: Windows
    strategy: EmitStrategy = field(default_factory=EmitStrategy.on_window_update)

    def emit(self, strategy: EmitStrategy) -> "TimeWindowedKStream":
        """Choose when rows are written: at each change, or once, when the window is final.

        These are ``EmitStrategy.on_window_update()``, the default, and ``on_window_close()``.

        Raises:
            InvalidTopology: ``strategy`` is no emit strategy.
        """
        return replace(self, strategy=checked_strategy(strategy, self.windows))

    def count(self) -> "KTable":
        """Count the records of each window, in a column named ``count`` (BIGINT)."""
        return self.aggregate(count=count())

    def reduce(self, reducer: Callable[[Any, Any], Any]) -> "KTable":
        """Keep one value a window: the first as it is, then ``reducer(kept, new)``.

        See ``KGroupedStream.reduce``; ``reducer`` also puts sessions together that meet.
        """
        aggregation = checked_reducer(reducer)
        return _table(self.registry, (self.origins,), self.windows, aggregation, self.strategy)

    def aggregate(
        self,
        initializer: Callable[[], Any] | None = None,
        aggregator: Aggregator | None = None,
        merger: Merger | None = None,
        schema: str | None = None,
        **aggregates: Aggregate,
    ) -> "KTable":
        """Compute the named ``aggregates``, or call the user's own functions.

        Declarative aggregates, such as ``revenue=sum("amount")``, are columns of the store and are
        computed a whole batch at a time. Functions are called record by record, in the order of
        arrival within a partition, and get copies.

        ``initializer()`` gives the aggregate of an empty window, ``aggregator(key, value,
        aggregate)`` the one after a record (None removes the row), ``schema`` its columns in
        Spark's DDL: with one column the functions see the bare value, with several a dict.
        ``merger(key, left, right)`` puts two aggregates together: sessions need it, and keys
        whose records come from several partitions.

        Raises:
            InvalidTopology: nothing or both is given, one is not an aggregate, or a name is
                taken by a column that every store has.
        """
        aggregation = checked_aggregation(initializer, aggregator, merger, schema, aggregates)
        return _table(self.registry, (self.origins,), self.windows, aggregation, self.strategy)


def _table(
    registry: Registry,
    streams: tuple[tuple[Input, ...], ...],
    windows: Windows,
    aggregation: Aggregation,
    strategy: EmitStrategy | None = None,
) -> KTable:
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
