"""The columns that operators read of their inputs, and the aggregates and functions over them.

With several streams, the engine's column names begin with the index of the stream, for example
``_1_delay``. So the streams of a cogroup can have columns of the same name. The column ``_1_`` is
true for all records of stream 1, so that its ``count()`` counts only these records. All inputs of a
merged stream use the names of the stream.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import pyarrow as pa

from oriel.pipeline.errors import InvalidTopology
from oriel.pipeline.language import WINDOW_BOUNDS, Columns, Functions, arrow_schema
from oriel.pipeline.lowered import Input
from oriel.pipeline.stage_columns import KEY_GROUP
from oriel.pipeline.windows import Aggregate, Aggregator, UserFunctions, widened

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


def stream_schemas(
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
        # The inputs are in the order of their streams. So an index that is not known yet is the
        # next one.
        if stream == len(schemas):
            schemas.append(schema)
            continue
        first = schemas[stream]
        # The order of columns can differ, because columns are read by name.
        if {field.name: field.type for field in schema} != {f.name: f.type for f in first}:
            message = (
                f"store {store!r}, merge: the streams' values must have the same columns, not "
                f"({_columns_text(first)}) and ({_columns_text(schema)}). Convert with map_values"
            )
            raise InvalidTopology(message)
    return schemas


def _columns_text(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in schema)


def engine_names(values: Sequence[pa.Schema]) -> tuple[dict[str, str], ...]:
    """Return for each stream: own name of a column -> the engine's name."""
    # A single stream has no conflicts, so the state has the names of the user.
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


def read_aggregates(
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
        for of_stream, own in zip(columns.of_stream, engine_names(values), strict=True)
    )
    aggregates: dict[str, Aggregate] = {}
    for number, (of_stream, own) in enumerate(zip(columns.of_stream, names, strict=True)):
        for name, aggregate in of_stream.items():
            if aggregate.column is None:
                # `count()` reads no column. In a cogroup, a window has rows of all streams, so the
                # count needs the rows on which the marker of its stream is not null.
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
    # An old row of a table is subtracted and the new row added (semantics.md#9). So the partial
    # aggregates must support subtraction.
    if any(stream.join is not None and stream.join.are_changes for stream in streams):
        return aggregate.of_changes()
    # For example, `first` and `last` compare the partition and the offset of a record. Flattened
    # records share both, so the lineage is also compared.
    return aggregate.with_lineage() if has_lineage else aggregate


def read_functions(
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
    names = engine_names(values)
    aggregators = [
        aggregator if len(values) == 1 else _for_stream(aggregator, own)
        for aggregator, own in zip(functions.aggregators, names, strict=True)
    ]
    if functions.schema is None:
        _reject_window_bounds(f"store {store!r}, {functions.step}", values[0])
    # Without a schema, the aggregate has the columns of the value. In `reduce`, the result has the
    # type of its input (semantics.md#9).
    schema = values[0] if functions.schema is None else arrow_schema(functions.schema)
    hidden = sorted(_STATE_COLUMNS.intersection(schema.names))
    if hidden:
        message = (
            f"store {store!r}, {functions.step}: the names {hidden} belong to columns of "
            "the state. Rename the columns of the aggregate"
        )
        raise InvalidTopology(message)
    aggregate_functions = UserFunctions(
        initializer=functions.initializer,
        # Merged inputs are one stream, so they share its aggregator.
        aggregators=tuple(aggregators[stream] for stream in streams),
        merger=functions.merger,
        # A store has integers as BIGINT and floating-point numbers as DOUBLE, so the state also has
        # them.
        types={field.name: widened(field.type) for field in schema},
        step=f"store {store!r}, {functions.step}",
        unwraps_single_column=functions.schema is not None,
        subtractor=functions.subtractor,
        of_updates=frozenset(n for n, each in enumerate(inputs) if each.are_updates),
    )
    read = ReadColumns(_engine_columns(values, names), names, (None,) * len(names))
    return aggregate_functions, read.by_input(streams)


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


def _for_stream(aggregator: Aggregator, own: Mapping[str, str]) -> Aggregator:
    """Return an aggregator of one of several streams, which receives its columns by own names."""

    def of_stream(key: str, value: Any, aggregate: Any) -> Any:
        # In time and session windows, the aggregator receives a null value as None
        # (semantics.md#1-2).
        seen = None if value is None else {name: value[column] for name, column in own.items()}
        return aggregator(key, seen, aggregate)

    return of_stream
