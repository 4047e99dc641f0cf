"""The topology language, in Kafka Streams' words.

    builder = StreamsBuilder()
    (
        builder.stream("flights", schema="carrier STRING, dep_delay DOUBLE")
        .filter("dep_delay IS NOT NULL")
        .group_by_key()
        .windowed_by(SlidingWindows.of_time_difference_and_grace(1_800_000, 7_200_000))
        .aggregate(departures=count(), mean_delay=avg("dep_delay"))
        .materialize("departures_by_origin")
    )
    topology = builder.build()

A topology is data: nothing here touches Spark. Row-wise steps are Spark column
expressions, given as SQL text or as a ``Column``. Each call returns a new object, so a
stream may be used for several stores.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from pipeline.errors import InvalidTopology
from pipeline.windows import Aggregate, SlidingWindows, count
from pipeline.windows.definitions import Duration, to_ms
from storage.definition import RESERVED_COLUMNS
from storage.errors import InvalidDefinition
from storage.layout import check_store_name

if TYPE_CHECKING:
    from pyspark.sql import Column


#: What Delta can't have in the name of a column without column mapping.
_PLAIN_NAME = re.compile(r"[^ ,;{}()\n\t=]+")


@dataclass(frozen=True)
class Filter:
    """Keep the records for which the condition is true (not false, not null)."""

    condition: "str | Column"

    def __str__(self) -> str:
        """The step as it is written."""
        return f"filter({self.condition!r})"


@dataclass(frozen=True)
class MapValues:
    """Replace the value: keep the columns named in ``keep`` (``*``: all), add ``columns``."""

    keep: tuple[str, ...]
    columns: Mapping[str, "str | Column"]

    def __str__(self) -> str:
        """The step as it is written."""
        kept = [repr(name) for name in self.keep]
        made = [f"{name}={value!r}" for name, value in self.columns.items()]
        return f"map_values({', '.join(kept + made)})"


Step = Filter | MapValues


@dataclass(frozen=True)
class Source:
    """A topic and the columns of its records' values (a Spark DDL string)."""

    topic: str
    schema: str


@dataclass(frozen=True)
class Store:
    """One materialized aggregation: everything the pipeline has to know about it.

    ``group_by`` is empty for the record's own key.
    """

    name: str
    source: Source
    steps: tuple[Step, ...]
    group_by: tuple["str | Column", ...]
    windows: SlidingWindows
    aggregates: Mapping[str, Aggregate]
    retention_ms: int | None

    @property
    def grouped_by(self) -> str:
        """How the records are grouped, for people."""
        return ", ".join(str(part) for part in self.group_by) or "key"


@dataclass(frozen=True)
class Topology:
    """What a pipeline runs: stores in the order in which they were materialized."""

    stores: tuple[Store, ...]

    @property
    def sources(self) -> tuple[Source, ...]:
        """The distinct sources, in the order of first use."""
        return tuple(dict.fromkeys(store.source for store in self.stores))


@dataclass
class _Registry:
    """What a builder has been told: stores, and aggregations waiting for a name."""

    stores: list[Store] = field(default_factory=list)
    waiting: dict[int, str] = field(default_factory=dict)


class StreamsBuilder:
    """Where a topology begins; ``build`` ends it."""

    def __init__(self) -> None:
        """Begin an empty topology."""
        self.registry = _Registry()

    def stream(self, topic: str, schema: str) -> "KStream":
        """Read ``topic``; ``schema`` names the value's columns in Spark's DDL.

        Raises:
            InvalidTopology: the topic's name or the schema is empty or not text.
        """
        for what, text in (("topic", topic), ("schema", schema)):
            if not isinstance(text, str) or not text.strip():
                message = f"stream: {what} must be a text that is not empty, not {text!r}"
                raise InvalidTopology(message)
        return KStream(self.registry, Source(topic, schema))

    def build(self) -> Topology:
        """Return the topology.

        Raises:
            InvalidTopology: there is no store, or an aggregation was never materialized.
        """
        if self.registry.waiting:
            lost = "; ".join(self.registry.waiting.values())
            message = f"aggregation without a store, add .materialize(name): {lost}"
            raise InvalidTopology(message)
        if not self.registry.stores:
            message = "the topology has no store: end an aggregation with .materialize(name)"
            raise InvalidTopology(message)
        return Topology(tuple(self.registry.stores))


@dataclass(frozen=True)
class KStream:
    """A stream of records with row-wise steps."""

    registry: _Registry
    source: Source
    steps: tuple[Step, ...] = ()

    def filter(self, condition: "str | Column") -> "KStream":
        """Keep the records for which ``condition`` is true; it may name key and timestamp_ms."""
        _require_expressions("filter", condition)
        return replace(self, steps=(*self.steps, Filter(condition)))

    def map_values(self, *keep: str, **columns: "str | Column") -> "KStream":
        """Replace the value by columns: ``keep`` by name (``"*"``: all), ``columns`` computed.

        Raises:
            InvalidTopology: the new value would have no column.
        """
        if not keep and not columns:
            message = "map_values: name at least one column, or '*' for all"
            raise InvalidTopology(message)
        _require_expressions("map_values", *keep, *columns.values())
        return replace(self, steps=(*self.steps, MapValues(keep, dict(columns))))

    def group_by_key(self) -> "KGroupedStream":
        """Group by the record's own key; a record without one goes to the dead letters."""
        return KGroupedStream(self.registry, self.source, self.steps, ())

    def group_by(self, *columns: "str | Column") -> "KGroupedStream":
        """Group by columns or expressions, cast to text.

        Several are joined with ``|`` (a ``|`` or backslash inside is escaped by a backslash).

        Raises:
            InvalidTopology: no column is named.
        """
        if not columns:
            message = "group_by: name at least one column or expression, or use group_by_key()"
            raise InvalidTopology(message)
        _require_expressions("group_by", *columns)
        return KGroupedStream(self.registry, self.source, self.steps, columns)


@dataclass(frozen=True)
class KGroupedStream:
    """Records grouped by key, not yet windowed."""

    registry: _Registry
    source: Source
    steps: tuple[Step, ...]
    group_by: tuple["str | Column", ...]

    def windowed_by(self, windows: SlidingWindows) -> "TimeWindowedKStream":
        """Choose the windows.

        Raises:
            InvalidTopology: ``windows`` is no window definition.
        """
        if not isinstance(windows, SlidingWindows):
            message = f"windowed_by: expects SlidingWindows, not {windows!r}"
            raise InvalidTopology(message)
        return TimeWindowedKStream(self, windows)


@dataclass(frozen=True)
class TimeWindowedKStream:
    """Grouped records with windows chosen."""

    grouped: KGroupedStream
    windows: SlidingWindows

    def count(self) -> "KTable":
        """Count the records of each window, in a column named ``count``."""
        return self.aggregate(count=count())

    def aggregate(self, **aggregates: Aggregate) -> "KTable":
        """Compute the named aggregates of each window.

        Raises:
            InvalidTopology: there is none, one is not an aggregate, or a name is taken by
                a column that every store has.
        """
        if not aggregates:
            message = "aggregate: name at least one aggregate, for example n=count()"
            raise InvalidTopology(message)
        for name, aggregate in aggregates.items():
            if not isinstance(aggregate, Aggregate):
                message = f"aggregate: {name}={aggregate!r} is not an aggregate such as count()"
                raise InvalidTopology(message)
            if not name or not _PLAIN_NAME.fullmatch(name):
                message = f"aggregate: a Delta table can't have a column named {name!r}"
                raise InvalidTopology(message)
            if name.lower() in RESERVED_COLUMNS or name.lower() in {"store", "position"}:
                message = f"aggregate: the name {name!r} is taken by a column of every store"
                raise InvalidTopology(message)
        if len({name.lower() for name in aggregates}) != len(aggregates):
            message = f"aggregate: two names differ in case only: {sorted(aggregates)}"
            raise InvalidTopology(message)
        return KTable(self.grouped, self.windows, aggregates)


class KTable:
    """A windowed aggregation; give it a store with ``materialize``."""

    def __init__(
        self, grouped: KGroupedStream, windows: SlidingWindows, aggregates: Mapping[str, Aggregate]
    ) -> None:
        """Remember the aggregation until it is materialized."""
        self.grouped = grouped
        self.windows = windows
        self._aggregates = dict(aggregates)
        calls = ", ".join(f"{name}={a.call}" for name, a in self._aggregates.items())
        grouped.registry.waiting[id(self)] = f"{grouped.source.topic}: aggregate({calls})"

    def materialize(self, store_name: str, retention_ms: Duration | None = None) -> "KTable":
        """Keep the windows in the store ``store_name``.

        ``retention_ms`` is how much history of window starts queries see, counted back
        from the newest window start (semantics section 7); None keeps all.

        Raises:
            InvalidTopology: the name is no store name or taken, or the retention is
                negative or shorter than the windows need.
        """
        registry = self.grouped.registry
        try:
            check_store_name(store_name)
        except InvalidDefinition as error:
            raise InvalidTopology(str(error)) from error
        if any(store.name == store_name for store in registry.stores):
            message = f"materialize: two stores are named {store_name!r}"
            raise InvalidTopology(message)
        store = Store(
            name=store_name,
            source=self.grouped.source,
            steps=self.grouped.steps,
            group_by=self.grouped.group_by,
            windows=self.windows,
            aggregates=self._aggregates,
            retention_ms=self._checked_retention(store_name, retention_ms),
        )
        registry.stores.append(store)
        registry.waiting.pop(id(self), None)
        return self

    def _checked_retention(self, store_name: str, retention: Duration | None) -> int | None:
        if retention is None:
            return None
        retention_ms = to_ms(retention, "Retention period")
        least = self.windows.least_retention_ms
        if retention_ms < 0:
            message = f"Retention of the window store {store_name!r} must not be negative"
            raise InvalidTopology(message)
        if retention_ms < least:
            message = (
                f"The retention period of the window store {store_name!r} must be no smaller than "
                f"2 * time difference plus the grace period. Got retention=[{retention_ms}], "
                f"needed=[{least}]"
            )
            raise InvalidTopology(message)
        return retention_ms


def _require_expressions(step: str, *expressions: object) -> None:
    """Refuse what is neither SQL text nor a Spark column, such as a Python function."""
    for expression in expressions:
        if isinstance(expression, str) or type(expression).__module__.startswith("pyspark."):
            continue
        message = f"{step}: expects SQL text or a Spark Column, not {expression!r}"
        raise InvalidTopology(message)
