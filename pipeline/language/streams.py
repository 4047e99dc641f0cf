"""Streams: row-wise steps, joins, and the groupings behind them."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from oriel.pipeline.errors import InvalidTopology
from oriel.pipeline.language.arguments import (
    checked_period,
    require_expressions,
    require_parameters,
)
from oriel.pipeline.language.branches import BranchedKStream, merged
from oriel.pipeline.language.grouped import KGroupedStream
from oriel.pipeline.language.joins import (
    global_lookups,
    lookups,
    stepped,
    stream_joins,
)
from oriel.pipeline.language.ktables import GlobalKTable, KTable, Registry
from oriel.pipeline.language.other_words import OtherWords
from oriel.pipeline.language.source_tables import SourceTable, VersionedTable
from oriel.pipeline.language.step_checks import (
    check_builder,
    checked_flat_map,
    checked_key,
    checked_map_values,
    refuse_foreign_key,
    refuse_value_joiner,
)
from oriel.pipeline.language.topology import (
    HAS_KEY,
    Filter,
    GraceBuffer,
    Input,
    MergedStreams,
    Peek,
    Peeker,
    Step,
    StreamJoin,
    pairing_join,
    side_of,
    tells_rows,
    written,
)
from oriel.pipeline.windows import Duration, JoinWindows

if TYPE_CHECKING:
    from pyspark.sql import Column


@dataclass(frozen=True, repr=False)
class KStream(OtherWords):
    """A stream of records with row-wise steps; ``origins`` are those that were merged."""

    registry: Registry
    origins: tuple[Input, ...]

    def __repr__(self) -> str:
        """How it is written, for messages."""
        return f"<KStream {' and '.join(written(side_of(origin)) for origin in self.origins)}>"

    def filter(self, condition: "str | Column") -> "KStream":
        """Keep the records for which a condition is true.

        A record is dropped if the condition is false or null. Dropped records do not advance
        stream time (semantics.md#2-1).

        Args:
            condition: An SQL expression or a Spark ``Column`` of type BOOLEAN. It can read the
                columns of the value, ``key`` and ``timestamp_ms`` of the same record, and must be
                deterministic.

        Returns:
            The stream of the remaining records.

        Raises:
            InvalidTopology: ``condition`` is neither a string nor a ``Column``.

        Example:
            >>> late = flights.filter("delay > 15")
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

    def split(self) -> "BranchedKStream[KStream]":
        """Divide the records: each goes to the first branch whose condition is true for it.

        branches = stream.split().branch("v < 0", "negative").default_branch("others")
        branches["negative"].group_by_key()...
        """
        return BranchedKStream(self, {})

    def merge(self, other: "KStream") -> "KStream":
        """The records of both streams, whose values have the same columns.

        No order holds between records of two topics: the partitions of each have clocks of their
        own, as if they were further partitions of one topic. Branches of one stream are that stream
        again, in its order, if there are filters, ``map`` and ``map_values`` alone between.

        Raises:
            InvalidTopology: ``other`` is no stream of this builder. (Whether the columns are the
                same shows when the topology is run.)
        """
        if not isinstance(other, KStream):
            message = f"merge: expects a stream of this builder, not {other!r}"
            raise InvalidTopology(message)
        check_builder("merge", self.registry, other.registry)
        return KStream(self.registry, merged(self.origins, other.origins))

    def select_key(self, *columns: "str | Column") -> "KStream":
        """Replace the key by columns or expressions, as ``group_by`` makes it of them.

        What comes behind sees the new key: filters, joins, ``group_by_key``.

        Raises:
            InvalidTopology: no column is named, or one is neither SQL text nor a ``Column``.
        """
        return self._with_step(checked_key("select_key", columns, ("*",), {}))

    def map(
        self, key: "str | Column | tuple[str | Column, ...]", *keep: str, **columns: "str | Column"
    ) -> "KStream":
        """``select_key`` and ``map_values`` in one: all expressions see the old key and value.

        Raises:
            InvalidTopology: the new value would have no column, no key is named, or an expression
                is neither SQL text nor a Spark ``Column``.
        """
        parts = key if isinstance(key, tuple) else (key,)
        require_expressions("map", *parts)
        if not keep and not columns:
            message = "map: name at least one column after the key, or '*' for all"
            raise InvalidTopology(message)
        return self._with_step(checked_key("map", parts, keep, columns))

    def map_values(self, *keep: str, **columns: "str | Column") -> "KStream":
        """Replace the value by columns: ``keep`` by name (``"*"``: all), ``columns`` computed.

        Computed columns see the old value's columns, ``key`` and ``timestamp_ms``.

        Raises:
            InvalidTopology: the new value would have no column, or an expression is neither SQL
                text nor a Spark ``Column``.
        """
        return self._with_step(checked_map_values(keep, columns))

    def flat_map_values(self, *keep: str, **columns: "str | Column") -> "KStream":
        """Make several records of one: one of the computed ``columns`` is an array.

        The record becomes one for each of its elements, in their order, with its key and time:
        ``flat_map_values("user", word="split(line, ' ')")`` gives each word beside the user. The
        columns ``keep`` and other computed ones are the same in each. Of structs,
        ``map_values(price="item.price")`` behind it takes the fields. A record whose array is empty
        or null is filtered out.

        Elements are counted beside the records (``elements``, ``elements_late`` ...); what is
        flattened behind a join of two streams or tables are results, which no count has.

        Raises:
            InvalidTopology: no column is computed, or an expression is neither SQL text nor a Spark
                ``Column``. (Which column is an array shows when the topology is run.)
        """
        step = checked_flat_map("flat_map_values", keep, columns)
        return self._with_step(step)

    def flat_map(
        self, key: "str | Column | tuple[str | Column, ...]", *keep: str, **columns: "str | Column"
    ) -> "KStream":
        """``flat_map_values`` whose records get a key of their own.

        The key's expressions see the element beside all columns of the old value:
        ``flat_map("word", word="split(line, ' ')")``. What stays are ``keep`` and ``columns``.

        Raises:
            InvalidTopology: as from ``flat_map_values``, or no key is named.
        """
        parts = key if isinstance(key, tuple) else (key,)
        flattened = checked_flat_map("flat_map", ("*",), columns)
        keyed = checked_key("flat_map", parts, (*keep, *columns), {})
        return self._with_step(flattened, keyed)

    def peek(self, function: Peeker) -> "KStream":
        """Show each record to ``function(key, value, timestamp_ms)``, and go on with it as it is.

        ``value`` is a dict of the columns, None where the record has none. The function runs in
        Spark's Python workers, also in a test: it changes no object of this process, but may
        write to files or ask a service. It is called for each store behind it, and again for the
        records of a batch after a crash, as in Kafka Streams, or where something else of it fails.
        If it raises, the run ends and names it. It takes Python for each record, and Spark for all
        steps beside it.

        Raises:
            InvalidTopology: ``function`` can't be called with these.
        """
        if not callable(function):
            message = f"peek: expects a function (key, value, timestamp_ms), not {function!r}"
            raise InvalidTopology(message)
        require_parameters("peek: the function", function, ("key", "value", "timestamp_ms"))
        return self._with_step(Peek(function))

    def join(
        self,
        other: "KStream | SourceTable | KTable | VersionedTable | GlobalKTable",
        windows: JoinWindows | None = None,
        *,
        key: "str | Column | None" = None,
        grace_ms: Duration | None = None,
        foreign_key: None = None,
    ) -> "KStream":
        """Pair records with equal keys; the value has the columns of both.

        With another stream: records within ``windows`` of each other, the result's time is
        the greater. With a table: the row that it has for the key now, the result's time is
        the stream record's (KIP-259). With a versioned table: the row that it had at the record's
        time. The record waits until the clock of its partition is ``grace_ms`` (a number of ms or
        a ``timedelta``) further, so that the table can bring it, and goes on in the order of time
        (KIP-923). With a global table: the row of the key that the expression ``key`` makes of the
        record, which goes on with its own; null finds no row.

        Raises:
            InvalidTopology: windows are missing for a stream or given for a table, ``key`` is
                missing for a global table or given for another, a grace is negative or given for
                what has no versions, or a table is itself a join.
            IllegalArgument: the grace is no number of ms that fits into 64 bits.
        """
        refuse_foreign_key("join", foreign_key)
        return self._joined("inner", other, windows, key, grace_ms)

    def left_join(
        self,
        other: "KStream | SourceTable | KTable | VersionedTable | GlobalKTable",
        windows: JoinWindows | None = None,
        *,
        key: "str | Column | None" = None,
        grace_ms: Duration | None = None,
        foreign_key: None = None,
    ) -> "KStream":
        """``join``, and records of this stream without a partner, with nulls in its place.

        Of two streams such a record comes out once the other one's clock is so far that no
        partner can come any more.
        """
        refuse_foreign_key("left_join", foreign_key)
        return self._joined("left", other, windows, key, grace_ms)

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

    def to_table(self) -> SourceTable:
        """The stream as a table (KIP-523): a key's newest record is its row, no value deletes it.

        What a filter leaves out is no record, and deletes nothing. A record without a key goes to
        the dead letters. Of several partitions' records of a key (``select_key``) that of the
        greatest time counts, as in every table.

        Raises:
            InvalidTopology: the stream is merged of several, or made of pairs of streams, or of
                records that wait for a table.
        """
        (origin, *others), way_out = self.origins, "with to(topic), and read this topic as a table"
        behind = pairing_join(origin)
        if others:
            why = "merged streams have no common order"
        elif tells_rows(origin):
            # Its rows become records: a record without a key is none of a table's.
            return SourceTable(self.registry, (stepped(origin, HAS_KEY),))
        elif isinstance(behind, StreamJoin | MergedStreams):
            why = "pairs of streams have no place in one log"
            way_out += ", or keep the newest with group_by_key().aggregate(column=last('column'))"
        elif isinstance(behind, GraceBuffer):
            why = "records that waited for a table are in another order than their log"
        else:
            return SourceTable(self.registry, (origin,))
        message = f"to_table: {why}, so the last record of a key is not known. Write it {way_out}"
        raise InvalidTopology(message)

    def to(self, topic: str) -> "KStream":
        """Write the records to the Kafka topic ``topic``, behind each batch; the stream goes on.

        A message's key is the record's, its value the columns as JSON (null: it has none); headers
        say which record it is and its time. After a crash a batch may come again with the same ones
        (docs/reference/topology.md#records-to-kafka).

        Raises:
            InvalidTopology: the topic's name is not valid or taken.
        """
        self.registry.add_sink(self.origins, topic)
        return self

    def _with_step(self, *steps: Step) -> "KStream":
        return replace(self, origins=tuple(stepped(origin, *steps) for origin in self.origins))

    def _joined(
        self,
        how: Literal["inner", "left", "outer"],
        other: "KStream | SourceTable | KTable | VersionedTable | GlobalKTable",
        windows: JoinWindows | None,
        key: "str | Column | None" = None,
        grace_ms: Duration | None = None,
    ) -> "KStream":
        """A join by the records' own key; of a global table by ``key``."""
        step = "join" if how == "inner" else f"{how}_join"
        if not isinstance(other, KStream | SourceTable | KTable | VersionedTable | GlobalKTable):
            message = f"{step}: expects a stream or a table of this builder, not {other!r}"
            raise InvalidTopology(message)
        check_builder(step, self.registry, other.registry)
        _refuse_foreign_arguments(step, other, key, grace_ms)
        refuse_value_joiner(step, windows)
        if isinstance(other, KStream):
            if not isinstance(windows, JoinWindows):
                message = (
                    f"{step}: two streams need JoinWindows, not {windows!r}: "
                    f"{step}(other, JoinWindows.of_time_difference_with_no_grace(60_000))"
                )
                raise InvalidTopology(message)
            return KStream(self.registry, stream_joins(how, self.origins, other.origins, windows))
        if windows is not None or how == "outer":
            read = "as it is now. Use join or left_join without windows"
            if isinstance(other, VersionedTable):
                read = "as of the record's time. Use join or left_join with grace_ms=, no windows"
            message = f"{step}: a table is read {read}"
            raise InvalidTopology(message)
        found: tuple[Input, ...]
        if isinstance(other, GlobalKTable):
            if key is None:
                message = f"{step}: a global table needs key=, an expression over the record"
                raise InvalidTopology(message)
            require_expressions(step, key)
            found = global_lookups(how, self.origins, other.origin, key)
        elif isinstance(other, VersionedTable):
            waits_ms = None if grace_ms is None else checked_period(f"{step}: grace_ms", grace_ms)
            if waits_ms is not None and waits_ms > other.history_ms:
                message = (
                    f"{step}: History retention must be at least grace period: a record that waits "
                    f"{waits_ms} ms finds no row in a history of {other.history_ms} ms. Increase "
                    "history_retention_ms of the versioned table"
                )
                raise InvalidTopology(message)
            found = lookups(how, self.origins, other.origin, other.history_ms, waits_ms)
        else:
            table = other.updates(step) if isinstance(other, SourceTable) else other.looked_up(step)
            found = lookups(how, self.origins, table)
        return KStream(self.registry, found)


def _refuse_foreign_arguments(
    step: str, other: object, key: "str | Column | None", grace_ms: Duration | None
) -> None:
    """Refuse what only another kind of table is joined with.

    Raises:
        InvalidTopology: there is a key or a grace, and ``other`` is no such table.
    """
    if key is not None and not isinstance(other, GlobalKTable):
        message = f"{step}: only a global table accepts key=. Use select_key first"
        raise InvalidTopology(message)
    if grace_ms is not None and not isinstance(other, VersionedTable):
        message = (
            f"{step}: only a versioned table accepts grace_ms=, because it has its earlier rows. "
            "Create the table with versioned_table, or pass the grace to JoinWindows"
        )
        raise InvalidTopology(message)
