"""Streams with their row-wise steps, joins and groupings."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from oriel.pipeline.errors import InvalidTopology
from oriel.pipeline.language.arguments import (
    checked_period,
    require_expressions,
)
from oriel.pipeline.language.branches import BranchedKStream, merged
from oriel.pipeline.language.grouped import KGroupedStream
from oriel.pipeline.language.joins import (
    global_lookups,
    lookups,
    stepped,
    stream_joins,
)
from oriel.pipeline.language.step_checks import (
    check_builder,
    refuse_foreign_key,
    refuse_value_joiner,
)
from oriel.pipeline.language.stream_steps import StreamSteps
from oriel.pipeline.language.tables import GlobalKTable, KTable, SourceTable, VersionedTable
from oriel.pipeline.language.topology import (
    HAS_KEY,
    Input,
    side_of,
    written,
)
from oriel.pipeline.windows import Duration, JoinWindows

if TYPE_CHECKING:
    from pyspark.sql import Column


@dataclass(frozen=True, repr=False)
class KStream(StreamSteps):
    """A stream of records, which ``StreamsBuilder.stream`` returns.

    Each method returns a new object, so several stores can read one stream.

    Example:
        >>> late = flights.filter("delay > 15").map_values("carrier", hours="delay / 60")
        >>> late
        <KStream stream('flights').filter('delay > 15').map_values('carrier', hours='delay / 60')>
    """

    def __repr__(self) -> str:
        """Return the calls that made the stream, for messages."""
        return f"<KStream {' and '.join(written(side_of(origin)) for origin in self.origins)}>"

    def split(self) -> "BranchedKStream[KStream]":
        """Split the stream into branches (KIP-418).

        A record is in the first branch whose condition is true for it.

        Returns:
            An object without branches. Add them with ``branch``.

        Example:
            >>> branches = flights.split().branch("delay > 15", "late").default_branch("other")
            >>> branches["late"]
            <KStream stream('flights').filter('delay > 15')>
        """
        return BranchedKStream(self, {})

    def merge(self, other: "KStream") -> "KStream":
        """Return a stream with the records of both streams.

        The values of both must have the same columns. This is checked when the topology is run.
        Records of two topics have no order, and each partition keeps its own stream time
        (semantics.md#1-1). If you merge branches of one stream again, and they have only filters,
        ``map``, ``map_values``, ``select_key`` and ``peek``, the result is that stream, in its
        order.

        Args:
            other: A stream of the same builder.

        Returns:
            The merged stream.

        Raises:
            InvalidTopology: ``other`` is not a stream of this builder.

        Example:
            >>> departures = builder.stream("departures", schema="carrier STRING, delay INT")
            >>> arrivals = builder.stream("arrivals", schema="carrier STRING, delay INT")
            >>> delays = departures.merge(arrivals)
        """
        if not isinstance(other, KStream):
            message = f"merge: other must be a stream of this builder, not {other!r}"
            raise InvalidTopology(message)
        check_builder("merge", self.registry, other.registry)
        return KStream(self.registry, merged(self.origins, other.origins))

    def join(
        self,
        other: "KStream | SourceTable | KTable | VersionedTable | GlobalKTable",
        windows: JoinWindows | None = None,
        *,
        key: "str | Column | None" = None,
        grace_ms: Duration | None = None,
        foreign_key: None = None,
    ) -> "KStream":
        """Join each record with the records or the row of the same key.

        The value of a result has the columns of both inputs, which must have different names.

        With a stream, records are joined if their times are within ``windows``, and the result has
        the greater time. With a table, a record is joined with the current row, and the result has
        the time of the record (KIP-259). With a versioned table, a record is joined with the row as
        of its time (KIP-914). With a global table, ``key`` selects the row, and the record keeps
        its own key. A record without a match is filtered out.

        Args:
            other: A stream or a table of the same builder.
            windows: The join windows. Required for a stream, not allowed for a table.
            key: The expression that selects the row of a global table. If it is null, no row
                matches. Required for a global table, not allowed otherwise.
            grace_ms: For a versioned table only: how long a record waits for the rows of its time,
                in milliseconds of stream time or as a ``timedelta`` (KIP-923). Default: no wait.
            foreign_key: Not supported for streams. Call ``select_key`` first.

        Returns:
            The stream of results.

        Raises:
            InvalidTopology: ``windows``, ``key`` or ``grace_ms`` is missing or not allowed for
                ``other``, the grace is negative or longer than the history of the table, or
                ``other`` is not a stream or a table of this builder.
            IllegalArgument: The grace is not a number of milliseconds of 64 bits.

        Example:
            >>> by_carrier = flights.select_key("carrier")
            >>> named = by_carrier.join(airlines)
            >>> gates = builder.stream("gates", schema="gate STRING")
            >>> within = JoinWindows.of_time_difference_and_grace(60_000, 5_000)
            >>> at_gates = flights.join(gates, within)
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
        """Join like ``join``, and keep the records of this stream that have no match.

        Such a record has nulls in the columns of ``other``. With a stream, it is emitted once the
        stream time of ``other`` is so far that no match can arrive any more.

        Args:
            other: A stream or a table of the same builder.
            windows: The join windows. Required for a stream, not allowed for a table.
            key: The expression that selects the row of a global table. If it is null, the record is
                kept with nulls (KIP-962).
            grace_ms: How long a record waits for a versioned table, as in ``join``.
            foreign_key: Not supported for streams. Call ``select_key`` first.

        Returns:
            The stream of results and of unmatched records.

        Raises:
            InvalidTopology: The arguments are invalid for ``join``.
            IllegalArgument: The grace is not a number of milliseconds of 64 bits.

        Example:
            >>> named = flights.select_key("carrier").left_join(airlines)
        """
        refuse_foreign_key("left_join", foreign_key)
        return self._joined("left", other, windows, key, grace_ms)

    def outer_join(self, other: "KStream", windows: JoinWindows | None = None) -> "KStream":
        """Join two streams, and keep the records of both that have no match.

        Args:
            other: A stream of the same builder.
            windows: The join windows, which are required.

        Returns:
            The stream of results and of unmatched records of both streams.

        Raises:
            InvalidTopology: ``other`` is not a stream of this builder, or ``windows`` is missing.

        Example:
            >>> gates = builder.stream("gates", schema="gate STRING")
            >>> within = JoinWindows.of_time_difference_and_grace(60_000, 5_000)
            >>> all_records = flights.outer_join(gates, within)
        """
        return self._joined("outer", other, windows)

    def group_by_key(self) -> "KGroupedStream":
        """Group the records by their key.

        A record with a null key becomes a dead letter (semantics.md#1-2).

        Returns:
            The grouped stream, to aggregate.

        Example:
            >>> flights_by_airport = flights.group_by_key().count()
        """
        return KGroupedStream(self.registry, self.origins)

    def group_by(self, *columns: "str | Column") -> "KGroupedStream":
        r"""Group the records by columns or expressions.

        Their values are cast to string and become the key. Several are joined with ``|``, and a
        backslash escapes a ``|`` or a backslash in a value. For example, ``a|b`` and ``c`` become
        ``a\|b|c``. If an expression is null, the record becomes a dead letter.

        Args:
            *columns: Columns of the value, or expressions.

        Returns:
            The grouped stream, to aggregate.

        Raises:
            InvalidTopology: No column is named, or one is neither a string nor a ``Column``.

        Example:
            >>> flights_by_carrier = flights.group_by("upper(carrier)").count()
        """
        if not columns:
            message = "group_by: name at least one column or expression, or use group_by_key()"
            raise InvalidTopology(message)
        require_expressions("group_by", *columns)
        grouped = (replace(origin, group_by=columns) for origin in self.origins)
        return KGroupedStream(self.registry, tuple(grouped))

    def to_table(self) -> SourceTable:
        """Read the stream as a table, in which the newest record of a key is its row (KIP-523).

        A record with a null value deletes the row of its key. A record that a filter of the stream
        drops changes nothing. A record with a null key becomes a dead letter. If the records of a
        key are from several partitions, for example after ``select_key``, the one with the
        greatest time is the row.

        Returns:
            The table.

        Raises:
            InvalidTopology: The stream is merged of several, the result of a stream-stream join,
                or a join with a versioned table and a grace.

        Example:
            >>> newest = flights.select_key("carrier").to_table()
            >>> store = newest.materialize("newest_flight_by_carrier")
        """
        (origin, *others), way_out = self.origins, "with to(topic), and read this topic as a table"
        join = origin.creating_join
        if others:
            why = "merged streams have no common order"
        elif origin.emits_rows:
            # Its rows become records, and a table has no row for a null key.
            return SourceTable(self.registry, (stepped(origin, HAS_KEY),))
        elif join is not None and join.is_pair:
            why = "results of stream-stream joins have no offset in one log"
            way_out += ", or keep the newest with group_by_key().aggregate(column=last('column'))"
        elif join is not None and join.reorders:
            why = "records that waited for a table are in another order than their log"
        else:
            return SourceTable(self.registry, (origin,))
        message = f"to_table: {why}, so the last record of a key is not known. Write it {way_out}"
        raise InvalidTopology(message)

    def to(self, topic: str) -> "KStream":
        """Write the records to a Kafka topic.

        A message has the key of the record, its columns as JSON (null for a null value), and the
        headers ``source`` and ``timestamp_ms``. Each batch is written once. After a crash, it can
        be written again with the same headers (docs/reference/topology/sinks.md).

        Args:
            topic: The name of the topic. It must exist, and this topology must not read it.

        Returns:
            The same stream, for further steps.

        Raises:
            InvalidTopology: The name of the topic is invalid, or another call writes to it.

        Example:
            >>> late = flights.filter("delay > 15").to("late-flights")
        """
        self.registry.add_sink(self.origins, topic)
        return self

    def _joined(
        self,
        how: Literal["inner", "left", "outer"],
        other: "KStream | SourceTable | KTable | VersionedTable | GlobalKTable",
        windows: JoinWindows | None,
        key: "str | Column | None" = None,
        grace_ms: Duration | None = None,
    ) -> "KStream":
        """Join by the key of the records, or by ``key`` with a global table."""
        step = "join" if how == "inner" else f"{how}_join"
        if not isinstance(other, KStream | SourceTable | KTable | VersionedTable | GlobalKTable):
            message = f"{step}: other must be a stream or a table of this builder, not {other!r}"
            raise InvalidTopology(message)
        check_builder(step, self.registry, other.registry)
        _refuse_foreign_arguments(step, other, key, grace_ms)
        refuse_value_joiner(step, windows)
        if isinstance(other, KStream):
            if not isinstance(windows, JoinWindows):
                message = (
                    f"{step}: a join of two streams needs JoinWindows, not {windows!r}. Write "
                    f"{step}(other, JoinWindows.of_time_difference_with_no_grace(60_000))"
                )
                raise InvalidTopology(message)
            return KStream(self.registry, stream_joins(how, self.origins, other.origins, windows))
        if windows is not None or how == "outer":
            read = "as it is now. Use join or left_join without windows"
            if isinstance(other, VersionedTable):
                read = (
                    "as of the record's time. Use join or left_join with grace_ms=, without windows"
                )
            message = f"{step}: a stream joins a table {read}"
            raise InvalidTopology(message)
        found: tuple[Input, ...]
        if isinstance(other, GlobalKTable):
            if key is None:
                message = (
                    f"{step}: a join with a global table needs key=, an expression of the record"
                )
                raise InvalidTopology(message)
            require_expressions(step, key)
            found = global_lookups(how, self.origins, other.origin, key)
        elif isinstance(other, VersionedTable):
            waits_ms = None if grace_ms is None else checked_period(f"{step}: grace_ms", grace_ms)
            if waits_ms is not None and waits_ms > other.history_ms:
                message = (
                    f"{step}: grace_ms must be at most the history retention of the table, "
                    f"{other.history_ms} ms, not {waits_ms} ms. Increase history_retention_ms of "
                    "the versioned table"
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
    """Reject arguments that only another kind of table accepts.

    Raises:
        InvalidTopology: A key or a grace is given, and ``other`` does not accept it.
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
