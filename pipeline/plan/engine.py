"""The planner of engines: store of the topology -> engine, with the columns that it reads."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any, NamedTuple

import pyarrow as pa

from oriel.pipeline.arrow_steps import AggregatedSteps
from oriel.pipeline.errors import InvalidTopology
from oriel.pipeline.language import Columns, Functions, check_names, grouping_text
from oriel.pipeline.lowered import Input, Records, Store, TableRows, VersionRows, share_flattened
from oriel.pipeline.plan.read_columns import read_aggregates, read_functions, stream_schemas
from oriel.pipeline.stage_columns import KEY_GROUP, RAW
from oriel.pipeline.windows import (
    PARTIALS,
    IllegalArgument,
    RecordsEngine,
    TableRowsEngine,
    VersionRowsEngine,
    WindowEngine,
    engine_for,
    widened,
)
from oriel.storage import VALIDITY_FIELDS
from oriel.storage.delta import delta_type


@dataclass(frozen=True)
class PlannedEngine:
    """The engine of a store, with the columns of each input.

    Attributes:
        engine: The engine.
        columns: For each input: own name -> the engine's name.
        markers: For each input: the engine's column that is true for its records, or None.
        keeps_raw: True if a record can still become a dead letter in the engine. For functions in
            sliding windows, this can happen batches later, so the state also has the bytes.
        of_elements: For each input, True if its rows are flattened records.
        row_steps: The steps of the engine's rows before they are written. None without steps.
        takes_null_values: True if records with a null value are used. Otherwise they are dead
            letters.
        takes_any_key: True if records without a key, or with a very long key, are used.
    """

    engine: WindowEngine
    columns: tuple[Mapping[str, str], ...]
    markers: tuple[str | None, ...]
    keeps_raw: bool
    of_elements: tuple[bool, ...] = ()
    row_steps: AggregatedSteps | None = None
    takes_null_values: bool = False
    takes_any_key: bool = False

    @property
    def types(self) -> Mapping[str, pa.DataType]:
        """The aggregate columns of the store's table: name -> type."""
        return self.row_steps.types if self.row_steps else self.engine.aggregate_types

    @property
    def table_types(self) -> Mapping[str, pa.DataType]:
        """The same with the column of partial aggregates, if the rows keep them."""
        kept = {PARTIALS.name: PARTIALS.type} if self.engine.kept else {}
        return {**self.types, **kept}

    def written(self, changes: pa.Table) -> pa.Table:
        """Return the rows to write for the rows that the engine changed."""
        return self.row_steps.applied(changes) if self.row_steps else changes


def plan_engine(store: Store, values: Sequence[pa.Schema]) -> PlannedEngine:
    """Return the engine of ``store``, with the columns that it reads.

    Args:
        store: The store.
        values: The value columns of each input after its steps.

    Raises:
        InvalidTopology: The aggregation does not fit the columns. The message names the step.
    """
    kind = _KINDS[type(store.aggregation)]
    try:
        assembly = kind.build(store, values)
        if store.mergeable:
            assembly.engine.keep_partials()
    # It is also an ``IllegalArgument``, but its message already names the step.
    except InvalidTopology:
        raise
    except IllegalArgument as error:
        step = kind.step.format(store.aggregation)
        message = f"store {store.name!r}, {step}: {error}{kind.solution}"
        raise InvalidTopology(message) from error
    if kind.has_table:
        # A topic accepts any name, and any type that JSON has.
        check_columns(store, assembly.types)
    if any(each.lineage.length for each in store.inputs):
        # Several rows have the partition and the offset of one record. Without the lineage, the
        # order of arrival would not be total.
        assembly.engine.order_by_lineage()
    if any(map(kind.has_apply_order, store.inputs)):
        # The last update of a key is not always the update with the greatest offset. For example,
        # records leave a buffer in another order than their offsets.
        assembly.engine.use_apply_order()
    return replace(assembly, of_elements=tuple(each.has_flattened for each in store.inputs))


def check_columns(store: Store, types: Mapping[str, pa.DataType]) -> None:
    """Reject columns that the table of the store cannot have.

    Raises:
        InvalidTopology: A name or a type is not valid for a column. The message names it.
    """
    check_names(f"store {store.name!r}", list(types))
    for name, column_type in types.items():
        try:
            delta_type(column_type)
        except KeyError as error:
            of_schema = store.aggregation.has_schema
            where = "the function's schema, e.g. as JSON text" if of_schema else "map_values"
            message = (
                f"store {store.name!r}, column {name!r}: a store cannot hold {column_type}. "
                f"Convert it to BIGINT, DOUBLE, STRING, BOOLEAN or an array of them in {where}"
            )
            raise InvalidTopology(message) from error


def aggregate_calls(store: Store) -> dict[str, str]:
    """Return the call that computes each column of the store, as text, if the topology has one."""
    of_stream, steps = store.aggregation.aggregates, store.row_steps
    updates: Any = store.inputs[0].join
    # The rows of an aggregation whose keys expire are the table of its updates.
    if store.aggregation.is_table and updates is not None and updates.has_removals:
        of_stream, steps = updates.aggregation.aggregates, updates.row_steps
    topics_of = [
        ", ".join(origin.source.topic for origin in store.inputs if origin.stream == stream)
        for stream in range(len(of_stream))
    ]
    calls = {
        name: f"{topics}: {aggregate.call}" if len(of_stream) > 1 else aggregate.call
        for topics, aggregates in zip(topics_of, of_stream, strict=True)
        for name, aggregate in aggregates.items()
    }
    for step in steps:
        # Names of columns ignore case, as in Spark.
        of_name = {name.lower(): call for name, call in calls.items()}
        names = (name for name in step.kept_of(list(calls)) if name.lower() in of_name)
        kept = {name: of_name[name.lower()] for name in names}
        calls = kept | {name: grouping_text((of,)) for name, of in step.computed.items()}
    return calls


def _with_columns(store: Any, values: Sequence[pa.Schema]) -> PlannedEngine:
    of_streams = stream_schemas(store.name, store.streams, values)
    has_lineage = any(each.lineage.length for each in store.inputs)
    aggregates, read = read_aggregates(
        store.aggregation, of_streams, store.inputs, store.streams, has_lineage=has_lineage
    )
    engine = engine_for(
        store.windows, aggregates, read.schema,
        # The state keeps the key group of each row, so the rows can be divided when the number of
        # tasks changes.
        carried=pa.schema([KEY_GROUP]), emit=store.emit,
    )  # fmt: skip
    # Time and session windows aggregate a null value (semantics.md#1-2). Sliding windows, and
    # aggregations without windows, drop it in Kafka Streams. Here, the record becomes a dead
    # letter.
    null_values = store.windows.rule.takes_null_values
    # A named aggregate never raises, so the record cannot become a dead letter in the engine. Its
    # bytes are not shuffled.
    return PlannedEngine(
        engine, read.columns, read.markers, keeps_raw=False, takes_null_values=null_values
    )


def _with_functions(store: Any, values: Sequence[pa.Schema]) -> PlannedEngine:
    of_streams = stream_schemas(store.name, store.streams, values)
    fold, read = read_functions(
        store.name, store.aggregation, of_streams, store.inputs, store.streams
    )
    # A later batch can create a sliding window with an old record, on which a function then raises.
    carried = [KEY_GROUP, RAW] if store.windows.kind == "sliding" else [KEY_GROUP]
    engine = engine_for(
        store.windows, fold, read.schema, carried=pa.schema(carried), emit=store.emit
    )
    null_values = store.windows.rule.takes_null_values
    # A function can raise on any record. Its dead letter needs the bytes of the record.
    return PlannedEngine(
        engine, read.columns, read.markers, keeps_raw=True, takes_null_values=null_values
    )


def _with_rows(store: Any, values: Sequence[pa.Schema]) -> PlannedEngine:
    rows = store.aggregation
    # A store has integers as BIGINT and floating-point numbers as DOUBLE. So an INT column of a
    # source becomes 64 bits wide here.
    wide = [pa.schema([(f.name, widened(f.type)) for f in schema]) for schema in values]
    responses = tuple(
        number
        for number, origin in enumerate(store.inputs)
        if origin.join is not None and origin.join.is_between_tables
    )
    updates = tuple(number for number, origin in enumerate(store.inputs) if origin.emits_rows)
    expiring = tuple(number for number, origin in enumerate(store.inputs) if origin.expires)
    # For a table of a topic, the record with the greatest offset is the row. For updates, it is the
    # last one in apply order, in whichever partition. So the engine must know which inputs have
    # updates or responses of a foreign-key join.
    engine = TableRowsEngine(
        rows.join, wide, pa.schema([KEY_GROUP]),
        responses=responses, updates=updates, expiring=expiring,
    )  # fmt: skip
    names = tuple({name: name for name in schema.names} for schema in values)
    # A null value is a tombstone, which deletes the row of its key.
    return PlannedEngine(
        engine, names, (None,) * len(values), keeps_raw=False, takes_null_values=True
    )


def _with_versions(store: Any, values: Sequence[pa.Schema]) -> PlannedEngine:
    (of_table,) = values
    for name in of_table.names:
        if name.lower() in VALIDITY_FIELDS:
            message = f"{name!r} is the name of a field of versions, so a column cannot have it"
            raise IllegalArgument(message)
    wide = pa.schema([(f.name, widened(f.type)) for f in of_table])
    engine = VersionRowsEngine(store.windows, wide, pa.schema([KEY_GROUP]))
    names = {name: name for name in of_table.names}
    return PlannedEngine(engine, (names,), (None,), keeps_raw=False, takes_null_values=True)


def _with_records(store: Store, values: Sequence[pa.Schema]) -> PlannedEngine:
    (of_stream,) = stream_schemas(store.name, store.streams, values)
    names = {name: name for name in of_stream.names}
    inputs = len(store.inputs)
    for header, column in store.publications[0].headers:
        if column not in names or pa.types.is_nested(of_stream.field(column).type):
            message = (
                f"{store.name}: header {header!r} needs a column with a number, a string, a "
                f"boolean or bytes, not {column!r}. The columns are {', '.join(names)}"
            )
            raise InvalidTopology(message)
    engine = RecordsEngine(of_stream, inputs, share_flattened_records=share_flattened(store.inputs))
    # A topic can have any record. In Kafka Streams, `to` also writes null keys and null values.
    return PlannedEngine(
        engine, (names,) * inputs, (None,) * inputs, keeps_raw=False,
        takes_null_values=True, takes_any_key=True,
    )  # fmt: skip


class _Kind(NamedTuple):
    """How a kind of aggregation is planned.

    Attributes:
        build: Returns the assembly of a store.
        has_apply_order: Returns True for an input whose apply order matters to the aggregation.
        has_table: False for an output topic.
        step: The aggregation in the message of an error.
        solution: The end of the message of an error.
    """

    build: Callable[[Any, Sequence[pa.Schema]], PlannedEngine]
    has_apply_order: Callable[[Input], bool]
    has_table: bool = True
    step: str = "aggregate"
    solution: str = ""


def _has_apply_order(each: Input) -> bool:
    return each.has_apply_order


def _has_no_apply_order(_input: Input) -> bool:
    # Named aggregates order records by time, partition and offset.
    return False


_KINDS: Mapping[type, _Kind] = {
    Columns: _Kind(_with_columns, _has_no_apply_order),
    Functions: _Kind(_with_functions, _has_apply_order),
    TableRows: _Kind(
        _with_rows,
        attrgetter("emits_rows"),
        step="{}",
        solution=". Rename columns with map_values first",
    ),
    VersionRows: _Kind(
        _with_versions,
        _has_no_apply_order,
        step="{}",
        solution=". Rename columns with map_values first",
    ),
    Records: _Kind(_with_records, _has_apply_order, has_table=False),
}
