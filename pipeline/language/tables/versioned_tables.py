"""Versioned tables, which keep the history of their rows (KIP-889, KIP-914)."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from oriel.pipeline.language.arguments import require_expressions
from oriel.pipeline.language.formats import StoreKeySerde
from oriel.pipeline.language.joins import results_of, stepped_rows
from oriel.pipeline.language.other_words import OtherWords
from oriel.pipeline.language.registry import Registry
from oriel.pipeline.language.step_checks import checked_map_values
from oriel.pipeline.language.tables.grouped_tables import KGroupedTable
from oriel.pipeline.language.tables.ktables import KTable
from oriel.pipeline.language.tables.source_tables import SourceTable
from oriel.pipeline.language.topology import (
    Filter,
    Input,
    MapValues,
    VersionedRecords,
    side_of,
    written,
)

if TYPE_CHECKING:
    from pyspark.sql import Column

    from oriel.pipeline.language.streams import KStream


@dataclass(frozen=True, repr=False)
class VersionedTable(OtherWords):
    """A table of a topic that keeps the history of its rows (KIP-889, KIP-914).

    A stream that joins it finds the row as of the time of its record. In all other uses, it is the
    table of its newest versions, and a record that is older than the row of its key changes
    nothing. Records that are older than the history are late. Create it with
    ``StreamsBuilder.versioned_table``.

    Example:
        >>> fees = builder.versioned_table("fees", "fee DOUBLE", history_retention_ms=3_600_000)
        >>> charged = flights.select_key("carrier").join(fees, grace_ms=60_000)
    """

    registry: Registry
    origin: Input
    history_ms: int

    def __repr__(self) -> str:
        """Return how the table is written, for messages."""
        return f"<VersionedTable {written(side_of(self.origin))}>"

    def filter(self, condition: "str | Column") -> "VersionedTable":
        """Keep the versions for which a condition is true.

        At the time of another version, the key has no row.

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

        Args:
            condition: An expression as in ``filter``.

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

        Args:
            *keep: The names of the columns to keep, or ``"*"`` for all.
            **columns: The computed columns. They can read what the condition of ``filter`` can
                read.

        Returns:
            The table with the new columns.

        Raises:
            InvalidTopology: No column is left, or an expression is neither a string nor a
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
            foreign_key: The columns or expressions that compute the key of the row of ``other``
                (KIP-213). Default: the key.

        Returns:
            The joined table.

        Raises:
            InvalidTopology: The arguments are invalid for ``SourceTable.join``.

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

        Args:
            other: A table of the same builder. It can be an aggregation without windows.
            foreign_key: The columns or expressions that compute the key of the row of ``other``.

        Returns:
            The joined table.

        Raises:
            InvalidTopology: The arguments are invalid for ``SourceTable.join``.

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

        Args:
            other: A table of the same builder. It can be an aggregation without windows.
            foreign_key: Not supported for outer joins. Use ``join`` or ``left_join``.

        Returns:
            The joined table.

        Raises:
            InvalidTopology: The arguments are invalid for ``SourceTable.join``, or a foreign key is
                passed.

        Example:
            >>> fees = builder.versioned_table("fees", "fee DOUBLE", history_retention_ms=3_600_000)
            >>> all_keys = fees.outer_join(airlines)
        """
        return self.newest().outer_join(other, foreign_key=foreign_key)

    def group_by(self, *columns: "str | Column") -> KGroupedTable:
        """Group the newest versions, as ``SourceTable.group_by``.

        Args:
            *columns: Columns of the row, or expressions.

        Returns:
            The grouped table, to aggregate.

        Raises:
            InvalidTopology: The arguments are invalid for ``SourceTable.group_by``.

        Example:
            >>> fees = builder.versioned_table("fees", "fee DOUBLE", history_retention_ms=3_600_000)
            >>> airlines_by_fee = fees.group_by("fee").count()
        """
        return self.newest().group_by(*columns)

    def to_stream(self) -> "KStream":
        """Read the records of the table as a stream.

        The stream has every record that is not late and has a key, in the order of the log.

        Returns:
            The stream of records.

        Example:
            >>> fees = builder.versioned_table("fees", "fee DOUBLE", history_retention_ms=3_600_000)
            >>> changes = fees.to_stream().group_by_key().count()
        """
        return self._records(newest_only=False).to_stream()

    def materialize(self, store_name: str, key_serde: StoreKeySerde | None = None) -> SourceTable:
        """Keep the newest versions in a store, as ``SourceTable.materialize``.

        Args:
            store_name: The name of the store. It is unique in the topology.
            key_serde: The type of the keys. Default: strings.

        Returns:
            The table of the newest versions, with its store.

        Raises:
            InvalidTopology: The arguments are invalid for ``SourceTable.materialize``.

        Example:
            >>> fees = builder.versioned_table("fees", "fee DOUBLE", history_retention_ms=3_600_000)
            >>> fees.materialize("fees").store_name
            'fees'
        """
        return self.newest().materialize(store_name, key_serde)

    def newest(self) -> SourceTable:
        """Return the table of the newest versions."""
        return self._records(newest_only=True)

    def _records(self, *, newest_only: bool) -> SourceTable:
        records = VersionedRecords(side_of(self.origin), self.history_ms, newest_only)
        return SourceTable(self.registry, (results_of(records),))

    def _with_step(self, step: Filter | MapValues) -> "VersionedTable":
        return replace(self, origin=stepped_rows(self.origin, step))
