"""An aggregation behind its grouping: steps over its rows, emission, and the store that keeps it.

Each step returns a new object. An aggregation counts once it is materialized;
``StreamsBuilder.build`` refuses one that never is.
"""

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from oriel.pipeline.errors import InvalidTopology
from oriel.pipeline.language.arguments import (
    checked_retention,
    checked_strategy,
    require_expressions,
    with_key_type,
)
from oriel.pipeline.language.formats import StoreKeySerde
from oriel.pipeline.language.joins import aggregate_updates, results_of
from oriel.pipeline.language.names import check_names, check_new_store, check_topic
from oriel.pipeline.language.other_words import OtherWords
from oriel.pipeline.language.step_checks import (
    check_builder,
    checked_map_values,
    refuse_foreign_key,
)
from oriel.pipeline.language.topology import (
    Filter,
    Input,
    MapValues,
    Publication,
    Records,
    Store,
    StoreSource,
    verb,
)
from oriel.pipeline.language.windowed_joins import joined_windows
from oriel.pipeline.windows import Duration, EmitStrategy, NoWindows
from oriel.storage import sink_name

if TYPE_CHECKING:
    from pyspark.sql import Column

    from oriel.pipeline.language.grouped import KGroupedTable
    from oriel.pipeline.language.source_tables import SourceTable, VersionedTable
    from oriel.pipeline.language.streams import KStream


@dataclass
class Registry:
    """What a builder has so far: stores, sinks, and aggregations that wait for a store."""

    stores: list[Store] = field(default_factory=list)
    sinks: list[Store] = field(default_factory=list)
    #: As they are written.
    waiting: dict[object, str] = field(default_factory=dict)

    def new_store_name(self, name: str) -> str:
        """Return ``name``.

        Raises:
            InvalidTopology: it is no store name, or taken by another store of the builder.
        """
        return check_new_store(name, [store.name for store in self.stores])

    def publish(self, store_name: str | None, topic: str, *, final_only: bool) -> None:
        """Let the rows of a store be written to a Kafka topic.

        Raises:
            InvalidTopology: there is no such store, it has no final rows where these are asked
                for, or the topic's name is not valid or taken.
        """
        number = next((n for n, s in enumerate(self.stores) if s.name == store_name), None)
        if number is None:
            message = (
                f"to({topic!r}): the table needs a store, whose rows are written. Call materialize "
                f"first, or write each update with to_stream().to({topic!r})"
            )
            raise InvalidTopology(message)
        store = self.stores[number]
        if final_only and isinstance(store.windows, NoWindows):
            message = f"to({topic!r}): without windows, rows never become final"
            raise InvalidTopology(message)
        publication = Publication(self._new_topic(topic), final_only)
        self.stores[number] = replace(store, publications=(*store.publications, publication))

    def add_sink(self, inputs: tuple[Input, ...], topic: str) -> None:
        """Let the records of ``inputs`` be written to a Kafka topic.

        Raises:
            InvalidTopology: the topic's name is not valid or taken.
        """
        published = (Publication(self._new_topic(topic)),)
        emit = EmitStrategy.on_window_update()
        sink = Store(sink_name(topic), inputs, NoWindows(), Records(), emit, None, published)
        self.sinks.append(sink)

    def _new_topic(self, topic: str) -> str:
        """Return ``topic``.

        Raises:
            InvalidTopology: its name is not valid, or somebody writes to it already.
        """
        writers = (*self.stores, *self.sinks)
        if check_topic(topic) in {each.topic for one in writers for each in one.publications}:
            message = (
                f"to({topic!r}): two calls write to it. Merge the streams or use another topic"
            )
            raise InvalidTopology(message)
        return topic


@dataclass(frozen=True, repr=False)
class GlobalKTable(OtherWords):
    """A topic of rows that streams look up by any key: ``stream.join(table, key="expression")``."""

    registry: Registry
    origin: Input

    def __repr__(self) -> str:
        """How it is written, for messages."""
        return f"<GlobalKTable {self.origin.source}>"


class KTable(OtherWords):
    """An aggregation; give it a store with ``materialize``."""

    def __init__(self, registry: Registry, store: Store, text: str) -> None:
        """Remember the aggregation, written as ``text``, until it is materialized."""
        self.registry = registry
        self._store = store
        self._text = text
        self._store_name: str | None = None
        # A key of its own, which stays: Python gives the id of a lost object to the next one.
        self._ticket = object()
        registry.waiting[self._ticket] = text

    def __repr__(self) -> str:
        """How it is written, for messages."""
        return f"<KTable {self._text}>"

    @property
    def is_windowed(self) -> bool:
        """Whether its rows are of windows."""
        return self._store.windows.kind != "none"

    def handed_over(self) -> tuple[Store, str]:
        """The aggregation and how it is written, for another one that is made of it."""
        self.registry.waiting.pop(self._ticket, None)
        return self._store, self._text

    def suppress(self, until: EmitStrategy) -> "KTable":
        """Write final rows only, ``suppress(until_window_closes())``: Kafka's other name for it.

        Raises:
            InvalidTopology: ``until`` is something else, or there are no windows that could close.
        """
        strategy = checked_strategy(until, self._store.windows, "suppress")
        return self._instead(replace(self._store, emit=strategy), self._text)

    def filter(self, condition: "str | Column") -> "KTable":
        """Keep the rows for which ``condition`` is true, as SQL's HAVING does.

        It sees the columns of the aggregates, ``key``, ``timestamp_ms``, and where there are
        windows ``window_start_ms`` and ``window_end_ms``. A row that comes to be another leaves the
        store while the condition isn't true for it; the aggregation goes on below. Where only
        final rows are written, the others are never written.

        Raises:
            InvalidTopology: ``condition`` is neither SQL text nor a Spark ``Column``. (Whether it
                can be read and is one that Arrow runs shows when the topology is run.)
        """
        require_expressions("filter", condition)
        return self._stepped(Filter(condition))

    def filter_not(self, condition: "str | Column") -> "KTable":
        """Keep the rows for which ``condition`` is not true, those where it is null too.

        Raises:
            InvalidTopology: as from ``filter``.
        """
        require_expressions("filter_not", condition)
        return self._stepped(Filter(condition, is_negated=True))

    def map_values(self, *keep: str, **columns: "str | Column") -> "KTable":
        """Replace the store's columns: ``keep`` by name (``"*"``: all), ``columns`` computed.

        Computed columns see what the condition of ``filter`` sees.

        Raises:
            InvalidTopology: there would be no column, a name is taken by a column of every store,
                or an expression is neither SQL text nor a Spark ``Column``. (Whether it can be
                read and is one that Arrow runs shows when the topology is run.)
        """
        step = checked_map_values(keep, columns)
        for names in (columns, dict.fromkeys(name for name in keep if name != "*")):
            check_names("map_values", list(names))
        return self._stepped(step)

    def materialize(
        self,
        store_name: str,
        retention_ms: Duration | None = None,
        key_serde: StoreKeySerde | None = None,
    ) -> "KTable":
        """Keep the windows in the store ``store_name``.

        ``retention_ms`` (a number of ms or a ``timedelta``) is how much history queries see: the
        windows whose start (sessions: end) is at least the greatest so far - retention_ms + 1.
        None: all. It has no influence on results.

        ``key_serde`` says what the keys are, and so their order: ``Serdes.long()`` 64-bit integers,
        a tuple of serdes composites with a component for each; None: texts. A record whose key
        does not fit is a dead letter (docs/reference/keys.md).

        Raises:
            InvalidTopology: the name is no store name or taken, or the retention is
                negative or shorter than the windows need, or the serde does not fit the grouping.
            IllegalArgument: the retention is no number of ms that fits into 64 bits.
        """
        store = replace(
            self._store,
            name=self.registry.new_store_name(store_name),
            inputs=with_key_type(store_name, self._store.inputs, key_serde),
            retention_ms=checked_retention(store_name, self._store.windows, retention_ms),
        )
        self.registry.stores.append(store)
        self.registry.waiting.pop(self._ticket, None)
        self._store_name = store.name
        return self

    def to_stream(self) -> "KStream":
        """The rows as records of a stream, for further steps and stores.

        A record has the row's key and time, and as columns the aggregates, of windows also
        ``window_start_ms`` and ``window_end_ms``. Where only final rows are written, a row becomes
        a record once, when its window is final: in the order of windows' ends, of equal ones by
        start and key, whatever batches they come of, as behind Kafka's ``suppress``. Else every
        update is one: each record of the stream in front goes on as the rows that it changes, in
        its own place, as in Kafka without a cache. One that is gone, or that a filter leaves out
        from now on, has no value. That needs no store.

        Raises:
            InvalidTopology: it is to give final rows and has no store.
        """
        from oriel.pipeline.language.streams import KStream  # noqa: PLC0415 - knows tables itself

        if self._store.emit != EmitStrategy.on_window_close():
            return KStream(self.registry, (self._updates(),))
        if self._store_name is None:
            message = "to_stream: the table needs a store. Call materialize first"
            raise InvalidTopology(message)
        return KStream(self.registry, (Input(StoreSource.of(self._store_name), (), ()),))

    def join(
        self,
        other: "SourceTable | KTable | VersionedTable",
        *,
        foreign_key: "str | Column | tuple[str | Column, ...] | None" = None,
    ) -> "SourceTable | KTable":
        """The rows of keys that both tables have, as ``SourceTable.join`` gives them.

        Of two aggregations by equal time windows, the rows of keys and windows that both have.

        Raises:
            InvalidTopology: as there; or one has windows, and the other has none or not the same,
                or a foreign key, functions or steps.
        """
        return self._joined("inner", other, foreign_key)

    def left_join(
        self,
        other: "SourceTable | KTable | VersionedTable",
        *,
        foreign_key: "str | Column | tuple[str | Column, ...] | None" = None,
    ) -> "SourceTable | KTable":
        """``join``, and rows of this table without one in the other, with nulls."""
        return self._joined("left", other, foreign_key)

    def outer_join(
        self,
        other: "SourceTable | KTable | VersionedTable",
        *,
        foreign_key: "str | Column | tuple[str | Column, ...] | None" = None,
    ) -> "SourceTable | KTable":
        """``left_join``, and rows of the other table without one in this."""
        refuse_foreign_key("outer_join", foreign_key, of_tables=True)
        return self._joined("outer", other)

    def group_by(self, *columns: "str | Column") -> "KGroupedTable":
        """Group the rows by columns or expressions, as ``SourceTable.group_by`` does.

        Raises:
            InvalidTopology: as there; or it has windows.
        """
        return self.as_table("group_by").group_by(*columns)

    def to(self, topic: str, *, final_only: bool = False) -> "KTable":
        """Write the rows of the store to the Kafka topic ``topic`` as well, behind each batch.

        One message a row: the key says which window, the value is the window as the API answers
        it with its ``revision``, null where the window was removed. ``final_only``: each window
        once, when it is final. A batch may come again after a crash, with the same keys and
        revisions (docs/reference/kafka.md).

        Raises:
            InvalidTopology: it is not materialized, has no windows that could be final, or the
                topic's name is not valid or taken.
        """
        self.registry.publish(self._store_name, topic, final_only=final_only)
        return self

    def looked_up(self, step: str) -> Input:
        """The rows as a table that streams join, in their ``step``.

        Raises:
            InvalidTopology: it has windows.
        """
        return self._rows(
            step,
            "a stream cannot join rows of windows. Join the stream with to_stream() of the table "
            "within JoinWindows",
        )

    def as_table(self, step: str) -> "SourceTable":
        """The rows as a table that is joined or grouped in ``step``.

        Raises:
            InvalidTopology: it has windows.
        """
        from oriel.pipeline.language.source_tables import SourceTable  # noqa: PLC0415 - knows this

        rows = self._rows(
            step,
            "a windowed table joins only an aggregation by the same time windows. Use to_stream() "
            "to join or group its records, or create a table of its rows: "
            "to_stream().select_key('key', 'window_start_ms').map_values('n').to_table()",
        )
        return SourceTable(self.registry, (rows,))

    def _rows(self, step: str, of_windows: str) -> Input:
        """The updates that tell the table's rows; ``of_windows`` says what to do with windows."""
        if self.is_windowed:
            message = f"{step}: {of_windows}"
            raise InvalidTopology(message)
        return self._updates()

    def _joined(
        self,
        how: Literal["inner", "left", "outer"],
        other: "SourceTable | KTable | VersionedTable",
        foreign_key: "str | Column | tuple[str | Column, ...] | None" = None,
    ) -> "SourceTable | KTable":
        step = verb(how)
        if isinstance(other, KTable) and self.is_windowed and other.is_windowed and not foreign_key:
            check_builder(step, self.registry, other.registry)
            behind, text = other.handed_over()
            joined = joined_windows(how, self._store, behind)
            return self._instead(joined, f"{self._text}.{step}({text})")
        table = self.as_table(step)
        if how == "outer":
            return table.outer_join(other)
        join = table.join if how == "inner" else table.left_join
        return join(other, foreign_key=foreign_key)

    def _updates(self) -> Input:
        updates = results_of(aggregate_updates(self._store))
        # Whoever reads the updates has use for the aggregation, without a store too.
        self.registry.waiting.pop(self._ticket, None)
        return updates

    def _stepped(self, step: Filter | MapValues) -> "KTable":
        store = replace(self._store, row_steps=(*self._store.row_steps, step))
        return self._instead(store, f"{self._text}.{step}")

    def _instead(self, store: Store, text: str) -> "KTable":
        """Another aggregation, which is materialized instead of this one (or beside it)."""
        self.registry.waiting.pop(self._ticket, None)
        return KTable(self.registry, store, text)


def until_window_closes() -> EmitStrategy:
    """For ``suppress``: hold a window back until it is final (Kafka's ``untilWindowCloses``)."""
    return EmitStrategy.on_window_close()
