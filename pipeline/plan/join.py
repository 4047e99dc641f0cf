"""The planner of joins and of the other operators before a store: node of the topology -> operator.

``_OPERATORS`` has one function per kind of node. Records of all inputs arrive in one table, with
the index of their input in the column ``side``. Results continue like records. Each has the stream
time that decides whether it is late.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, cast

import pyarrow as pa

from oriel.pipeline.arrow_steps import UpdateSteps
from oriel.pipeline.dead_letters import Reason, with_detail
from oriel.pipeline.errors import InvalidTopology
from oriel.pipeline.language import Columns, Functions, arrow_schema
from oriel.pipeline.lowered import (
    AggregatedRows,
    AggregateUpdates,
    DistinctRecords,
    ExpiringRecords,
    GraceBuffer,
    Join,
    LateRecords,
    MergedStreams,
    ProcessedRecords,
    Responses,
    StreamJoin,
    StreamTableJoin,
    Subscriptions,
    TableChanges,
    TableUpdates,
    VersionedRecords,
)
from oriel.pipeline.plan.read_columns import (
    ReadColumns,
    engine_names,
    read_aggregates,
    read_functions,
    stream_schemas,
)
from oriel.pipeline.plan.row_steps import RowStepsOf, update_steps
from oriel.pipeline.stage_columns import KEY_GROUP
from oriel.pipeline.windows import (
    APPLY_ORDER,
    INPUT_FIELDS,
    LEFT,
    LINEAGE,
    NULL_VALUE,
    RIGHT,
    DistinctEngine,
    ExpiryEngine,
    ForeignUpdatesEngine,
    GraceBufferEngine,
    IllegalArgument,
    InputRows,
    JoinEngine,
    JoinResult,
    MergeEngine,
    ProcessEngine,
    ProcessFunctions,
    ResponsesEngine,
    ResponseUpdatesEngine,
    StreamJoinEngine,
    StreamTableJoinEngine,
    SubscriptionsEngine,
    SubscriptionUpdatesEngine,
    TableChangesEngine,
    TableUpdatesEngine,
    VersionedLookupEngine,
    VersionedRecordsEngine,
    late_records_engine_for,
    merged_lineage,
    updates_engine_for,
    value_fields,
)


class JoinStage:
    """One operator before a store, with the row-wise steps of its rows. It keeps no state."""

    def __init__(
        self,
        store: str,
        join: Join,
        sides: Sequence[pa.Schema],
        max_age_ms: Sequence[int],
        steps_of: RowStepsOf,
        *,
        needs_old_rows: bool = False,
    ) -> None:
        """Plan a join of inputs with the value columns ``sides``.

        Args:
            store: The name of the store.
            join: The node of the topology.
            sides: The value columns of the inputs, first the left one.
            max_age_ms: The ``held_back_ms`` of the upstream joins, 0 without one.
            steps_of: Returns the steps of the rows of a table.
            needs_old_rows: True if a downstream table needs old rows
                (``Join.inputs_with_old_rows``).

        Raises:
            InvalidTopology: Two columns have one name, or a name that the join needs.
        """
        rows = [
            InputRows(
                side.lineage,
                have_apply_order=side.has_apply_order,
                are_changes=side.join is not None and side.join.are_changes,
                are_flattened=side.has_flattened,
                are_table_updates=side.emits_rows,
                expire=side.expires,
                have_removals=join.has_removals,
                held_ms=ms,
            )
            for side, ms in zip(join.inputs, max_age_ms, strict=True)
        ]
        # If old rows are known, Kafka Streams emits nothing for a key that had no row before and
        # has no row afterwards. Only a filter or a downstream table needs them, so it also decides
        # which tombstones are emitted (decision 0068).
        join_needs_old_rows = join.needs_old_rows(needs_old=needs_old_rows)
        try:
            planned = _OPERATORS[type(join)](
                _Inputs(store, join, sides, rows, needs_old_rows=join_needs_old_rows)
            )
        except InvalidTopology:
            # Its message names the step and the solution.
            raise
        except IllegalArgument as error:
            message = f"store {store!r}, {join}: {error}"
            raise InvalidTopology(message) from error
        #: The operator, and the columns that it reads of each input.
        self.operator, self.read = planned
        operator = self.operator
        # Windows after the join stay open for this time longer. For example, if an outer join emits
        # an unmatched record up to 5 s late, they stay open for 5 s more.
        self.held_back_ms = operator.held_back_ms(max_age_ms)
        self.result_schema = operator.result_schema
        self._row_steps: UpdateSteps | None = None
        if join.row_steps:
            self._append_steps(store, AggregatedRows(join.row_steps, join.is_windowed), steps_of)
        # All inputs send the same columns, and the operator reads a part.
        order = [
            each for each in (LINEAGE, APPLY_ORDER) if each.name in operator.record_schema.names
        ]
        self.record_schema = pa.schema(
            [*INPUT_FIELDS, *order, NULL_VALUE, KEY_GROUP, *self.read.schema]
        )

    def stepped(self, result: JoinResult) -> JoinResult:
        """Return the result of the operator after the row-wise steps of its rows."""
        if self._row_steps is None:
            return result
        # The first table has the updates. The others have records on which a function raised, so
        # they update no row.
        updates, *rejected = result.pieces
        before = self._rows_read.empty_table() if result.before is None else result.before
        emitted = self._row_steps.applied(updates, before, self.result_schema)
        # A filter emits a removal instead of a row that it drops, or nothing if it also dropped the
        # row before. So only updates that are not emitted end here.
        not_emitted = len(updates) - len(emitted)
        # If a record changes several rows, each emitted row is one flattened record. Otherwise, a
        # record without an emitted row is filtered.
        filtered, elements = result.filtered, result.elements
        if self.operator.makes_elements:
            elements -= not_emitted
        elif self.operator.keeps_records:
            filtered = (filtered[LEFT] + not_emitted,)
        without_row = (piece.drop_columns(self.operator.row_schema.names) for piece in rejected)
        pieces = [pa.concat_tables([emitted, *without_row], promote_options="default")]
        return replace(result, pieces=pieces, filtered=filtered, elements=elements)

    def _append_steps(self, store: str, rows: AggregatedRows, steps_of: RowStepsOf) -> None:
        """Run the steps of the rows of a table where its updates are emitted.

        Raises:
            InvalidTopology: A step does not fit the rows, Arrow does not run it, or it creates a
                column that a stream cannot have. The message names it.
        """
        types = {field.name: field.type for field in self.operator.row_schema}
        steps = update_steps(store, rows, types, steps_of)
        read = {*rows.scope, *types}
        self._rows_read = pa.schema([field for field in self.result_schema if field.name in read])
        other_columns = [field for field in self.result_schema if field.name not in types]
        try:
            # A step can create a column with a name that each result already has, for example
            # ``timestamp_ms``.
            new_columns = value_fields(tuple(other_columns), None, [pa.schema(steps.types.items())])
        except IllegalArgument as error:
            message = f"store {store!r}, {rows}: {error}"
            raise InvalidTopology(message) from error
        self._row_steps, self.result_schema = steps, pa.schema([*other_columns, *new_columns])
        # Only a filter depends on the row before the update. Without one, the operator does not
        # compute it.
        self.operator.returns_before = steps.filters


@dataclass(frozen=True)
class _Inputs:
    """A node of the topology, with the value columns and the rows of its inputs."""

    store: str
    join: Any
    sides: Sequence[pa.Schema]
    rows: Sequence[InputRows]
    needs_old_rows: bool

    #: The columns that the state keeps with each record.
    carried = pa.schema([KEY_GROUP])

    @property
    def both(self) -> tuple[InputRows, InputRows]:
        """The rows of the left and of the right input."""
        return self.rows[LEFT], self.rows[RIGHT]

    def planned(self, operator: JoinEngine) -> "Planned":
        """Return an operator that reads the columns of all inputs under their own names."""
        # Inputs of a join have no column name in common (``value_fields``). So the columns need no
        # prefix.
        names = tuple({name: name for name in side.names} for side in self.sides)
        schema = pa.schema([field for side in self.sides for field in side])
        return operator, ReadColumns(schema, names, (None,) * len(self.sides))


#: An operator, and the columns that it reads.
Planned = tuple[JoinEngine, ReadColumns]


def _stream_join(inputs: _Inputs) -> Planned:
    join: StreamJoin = inputs.join
    rows = [
        # A record that is later than the grace of a buffer leaves it at once. So its time can be
        # older than its stream time by the whole allowed lateness of this join.
        replace(row, held_ms=row.held_ms + join.windows.allowed_lateness_ms(place))
        if side.creating_join is not None and side.creating_join.reorders
        else row
        for place, (side, row) in enumerate(zip(join.inputs, inputs.rows, strict=True))
    ]
    left, right = inputs.sides
    both = rows[LEFT], rows[RIGHT]
    return inputs.planned(
        StreamJoinEngine(join.windows, join.how, left, right, inputs.carried, rows=both)
    )


def _table_lookup(inputs: _Inputs) -> Planned:
    join: StreamTableJoin = inputs.join
    left, right = inputs.sides
    # Without a history, a record finds the row that exists at that moment (semantics.md#5). With a
    # history, it finds the row as of its own time (KIP-914).
    if join.history_ms is None:
        engine = StreamTableJoinEngine(join.how, left, right, inputs.carried, rows=inputs.both)
    else:
        engine = VersionedLookupEngine(
            join.how, left, right, inputs.carried, rows=inputs.both, history_ms=join.history_ms
        )
    return inputs.planned(engine)


def _grace_buffer(inputs: _Inputs) -> Planned:
    join: GraceBuffer = inputs.join
    return inputs.planned(
        GraceBufferEngine(
            inputs.sides[LEFT], inputs.carried, rows=inputs.rows[LEFT], grace_ms=join.grace_ms,
            is_one_stream=join.left.is_one_stream,
        )
    )  # fmt: skip


def _distinct(inputs: _Inputs) -> Planned:
    join: DistinctRecords = inputs.join
    return inputs.planned(
        DistinctEngine(
            inputs.sides[LEFT], inputs.carried, by=join.by,
            within_ms=join.within_ms, grace_ms=join.grace_ms, rows=inputs.rows[LEFT],
        )
    )  # fmt: skip


def _expiring_records(inputs: _Inputs) -> Planned:
    join: ExpiringRecords = inputs.join
    return inputs.planned(
        ExpiryEngine(
            inputs.sides[LEFT], inputs.carried,
            ttl_ms=join.ttl_ms, of_table=join.of_table, rows=inputs.rows[LEFT],
        )
    )  # fmt: skip


def _processed(inputs: _Inputs) -> Planned:
    join: ProcessedRecords = inputs.join
    processing = join.processing
    functions = ProcessFunctions(
        processing.function,
        processing.on_timer,
        arrow_schema(processing.schema, "process"),
        None if processing.state is None else arrow_schema(processing.state, "process"),
        step=f"store {inputs.store!r}, process",
    )
    return inputs.planned(
        ProcessEngine(
            functions, inputs.sides[LEFT], inputs.carried, rows=inputs.rows[LEFT],
            rejection_text=partial(with_detail, Reason.FUNCTION_RAISED.value),
        )
    )  # fmt: skip


def _late_records(inputs: _Inputs) -> Planned:
    join: LateRecords = inputs.join
    return inputs.planned(
        late_records_engine_for(
            join.windows, join.left.source.topic, inputs.sides[LEFT], inputs.carried,
            rows=inputs.rows[LEFT],
        )
    )  # fmt: skip


def _versioned_records(inputs: _Inputs) -> Planned:
    join: VersionedRecords = inputs.join
    return inputs.planned(
        VersionedRecordsEngine(
            inputs.sides[LEFT], inputs.carried,
            history_ms=join.history_ms, newest_only=join.newest_only,
        )
    )  # fmt: skip


def _subscriptions(inputs: _Inputs) -> Planned:
    # Updates of the joined rows need a message for each record. A store of the joined rows only
    # needs the state after the batch, which is fewer messages.
    if inputs.join.each:
        return inputs.planned(SubscriptionUpdatesEngine(inputs.carried, inputs.rows[LEFT]))
    return inputs.planned(SubscriptionsEngine(inputs.carried))


def _responses(inputs: _Inputs) -> Planned:
    join: Responses = inputs.join
    right = inputs.sides[RIGHT]
    if not join.each:
        return inputs.planned(ResponsesEngine(right, inputs.carried, inputs.rows[RIGHT]))
    return inputs.planned(
        ResponseUpdatesEngine(
            right,
            inputs.carried,
            inputs.both,
            is_filtered=join.right.filters_table,
        )
    )


def _table_updates(inputs: _Inputs) -> Planned:
    join: TableUpdates = inputs.join
    if not join.by_foreign_key:
        return inputs.planned(
            TableUpdatesEngine(
                join.rows, inputs.sides, inputs.carried, _filtered(join),
                rows=inputs.rows, needs_old_rows=inputs.needs_old_rows,
            )
        )  # fmt: skip
    assert join.rows.how != "outer", "a row without a key names none"
    tables = inputs.sides[LEFT], inputs.sides[RIGHT]
    responses = join.inputs[RIGHT].join
    assert responses is not None, "a foreign-key join has responses"
    # The subscriptions have the logs of the left table. They separate its updates from the updates
    # of the right table.
    logs = responses.left.lineage.logs
    return inputs.planned(
        ForeignUpdatesEngine(join.rows.how, tables, inputs.carried, inputs.both, logs)
    )


def _table_changes(inputs: _Inputs) -> Planned:
    join: TableChanges = inputs.join
    return inputs.planned(
        TableChangesEngine(
            join.rows, inputs.sides, inputs.carried, _filtered(join), rows=inputs.rows
        )
    )


def _filtered(join: TableUpdates | TableChanges) -> frozenset[int]:
    return frozenset(n for n, side in enumerate(join.tables) if side.filters_table)


def _aggregate_updates(inputs: _Inputs) -> Planned:
    updates: AggregateUpdates = inputs.join
    aggregation, windows, streams = updates.aggregation, updates.windows, updates.streams
    of_streams = stream_schemas(inputs.store, streams, inputs.sides)
    if not aggregation.by_functions:
        # With several streams, each lineage begins with the log. So rows have a lineage even if the
        # records of each stream do not.
        merged = merged_lineage([each.lineage for each in updates.inputs])
        aggregates, read = read_aggregates(
            cast("Columns", aggregation),
            of_streams,
            updates.inputs,
            streams,
            has_lineage=merged.length > 0,
        )
        engine = updates_engine_for(
            windows, aggregates, read.schema, inputs.carried, inputs=inputs.rows
        )
        return engine, read
    functions, read = read_functions(
        inputs.store, cast("Functions", aggregation), of_streams, updates.inputs, streams
    )
    engine = updates_engine_for(
        windows, functions, read.schema, inputs.carried, inputs=inputs.rows,
        reason=partial(with_detail, Reason.FUNCTION_RAISED.value),
    )  # fmt: skip
    return engine, read


def _merged_streams(inputs: _Inputs) -> Planned:
    join: MergedStreams = inputs.join
    # Merged inputs are one stream, so they have the same columns under the same names.
    streams = (0,) * len(inputs.rows)
    (of_stream,) = stream_schemas(inputs.store, streams, inputs.sides)
    engine = MergeEngine(
        of_stream, inputs.carried, rows=inputs.rows, allowed_lateness_ms=join.allowed_lateness_ms
    )
    return engine, ReadColumns(of_stream, engine_names([of_stream]), (None,)).by_input(streams)


#: The function of each kind of node. A new kind needs a class, a function and an entry here.
_OPERATORS: Mapping[type, Callable[[_Inputs], Planned]] = {
    StreamJoin: _stream_join,
    MergedStreams: _merged_streams,
    GraceBuffer: _grace_buffer,
    StreamTableJoin: _table_lookup,
    DistinctRecords: _distinct,
    ExpiringRecords: _expiring_records,
    ProcessedRecords: _processed,
    VersionedRecords: _versioned_records,
    TableUpdates: _table_updates,
    TableChanges: _table_changes,
    AggregateUpdates: _aggregate_updates,
    LateRecords: _late_records,
    Subscriptions: _subscriptions,
    Responses: _responses,
}
