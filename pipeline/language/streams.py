"""Streams and tables of topics: row-wise steps, joins, and the groupings behind them."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING, Literal

from oriel.pipeline.errors import InvalidTopology
from oriel.pipeline.language.arguments import require_expressions, with_key_type
from oriel.pipeline.language.grouped import KGroupedStream, KGroupedTable, Registry
from oriel.pipeline.language.serdes import StoreKeySerde
from oriel.pipeline.language.topology import (
    Filter,
    Input,
    Join,
    MapValues,
    Side,
    Step,
    Store,
    StreamJoin,
    TableChanges,
    TableLookup,
    TableRows,
    TableUpdates,
    grouping_text,
    pairing_join,
)
from oriel.pipeline.windows import EmitStrategy, JoinWindows, NoWindows, TableJoin

if TYPE_CHECKING:
    from pyspark.sql import Column


@dataclass(frozen=True)
class KStream:
    """A stream of records with row-wise steps; ``origins`` are those that were merged."""

    registry: Registry
    origins: tuple[Input, ...]

    def filter(self, condition: "str | Column") -> "KStream":
        """Keep the records for which ``condition`` is true, neither false nor null.

        It sees the value's columns, ``key`` and ``timestamp_ms``, and must depend on nothing
        else: no other record, no clock. Records that are left out move no clock.

        Raises:
            InvalidTopology: ``condition`` is neither SQL text nor a Spark ``Column``.
        """
        require_expressions("filter", condition)
        return self._with_step(Filter(condition))

    def filter_not(self, condition: "str | Column") -> "KStream":
        """Leave out the records for which ``condition`` is true; those where it is null stay.

        Raises:
            InvalidTopology: ``condition`` is neither SQL text nor a Spark ``Column``.
        """
        require_expressions("filter_not", condition)
        return self._with_step(Filter(condition, is_negated=True))

    def split(self) -> "BranchedKStream":
        """Divide the records: each goes to the first branch whose condition is true for it.

        branches = stream.split().branch("v < 0", "negative").default_branch("others")
        branches["negative"].group_by_key()...
        """
        return BranchedKStream(self, {})

    def merge(self, other: "KStream") -> "KStream":
        """The records of both streams, whose values have the same columns.

        No order holds between records of the two: the partitions of each have clocks of their
        own, as if they were further partitions of one topic.

        Raises:
            InvalidTopology: ``other`` is no stream of this builder. (Whether the columns are the
                same shows when the topology is run.)
        """
        if not isinstance(other, KStream):
            message = f"merge: expects a stream of this builder, not {other!r}"
            raise InvalidTopology(message)
        _check_builder("merge", self.registry, other.registry)
        return KStream(self.registry, (*self.origins, *other.origins))

    def select_key(self, *columns: "str | Column") -> "KStream":
        """Replace the key by columns or expressions, as ``group_by`` makes it of them.

        What comes behind sees the new key: filters, joins, ``group_by_key``.

        Raises:
            InvalidTopology: no column is named, or one is neither SQL text nor a ``Column``.
        """
        return self._with_key("select_key", columns, ("*",), {})

    def map(
        self, key: "str | Column | tuple[str | Column, ...]", *keep: str, **columns: "str | Column"
    ) -> "KStream":
        """``select_key`` and ``map_values`` in one: all expressions see the old key and value.

        Raises:
            InvalidTopology: the new value would have no column, no key is named, or an expression
                is neither SQL text nor a Spark ``Column``.
        """
        if not keep and not columns:
            message = "map: name at least one column behind the key, or '*' for all"
            raise InvalidTopology(message)
        return self._with_key("map", key if isinstance(key, tuple) else (key,), keep, columns)

    def map_values(self, *keep: str, **columns: "str | Column") -> "KStream":
        """Replace the value by columns: ``keep`` by name (``"*"``: all), ``columns`` computed.

        Computed columns see the old value's columns, ``key`` and ``timestamp_ms``.

        Raises:
            InvalidTopology: the new value would have no column, or an expression is neither SQL
                text nor a Spark ``Column``.
        """
        return self._with_step(_checked_map_values(keep, columns))

    def join(self, other: "KStream | SourceTable", windows: JoinWindows | None = None) -> "KStream":
        """Pair records with equal keys; the value has the columns of both.

        With another stream: records within ``windows`` of each other, the result's time is
        the greater. With a table: the row that it has for the key now, the result's time is
        the stream record's (KIP-259).

        Raises:
            InvalidTopology: windows are missing for a stream or given for a table, or a side
                is itself a join.
        """
        return self._joined("inner", other, windows)

    def left_join(
        self, other: "KStream | SourceTable", windows: JoinWindows | None = None
    ) -> "KStream":
        """``join``, and records of this stream without a partner, with nulls in its place.

        Of two streams such a record comes out once the other one's clock is so far that no
        partner can come any more.
        """
        return self._joined("left", other, windows)

    def outer_join(self, other: "KStream", windows: JoinWindows | None = None) -> "KStream":
        """``left_join`` of two streams, and records of the other stream without a partner."""
        return self._joined("outer", other, windows)

    def group_by_key(self) -> "KGroupedStream":
        """Group by the record's own key; a record without one goes to the dead letters."""
        return KGroupedStream(self.registry, self.origins)

    def group_by(self, *columns: "str | Column") -> "KGroupedStream":
        """Group by columns or expressions, cast to text, which becomes the key.

        Several are joined with ``|`` (a ``|`` or backslash inside is escaped by a backslash). A
        record for which one is null goes to the dead letters.

        Raises:
            InvalidTopology: no column is named, or one is neither SQL text nor a ``Column``.
        """
        if not columns:
            message = "group_by: name at least one column or expression, or use group_by_key()"
            raise InvalidTopology(message)
        require_expressions("group_by", *columns)
        grouped = (replace(origin, group_by=columns) for origin in self.origins)
        return KGroupedStream(self.registry, tuple(grouped))

    def _with_step(self, step: Step) -> "KStream":
        stepped = (replace(origin, steps=(*origin.steps, step)) for origin in self.origins)
        return replace(self, origins=tuple(stepped))

    def _with_key(
        self,
        step: str,
        key: tuple["str | Column", ...],
        keep: tuple[str, ...],
        columns: Mapping[str, "str | Column"],
    ) -> "KStream":
        if not key:
            message = f"{step}: name at least one column or expression for the key"
            raise InvalidTopology(message)
        require_expressions(step, *key, *keep, *columns.values())
        return self._with_step(MapValues(keep, dict(columns), key))

    def _joined(
        self,
        how: Literal["inner", "left", "outer"],
        other: "KStream | SourceTable",
        windows: JoinWindows | None,
    ) -> "KStream":
        step = "join" if how == "inner" else f"{how}_join"
        if isinstance(other, SourceTable) and not isinstance(other.rows, int):
            message = f"{step}: the table is itself a join; join with its tables one by one"
            raise InvalidTopology(message)
        if not isinstance(other, KStream | SourceTable):
            message = f"{step}: expects a stream or a table of this builder, not {other!r}"
            raise InvalidTopology(message)
        _check_builder(step, self.registry, other.registry)
        others = other.origins if isinstance(other, KStream) else other.tables
        # Joining merged streams is merging joined ones, while each record's partners are looked
        # for in one stream: else it would come without a partner from each that has none.
        if (len(others) > 1 and how != "inner") or (len(self.origins) > 1 and how == "outer"):
            message = (
                f"{step}: a record without a partner would come once for each of the merged "
                "streams; join before merge, or use join"
            )
            raise InvalidTopology(message)
        joins: list[Join] = []
        for left, right in product(self.origins, others):
            sides = _side(left), _side(right)
            if isinstance(other, SourceTable):
                if windows is not None or how == "outer":
                    message = f"{step}: a table is read as it is now; join or left_join, no windows"
                    raise InvalidTopology(message)
                joins.append(TableLookup(*sides, how))
            elif isinstance(windows, JoinWindows):
                for side in sides:
                    _refuse_results(step, side)
                joins.append(StreamJoin(*sides, how, windows))
            else:
                message = f"{step}: two streams need JoinWindows, not {windows!r}"
                raise InvalidTopology(message)
        return KStream(
            self.registry, tuple(Input(join.left.source, (), (), join) for join in joins)
        )


@dataclass(frozen=True)
class BranchedKStream:
    """A stream that is being divided; ``rest`` are the records that no branch has yet."""

    rest: KStream
    branches: Mapping[str, KStream]

    def branch(self, condition: "str | Column", name: str | None = None) -> "BranchedKStream":
        """A branch for the records for which ``condition`` is true, neither false nor null.

        Without a name it is called after its number, from ``"1"``.

        Raises:
            InvalidTopology: ``condition`` is neither SQL text nor a Spark ``Column``, or the name
                is taken.
        """
        require_expressions("branch", condition)
        named = self._with_branch(str(len(self.branches) + 1), name, self.rest.filter(condition))
        return BranchedKStream(self.rest.filter_not(condition), named)

    def default_branch(self, name: str | None = None) -> dict[str, KStream]:
        """All branches by name, the last one for the records that no other has (``"0"``).

        Raises:
            InvalidTopology: the name is taken.
        """
        return self._with_branch("0", name, self.rest)

    def no_default_branch(self) -> dict[str, KStream]:
        """All branches by name; records that none has are filtered out."""
        return dict(self.branches)

    def _with_branch(self, number: str, name: str | None, stream: KStream) -> dict[str, KStream]:
        called = number if name is None else name
        if called in self.branches:
            message = f"branch: two branches are called {called!r}"
            raise InvalidTopology(message)
        return {**self.branches, called: stream}


@dataclass(frozen=True)
class SourceTable:
    """A topic read as a table, or several joined by key; ``materialize`` keeps its rows in a store.

    ``rows`` joins the ``tables`` by their numbers; of one table it is 0.
    """

    registry: Registry
    tables: tuple[Input, ...]
    rows: TableJoin | int = 0
    store_name: str | None = None

    def filter(self, condition: "str | Column") -> "SourceTable":
        """Keep the rows for which ``condition`` is true: a key whose row becomes another has none.

        Raises:
            InvalidTopology: ``condition`` is neither SQL text nor a Spark ``Column``, or the table
                is itself a join.
        """
        require_expressions("filter", condition)
        return self._with_step("filter", Filter(condition, of_table=True))

    def filter_not(self, condition: "str | Column") -> "SourceTable":
        """Keep the rows for which ``condition`` is not true; see ``filter``."""
        require_expressions("filter_not", condition)
        return self._with_step("filter_not", Filter(condition, is_negated=True, of_table=True))

    def map_values(self, *keep: str, **columns: "str | Column") -> "SourceTable":
        """Replace the rows' columns; see ``KStream.map_values``.

        Raises:
            InvalidTopology: as there, or the table is itself a join.
        """
        return self._with_step("map_values", _checked_map_values(keep, columns))

    def join(self, other: "SourceTable") -> "SourceTable":
        """Rows of keys that both tables have; the time is the greater of both rows'."""
        return self._joined("inner", other)

    def left_join(self, other: "SourceTable") -> "SourceTable":
        """``join``, and rows of this table without one in the other, with nulls."""
        return self._joined("left", other)

    def outer_join(self, other: "SourceTable") -> "SourceTable":
        """``left_join``, and rows of the other table without one in this."""
        return self._joined("outer", other)

    def group_by(self, *columns: "str | Column") -> "KGroupedTable":
        """Group the rows by columns or expressions, as ``KStream.group_by`` makes keys of them.

        A row is in one group, and leaves it when it becomes another or is deleted. A row for
        which an expression is null is in no group: its record goes to the dead letters.

        Raises:
            InvalidTopology: no column is named, one is neither SQL text nor a ``Column``, or one
                reads ``timestamp_ms``.
        """
        if not columns:
            message = "group_by: name at least one column or expression"
            raise InvalidTopology(message)
        require_expressions("group_by", *columns)
        if re.search(r"\btimestamp_ms\b", grouping_text(columns), re.IGNORECASE):
            message = (
                "group_by: a row leaves the group that it was in, so its group can't depend on the "
                "update's timestamp_ms; keep a time with the row, map_values('*', t='timestamp_ms')"
            )
            raise InvalidTopology(message)
        if len(self.tables) > 2:
            message = "group_by: more than two joined tables can't be grouped"
            raise InvalidTopology(message)
        left, *others = map(_side, self.tables)
        how = "left" if isinstance(self.rows, int) else self.rows.how
        changes = TableChanges(left, others[0] if others else None, how)
        return KGroupedTable(self.registry, Input(left.source, (), columns, changes))

    def to_stream(self) -> "KStream":
        """Every update of the table as a record of a stream.

        Of one topic: its records. Of two joined tables: the joined row after each record of
        either, if there is one then; the time is the greater of the record's and of the row
        that the other table has now (it counts how their batches came, as in Kafka).

        Raises:
            InvalidTopology: more than two tables are joined.
        """
        if isinstance(self.rows, int):
            return KStream(self.registry, self.tables)
        if len(self.tables) > 2:
            message = (
                "to_stream: more than two tables have no stream of updates; materialize them, or "
                "look the others up behind to_stream() of two"
            )
            raise InvalidTopology(message)
        left, right = map(_side, self.tables)
        updates = TableUpdates(left, right, self.rows.how)
        return KStream(self.registry, (Input(left.source, (), (), updates),))

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

    def _with_step(self, called: str, step: Step) -> "SourceTable":
        if not isinstance(self.rows, int):
            message = (
                f"{called}: the table is itself a join; do this with its tables before, or behind "
                "to_stream()"
            )
            raise InvalidTopology(message)
        (table,) = self.tables
        return replace(self, tables=(replace(table, steps=(*table.steps, step)),))

    def _joined(
        self, how: Literal["inner", "left", "outer"], other: "SourceTable"
    ) -> "SourceTable":
        step = "join" if how == "inner" else f"{how}_join"
        if not isinstance(other, SourceTable):
            message = f"{step}: a table is joined with a table, not with {other!r}"
            raise InvalidTopology(message)
        _check_builder(step, self.registry, other.registry)
        others = _numbered(other.rows, len(self.tables))
        rows = TableJoin(how, self.rows, others)
        return SourceTable(self.registry, (*self.tables, *other.tables), rows)


def _checked_map_values(keep: tuple[str, ...], columns: Mapping[str, "str | Column"]) -> MapValues:
    """The step of ``map_values``.

    Raises:
        InvalidTopology: there is no column, or an expression is no SQL text or ``Column``.
    """
    if not keep and not columns:
        message = "map_values: name at least one column, or '*' for all"
        raise InvalidTopology(message)
    require_expressions("map_values", *keep, *columns.values())
    return MapValues(keep, dict(columns))


def _check_builder(step: str, registry: Registry, other: Registry) -> None:
    if registry is not other:
        message = f"{step}: the two sides are of different builders; make them with one"
        raise InvalidTopology(message)


def _numbered(rows: TableJoin | int, first: int) -> TableJoin | int:
    """The same tables with numbers from ``first``."""
    if isinstance(rows, int):
        return rows + first
    return TableJoin(rows.how, _numbered(rows.left, first), _numbered(rows.right, first))


def _side(origin: Input) -> Side:
    return Side(origin.source, origin.steps, origin.join)


def _refuse_results(step: str, side: Side) -> None:
    """Refuse a side of a join of streams whose records are pairs, not records of one topic.

    What a stream looked up is its own record still: it has a place in one log, and a clock.
    """
    join = pairing_join(side)
    if join is not None:
        message = (
            f"{step}: a side that is itself a join ({join}) can't be joined with a stream; "
            "look tables up behind it, or put the streams together with cogroup"
        )
        raise InvalidTopology(message)
