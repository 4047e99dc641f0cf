"""The planner of engines: store of the topology -> engine, with the columns that it reads.

With several streams, the engine's column names begin with the index of the stream, for example
``_1_delay``. So the streams of a cogroup can have columns of the same name. The column ``_1_`` is
true for all records of stream 1, so that its ``count()`` counts only these records. All inputs of a
merged stream use the names of the stream.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple, Self

import pyarrow as pa

from oriel.pipeline.arrow_steps import AggregatedSteps
from oriel.pipeline.dead_letters import Reason, with_detail
from oriel.pipeline.errors import InvalidTopology
from oriel.pipeline.hops import KEY_GROUP, RAW
from oriel.pipeline.language import (
    WINDOW_BOUNDS,
    AggregateUpdates,
    Columns,
    Functions,
    Input,
    MapValues,
    MergedStreams,
    Records,
    Store,
    TableRows,
    arrow_schema,
    check_names,
    grouping_text,
    share_flattened,
)
from oriel.pipeline.windows import (
    Aggregate,
    AggregateUpdatesEngine,
    Aggregator,
    IllegalArgument,
    InputRows,
    MergeEngine,
    RecordsEngine,
    TableRowsEngine,
    UserFunctions,
    WindowEngine,
    engine_for,
    merged_lineage,
    updates_engine_for,
    widened,
)
from oriel.storage.delta import delta_type

#: The columns in the state of functions in addition to the columns of the aggregate.
_STATE_COLUMNS = frozenset({"partition", "reach_ms", KEY_GROUP.name})


@dataclass(frozen=True)
class ReadColumns:
    """The columns that an engine reads, by input (or by stream).

    Attributes:
        schema: All columns that the engine reads.
        columns: For each input (or stream): own name -> the engine's name.
        markers: For each input (or stream): the engine's column that is true for its records, or
            None.
    """

    schema: pa.Schema
    columns: tuple[Mapping[str, str], ...]
    markers: tuple[str | None, ...]

    def by_input(self, streams: Sequence[int]) -> Self:
        """Return the columns of each input. ``streams`` has the index of the stream of each."""
        columns = tuple(self.columns[stream] for stream in streams)
        return replace(self, columns=columns, markers=tuple(self.markers[s] for s in streams))


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
        assembly.engine.order_by_lineage()
    if any(map(kind.has_apply_order, store.inputs)):
        assembly.engine.order_by_effect()
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
            of_schema = isinstance(store.aggregation, Functions) and store.aggregation.schema
            where = "the function's schema, e.g. as JSON text" if of_schema else "map_values"
            message = (
                f"store {store.name!r}, column {name!r}: a store cannot hold {column_type}. "
                f"Convert it to BIGINT, DOUBLE, STRING, BOOLEAN or an array of them in {where}"
            )
            raise InvalidTopology(message) from error


def aggregate_calls(store: Store) -> dict[str, str]:
    """Return the call that computes each column of the store, as text, if the topology has one."""
    calls = _calls_of_aggregates(store)
    for step in store.row_steps:
        if isinstance(step, MapValues):
            of_name = {name.lower(): call for name, call in calls.items()}
            kept = {
                name: of_name[name.lower()] for name in step.keep if name.lower() in of_name
            } | (calls if "*" in step.keep else {})
            computed = {name: grouping_text((of,)) for name, of in step.columns.items()}
            calls = kept | computed
    return calls


def _calls_of_aggregates(store: Store) -> dict[str, str]:
    if not isinstance(store.aggregation, Columns):
        return {}
    of_stream = store.aggregation.of_stream
    topics_of = [
        ", ".join(origin.source.topic for origin in store.inputs if origin.stream == stream)
        for stream in range(len(of_stream))
    ]
    return {
        name: f"{topics}: {aggregate.call}" if len(of_stream) > 1 else aggregate.call
        for topics, aggregates in zip(topics_of, of_stream, strict=True)
        for name, aggregate in aggregates.items()
    }


def _stream_schemas(
    store: str, streams: Sequence[int], values: Sequence[pa.Schema]
) -> list[pa.Schema]:
    """Return the value columns of each stream. Merged inputs are one stream.

    Args:
        store: The name of the store.
        streams: The index of the stream of each input.
        values: The value columns of each input.

    Raises:
        InvalidTopology: Merged inputs have different columns.
    """
    schemas: list[pa.Schema] = []
    for stream, schema in zip(streams, values, strict=True):
        if stream == len(schemas):
            schemas.append(schema)
            continue
        first = schemas[stream]
        if {field.name: field.type for field in schema} != {f.name: f.type for f in first}:
            message = (
                f"store {store!r}, merge: the streams' values must have the same columns, not "
                f"({_columns_text(first)}) and ({_columns_text(schema)}). Convert with map_values"
            )
            raise InvalidTopology(message)
    return schemas


def _columns_text(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in schema)


def _engine_names(values: Sequence[pa.Schema]) -> tuple[dict[str, str], ...]:
    """Return for each stream: own name of a column -> the engine's name."""
    if len(values) == 1:
        return ({name: name for name in values[0].names},)
    return tuple(
        {name: f"_{number}_{name}" for name in schema.names} for number, schema in enumerate(values)
    )


def _engine_columns(values: Sequence[pa.Schema], names: Sequence[Mapping[str, str]]) -> pa.Schema:
    """Return the value columns that are in ``names``, under the engine's names."""
    return pa.schema([
        pa.field(own[field.name], field.type)
        for schema, own in zip(values, names, strict=True)
        for field in schema
        if field.name in own
    ])  # fmt: skip


def _with_columns(store: Any, values: Sequence[pa.Schema]) -> PlannedEngine:
    of_streams = _stream_schemas(store.name, store.streams, values)
    has_lineage = any(each.lineage.length for each in store.inputs)
    aggregates, read = _aggregates(
        store.aggregation, of_streams, store.inputs, store.streams, has_lineage=has_lineage
    )
    engine = engine_for(
        store.windows, aggregates, read.schema,
        carried=pa.schema([KEY_GROUP]), emit=store.emit,
    )  # fmt: skip
    null_values = store.windows.rule.takes_null_values
    return PlannedEngine(
        engine, read.columns, read.markers, keeps_raw=False, takes_null_values=null_values
    )


def _aggregates(
    columns: Columns,
    values: Sequence[pa.Schema],
    inputs: Sequence[Input],
    streams: Sequence[int],
    *,
    has_lineage: bool,
) -> tuple[dict[str, Aggregate], ReadColumns]:
    """Return the aggregates of the columns that an operator reads, and these columns of ``inputs``.

    Args:
        columns: The aggregates of each stream.
        values: The columns of each stream.
        inputs: The inputs.
        streams: The index of the stream of each input.
        has_lineage: True if the operator reads rows with a lineage.

    Raises:
        IllegalArgument: An aggregate does not fit the columns of its stream.
    """
    has_streams = len(values) > 1
    # Only columns that an aggregate of their stream reads are shuffled.
    names = tuple(
        {
            name: column
            for name, column in own.items()
            if name in {aggregate.column for aggregate in of_stream.values()}
        }
        for of_stream, own in zip(columns.of_stream, _engine_names(values), strict=True)
    )
    aggregates: dict[str, Aggregate] = {}
    for number, (of_stream, own) in enumerate(zip(columns.of_stream, names, strict=True)):
        for name, aggregate in of_stream.items():
            if aggregate.column is None:
                column = f"_{number}_" if has_streams else None
            else:
                # If the column is unknown, this error has the stream's own names.
                aggregate.output_type(values[number])
                column = own[aggregate.column]
            kept = _with_record_parts(aggregate, inputs, has_lineage=has_lineage)
            aggregates[name] = replace(kept, column=column)
    markers = tuple(f"_{number}_" if has_streams else None for number in range(len(values)))
    schema = _engine_columns(values, names)
    for marker in markers:
        schema = schema if marker is None else schema.append(pa.field(marker, pa.bool_()))
    return aggregates, ReadColumns(schema, names, markers).by_input(streams)


def _with_record_parts(
    aggregate: Aggregate, streams: Sequence[Input], *, has_lineage: bool
) -> Aggregate:
    """Return an aggregate with the partial aggregates for the records of ``streams``."""
    if any(stream.join is not None and stream.join.are_changes for stream in streams):
        return aggregate.of_changes()
    return aggregate.with_lineage() if has_lineage else aggregate


def _with_functions(store: Any, values: Sequence[pa.Schema]) -> PlannedEngine:
    of_streams = _stream_schemas(store.name, store.streams, values)
    fold, read = _functions(store.name, store.aggregation, of_streams, store.inputs, store.streams)
    # A later batch can create a sliding window with an old record, on which a function then raises.
    carried = [KEY_GROUP, RAW] if store.windows.kind == "sliding" else [KEY_GROUP]
    engine = engine_for(
        store.windows, fold, read.schema, carried=pa.schema(carried), emit=store.emit
    )
    null_values = store.windows.rule.takes_null_values
    return PlannedEngine(
        engine, read.columns, read.markers, keeps_raw=True, takes_null_values=null_values
    )


def _functions(
    store: str,
    functions: Functions,
    values: Sequence[pa.Schema],
    inputs: Sequence[Input],
    streams: Sequence[int],
) -> tuple[UserFunctions, ReadColumns]:
    """Return a user's functions, and the columns of ``inputs`` that they read.

    Without a schema, an aggregate has the columns of the first stream.

    Args:
        store: The name of the store.
        functions: The functions of the topology.
        values: The value columns of each stream.
        inputs: The inputs.
        streams: The index of the stream of each input.

    Raises:
        InvalidTopology: A column of the aggregate has a name that the state needs.
    """
    names = _engine_names(values)
    aggregators = [
        aggregator if len(values) == 1 else _for_stream(aggregator, own)
        for aggregator, own in zip(functions.aggregators, names, strict=True)
    ]
    if functions.schema is None:
        _reject_window_bounds(f"store {store!r}, {functions.step}", values[0])
    schema = values[0] if functions.schema is None else arrow_schema(functions.schema)
    hidden = sorted(_STATE_COLUMNS.intersection(schema.names))
    if hidden:
        message = (
            f"store {store!r}, {functions.step}: the names {hidden} belong to columns of "
            "the state. Rename the columns of the aggregate"
        )
        raise InvalidTopology(message)
    fold = UserFunctions(
        initializer=functions.initializer,
        aggregators=tuple(aggregators[stream] for stream in streams),
        merger=functions.merger,
        types={field.name: widened(field.type) for field in schema},
        step=f"store {store!r}, {functions.step}",
        unwraps_single_column=functions.schema is not None,
        subtractor=functions.subtractor,
        of_updates=frozenset(n for n, each in enumerate(inputs) if each.are_updates),
    )
    read = ReadColumns(_engine_columns(values, names), names, (None,) * len(names))
    return fold, read.by_input(streams)


def _reject_window_bounds(step: str, values: pa.Schema) -> None:
    """Reject values as aggregates if a column has the name of a window bound, in any case.

    Raises:
        InvalidTopology: A column has such a name. The message has the call that renames it.
    """
    taken = {name: name.lower() for name in values.names if name.lower() in WINDOW_BOUNDS}
    if taken:
        others = [name for name in values.names if name not in taken]
        renamed = [f"of_{own}={name!r}" for name, own in taken.items()]
        call = ", ".join([*map(repr, others), *renamed])
        message = (
            f"{step}: the records have the columns {sorted(taken)}, and an aggregation needs "
            "these names for its windows. Leave them out before the grouping, or rename them: "
            f"map_values({call})"
        )
        raise InvalidTopology(message)


def updates_engine(
    store: str,
    updates: AggregateUpdates,
    values: Sequence[pa.Schema],
    inputs: Sequence[InputRows],
    carried: pa.Schema,
) -> tuple[AggregateUpdatesEngine, ReadColumns]:
    """Return the engine for the updates of an aggregation, and the columns that it reads.

    Args:
        store: The name of the store.
        updates: The node of the topology.
        values: The value columns of each input.
        inputs: The rows of each input.
        carried: The columns that the state keeps with each record.

    Raises:
        InvalidTopology: A column of an aggregate has a name that the state needs, or merged
            streams have different columns.
        IllegalArgument: An aggregate does not fit ``values``, or its name is already used.
    """
    aggregation, windows, streams = updates.aggregation, updates.windows, updates.streams
    of_streams = _stream_schemas(store, streams, values)
    if isinstance(aggregation, Columns):
        merged = merged_lineage([each.lineage for each in updates.inputs])
        aggregates, read = _aggregates(
            aggregation, of_streams, updates.inputs, streams, has_lineage=merged.length > 0
        )
        return updates_engine_for(windows, aggregates, read.schema, carried, inputs=inputs), read
    fold, read = _functions(store, aggregation, of_streams, updates.inputs, streams)
    reason = partial(with_detail, Reason.FUNCTION_RAISED.value)
    engine = updates_engine_for(windows, fold, read.schema, carried, inputs=inputs, reason=reason)
    return engine, read


def merge_engine(
    store: str,
    join: MergedStreams,
    values: Sequence[pa.Schema],
    inputs: Sequence[InputRows],
    carried: pa.Schema,
) -> tuple[MergeEngine, ReadColumns]:
    """Return the engine of merged streams, and the columns that it reads.

    Args:
        store: The name of the store.
        join: The node of the topology.
        values: The value columns of each stream.
        inputs: The rows of each stream.
        carried: The columns of each record that are not values.

    Raises:
        InvalidTopology: The streams have different columns.
        IllegalArgument: A column has a name that the join needs.
    """
    streams = (0,) * len(inputs)
    (of_stream,) = _stream_schemas(store, streams, values)
    lateness_ms = join.allowed_lateness_ms
    engine = MergeEngine(of_stream, carried, rows=inputs, allowed_lateness_ms=lateness_ms)
    read = ReadColumns(of_stream, _engine_names([of_stream]), (None,))
    return engine, read.by_input(streams)


def _for_stream(aggregator: Aggregator, own: Mapping[str, str]) -> Aggregator:
    """Return an aggregator of one of several streams, which receives its columns by own names."""

    def of_stream(key: str, value: Any, aggregate: Any) -> Any:
        seen = None if value is None else {name: value[column] for name, column in own.items()}
        return aggregator(key, seen, aggregate)

    return of_stream


def _with_rows(store: Any, values: Sequence[pa.Schema]) -> PlannedEngine:
    rows = store.aggregation
    wide = [pa.schema([(f.name, widened(f.type)) for f in schema]) for schema in values]
    responses = tuple(
        number
        for number, origin in enumerate(store.inputs)
        if origin.join is not None and origin.join.is_between_tables
    )
    updates = tuple(number for number, origin in enumerate(store.inputs) if origin.emits_rows)
    engine = TableRowsEngine(rows.join, wide, pa.schema([KEY_GROUP]), responses, updates)
    names = tuple({name: name for name in schema.names} for schema in values)
    return PlannedEngine(
        engine, names, (None,) * len(values), keeps_raw=False, takes_null_values=True
    )


def _with_records(store: Store, values: Sequence[pa.Schema]) -> PlannedEngine:
    (of_stream,) = _stream_schemas(store.name, store.streams, values)
    names = {name: name for name in of_stream.names}
    inputs = len(store.inputs)
    engine = RecordsEngine(of_stream, inputs, share_flattened_records=share_flattened(store.inputs))
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


def _emits_rows(each: Input) -> bool:
    return each.emits_rows


def _has_no_apply_order(_input: Input) -> bool:
    # Named aggregates order records by time, partition and offset.
    return False


_KINDS: Mapping[type, _Kind] = {
    Columns: _Kind(_with_columns, _has_no_apply_order),
    Functions: _Kind(_with_functions, _has_apply_order),
    TableRows: _Kind(
        _with_rows, _emits_rows, step="{}", solution=". Rename columns with map_values first"
    ),
    Records: _Kind(_with_records, _has_apply_order, has_table=False),
}
