"""From a store of the topology to its engine: which columns of which input it reads.

With several streams the columns are told apart by the stream's number (``_1_delay``), so that
the streams of a cogroup may use the same names; a column ``_1_`` that is true for all of a
stream's records lets ``count()`` count only those. The inputs of a merged stream share its names.
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
    share_elements,
)
from oriel.pipeline.windows import (
    PARTNERS,
    Aggregate,
    AggregateUpdatesEngine,
    Aggregator,
    Fold,
    IllegalArgument,
    MergeEngine,
    RecordsEngine,
    SideRows,
    TableRowsEngine,
    WindowEngine,
    engine_for,
    updates_engine_for,
    widened,
)
from oriel.storage.delta import delta_type

#: What the state of functions has beside the aggregate's own columns.
_STATE_COLUMNS = frozenset({"partition", "reach_ms", KEY_GROUP.name})


@dataclass(frozen=True)
class ReadColumns:
    """The columns that an engine reads, and which of them each input (or stream) has.

    ``columns``: own name -> the engine's name. ``markers``: the engine's column that is true for
    its records, if any.
    """

    schema: pa.Schema
    columns: tuple[Mapping[str, str], ...]
    markers: tuple[str | None, ...]

    def of_inputs(self, streams: Sequence[int]) -> Self:
        """What each input has, from what each stream has: ``streams`` says which it is of."""
        columns = tuple(self.columns[stream] for stream in streams)
        return replace(self, columns=columns, markers=tuple(self.markers[s] for s in streams))


@dataclass(frozen=True)
class Assembly:
    """A store's engine, and for each input its columns: own name -> the engine's name.

    ``markers`` is for each input the engine's column that is true for its records, if any.
    ``keeps_raw`` says that a record can still become a dead letter in the engine. (In sliding
    windows with functions even batches later: their state has the raw bytes, too.)
    """

    engine: WindowEngine
    columns: tuple[Mapping[str, str], ...]
    markers: tuple[str | None, ...]
    keeps_raw: bool
    #: For each input whether its rows are elements of records, and no records.
    of_elements: tuple[bool, ...] = ()
    #: What becomes of the engine's rows before they are written.
    row_steps: AggregatedSteps | None = None
    #: True if records with a null value are used. Otherwise they are dead letters.
    takes_null_values: bool = False
    #: True if records without a key are used, or with a very long one.
    takes_any_key: bool = False

    @property
    def types(self) -> Mapping[str, pa.DataType]:
        """The store's columns of aggregates by name, as its table has them."""
        return self.row_steps.types if self.row_steps else self.engine.aggregate_types

    def written(self, changes: pa.Table) -> pa.Table:
        """What is written of the rows that the engine changed."""
        return self.row_steps.applied(changes) if self.row_steps else changes


def assemble(store: Store, values: Sequence[pa.Schema]) -> Assembly:
    """Return the engine of ``store``; ``values`` are the columns of its inputs after their steps.

    Raises:
        InvalidTopology: an aggregation does not fit the columns; the message names the step.
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
    numbers = max((origin.places.fields for origin in store.inputs), key=len)
    if numbers:
        assembly.engine.order_by_numbers(numbers)
    if any(map(kind.has_apply_order, store.inputs)):
        assembly.engine.order_by_effect()
    return replace(assembly, of_elements=tuple(each.has_elements for each in store.inputs))


def check_columns(store: Store, types: Mapping[str, pa.DataType]) -> None:
    """Refuse columns that the store's table can't have.

    Raises:
        InvalidTopology: a name or a type is none of a column; the message names it.
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
    """How each of the store's columns is made, for people, as far as the topology says it."""
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


def _of_streams(store: str, streams: Sequence[int], values: Sequence[pa.Schema]) -> list[pa.Schema]:
    """The value columns of each stream, of which merged inputs are one.

    ``streams`` says which one each input is of, ``values`` are its columns.

    Raises:
        InvalidTopology: merged inputs have other columns.
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


def _names(values: Sequence[pa.Schema]) -> tuple[dict[str, str], ...]:
    """For each stream: its column's own name -> the engine's name."""
    if len(values) == 1:
        return ({name: name for name in values[0].names},)
    return tuple(
        {name: f"_{number}_{name}" for name in schema.names} for number, schema in enumerate(values)
    )


def _renamed(values: Sequence[pa.Schema], names: Sequence[Mapping[str, str]]) -> pa.Schema:
    """The value columns that ``names`` has, under the engine's names."""
    return pa.schema([
        pa.field(own[field.name], field.type)
        for schema, own in zip(values, names, strict=True)
        for field in schema
        if field.name in own
    ])  # fmt: skip


def _with_columns(store: Any, values: Sequence[pa.Schema]) -> Assembly:
    of_streams = _of_streams(store.name, store.streams, values)
    aggregates, read = _aggregated(store.aggregation, of_streams, store.inputs, store.streams)
    engine = engine_for(
        store.windows, aggregates, read.schema,
        carried=pa.schema([KEY_GROUP]), emit=store.emit,
    )  # fmt: skip
    null_values = store.windows.rule.takes_null_values
    return Assembly(
        engine, read.columns, read.markers, keeps_raw=False, takes_null_values=null_values
    )


def _aggregated(
    columns: Columns,
    values: Sequence[pa.Schema],
    inputs: Sequence[Input],
    streams: Sequence[int],
) -> tuple[dict[str, Aggregate], ReadColumns]:
    """The aggregates of the columns that an engine reads, and these columns of ``inputs``.

    ``values`` are the columns of each stream, ``streams`` says which one each input is of.

    Raises:
        IllegalArgument: an aggregate does not fit the columns of its stream.
    """
    several = len(values) > 1
    # Only columns that some aggregate of their stream reads go through the shuffle.
    names = tuple(
        {
            name: column
            for name, column in own.items()
            if name in {aggregate.column for aggregate in of_stream.values()}
        }
        for of_stream, own in zip(columns.of_stream, _names(values), strict=True)
    )
    aggregates: dict[str, Aggregate] = {}
    for number, (of_stream, own) in enumerate(zip(columns.of_stream, names, strict=True)):
        for name, aggregate in of_stream.items():
            if aggregate.column is None:
                column = f"_{number}_" if several else None
            else:
                # An unknown column is told of with the stream's own names.
                aggregate.output_type(values[number])
                column = own[aggregate.column]
            aggregates[name] = replace(_kept(aggregate, inputs), column=column)
    markers = tuple(f"_{number}_" if several else None for number in range(len(values)))
    schema = _renamed(values, names)
    for marker in markers:
        schema = schema if marker is None else schema.append(pa.field(marker, pa.bool_()))
    return aggregates, ReadColumns(schema, names, markers).of_inputs(streams)


def _kept(aggregate: Aggregate, streams: Sequence[Input]) -> Aggregate:
    """An aggregate as the state keeps it up, by the records that ``streams`` have."""
    if any(stream.join is not None and stream.join.are_changes for stream in streams):
        return aggregate.of_changes()
    if any(PARTNERS in stream.places.fields for stream in streams):
        return aggregate.of_joined()
    return aggregate


def _with_functions(store: Any, values: Sequence[pa.Schema]) -> Assembly:
    of_streams = _of_streams(store.name, store.streams, values)
    fold, read = _folded(store.name, store.aggregation, of_streams, store.inputs, store.streams)
    # A function can raise on a record in a sliding window that comes to be much later.
    carried = [KEY_GROUP, RAW] if store.windows.kind == "sliding" else [KEY_GROUP]
    engine = engine_for(
        store.windows, fold, read.schema, carried=pa.schema(carried), emit=store.emit
    )
    null_values = store.windows.rule.takes_null_values
    return Assembly(
        engine, read.columns, read.markers, keeps_raw=True, takes_null_values=null_values
    )


def _folded(
    store: str,
    functions: Functions,
    values: Sequence[pa.Schema],
    inputs: Sequence[Input],
    streams: Sequence[int],
) -> tuple[Fold, ReadColumns]:
    """A user's functions, and what they read of ``inputs``.

    ``values`` are the columns of each stream, ``streams`` says which one each input is of. Without
    a schema of its own an aggregate is a record of the first stream.

    Raises:
        InvalidTopology: the aggregate has a column that the state has beside it.
    """
    names = _names(values)
    aggregators = [
        aggregator if len(values) == 1 else _of_stream(aggregator, own)
        for aggregator, own in zip(functions.aggregators, names, strict=True)
    ]
    if functions.schema is None:
        _refuse_bounds(f"store {store!r}, {functions.step}", values[0])
    schema = values[0] if functions.schema is None else arrow_schema(functions.schema)
    hidden = sorted(_STATE_COLUMNS.intersection(schema.names))
    if hidden:
        message = (
            f"store {store!r}, {functions.step}: the names {hidden} belong to columns of "
            "the state. Rename the columns of the aggregate"
        )
        raise InvalidTopology(message)
    fold = Fold(
        initializer=functions.initializer,
        aggregators=tuple(aggregators[stream] for stream in streams),
        merger=functions.merger,
        types={field.name: widened(field.type) for field in schema},
        step=f"store {store!r}, {functions.step}",
        bare=functions.schema is not None,
        subtractor=functions.subtractor,
        of_updates=frozenset(n for n, each in enumerate(inputs) if each.are_updates),
    )
    read = ReadColumns(_renamed(values, names), names, (None,) * len(names))
    return fold, read.of_inputs(streams)


def _refuse_bounds(step: str, values: pa.Schema) -> None:
    """Refuse to keep whole values with columns that rows and state have for windows' bounds.

    Raises:
        InvalidTopology: one has such a name, whatever its case; the message says how to rename it.
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
    sides: Sequence[SideRows],
    carried: pa.Schema,
) -> tuple[AggregateUpdatesEngine, ReadColumns]:
    """The engine of an aggregation's updates for ``store``, and what it reads of each side.

    ``values`` are the columns of each side, ``sides`` what its rows are.

    Raises:
        InvalidTopology: an aggregate's column has a name that the state needs, or merged streams
            have other columns.
        IllegalArgument: an aggregate does not fit ``values``, or has a name that is taken.
    """
    aggregation, windows, streams = updates.aggregation, updates.windows, updates.streams
    of_streams = _of_streams(store, streams, values)
    if isinstance(aggregation, Columns):
        aggregates, read = _aggregated(aggregation, of_streams, updates.inputs, streams)
        return updates_engine_for(windows, aggregates, read.schema, carried, sides=sides), read
    fold, read = _folded(store, aggregation, of_streams, updates.inputs, streams)
    reason = partial(with_detail, Reason.FUNCTION_RAISED.value)
    engine = updates_engine_for(windows, fold, read.schema, carried, sides=sides, reason=reason)
    return engine, read


def merge_engine(
    store: str,
    join: MergedStreams,
    values: Sequence[pa.Schema],
    sides: Sequence[SideRows],
    carried: pa.Schema,
) -> tuple[MergeEngine, ReadColumns]:
    """The engine of merged streams for ``store``, and what it reads of each side.

    Raises:
        InvalidTopology: the streams have other columns.
        IllegalArgument: a column has a name that the join needs.
    """
    streams = (0,) * len(sides)
    (of_stream,) = _of_streams(store, streams, values)
    lateness_ms = join.allowed_lateness_ms
    engine = MergeEngine(of_stream, carried, rows=sides, allowed_lateness_ms=lateness_ms)
    read = ReadColumns(of_stream, _names([of_stream]), (None,))
    return engine, read.of_inputs(streams)


def _of_stream(aggregator: Aggregator, own: Mapping[str, str]) -> Aggregator:
    """An aggregator of one stream among several: it sees its own columns by their own names."""

    def of_stream(key: str, value: Any, aggregate: Any) -> Any:
        seen = None if value is None else {name: value[column] for name, column in own.items()}
        return aggregator(key, seen, aggregate)

    return of_stream


def _with_rows(store: Any, values: Sequence[pa.Schema]) -> Assembly:
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
    return Assembly(engine, names, (None,) * len(values), keeps_raw=False, takes_null_values=True)


def _with_records(store: Store, values: Sequence[pa.Schema]) -> Assembly:
    (of_stream,) = _of_streams(store.name, store.streams, values)
    names = {name: name for name in of_stream.names}
    inputs = len(store.inputs)
    engine = RecordsEngine(of_stream, inputs, share_elements=share_elements(store.inputs))
    return Assembly(
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

    build: Callable[[Any, Sequence[pa.Schema]], Assembly]
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
