"""Aggregations: steps over their rows, their emit strategy, their store and their updates.

Each step returns a new object. ``StreamsBuilder.build`` rejects an aggregation that is neither
materialized nor read.
"""

from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from oriel.pipeline.errors import InvalidTopology
from oriel.pipeline.language.arguments import (
    check_final_table,
    check_mergeable,
    checked_key_type,
    checked_retention,
    checked_strategy,
    checked_ttl,
    require_expressions,
)
from oriel.pipeline.language.formats import StoreKeySerde
from oriel.pipeline.language.kafka_hints import CallHints
from oriel.pipeline.language.names import check_names
from oriel.pipeline.language.registry import Registry
from oriel.pipeline.language.step_checks import (
    check_builder,
    checked_map_values,
    reject_foreign_key,
)
from oriel.pipeline.language.topology import (
    AggregationUpdates,
    Filter,
    MapValues,
    Node,
    Read,
    Rows,
    StoreNode,
    StoreSource,
    verb,
)
from oriel.pipeline.language.windowed_joins import joined_windows
from oriel.pipeline.windows import Duration, EmitStrategy

if TYPE_CHECKING:
    from pyspark.sql import Column

    from oriel.pipeline.language.streams import KStream
    from oriel.pipeline.language.tables.grouped_tables import KGroupedTable
    from oriel.pipeline.language.tables.source_tables import SourceTable
    from oriel.pipeline.language.tables.versioned_tables import VersionedTable


class KTable(CallHints):
    """The result of an aggregation, with one row per key or per key and window.

    It corresponds to ``KTable`` of Kafka Streams. Call ``materialize`` to keep the rows in a store,
    or ``to_stream`` to read their updates. If it has no windows, streams and tables can join it.

    Example:
        >>> flights.group_by("carrier").count().materialize("flights_by_carrier")
        <KTable flights: aggregate(count=count())>
    """

    def __init__(self, registry: Registry, rows: Rows, text: str) -> None:
        """Register the aggregation, with ``text`` for messages, until it is stored or read."""
        self.registry = registry
        self._rows = rows
        self._text = text
        self._store_name: str | None = None
        # The key is an object, because Python reuses the ``id`` of a deleted object.
        self._registry_key = object()
        registry.waiting[self._registry_key] = text

    def __repr__(self) -> str:
        """Return the calls that create the aggregation, for messages."""
        return f"<KTable {self._text}>"

    @property
    def is_windowed(self) -> bool:
        """Whether the rows have windows."""
        return self._rows.windows.kind != "none"

    def handed_over(self) -> tuple[Rows, str]:
        """Return the aggregation and its text for a join, which replaces both aggregations."""
        self.registry.waiting.pop(self._registry_key, None)
        return self._rows, self._text

    def suppress(self, until: EmitStrategy) -> "KTable":
        """Emit only final rows, each once, when its window is final (semantics.md#2-6).

        It corresponds to ``KTable.suppress`` of Kafka Streams with ``Suppressed.untilWindowCloses``
        (KIP-328). The result is the same as with ``emit(EmitStrategy.on_window_close())`` before
        the aggregation.

        Args:
            until: ``until_window_closes()``.

        Returns:
            The table of final rows.

        Raises:
            InvalidTopology: ``until`` is something else, or the aggregation has no windows.

        Example:
            >>> hour = TimeWindows.of_size_and_grace(3_600_000, 60_000)
            >>> counted = flights.group_by_key().windowed_by(hour).count()
            >>> final = counted.suppress(until_window_closes()).materialize("final_hours")
        """
        strategy = checked_strategy(until, self._rows.windows, "suppress")
        return self._replaced_by(replace(self._rows, emit=strategy), self._text)

    def filter(self, condition: "str | Column") -> "KTable":
        """Keep the rows for which a condition is true, like HAVING in SQL.

        It corresponds to ``KTable.filter`` of Kafka Streams. The result has a row only while the
        condition is true for it. The state of the aggregation keeps all rows, so a row appears when
        the condition becomes true. If only final rows are emitted, a dropped row is never emitted.

        Args:
            condition: An SQL expression or a Spark ``Column`` of type BOOLEAN. It can read the
                columns of the aggregates, ``key``, ``timestamp_ms`` and, with windows,
                ``window_start_ms`` and ``window_end_ms``. It must be an expression that runs in
                Arrow (docs/reference/topology/streams.md). This is checked when the pipeline
                starts.

        Returns:
            The table of the remaining rows.

        Raises:
            InvalidTopology: ``condition`` is neither a string nor a ``Column``.

        Example:
            >>> busy = flights.group_by_key().count().filter("count > 100")
        """
        require_expressions("filter", condition)
        return self._stepped(Filter(condition))

    def filter_not(self, condition: "str | Column") -> "KTable":
        """Keep the rows for which a condition is false or null.

        It corresponds to ``KTable.filterNot`` of Kafka Streams.

        Args:
            condition: An expression, as for ``filter``.

        Returns:
            The table of the remaining rows.

        Raises:
            InvalidTopology: ``condition`` is neither a string nor a ``Column``.

        Example:
            >>> quiet = flights.group_by_key().count().filter_not("count > 100")
        """
        require_expressions("filter_not", condition)
        return self._stepped(Filter(condition, is_negated=True))

    def map_values(self, *keep: str, **columns: "str | Column") -> "KTable":
        """Replace the columns of the rows.

        It corresponds to ``KTable.mapValues`` of Kafka Streams.

        Args:
            *keep: The names of the columns to keep, or ``"*"`` for all.
            **columns: New columns and their expressions. The rules for the condition of ``filter``
                apply to these expressions.

        Returns:
            The table with the new columns.

        Raises:
            InvalidTopology: No column is passed, a store cannot have the name of a column, or an
                expression is neither a string nor a ``Column``.

        Example:
            >>> totals = flights.group_by_key().aggregate(n=count(), delay=sum("delay"))
            >>> means = totals.map_values("n", mean_delay="delay / n")
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
        *,
        final_table: bool = False,
        mergeable: bool = False,
        ttl_ms: Duration | None = None,
    ) -> "KTable":
        """Keep the rows in a store, which clients query by its name.

        It corresponds to ``Materialized.as`` of Kafka Streams.

        Args:
            store_name: The name of the store, which must be unique in the topology: 1 to 128
                characters of ``A-Z``, ``a-z``, ``0-9``, ``.``, ``_`` and ``-``. The first character
                is a letter or a digit.
            retention_ms: How much history reads show, in milliseconds or as a ``timedelta``. Only
                for windows, and without influence on results. A window is visible if its start is
                at least the greatest start minus ``retention_ms`` plus 1 ms. For sessions, the end
                counts (semantics.md#7). Default: all windows are visible.
            key_serde: The type of the keys, which defines their order: ``Serdes.string()``,
                ``Serdes.long()``, or a tuple of serdes for composite keys. A record whose key does
                not have the type becomes a dead letter. Default: strings.
            final_table: True to also append each final window to the Delta table
                ``final/<store_name>`` of the data directory, once. Only for windows. Default:
                False.
            mergeable: True to also keep the partial aggregates of each window, so that merged reads
                compute each aggregate exactly, for example ``avg`` and ``approx_quantile``. Only
                for tumbling windows with named aggregates. Default: False.
            ttl_ms: How much older than the stream time of its partition the newest record of a key
                becomes before the key is removed, in milliseconds or as a ``timedelta``. Only
                without windows. ``to_stream`` then emits a null value, and a later record starts
                again. A record that is older when it arrives is late. Default: keys never expire.

        Returns:
            This table, for ``to`` and ``to_stream``.

        Raises:
            InvalidTopology: The name is invalid or used by another store, or the serde does not fit
                the grouping. It is also raised if the retention is negative or shorter than the
                windows need, or if it or ``final_table`` is set without windows. It is also raised
                if ``mergeable`` is set and the rows cannot be merged, or if ``ttl_ms`` is not
                positive or is set with windows or for the results of joins or several streams.
            IllegalArgument: A duration is not an integer number of milliseconds or a
                ``timedelta``, or it is too long.

        Example:
            >>> hour = TimeWindows.of_size_and_grace(3_600_000, 60_000)
            >>> counted = flights.group_by_key().windowed_by(hour).count()
            >>> day = counted.materialize("flights_of_a_day", retention_ms=86_400_000)
        """
        name = self.registry.new_store_name(store_name)
        key_type = checked_key_type(store_name, self._rows.inputs, key_serde)
        kept_ms = checked_retention(store_name, self._rows.windows, retention_ms)
        check_final_table(store_name, self._rows.windows, is_set=final_table)
        check_mergeable(store_name, self._rows, is_set=mergeable)
        if ttl_ms is not None:
            ttl = checked_ttl(store_name, self._rows.inputs, self._rows.windows, ttl_ms)
            self._rows = replace(self._rows, ttl_ms=ttl)
        store = StoreNode(
            name, self._rows, kept_ms, key_type, final_table=final_table, mergeable=mergeable
        )
        self.registry.stores.append(store)
        self.registry.waiting.pop(self._registry_key, None)
        self._store_name = name
        return self

    def to_stream(self) -> "KStream":
        """Read the updates of the rows as a stream.

        It corresponds to ``KTable.toStream`` of Kafka Streams without a cache. Each input record
        emits one update for each row that it changes (semantics.md#2-5). An update has the key and
        the time of the row. Its columns are the aggregates and, with windows, ``window_start_ms``
        and ``window_end_ms``. A deleted row has a null value.

        If only final rows are emitted, each final row is one record. The records are in the order
        of window end, start and key. In this case, call ``materialize`` before ``to_stream``.

        Returns:
            The stream of updates, or of final rows.

        Raises:
            InvalidTopology: Only final rows are emitted, and the table has no store.

        Example:
            >>> counted = flights.group_by_key().count()
            >>> thousands = counted.to_stream().filter("count % 1000 = 0")
        """
        from oriel.pipeline.language.streams import KStream  # noqa: PLC0415 - knows tables itself

        if self._rows.emit != EmitStrategy.on_window_close():
            return KStream(self.registry, (self._updates(),))
        if self._store_name is None:
            message = "to_stream: the table needs a store. Call materialize first"
            raise InvalidTopology(message)
        return KStream(self.registry, (Node(Read(StoreSource.of(self._store_name))),))

    def join(
        self,
        other: "SourceTable | KTable | VersionedTable",
        *,
        foreign_key: "str | Column | tuple[str | Column, ...] | None" = None,
    ) -> "SourceTable | KTable":
        """Join two tables, and keep the keys that both have.

        It corresponds to ``KTable.join`` of Kafka Streams, without a ``ValueJoiner``. Two
        aggregations by equal ``TimeWindows`` are joined by key and window. For all other joins, the
        aggregations have no windows, and the rules of ``SourceTable.join`` apply
        (semantics.md#5-4).

        Args:
            other: A table of the same builder.
            foreign_key: A column or an expression over this table that computes the key of the row
                of ``other``, or a tuple of several (KIP-213). Default: the key of this table.

        Returns:
            The joined table. With windows, it is a ``KTable``, otherwise a ``SourceTable``.

        Raises:
            InvalidTopology: ``other`` is not a table of this builder, the windows are not equal
                time windows, or windows are joined by a foreign key or after a step.

        Example:
            >>> counted = flights.group_by("carrier").count()
            >>> named = counted.join(airlines)
        """
        return self._joined("inner", other, foreign_key)

    def left_join(
        self,
        other: "SourceTable | KTable | VersionedTable",
        *,
        foreign_key: "str | Column | tuple[str | Column, ...] | None" = None,
    ) -> "SourceTable | KTable":
        """Join like ``join``, and keep the rows of this table that have no match.

        It corresponds to ``KTable.leftJoin`` of Kafka Streams. An unmatched row has nulls in the
        columns of ``other``.

        Args:
            other: A table of the same builder.
            foreign_key: The key of the row of ``other``, as for ``join``. If it is null, the row is
                kept with nulls.

        Returns:
            The joined table.

        Raises:
            InvalidTopology: An argument is invalid for ``join``.

        Example:
            >>> named = flights.group_by("carrier").count().left_join(airlines)
        """
        return self._joined("left", other, foreign_key)

    def outer_join(
        self,
        other: "SourceTable | KTable | VersionedTable",
        *,
        foreign_key: "str | Column | tuple[str | Column, ...] | None" = None,
    ) -> "SourceTable | KTable":
        """Join by key, and keep the rows of both tables that have no match.

        It corresponds to ``KTable.outerJoin`` of Kafka Streams. An unmatched row has nulls in the
        columns of the other table.

        Args:
            other: A table of the same builder.
            foreign_key: Not supported for outer joins. Use ``join`` or ``left_join``.

        Returns:
            The joined table.

        Raises:
            InvalidTopology: An argument is invalid for ``join``, or a foreign key is passed.

        Example:
            >>> all_airlines = flights.group_by("carrier").count().outer_join(airlines)
        """
        reject_foreign_key("outer_join", foreign_key, of_tables=True)
        return self._joined("outer", other)

    def group_by(self, *columns: "str | Column") -> "KGroupedTable":
        """Group the rows by columns or expressions.

        It corresponds to ``KTable.groupBy`` of Kafka Streams, and has the rules of
        ``SourceTable.group_by``.

        Args:
            *columns: Columns of the aggregates, or expressions. They cannot read ``timestamp_ms``.

        Returns:
            The grouped table, to aggregate.

        Raises:
            InvalidTopology: The aggregation has windows, or an argument is invalid for
                ``SourceTable.group_by``.

        Example:
            >>> counted = flights.group_by("carrier").count()
            >>> carriers_by_count = counted.group_by("count").count()
        """
        return self.as_table("group_by").group_by(*columns)

    def to(self, topic: str, *, final_only: bool = False) -> "KTable":
        """Also write the rows of the store to a Kafka topic, after each batch.

        Each changed row is one message. Its key is JSON with the key and the window, and its value
        is the row as JSON with its ``revision``. If the row is deleted, the value is null.

        Messages are written in transactions. A consumer with ``read_committed`` sees each message
        once, also after a crash. A consumer with ``read_uncommitted`` can see messages again, with
        the same keys and revisions (docs/reference/topology/sinks.md).

        Args:
            topic: The name of the topic, which must exist.
            final_only: Whether to write each window only once, when it is final. Default: write
                each changed row in each batch.

        Returns:
            This table.

        Raises:
            InvalidTopology: The table has no store, ``final_only`` is set without windows, or the
                topic name is invalid or used by another call.

        Example:
            >>> hour = TimeWindows.of_size_and_grace(3_600_000, 60_000)
            >>> counted = flights.group_by_key().windowed_by(hour).count().materialize("by_hour")
            >>> written = counted.to("flights_by_hour", final_only=True)
        """
        self.registry.publish(self._store_name, topic, final_only=final_only)
        return self

    def looked_up(self, step: str) -> Node:
        """Return the updates of the rows, for the table side of a stream-table join.

        ``step`` is the name of the join, for messages.

        Raises:
            InvalidTopology: The aggregation has windows.
        """
        return self._updates_without_windows(
            step,
            "a stream cannot join rows of windows. Join the stream with to_stream() of the table "
            "within JoinWindows",
        )

    def as_table(self, step: str) -> "SourceTable":
        """Return the rows as a table that other tables can join, and that can be grouped.

        ``step`` is the name of the step that needs the table, for messages.

        Raises:
            InvalidTopology: The aggregation has windows.
        """
        from oriel.pipeline.language.tables.source_tables import SourceTable  # noqa: PLC0415 - knows this

        rows = self._updates_without_windows(
            step,
            "a windowed table joins only an aggregation by the same time windows. Use to_stream() "
            "to join or group its records, or create a table of its rows: "
            "to_stream().select_key('key', 'window_start_ms').map_values('n').to_table()",
        )
        return SourceTable(self.registry, rows)

    def _updates_without_windows(self, step: str, window_error: str) -> Node:
        """Return the updates of the rows, or reject windows with the message ``window_error``."""
        if self.is_windowed:
            message = f"{step}: {window_error}"
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
            other_rows, text = other.handed_over()
            joined = joined_windows(how, self._rows, other_rows)
            return self._replaced_by(joined, f"{self._text}.{step}({text})")
        table = self.as_table(step)
        if how == "outer":
            return table.outer_join(other)
        join = table.join if how == "inner" else table.left_join
        return join(other, foreign_key=foreign_key)

    def _updates(self) -> Node:
        # An aggregation needs no store if its updates are read.
        self.registry.waiting.pop(self._registry_key, None)
        return Node(AggregationUpdates(self._rows))

    def _stepped(self, step: Filter | MapValues) -> "KTable":
        rows = replace(self._rows, row_steps=(*self._rows.row_steps, step))
        return self._replaced_by(rows, f"{self._text}.{step}")

    def _replaced_by(self, rows: Rows, text: str) -> "KTable":
        """Return another aggregation. It replaces this one in the list of unfinished ones."""
        self.registry.waiting.pop(self._registry_key, None)
        return KTable(self.registry, rows, text)


def until_window_closes() -> EmitStrategy:
    """Return the argument of ``suppress`` that emits only final windows.

    It corresponds to ``Suppressed.untilWindowCloses`` of Kafka Streams (KIP-328), without a buffer
    configuration.

    Returns:
        The strategy ``EmitStrategy.on_window_close()``.

    Example:
        >>> hour = TimeWindows.of_size_and_grace(3_600_000, 60_000)
        >>> counted = flights.group_by_key().windowed_by(hour).count()
        >>> final = counted.suppress(until_window_closes()).materialize("final_hours")
    """
    return EmitStrategy.on_window_close()
