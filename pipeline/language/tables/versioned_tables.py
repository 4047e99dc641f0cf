"""Versioned tables, which keep the history of their rows (KIP-889, KIP-914)."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from oriel.pipeline.language import lowered_texts
from oriel.pipeline.language.arguments import checked_key_type, require_expressions
from oriel.pipeline.language.formats import StoreKeySerde
from oriel.pipeline.language.joins import with_row_step
from oriel.pipeline.language.kafka_hints import CallHints
from oriel.pipeline.language.registry import Registry
from oriel.pipeline.language.step_checks import checked_map_values
from oriel.pipeline.language.tables.grouped_tables import KGroupedTable
from oriel.pipeline.language.tables.ktables import KTable
from oriel.pipeline.language.tables.source_tables import SourceTable
from oriel.pipeline.language.topology import (
    Filter,
    MapValues,
    Node,
    StoreNode,
    TableHistory,
    Versions,
)

if TYPE_CHECKING:
    from pyspark.sql import Column

    from oriel.pipeline.language.streams import KStream


@dataclass(frozen=True, repr=False)
class VersionedTable(CallHints):
    """A table of a topic that keeps the history of its rows (KIP-889, KIP-914).

    Create it with ``StreamsBuilder.versioned_table``. A stream that joins it finds the row as of
    the time of its record. A record that is older than the history is late.

    In joins of tables, ``group_by`` and ``materialize``, it is the table of its newest versions. A
    record that is older than the row of its key changes nothing there.

    Example:
        >>> fees = builder.versioned_table("fees", "fee DOUBLE", history_retention_ms=3_600_000)
        >>> charged = flights.select_key("carrier").join(fees, grace_ms=60_000)
    """

    registry: Registry
    origin: Node
    history_ms: int

    def __repr__(self) -> str:
        """Return the calls that create the table, for messages."""
        return f"<VersionedTable {lowered_texts.stream_text((self.origin,))}>"

    def filter(self, condition: "str | Column") -> "VersionedTable":
        """Keep the versions for which a condition is true.

        It corresponds to ``KTable.filter`` of Kafka Streams. During the time of a version for which
        the condition is false or null, its key has no row.

        Args:
            condition: An SQL expression or a Spark ``Column`` of type BOOLEAN. It can read the
                columns of the version, ``key`` and ``timestamp_ms``.

        Returns:
            The table of the remaining versions.

        Raises:
            InvalidTopology: ``condition`` is neither a string nor a ``Column``.

        Example:
            >>> fees = builder.versioned_table("fees", "fee DOUBLE", history_retention_ms=3_600_000)
            >>> positive = fees.filter("fee > 0")
        """
        require_expressions("filter", condition)
        return self._with_step(Filter(condition))

    def filter_not(self, condition: "str | Column") -> "VersionedTable":
        """Keep the versions for which a condition is false or null.

        It corresponds to ``KTable.filterNot`` of Kafka Streams.

        Args:
            condition: An expression, as for ``filter``.

        Returns:
            The table of the remaining versions.

        Raises:
            InvalidTopology: ``condition`` is neither a string nor a ``Column``.

        Example:
            >>> fees = builder.versioned_table("fees", "fee DOUBLE", history_retention_ms=3_600_000)
            >>> not_free = fees.filter_not("fee = 0")
        """
        require_expressions("filter_not", condition)
        return self._with_step(Filter(condition, is_negated=True))

    def map_values(self, *keep: str, **columns: "str | Column") -> "VersionedTable":
        """Replace the columns of the versions.

        It corresponds to ``KTable.mapValues`` of Kafka Streams.

        Args:
            *keep: The names of the columns to keep, or ``"*"`` for all.
            **columns: New columns and their expressions. The rules for the condition of ``filter``
                apply to these expressions.

        Returns:
            The table with the new columns.

        Raises:
            InvalidTopology: No column is passed, or an expression is neither a string nor a
                ``Column``.

        Example:
            >>> fees = builder.versioned_table("fees", "fee DOUBLE", history_retention_ms=3_600_000)
            >>> in_cents = fees.map_values(cents="fee * 100")
        """
        return self._with_step(checked_map_values(keep, columns))

    def join(
        self,
        other: "VersionedTable | SourceTable | KTable",
        *,
        foreign_key: "str | Column | tuple[str | Column, ...] | None" = None,
    ) -> SourceTable:
        """Join the newest versions with another table, as ``SourceTable.join``.

        Args:
            other: A table of the same builder. It can be an aggregation without windows.
            foreign_key: A column or an expression over this table that computes the key of the row
                of ``other``, or a tuple of several (KIP-213). Default: the key of this table.

        Returns:
            The joined table.

        Raises:
            InvalidTopology: An argument is invalid for ``SourceTable.join``.

        Example:
            >>> fees = builder.versioned_table("fees", "fee DOUBLE", history_retention_ms=3_600_000)
            >>> with_names = fees.join(airlines)
        """
        return self.newest().join(other, foreign_key=foreign_key)

    def left_join(
        self,
        other: "VersionedTable | SourceTable | KTable",
        *,
        foreign_key: "str | Column | tuple[str | Column, ...] | None" = None,
    ) -> SourceTable:
        """Join like ``join``, and keep the rows of this table that have no match.

        An unmatched row has nulls in the columns of ``other``.

        Args:
            other: A table of the same builder. It can be an aggregation without windows.
            foreign_key: The key of the row of ``other``, as for ``join``. If it is null, the row is
                kept with nulls.

        Returns:
            The joined table.

        Raises:
            InvalidTopology: An argument is invalid for ``SourceTable.join``.

        Example:
            >>> fees = builder.versioned_table("fees", "fee DOUBLE", history_retention_ms=3_600_000)
            >>> with_names = fees.left_join(airlines)
        """
        return self.newest().left_join(other, foreign_key=foreign_key)

    def outer_join(
        self,
        other: "VersionedTable | SourceTable | KTable",
        *,
        foreign_key: "str | Column | tuple[str | Column, ...] | None" = None,
    ) -> SourceTable:
        """Join by key, and keep the rows of both tables that have no match.

        An unmatched row has nulls in the columns of the other table.

        Args:
            other: A table of the same builder. It can be an aggregation without windows.
            foreign_key: Not supported for outer joins. Use ``join`` or ``left_join``.

        Returns:
            The joined table.

        Raises:
            InvalidTopology: An argument is invalid for ``SourceTable.join``, or a foreign key is
                passed.

        Example:
            >>> fees = builder.versioned_table("fees", "fee DOUBLE", history_retention_ms=3_600_000)
            >>> all_keys = fees.outer_join(airlines)
        """
        return self.newest().outer_join(other, foreign_key=foreign_key)

    def group_by(self, *columns: "str | Column") -> KGroupedTable:
        """Group the newest versions, as ``SourceTable.group_by``.

        Args:
            *columns: Columns of the row, or expressions. They cannot read ``timestamp_ms``.

        Returns:
            The grouped table, to aggregate.

        Raises:
            InvalidTopology: An argument is invalid for ``SourceTable.group_by``.

        Example:
            >>> fees = builder.versioned_table("fees", "fee DOUBLE", history_retention_ms=3_600_000)
            >>> airlines_by_fee = fees.group_by("fee").count()
        """
        return self.newest().group_by(*columns)

    def to_stream(self) -> "KStream":
        """Read the records of the table as a stream.

        It corresponds to ``KTable.toStream`` of Kafka Streams. The stream has each record that has
        a key and is not late, in the order of the log.

        Returns:
            The stream of records.

        Example:
            >>> fees = builder.versioned_table("fees", "fee DOUBLE", history_retention_ms=3_600_000)
            >>> changes = fees.to_stream().group_by_key().count()
        """
        return self._records(newest_only=False).to_stream()

    def materialize(
        self,
        store_name: str,
        key_serde: StoreKeySerde | None = None,
        *,
        versions: bool = False,
    ) -> SourceTable:
        """Keep the newest versions in a store, as ``SourceTable.materialize``.

        Args:
            store_name: The name of the store, as for ``KTable.materialize``.
            key_serde: The type of the keys, as for ``SourceTable.materialize``. Default: strings.
            versions: True to also keep the earlier versions of the history, so that clients can
                read the version of a key at a time (KIP-960) and all versions of a key (KIP-968).
                Default: False.

        Returns:
            The table of the newest versions, with its store.

        Raises:
            InvalidTopology: An argument is invalid for ``SourceTable.materialize``.

        Example:
            >>> fees = builder.versioned_table("fees", "fee DOUBLE", history_retention_ms=3_600_000)
            >>> fees.materialize("fees").store_name
            'fees'
            >>> with_history = fees.materialize("fee_history", versions=True)
        """
        if not versions:
            return self.newest().materialize(store_name, key_serde)
        key_type = checked_key_type(store_name, (self.origin,), key_serde)
        name = self.registry.new_store_name(store_name)
        history = TableHistory(self.origin, self.history_ms)
        self.registry.stores.append(StoreNode(name, history, key_type=key_type))
        return replace(self.newest(), store_name=name)

    def newest(self) -> SourceTable:
        """Return the table of the newest versions."""
        return self._records(newest_only=True)

    def _records(self, *, newest_only: bool) -> SourceTable:
        versions = Versions(self.origin, self.history_ms, newest_only)
        return SourceTable(self.registry, Node(versions))

    def _with_step(self, step: Filter | MapValues) -> "VersionedTable":
        return replace(self, origin=with_row_step(self.origin, step))
