"""Lower the nodes of a topology to inputs, joins and stores.

``_OPERATIONS`` has one function per kind of operation, and ``_ROWS`` one per kind of rows.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from oriel.pipeline.language import (
    Aggregated,
    AggregationUpdates,
    Distinct,
    Expiry,
    Filter,
    JoinedWindows,
    JoinUpdates,
    Late,
    Node,
    Process,
    Read,
    RowChanges,
    Rows,
    RowStep,
    SinkNode,
    StoreNode,
    StreamPair,
    TableHistory,
    TableLookup,
    TablePair,
    Topology,
    Versions,
)
from oriel.pipeline.lowered.inputs import (
    Input,
    MergedStreams,
    StreamJoin,
    StreamTableJoin,
    TableChanges,
    as_join_input,
)
from oriel.pipeline.lowered.one_stream import (
    DistinctRecords,
    ExpiringRecords,
    GraceBuffer,
    LateRecords,
    ProcessedRecords,
    VersionedRecords,
)
from oriel.pipeline.lowered.steps import NO_ROW_KEY, LookupKey, OwnKey
from oriel.pipeline.lowered.stores import Records, Store, TableRows, VersionRows
from oriel.pipeline.lowered.tables import (
    JoinedTables,
    aggregate_updates,
    foreign_rows,
    foreign_updates,
    grouped_records,
    joined_by_key,
    results_of,
    stepped,
    table_updates,
)
from oriel.pipeline.lowered.topology import LoweredTopology
from oriel.pipeline.lowered.windowed_joins import joined_windows
from oriel.pipeline.lowered.written import written
from oriel.pipeline.windows import LEFT, RIGHT, EmitStrategy, NoWindows


def lower(topology: Topology) -> LoweredTopology:
    """Return a topology with the inputs and joins that the pipeline runs."""
    lowering = _Lowering()
    stores = tuple(map(lowering.store, topology.stores))
    return LoweredTopology(stores, tuple(map(lowering.sink, topology.sinks)))


def lower_sink(sink: SinkNode) -> Store:
    """Return an output topic that is not in a topology."""
    return _Lowering().sink(sink)


def lower_node(node: Node) -> Input:
    """Return a stream, or the updates of a table."""
    return _Lowering().input(node)


def stream_text(nodes: tuple[Node, ...]) -> str:
    """Return the calls that created a stream."""
    lowering = _Lowering()
    return " and ".join(written(as_join_input(lowering.input(node))) for node in nodes)


def table_text(table: Node) -> str:
    """Return the calls that created a table, or joined tables."""
    tables, _ = _Lowering().tables(table)
    return " and ".join(written(as_join_input(each), is_table=True) for each in tables)


class _Lowering:
    """Lowers the nodes of one topology. Nodes that share an operation share its lowered form."""

    def __init__(self) -> None:
        #: By the ``id`` of the operation, because equal sources can have different calls.
        self._inputs: dict[int, Input] = {}
        self._tables: dict[int, JoinedTables] = {}

    def input(self, node: Node) -> Input:
        """Return a stream, or the updates of a table."""
        operation = node.operation
        if id(operation) not in self._inputs:
            self._inputs[id(operation)] = _OPERATIONS[type(operation)](self, operation)
        return replace(stepped(self._inputs[id(operation)], *node.steps), group_by=node.group_by)

    def tables(self, table: Node) -> JoinedTables:
        """Return the tables whose rows a store joins."""
        if not table.operation.joins_rows:
            return (self.input(table),), 0
        pair: Any = table.operation
        if id(pair) not in self._tables:
            left, right = self.tables(pair.left), self.tables(pair.right)
            if pair.foreign_key:
                right = (foreign_rows(left[0][0], right[0][0], pair.foreign_key),), 0
            self._tables[id(pair)] = joined_by_key(pair.how, left, right)
        return self._tables[id(pair)]

    def updating_tables(self, table: Node) -> JoinedTables:
        """Return the tables whose records update the rows of ``table``.

        A join by a foreign key is one table, which consists of its updates.
        """
        if not table.operation.joins_rows:
            return (self.input(table),), 0
        pair: Any = table.operation
        left = self.updating_tables(pair.left)
        if not pair.foreign_key:
            return joined_by_key(pair.how, left, self.updating_tables(pair.right))
        # Only the rows of the first table define the subscriptions, so the upstream joins are
        # computed once.
        keyed, *_ = self.tables(pair.left)[0]
        right = self.input(pair.right)
        key = pair.foreign_key
        return (foreign_updates(pair.how, table_updates(left), right, key, keyed),), 0

    def updates(self, table: Node) -> Input:
        """Return the updates of a table, or of joined tables."""
        return table_updates(self.updating_tables(table))

    def store(self, store: StoreNode) -> Store:
        """Return a store with its inputs."""
        rows = _ROWS[type(store.rows)](self, store.rows)
        return replace(
            rows,
            name=store.name,
            inputs=tuple(replace(each, key_type=store.key_type) for each in rows.inputs),
            retention_ms=store.retention_ms,
            publications=store.publications,
            final_table=store.final_table,
            mergeable=store.mergeable,
        )

    def sink(self, sink: SinkNode) -> Store:
        """Return an output topic with its inputs."""
        inputs, emit = tuple(map(self.input, sink.inputs)), EmitStrategy.on_window_update()
        return Store(sink.name, inputs, NoWindows(), Records(), emit, None, sink.publications)

    def rows(self, rows: Rows) -> Store:
        """Return the rows of an aggregation, as a store without a name."""
        return _ROWS[type(rows)](self, rows)


def _read(_lowering: _Lowering, read: Read) -> Input:
    return Input(read.source, ())


def _stream_pair(lowering: _Lowering, pair: StreamPair) -> Input:
    left = _one_input(lowering, pair.left, pair.windows.allowed_lateness_ms(LEFT))
    right = _one_input(lowering, pair.right, pair.windows.allowed_lateness_ms(RIGHT))
    return results_of(StreamJoin(left, right, pair.how, pair.windows))


def _one_input(lowering: _Lowering, streams: tuple[Node, ...], allowed_lateness_ms: int) -> Input:
    """Return merged streams as one input, and a single stream unchanged."""
    first, *others = inputs = tuple(as_join_input(lowering.input(stream)) for stream in streams)
    if not others:
        return first
    return as_join_input(results_of(MergedStreams(inputs, allowed_lateness_ms)))


def _table_lookup(lowering: _Lowering, lookup: TableLookup) -> Input:
    stream, table = lowering.input(lookup.stream), lowering.input(lookup.table)
    key = lookup.key
    if key is not None:
        # The join uses the computed key, and the results have the own keys of the records again.
        if lookup.how == "inner":
            has_key = f"({key}) IS NOT NULL" if isinstance(key, str) else key.isNotNull()
            stream = stepped(stream, Filter(has_key, call=""))
        stream = stepped(stream, LookupKey(key))
        no_row = Filter(f"key = '{NO_ROW_KEY}'", is_negated=True, of_table=True, call="")
        table = stepped(table, no_row)
    if lookup.grace_ms is not None:
        stream = results_of(GraceBuffer(as_join_input(stream), lookup.grace_ms))
    both = as_join_input(stream), as_join_input(table)
    found = results_of(StreamTableJoin(*both, lookup.how, lookup.history_ms))
    return found if key is None else stepped(found, OwnKey())


def _distinct(lowering: _Lowering, distinct: Distinct) -> Input:
    stream = as_join_input(lowering.input(distinct.stream))
    times = distinct.within_ms, distinct.grace_ms
    return results_of(DistinctRecords(stream, distinct.by, *times))


def _expiry(lowering: _Lowering, expiry: Expiry) -> Input:
    table = as_join_input(lowering.input(expiry.table))
    return results_of(ExpiringRecords(table, expiry.ttl_ms, of_table=True))


def _process(lowering: _Lowering, process: Process) -> Input:
    stream = as_join_input(lowering.input(process.stream))
    return results_of(ProcessedRecords(stream, process.processing))


def _late(lowering: _Lowering, late: Late) -> Input:
    return results_of(LateRecords(grouped_records(lowering.input(late.grouped)), late.windows))


def _versions(lowering: _Lowering, versions: Versions) -> Input:
    table = as_join_input(lowering.input(versions.table))
    return results_of(VersionedRecords(table, versions.history_ms, versions.newest_only))


def _table_pair(lowering: _Lowering, pair: TablePair) -> Input:
    if pair.joins_rows:
        return lowering.updates(Node(pair))
    left, right = lowering.updates(pair.left), lowering.updates(pair.right)
    return foreign_updates(pair.how, left, right, pair.foreign_key)


def _aggregation_updates(lowering: _Lowering, updates: AggregationUpdates) -> Input:
    rows = lowering.rows(updates.rows)
    if rows.aggregation.is_table:
        return rows.inputs[0]
    return aggregate_updates(rows)


def _row_step(lowering: _Lowering, row_step: RowStep) -> Input:
    updates = lowering.input(row_step.table)
    join: Any = updates.join
    return replace(updates, join=replace(join, row_steps=(*join.row_steps, row_step.step)))


def _row_changes(lowering: _Lowering, changes: RowChanges) -> Input:
    tables, rows = lowering.updating_tables(changes.table)
    return results_of(TableChanges(tuple(map(as_join_input, tables)), rows))


def _aggregated(lowering: _Lowering, rows: Aggregated) -> Store:
    inputs = tuple(
        replace(lowering.input(node), stream=number)
        for number, nodes in enumerate(rows.streams)
        for node in nodes
    )
    aggregation, steps = rows.aggregation, rows.row_steps
    store = Store("", inputs, rows.windows, aggregation, rows.emit, None, row_steps=steps)
    if rows.ttl_ms is None:
        return store
    # An expired row is removed by an update, so the store is the table of the updates.
    updates = aggregate_updates(store, rows.ttl_ms)
    return Store("", (updates,), rows.windows, TableRows(0), rows.emit, None)


def _joined_windows(lowering: _Lowering, rows: JoinedWindows) -> Store:
    joined = joined_windows(rows.how, lowering.rows(rows.left), lowering.rows(rows.right))
    return replace(joined, emit=rows.emit, row_steps=(*joined.row_steps, *rows.row_steps))


def _table(lowering: _Lowering, table: Node) -> Store:
    tables, rows = lowering.tables(table)
    return Store("", tables, NoWindows(), TableRows(rows), EmitStrategy.on_window_update(), None)


def _history(lowering: _Lowering, history: TableHistory) -> Store:
    inputs, emit = (lowering.input(history.table),), EmitStrategy.on_window_update()
    return Store("", inputs, history.windows, VersionRows(), emit, None)


#: The function of each kind of operation. A new kind needs a class, a function and an entry here.
_OPERATIONS: Mapping[type, Callable[[_Lowering, Any], Input]] = {
    Read: _read,
    StreamPair: _stream_pair,
    TableLookup: _table_lookup,
    Distinct: _distinct,
    Expiry: _expiry,
    Process: _process,
    Versions: _versions,
    Late: _late,
    TablePair: _table_pair,
    JoinUpdates: lambda lowering, updates: lowering.updates(updates.table),
    AggregationUpdates: _aggregation_updates,
    RowStep: _row_step,
    RowChanges: _row_changes,
}

#: The function of each kind of rows.
_ROWS: Mapping[type, Callable[[_Lowering, Any], Store]] = {
    Aggregated: _aggregated,
    JoinedWindows: _joined_windows,
    Node: _table,
    TableHistory: _history,
}
