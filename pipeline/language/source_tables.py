"""Tables: topics' rows, joined by key or by a foreign key, and what goes on from them.

An aggregation without windows is a table here, too, once it is joined or grouped. A table may keep
the history of its rows, for streams that join them as of their own time.
"""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from oriel.pipeline.errors import InvalidTopology
from oriel.pipeline.language.arguments import require_expressions, with_key_type
from oriel.pipeline.language.formats import StoreKeySerde
from oriel.pipeline.language.grouped import KGroupedTable
from oriel.pipeline.language.joins import (
    are_topics_rows,
    checked_foreign_key,
    foreign_rows,
    foreign_updates,
    numbered,
    refuse_update_times,
    results_of,
    stepped,
    stepped_rows,
    table_changes,
    table_updates,
)
from oriel.pipeline.language.ktables import GlobalKTable, KTable, Registry
from oriel.pipeline.language.other_words import OtherWords
from oriel.pipeline.language.step_checks import (
    check_builder,
    checked_map_values,
    refuse_foreign_key,
)
from oriel.pipeline.language.topology import (
    HAS_KEY,
    Filter,
    Input,
    MapValues,
    Store,
    TableRows,
    VersionedRecords,
    side_of,
    tells_rows,
    verb,
    written,
)
from oriel.pipeline.windows import EmitStrategy, NoWindows, TableJoin

if TYPE_CHECKING:
    from pyspark.sql import Column

    from oriel.pipeline.language.streams import KStream


@dataclass(frozen=True, repr=False)
class SourceTable(OtherWords):
    """A topic as a table, or several joined by key; ``materialize`` keeps the rows in a store.

    ``rows`` joins the ``tables`` by their numbers; of one table it is 0.
    """

    registry: Registry
    tables: tuple[Input, ...]
    rows: TableJoin | int = 0
    store_name: str | None = None

    def __repr__(self) -> str:
        """How it is written, for messages."""
        tables = (written(side_of(table), is_table=True) for table in self.tables)
        return f"<SourceTable {' and '.join(tables)}>"

    def filter(self, condition: "str | Column") -> "SourceTable":
        """Keep the rows for which ``condition`` is true: a key whose row becomes another has none.

        Raises:
            InvalidTopology: ``condition`` is neither SQL text nor a Spark ``Column``, or of several
                tables one is made of pairs of streams, or of elements of joined rows.
        """
        require_expressions("filter", condition)
        return self._with_step("filter", Filter(condition))

    def filter_not(self, condition: "str | Column") -> "SourceTable":
        """Keep the rows for which ``condition`` is not true; see ``filter``."""
        require_expressions("filter_not", condition)
        return self._with_step("filter_not", Filter(condition, is_negated=True))

    def map_values(self, *keep: str, **columns: "str | Column") -> "SourceTable":
        """Replace the rows' columns; see ``KStream.map_values``.

        Raises:
            InvalidTopology: as there, or of several tables one is made of pairs of streams, or of
                elements of joined rows.
        """
        return self._with_step("map_values", checked_map_values(keep, columns))

    def join(
        self,
        other: "SourceTable | KTable | VersionedTable",
        *,
        foreign_key: "str | Column | tuple[str | Column, ...] | None" = None,
    ) -> "SourceTable":
        """Rows of keys that both tables have; the time is the greater of both rows'.

        With ``foreign_key`` the other row is that of the key which a row of this table (of several
        that are joined, of the first one) names by these columns or expressions, as ``group_by``
        makes keys; many rows may name one. The joined row is one of this table's key. Where it is
        null there is none.

        An aggregation without windows is a table, too.

        Raises:
            InvalidTopology: ``other`` is no table of this builder, or has windows, the foreign key
                is neither SQL text nor a ``Column``, or one of the tables is a join or an
                aggregation that it can't be used with.
        """
        return self._joined("inner", other, foreign_key)

    def left_join(
        self,
        other: "SourceTable | KTable | VersionedTable",
        *,
        foreign_key: "str | Column | tuple[str | Column, ...] | None" = None,
    ) -> "SourceTable":
        """``join``, and rows of this table without one in the other, with nulls."""
        return self._joined("left", other, foreign_key)

    def outer_join(
        self,
        other: "SourceTable | KTable | VersionedTable",
        *,
        foreign_key: "str | Column | tuple[str | Column, ...] | None" = None,
    ) -> "SourceTable":
        """``left_join``, and rows of the other table without one in this."""
        refuse_foreign_key("outer_join", foreign_key, of_tables=True)
        return self._joined("outer", other)

    def group_by(self, *columns: "str | Column") -> "KGroupedTable":
        """Group the rows by columns or expressions, as ``KStream.group_by`` makes keys of them.

        A row is in one group, and leaves it when it becomes another or is deleted. A row for
        which an expression is null is in no group: its record goes to the dead letters.

        Raises:
            InvalidTopology: no column is named, one is neither SQL text nor a ``Column``, or one
                reads ``timestamp_ms``; or a table is made of pairs of streams, or of
                elements of joined rows.
        """
        if not columns:
            message = "group_by: name at least one column or expression"
            raise InvalidTopology(message)
        require_expressions("group_by", *columns)
        # A row leaves the group that it was in, which is made of the row again then.
        refuse_update_times("group_by", "a row's group", columns)
        changes = results_of(table_changes("group_by", self.tables, self.rows))
        return KGroupedTable(self.registry, replace(changes, group_by=columns))

    def to_stream(self) -> "KStream":
        """Every update of the table as a record of a stream.

        Of one topic: its records, without those that have no key. Of joined tables: the joined
        row after each record of any, or a record without a value if it is gone; the time is the
        greatest of the record's and of the rows that it meets in the other tables (it counts how
        their batches came, as in Kafka).

        Raises:
            InvalidTopology: of several tables one is made of pairs of streams, or of elements of
                joined rows.
        """
        from oriel.pipeline.language.streams import KStream  # noqa: PLC0415 - knows tables itself

        updates = self.updates("to_stream")
        if not tells_rows(updates):
            # A record without a key is none of a table's; behind it, it could get one.
            updates = stepped(updates, HAS_KEY)
        return KStream(self.registry, (updates,))

    def updates(self, step: str) -> Input:
        """The table as what tells its rows, for the ``step`` that is called.

        Raises:
            InvalidTopology: as from ``to_stream``.
        """
        return table_updates(step, self.tables, self.rows)

    def materialize(self, store_name: str, key_serde: StoreKeySerde | None = None) -> "SourceTable":
        """Keep the rows in the store ``store_name``; ``key_serde`` as in ``KTable.materialize``.

        Raises:
            InvalidTopology: the name is no store name or taken, or the serde is none of a key.
        """
        inputs = with_key_type(store_name, self.tables, key_serde)
        name = self.registry.new_store_name(store_name)
        emit = EmitStrategy.on_window_update()
        store = Store(name, inputs, NoWindows(), TableRows(self.rows), emit, None)
        self.registry.stores.append(store)
        return replace(self, store_name=name)

    def to(self, topic: str) -> "SourceTable":
        """Write the rows of the store to the Kafka topic ``topic`` as well; see ``KTable.to``.

        Raises:
            InvalidTopology: it is not materialized, or the topic's name is not valid or taken.
        """
        self.registry.publish(self.store_name, topic, final_only=False)
        return self

    def _with_step(self, called: str, step: Filter | MapValues) -> "SourceTable":
        return replace(self, tables=(stepped_rows(self.updates(called), step),), rows=0)

    def _joined(
        self,
        how: Literal["inner", "left", "outer"],
        other: "SourceTable | KTable | VersionedTable",
        foreign_key: "str | Column | tuple[str | Column, ...] | None" = None,
    ) -> "SourceTable":
        step = verb(how)
        if isinstance(other, KTable):
            other = other.as_table(step)
        if isinstance(other, VersionedTable):
            other = other.newest()
        if not isinstance(other, SourceTable):
            message = f"{step}: a table is joined with a table, not with {other!r}"
            if isinstance(other, GlobalKTable):
                message += ". Also read its topic with builder.table(...)"
            elif isinstance(other, OtherWords):
                message += ". Join the table with stream.join(table), or aggregate the stream first"
            raise InvalidTopology(message)
        check_builder(step, self.registry, other.registry)
        tables = other.tables
        if foreign_key is not None:
            key = checked_foreign_key(step, foreign_key)
            if not are_topics_rows(self.tables[0], self.rows, other.rows):
                both = self.updates(step), other.updates(step)
                return SourceTable(self.registry, (foreign_updates(step, how, both, key),))
            tables = (foreign_rows(self.tables[0], tables[0], key),)
        rows = TableJoin(how, self.rows, numbered(other.rows, len(self.tables)))
        return SourceTable(self.registry, (*self.tables, *tables), rows)


@dataclass(frozen=True, repr=False)
class VersionedTable(OtherWords):
    """A topic as a table that knows which row a key had at a time (KIP-889, KIP-914).

    A stream that joins it finds the row as of its record's time. In all other places it is a table
    whose row is the record of the greatest time: one that comes out of order changes nothing.
    Records that are more than ``history_ms`` behind the clock of their partition are late.
    """

    registry: Registry
    origin: Input
    history_ms: int

    def __repr__(self) -> str:
        """How it is written, for messages."""
        return f"<VersionedTable {written(side_of(self.origin))}>"

    def filter(self, condition: "str | Column") -> "VersionedTable":
        """Keep the versions for which ``condition`` is true: a key has no row as long as it isn't.

        Raises:
            InvalidTopology: ``condition`` is neither SQL text nor a Spark ``Column``.
        """
        require_expressions("filter", condition)
        return self._with_step(Filter(condition))

    def filter_not(self, condition: "str | Column") -> "VersionedTable":
        """Keep the versions for which ``condition`` is not true; see ``filter``."""
        require_expressions("filter_not", condition)
        return self._with_step(Filter(condition, is_negated=True))

    def map_values(self, *keep: str, **columns: "str | Column") -> "VersionedTable":
        """Replace the versions' columns; see ``KStream.map_values``.

        Raises:
            InvalidTopology: as there.
        """
        return self._with_step(checked_map_values(keep, columns))

    def join(
        self,
        other: "VersionedTable | SourceTable | KTable",
        *,
        foreign_key: "str | Column | tuple[str | Column, ...] | None" = None,
    ) -> SourceTable:
        """Rows of keys that both tables have; see ``SourceTable.join``."""
        return self.newest().join(other, foreign_key=foreign_key)

    def left_join(
        self,
        other: "VersionedTable | SourceTable | KTable",
        *,
        foreign_key: "str | Column | tuple[str | Column, ...] | None" = None,
    ) -> SourceTable:
        """``join``, and rows of this table without one in the other, with nulls."""
        return self.newest().left_join(other, foreign_key=foreign_key)

    def outer_join(
        self,
        other: "VersionedTable | SourceTable | KTable",
        *,
        foreign_key: "str | Column | tuple[str | Column, ...] | None" = None,
    ) -> SourceTable:
        """``left_join``, and rows of the other table without one in this."""
        return self.newest().outer_join(other, foreign_key=foreign_key)

    def group_by(self, *columns: "str | Column") -> KGroupedTable:
        """Group the newest rows; see ``SourceTable.group_by``."""
        return self.newest().group_by(*columns)

    def to_stream(self) -> "KStream":
        """Every record of the table that is not late, as a record of a stream; out of order too.

        Those without a key are left out.
        """
        return self._records(newest_only=False).to_stream()

    def materialize(self, store_name: str, key_serde: StoreKeySerde | None = None) -> SourceTable:
        """Keep the newest rows in the store ``store_name``; see ``SourceTable.materialize``."""
        return self.newest().materialize(store_name, key_serde)

    def newest(self) -> SourceTable:
        """The table of the newest versions."""
        return self._records(newest_only=True)

    def _records(self, *, newest_only: bool) -> SourceTable:
        records = VersionedRecords(side_of(self.origin), self.history_ms, newest_only)
        return SourceTable(self.registry, (results_of(records),))

    def _with_step(self, step: Filter | MapValues) -> "VersionedTable":
        return replace(self, origin=stepped_rows(self.origin, step))
