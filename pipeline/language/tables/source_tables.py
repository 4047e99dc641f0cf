"""Tables of topics, their joins by key or by a foreign key, and their updates.

If an aggregation without windows is joined or grouped, it is also such a table.
"""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from oriel.pipeline.errors import InvalidTopology
from oriel.pipeline.language import lowered_texts
from oriel.pipeline.language.arguments import checked_key_type, checked_ttl, require_expressions
from oriel.pipeline.language.formats import StoreKeySerde
from oriel.pipeline.language.joins import (
    check_fan_outs,
    joined_tables,
    reject_update_times,
    stepped,
    updates_of,
    with_row_step,
)
from oriel.pipeline.language.kafka_hints import CallHints
from oriel.pipeline.language.registry import Registry
from oriel.pipeline.language.step_checks import (
    check_builder,
    checked_map_values,
    reject_foreign_key,
)
from oriel.pipeline.language.tables.global_tables import GlobalKTable
from oriel.pipeline.language.tables.grouped_tables import KGroupedTable
from oriel.pipeline.language.tables.ktables import KTable
from oriel.pipeline.language.topology import (
    Expiry,
    Filter,
    MapValues,
    Node,
    RowChanges,
    StoreNode,
    null_key_filter,
    verb,
)
from oriel.pipeline.windows import Duration

if TYPE_CHECKING:
    from pyspark.sql import Column

    from oriel.pipeline.language.streams import KStream
    from oriel.pipeline.language.tables.versioned_tables import VersionedTable


@dataclass(frozen=True, repr=False)
class SourceTable(CallHints):
    """A table of a topic or of joined tables, with one row per key.

    It corresponds to ``KTable`` of Kafka Streams. The newest record of a key is its row, and a
    record with a null value deletes the row. Create it with ``StreamsBuilder.table``,
    ``KStream.to_table`` or a join of tables.

    Example:
        >>> airlines.filter("country = 'NO'").materialize("norwegian_airlines")
        <SourceTable table('airlines').filter("country = 'NO'")>
    """

    registry: Registry
    node: Node
    #: The name of the store after ``materialize``.
    store_name: str | None = None

    def __repr__(self) -> str:
        """Return the calls that create the table, for messages."""
        return f"<SourceTable {lowered_texts.table_text(self.node)}>"

    def filter(self, condition: "str | Column") -> "SourceTable":
        """Keep the rows for which a condition is true.

        It corresponds to ``KTable.filter`` of Kafka Streams. If the condition is false or null for
        the newest record of a key, the row of the key is deleted.

        Args:
            condition: An SQL expression or a Spark ``Column`` of type BOOLEAN. It can read the
                columns of the row, ``key`` and ``timestamp_ms``. For joined tables, it must be an
                expression that runs in Arrow (docs/reference/topology/streams.md).

        Returns:
            The table of the remaining rows.

        Raises:
            InvalidTopology: ``condition`` is neither a string nor a ``Column``, or the table is a
                foreign-key join whose updates cannot be read, as for ``to_stream``.

        Example:
            >>> norwegian = airlines.filter("country = 'NO'")
        """
        require_expressions("filter", condition)
        return self._with_step("filter", Filter(condition))

    def filter_not(self, condition: "str | Column") -> "SourceTable":
        """Keep the rows for which a condition is false or null.

        It corresponds to ``KTable.filterNot`` of Kafka Streams.

        Args:
            condition: An expression, as for ``filter``.

        Returns:
            The table of the remaining rows.

        Raises:
            InvalidTopology: The call is invalid for ``filter``.

        Example:
            >>> others = airlines.filter_not("country = 'NO'")
        """
        require_expressions("filter_not", condition)
        return self._with_step("filter_not", Filter(condition, is_negated=True))

    def map_values(self, *keep: str, **columns: "str | Column") -> "SourceTable":
        """Replace the columns of the rows.

        It corresponds to ``KTable.mapValues`` of Kafka Streams.

        Args:
            *keep: The names of the columns to keep, or ``"*"`` for all.
            **columns: New columns and their expressions. The rules for the condition of ``filter``
                apply to these expressions.

        Returns:
            The table with the new columns.

        Raises:
            InvalidTopology: No column is passed, an expression is neither a string nor a
                ``Column``, or the table is a foreign-key join whose updates cannot be read, as for
                ``to_stream``.

        Example:
            >>> names = airlines.map_values("country", upper_name="upper(name)")
        """
        return self._with_step("map_values", checked_map_values(keep, columns))

    def join(
        self,
        other: "SourceTable | KTable | VersionedTable",
        *,
        foreign_key: "str | Column | tuple[str | Column, ...] | None" = None,
    ) -> "SourceTable":
        """Join two tables, and keep the keys that both have (semantics.md#5-4).

        It corresponds to ``KTable.join`` of Kafka Streams, without a ``ValueJoiner``. A row has the
        columns of both tables, which must have different names. Its time is the greater of both.

        With ``foreign_key``, each row of this table is joined with the row that it references. The
        result has the keys of this table (KIP-213).

        Args:
            other: A table of the same builder. It can be an aggregation without windows.
            foreign_key: A column or an expression over this table that computes the key of the row
                of ``other``, or a tuple of several. It cannot read ``timestamp_ms``. If it is null,
                the row has no match. Default: the key of this table.

        Returns:
            The joined table.

        Raises:
            InvalidTopology: ``other`` is not a table of this builder or has windows,
                ``foreign_key`` is invalid, or one of the tables cannot be joined by a foreign key.
                It is also raised if more than 128 tables are joined.

        Example:
            >>> fleets = builder.table("fleets", schema="planes INT")
            >>> airlines_with_fleets = airlines.join(fleets)
            >>> continents = builder.table("continents", schema="continent STRING")
            >>> located = airlines.join(continents, foreign_key="country")
        """
        return self._joined("inner", other, foreign_key)

    def left_join(
        self,
        other: "SourceTable | KTable | VersionedTable",
        *,
        foreign_key: "str | Column | tuple[str | Column, ...] | None" = None,
    ) -> "SourceTable":
        """Join like ``join``, and keep the rows of this table that have no match.

        It corresponds to ``KTable.leftJoin`` of Kafka Streams. An unmatched row has nulls in the
        columns of ``other``.

        Args:
            other: A table of the same builder. It can be an aggregation without windows.
            foreign_key: The key of the row of ``other``, as for ``join``. If it is null, the row is
                kept with nulls.

        Returns:
            The joined table.

        Raises:
            InvalidTopology: An argument is invalid for ``join``.

        Example:
            >>> counted = flights.group_by("carrier").count()
            >>> airlines_with_counts = airlines.left_join(counted)
        """
        return self._joined("left", other, foreign_key)

    def outer_join(
        self,
        other: "SourceTable | KTable | VersionedTable",
        *,
        foreign_key: "str | Column | tuple[str | Column, ...] | None" = None,
    ) -> "SourceTable":
        """Join by key, and keep the rows of both tables that have no match.

        It corresponds to ``KTable.outerJoin`` of Kafka Streams. An unmatched row has nulls in the
        columns of the other table.

        Args:
            other: A table of the same builder. It can be an aggregation without windows.
            foreign_key: Not supported for outer joins. Use ``join`` or ``left_join``.

        Returns:
            The joined table.

        Raises:
            InvalidTopology: An argument is invalid for ``join``, or a foreign key is passed.

        Example:
            >>> fleets = builder.table("fleets", schema="planes INT")
            >>> all_keys = airlines.outer_join(fleets)
        """
        reject_foreign_key("outer_join", foreign_key, of_tables=True)
        return self._joined("outer", other)

    def group_by(self, *columns: "str | Column") -> "KGroupedTable":
        """Group the rows by columns or expressions.

        It corresponds to ``KTable.groupBy`` of Kafka Streams. Each row is in one group. When it
        changes or is deleted, the old row is subtracted from its group (semantics.md#9). If an
        expression is null, the row is not in a group, and its record becomes a dead letter.

        Args:
            *columns: Columns of the row, or expressions. They are combined into one key, as by
                ``KStream.group_by``. They cannot read ``timestamp_ms``, because it is the time of
                the update.

        Returns:
            The grouped table, to aggregate.

        Raises:
            InvalidTopology: No column is passed, one is neither a string nor a ``Column`` or reads
                ``timestamp_ms``, or the table is a foreign-key join whose updates cannot be read,
                as for ``to_stream``.

        Example:
            >>> airlines_by_country = airlines.group_by("country").count()
        """
        if not columns:
            message = "group_by: name at least one column or expression"
            raise InvalidTopology(message)
        require_expressions("group_by", *columns)
        # The group of an old row is computed again when the row is subtracted from it.
        reject_update_times("group_by", "a row's group", columns)
        check_fan_outs("group_by", self.node)
        changes = Node(RowChanges(self.node), group_by=columns)
        return KGroupedTable(self.registry, changes)

    def to_stream(self) -> "KStream":
        """Read the updates of the table as a stream.

        It corresponds to ``KTable.toStream`` of Kafka Streams. For a topic, the updates are its
        records that have a key. For joined tables, an update is the joined row after a record of
        any table. If the row is deleted, its value is null. The time of an update is the greatest
        time of the record and of the rows that it finds.

        Returns:
            The stream of updates.

        Raises:
            InvalidTopology: More than 3 foreign-key joins read the updates of each other.

        Example:
            >>> changes = airlines.to_stream().group_by_key().count()
        """
        from oriel.pipeline.language.streams import KStream  # noqa: PLC0415 - knows tables itself

        updates = self.updates("to_stream")
        if not updates.emits_rows:
            # A table has no record with a null key, but a later step could set a key.
            updates = stepped(updates, null_key_filter("to_stream()"))
        return KStream(self.registry, (updates,))

    def updates(self, step: str) -> Node:
        """Return the updates of the table.

        ``step`` is the name of the step that reads them, for messages.

        Raises:
            InvalidTopology: The updates cannot be read, as for ``to_stream``.
        """
        return updates_of(step, self.node)

    def materialize(
        self,
        store_name: str,
        key_serde: StoreKeySerde | None = None,
        *,
        ttl_ms: Duration | None = None,
    ) -> "SourceTable":
        """Keep the rows in a store, which clients query by its name.

        It corresponds to ``Materialized.as`` of Kafka Streams.

        Args:
            store_name: The name of the store, as for ``KTable.materialize``.
            key_serde: The type of the keys, which defines their order: ``Serdes.string()``,
                ``Serdes.long()``, or a tuple of serdes for composite keys. A record whose key does
                not have the type becomes a dead letter. Default: strings.
            ttl_ms: How much older than the stream time of its partition a row becomes before it is
                removed, as for ``KTable.materialize``. Only for the table of a topic. Later calls
                must use the returned table. Default: rows never expire.

        Returns:
            The table with its store, for ``to``.

        Raises:
            InvalidTopology: The name is invalid or used by another store, or the serde is not a
                serde of keys.

        Example:
            >>> airlines.materialize("airlines").store_name
            'airlines'
        """
        key_type = checked_key_type(store_name, self.node.tables, key_serde)
        node = self.node
        if ttl_ms is not None:
            node = Node(Expiry(node, checked_ttl(store_name, node.inputs, node.windows, ttl_ms)))
        name = self.registry.new_store_name(store_name)
        self.registry.stores.append(StoreNode(name, node, key_type=key_type))
        return replace(self, node=node, store_name=name)

    def to(self, topic: str) -> "SourceTable":
        """Also write the rows of the store to a Kafka topic, after each batch.

        Each changed row is one message, and a deleted row has a null value. ``KTable.to`` describes
        messages and delivery.

        Args:
            topic: The name of the topic, which must exist.

        Returns:
            This table.

        Raises:
            InvalidTopology: The table has no store, or the topic name is invalid or used by another
                call.

        Example:
            >>> written = airlines.materialize("airlines").to("airline_rows")
        """
        self.registry.publish(self.store_name, topic, final_only=False)
        return self

    def _with_step(self, called: str, step: Filter | MapValues) -> "SourceTable":
        return replace(self, node=with_row_step(self.updates(called), step))

    def _joined(
        self,
        how: Literal["inner", "left", "outer"],
        other: "SourceTable | KTable | VersionedTable",
        foreign_key: "str | Column | tuple[str | Column, ...] | None" = None,
    ) -> "SourceTable":
        from oriel.pipeline.language.tables.versioned_tables import (  # noqa: PLC0415 - knows tables itself
            VersionedTable,
        )

        step = verb(how)
        if isinstance(other, KTable):
            other = other.as_table(step)
        if isinstance(other, VersionedTable):
            other = other.newest()
        if not isinstance(other, SourceTable):
            message = f"{step}: a table can only be joined with a table, not with {other!r}"
            if isinstance(other, GlobalKTable):
                message += ". Also read its topic with builder.table(...)"
            elif isinstance(other, CallHints):
                message += ". Join the table with stream.join(table), or aggregate the stream first"
            raise InvalidTopology(message)
        check_builder(step, self.registry, other.registry)
        joined = joined_tables(step, how, self.node, other.node, foreign_key)
        return SourceTable(self.registry, joined)
