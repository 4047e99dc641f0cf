"""Streams with their row-wise steps, joins and groupings."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from oriel.pipeline.errors import InvalidTopology
from oriel.pipeline.language import lowered_texts
from oriel.pipeline.language.arguments import (
    checked_period,
    checked_processing,
    require_expressions,
)
from oriel.pipeline.language.branches import BranchedKStream, merged
from oriel.pipeline.language.grouped import KGroupedStream
from oriel.pipeline.language.joins import (
    joined_streams,
    stepped,
)
from oriel.pipeline.language.step_checks import (
    check_builder,
    check_inputs,
    reject_foreign_key,
    reject_value_joiner,
    require_log_order,
)
from oriel.pipeline.language.stream_steps import StreamSteps
from oriel.pipeline.language.tables import GlobalKTable, KTable, SourceTable, VersionedTable
from oriel.pipeline.language.topology import (
    Distinct,
    Node,
    Process,
    TableLookup,
    null_key_filter,
)
from oriel.pipeline.windows import Duration, JoinWindows, OnTimer, Processor

if TYPE_CHECKING:
    from pyspark.sql import Column


@dataclass(frozen=True, repr=False)
class KStream(StreamSteps):
    """A stream of records, which ``StreamsBuilder.stream`` returns.

    It corresponds to ``KStream`` of Kafka Streams. Each method returns a new object, so several
    stores can read one stream.

    Example:
        >>> late = flights.filter("delay > 15").map_values("carrier", hours="delay / 60")
        >>> late
        <KStream stream('flights').filter('delay > 15').map_values('carrier', hours='delay / 60')>
    """

    def __repr__(self) -> str:
        """Return the calls that created the stream, for messages."""
        return f"<KStream {lowered_texts.stream_text(self.origins)}>"

    def split(self) -> "BranchedKStream[KStream]":
        """Split the stream into branches (KIP-418).

        It corresponds to ``KStream.split`` of Kafka Streams. A record is in the first branch whose
        condition is true for it.

        Returns:
            An object without branches. Add branches with ``branch``, and call ``default_branch`` or
            ``no_default_branch`` last.

        Example:
            >>> branches = flights.split().branch("delay > 15", "late").default_branch("other")
            >>> branches["late"]
            <KStream stream('flights').filter('delay > 15')>
        """
        return BranchedKStream(self, {})

    def merge(self, other: "KStream") -> "KStream":
        """Return a stream with the records of both streams.

        It corresponds to ``KStream.merge`` of Kafka Streams. The values of both streams must have
        the same columns. This is checked when the pipeline starts. Records of two topics have no
        order, and each partition keeps its own stream time (semantics.md#1-1).

        If you merge the branches of one ``split`` again, the result is that stream, in its order.
        This applies if the branches have only filters, ``map``, ``map_values``, ``select_key`` and
        ``peek``.

        Args:
            other: A stream of the same builder.

        Returns:
            The merged stream.

        Raises:
            InvalidTopology: ``other`` is not a stream of this builder, or the result has more than
                128 inputs.

        Example:
            >>> departures = builder.stream("departures", schema="carrier STRING, delay INT")
            >>> arrivals = builder.stream("arrivals", schema="carrier STRING, delay INT")
            >>> delays = departures.merge(arrivals)
        """
        if not isinstance(other, KStream):
            message = f"merge: other must be a stream of this builder, not {other!r}"
            raise InvalidTopology(message)
        check_builder("merge", self.registry, other.registry)
        nodes = merged(self.origins, other.origins)
        check_inputs("merge", len(nodes))
        return KStream(self.registry, nodes)

    def distinct(
        self, *by: str, within_ms: Duration, grace_ms: Duration | None = None
    ) -> "KStream":
        """Drop the duplicates of earlier records (KIP-655).

        Two records are duplicates if they have the same key, the same values in the columns ``by``,
        and times that are at most ``within_ms`` apart. The first one in the order of its partition
        continues. A duplicate counts as filtered. It can have duplicates itself: if the records of
        a key are at most ``within_ms`` apart, only the first one continues.

        Records in different partitions are never duplicates, so the result does not depend on the
        order in which partitions are read. Kafka Streams has no such operation.

        Args:
            *by: Columns of the value with numbers, strings or booleans. Two nulls are equal.
                Without a column, all records of a key are compared.
            within_ms: How far apart the times of duplicates are at most, in milliseconds or as a
                ``timedelta``.
            grace_ms: A record that is more than this older than the stream time of its partition is
                late, and is dropped. The default is ``within_ms``.

        Returns:
            The stream of distinct records, with their keys, values and times. Later steps have a
            stream time without the dropped records.

        Raises:
            InvalidTopology: A duration is negative, a column has no name, or the stream has
                results of a stream-stream join, updates of a table, or records that waited for a
                table. If a column does not exist, ``build`` raises it.
            IllegalArgument: A duration is neither an integer nor a ``timedelta``, or it is too
                long.

        Example:
            >>> orders = builder.stream("orders", schema="order_id STRING, amount DOUBLE")
            >>> once = orders.distinct("order_id", within_ms=600_000)
        """
        if not all(isinstance(name, str) and name for name in by):
            message = (
                f"distinct: pass names of columns, not {', '.join(map(repr, by))}. To compare the "
                "value of an expression, compute a column with map_values first"
            )
            raise InvalidTopology(message)
        within = checked_period("distinct: within_ms", within_ms)
        grace = within if grace_ms is None else checked_period("distinct: grace_ms", grace_ms)
        require_log_order("distinct", self.origins)
        nodes = (Node(Distinct(origin, by, within, grace)) for origin in self.origins)
        return KStream(self.registry, tuple(nodes))

    def process(
        self,
        function: Processor,
        schema: str,
        state: str | None = None,
        on_timer: OnTimer | None = None,
    ) -> "KStream":
        """Process the records of each key with functions that have state and timers (KIP-820).

        It corresponds to ``KStream.process`` of Kafka Streams with a ``KeyValueStore`` and a
        punctuator of stream time, and to ``KeyedProcessFunction`` of Flink. The functions are
        called for one record or one timer, never for a batch. A key has one state per partition.
        Its records arrive in the order of their offsets.

        A timer fires when the stream time of the partition reaches its time, before the record that
        advances stream time. The timers of a key fire in the order of their times. Wall-clock time
        has no effect, so the rows depend only on the log.

        Args:
            function: ``function(key, value, context)`` returns the rows of a record: None, a dict
                of columns, or several dicts. It can also be a generator. ``value`` is a dict, or
                None for a null value. ``context`` is a ``ProcessContext``.
            schema: The columns of the rows as Spark DDL, for example ``"n BIGINT"``.
            state: The columns of ``context.state`` as Spark DDL. Default: the key has no state.
            on_timer: ``on_timer(key, context)`` returns the rows of a timer. Required to set
                timers.

        Returns:
            The stream of rows. A row has the key and the time of its record or timer. Later steps
            have a stream time of their own, which is the greatest time of these rows.

        Raises:
            InvalidTopology: A function accepts other arguments, or a schema is invalid. Merged
                streams, results of a stream-stream join or of another ``process``, updates of a
                table, and records that waited for a table are also rejected.

        Example:
            >>> def visited(key, value, context):
            ...     for time_ms in context.timers:
            ...         context.delete_timer(time_ms)
            ...     context.set_timer(context.timestamp_ms + 60_000)
            >>> def left(key, context):
            ...     return {"event": "no record for one minute"}
            >>> idle = flights.process(visited, schema="event STRING", on_timer=left)
        """
        processing = checked_processing(function, schema, state, on_timer)
        if len(self.origins) > 1:
            message = (
                "process: merged streams have no common order. Call process before merge, or "
                "write the stream with to(topic) and read this topic"
            )
            raise InvalidTopology(message)
        require_log_order("process", self.origins)
        (origin,) = self.origins
        return KStream(self.registry, (Node(Process(origin, processing)),))

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

        It corresponds to ``KStream.join`` of Kafka Streams, without a ``ValueJoiner``. The value of
        a result has the columns of both inputs, which must have different names. A record without a
        match is dropped.

        With a stream, records match if their times are within ``windows``. The result has the
        greater time (semantics.md#5-2). With a table, a record matches the row that its key has in
        the same batch. The result has the time of the record (semantics.md#5-3, KIP-259).

        With a versioned table, a record matches the row as of its own time (KIP-914). With a global
        table, a record matches the row of the key that ``key`` computes. The result has the key and
        the time of the record.

        Args:
            other: A stream or a table of the same builder.
            windows: The join windows. Required for a stream, not allowed for a table.
            key: An expression over the record, which computes the key of the row of a global table.
                If it is null, no row matches. Required for a global table, not allowed otherwise.
            grace_ms: How long a record waits for the rows of its time, in milliseconds of stream
                time or as a ``timedelta`` (KIP-923). Only for a versioned table, and at most its
                history retention. Default: no wait.
            foreign_key: Not supported for streams. Call ``select_key`` first.

        Returns:
            The stream of results.

        Raises:
            InvalidTopology: ``other`` is not a stream or a table of this builder, or ``windows``,
                ``key`` or ``grace_ms`` is missing or not allowed for ``other``. It is also raised
                if the grace is negative or longer than the history of the table, or if the join of
                merged streams has more than 128 inputs.
            IllegalArgument: The grace is not an integer number of milliseconds or a ``timedelta``,
                or it exceeds the times that the pipeline supports.

        Example:
            >>> by_carrier = flights.select_key("carrier")
            >>> named = by_carrier.join(airlines)
            >>> gates = builder.stream("gates", schema="gate STRING")
            >>> within = JoinWindows.of_time_difference_and_grace(60_000, 5_000)
            >>> at_gates = flights.join(gates, within)
        """
        reject_foreign_key("join", foreign_key)
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

        It corresponds to ``KStream.leftJoin`` of Kafka Streams. An unmatched record has nulls in
        the columns of ``other``. If ``other`` is a stream, an unmatched record is emitted when each
        partition of ``other`` has passed its last possible match (semantics.md#5-2).

        Args:
            other: A stream or a table of the same builder.
            windows: The join windows. Required for a stream, not allowed for a table.
            key: An expression over the record, which computes the key of the row of a global table.
                If it is null, the record is kept with nulls (KIP-962).
            grace_ms: How long a record waits for a versioned table, as for ``join``.
            foreign_key: Not supported for streams. Call ``select_key`` first.

        Returns:
            The stream of results and of unmatched records.

        Raises:
            InvalidTopology: An argument is invalid for ``join``.
            IllegalArgument: The grace is invalid for ``join``.

        Example:
            >>> named = flights.select_key("carrier").left_join(airlines)
        """
        reject_foreign_key("left_join", foreign_key)
        return self._joined("left", other, windows, key, grace_ms)

    def outer_join(self, other: "KStream", windows: JoinWindows | None = None) -> "KStream":
        """Join two streams, and keep the records of both that have no match.

        It corresponds to ``KStream.outerJoin`` of Kafka Streams. An unmatched record has nulls in
        the columns of the other stream. It is emitted as by ``left_join``.

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

        It corresponds to ``KStream.groupByKey`` of Kafka Streams. A record with a null key becomes
        a dead letter (semantics.md#1-2).

        Returns:
            The grouped stream, to aggregate.

        Example:
            >>> flights_by_airport = flights.group_by_key().count()
        """
        return KGroupedStream(self.registry, self.origins)

    def group_by(self, *columns: "str | Column") -> "KGroupedStream":
        r"""Group the records by columns or expressions.

        It corresponds to ``KStream.groupBy`` of Kafka Streams, without a repartition topic. The
        values of the expressions are cast to string and become the key. If an expression is null,
        the record becomes a dead letter.

        Several values are joined with ``|``, and a backslash escapes a ``|`` or a backslash in a
        value. For example, ``a|b`` and ``c`` become ``a\|b|c``. If the store has composite keys,
        each value is a component of the key instead (``key_serde`` of ``materialize``).

        Args:
            *columns: Columns of the value, SQL expressions or Spark ``Column`` objects.

        Returns:
            The grouped stream, to aggregate.

        Raises:
            InvalidTopology: No column is passed, or one is neither a string nor a ``Column``.

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

        It corresponds to ``KStream.toTable`` of Kafka Streams. A record with a null value deletes
        the row of its key. A record with a null key becomes a dead letter. A record that a filter
        of the stream drops changes nothing, while a filter of the table deletes the row.

        If a key has records in several partitions, for example after ``select_key``, the last
        record of each partition is compared. The record with the greatest time is the row.

        Returns:
            The table.

        Raises:
            InvalidTopology: The stream is a merged stream, a result of a stream-stream join, or a
                result of a join with a versioned table and ``grace_ms``.

        Example:
            >>> newest = flights.select_key("carrier").to_table()
            >>> store = newest.materialize("newest_flight_by_carrier")
        """
        (origin, *others), alternative = (
            self.origins,
            "with to(topic), and read this topic as a table",
        )
        creator = origin.operation.creator
        if others:
            why = "merged streams have no common order"
        elif origin.emits_rows:
            # Its rows become records, and a table has no row for a null key.
            return SourceTable(self.registry, stepped(origin, null_key_filter("to_table()")))
        elif creator.is_pair:
            why = "results of stream-stream joins have no offset in one log"
            alternative += (
                ", or keep the newest with group_by_key().aggregate(column=last('column'))"
            )
        elif creator.reorders:
            why = "rows of process, and records that waited for a table, are in another order"
        else:
            return SourceTable(self.registry, origin)
        message = (
            f"to_table: {why}, so the last record of a key is not known. Write it {alternative}"
        )
        raise InvalidTopology(message)

    def to(self, topic: str, *, headers: Mapping[str, str] | None = None) -> "KStream":
        """Write the records to a Kafka topic.

        It corresponds to ``KStream.to`` of Kafka Streams. A message has the key of the record, its
        columns as JSON (null for a null value), and the headers ``source`` and ``timestamp_ms``.

        Messages are written in transactions. A consumer with ``read_committed`` sees each message
        once, also after a crash. A consumer with ``read_uncommitted`` can see messages again, with
        the same headers (docs/reference/topology/sinks.md).

        Args:
            topic: The name of the topic. It must exist, and this topology must not read it.
            headers: The name of each further header, and the column of the value that it contains.
                This column is not in the value of the message. A null is a null header.

        Returns:
            The same stream, for further steps.

        Raises:
            InvalidTopology: The name of the topic is invalid, another call writes to it, or a
                header has an invalid name. If the topology reads the topic, or a column does not
                exist, ``build`` raises it.

        Example:
            >>> late = flights.filter("delay > 15")
            >>> sent = late.to("late-flights", headers={"carrier": "carrier"})
        """
        self.registry.add_sink(self.origins, topic, headers or {})
        return self

    def _joined(
        self,
        how: Literal["inner", "left", "outer"],
        other: "KStream | SourceTable | KTable | VersionedTable | GlobalKTable",
        windows: JoinWindows | None,
        key: "str | Column | None" = None,
        grace_ms: Duration | None = None,
    ) -> "KStream":
        """Return the results of a join. ``key`` is only for a global table."""
        step = "join" if how == "inner" else f"{how}_join"
        if not isinstance(other, KStream | SourceTable | KTable | VersionedTable | GlobalKTable):
            message = f"{step}: other must be a stream or a table of this builder, not {other!r}"
            raise InvalidTopology(message)
        check_builder(step, self.registry, other.registry)
        _refuse_foreign_arguments(step, other, key, grace_ms)
        reject_value_joiner(step, windows)
        if isinstance(other, KStream):
            if not isinstance(windows, JoinWindows):
                message = (
                    f"{step}: a join of two streams needs JoinWindows, not {windows!r}. Write "
                    f"{step}(other, JoinWindows.of_time_difference_with_no_grace(60_000))"
                )
                raise InvalidTopology(message)
            nodes = joined_streams(how, self.origins, other.origins, windows)
            check_inputs(step, len(nodes))
            return KStream(self.registry, nodes)
        if windows is not None or how == "outer":
            read = "as it is now. Use join or left_join without windows"
            if isinstance(other, VersionedTable):
                read = (
                    "as of the record's time. Use join or left_join with grace_ms=, without windows"
                )
            message = f"{step}: a stream joins a table {read}"
            raise InvalidTopology(message)
        details: dict[str, Any]
        if isinstance(other, GlobalKTable):
            if key is None:
                message = (
                    f"{step}: a join with a global table needs key=, an expression of the record"
                )
                raise InvalidTopology(message)
            require_expressions(step, key)
            table, details = other.origin, {"key": key}
        elif isinstance(other, VersionedTable):
            grace = None if grace_ms is None else checked_period(f"{step}: grace_ms", grace_ms)
            if grace is not None and grace > other.history_ms:
                message = (
                    f"{step}: grace_ms must be at most the history retention of the table, "
                    f"{other.history_ms} ms, not {grace} ms. Increase history_retention_ms of "
                    "the versioned table"
                )
                raise InvalidTopology(message)
            table, details = other.origin, {"history_ms": other.history_ms, "grace_ms": grace}
        else:
            table = other.updates(step) if isinstance(other, SourceTable) else other.looked_up(step)
            details = {}
        found = (Node(TableLookup(origin, table, how, **details)) for origin in self.origins)
        return KStream(self.registry, tuple(found))


def _refuse_foreign_arguments(
    step: str, other: object, key: "str | Column | None", grace_ms: Duration | None
) -> None:
    """Reject arguments that only another kind of table accepts.

    Raises:
        InvalidTopology: A key or a grace is passed, and ``other`` does not accept it.
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
