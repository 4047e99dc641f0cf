"""Check the arguments of steps: windows, strategies, aggregations and durations.

Most functions return a valid argument in the form that ``Store`` has. For an invalid argument, they
raise ``InvalidTopology`` with the step and the fix. The checks run while the topology file is read,
and need neither records nor Spark.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from inspect import Parameter, Signature, signature
from typing import Any, cast

from oriel.pipeline.errors import InvalidTopology
from oriel.pipeline.language.formats import Serde, StoreKeySerde, arrow_schema
from oriel.pipeline.language.names import check_names
from oriel.pipeline.language.topology import (
    Aggregation,
    Columns,
    Functions,
    Node,
    Processing,
    Rows,
    function_name,
    grouping_text,
    short_name,
)
from oriel.pipeline.windows import (
    Aggregate,
    Aggregator,
    Duration,
    EmitStrategy,
    Merger,
    OnTimer,
    Processor,
    Windows,
    can_be_kept,
    check_span_ms,
    to_ms,
)
from oriel.storage import LONG, TEXT, KeyType, key_type

#: The types of keys of a store, or of components of composite keys.
_KEY_TYPES = {Serde("string"): TEXT, Serde("long"): LONG}

#: The arguments of an aggregator.
_RECORD = ("key", "value", "aggregate")

#: The shortest retention of each kind of windows, for messages.
_LEAST_RETENTION = {
    "sliding": "2 * time difference plus the grace period",
    "tumbling": "its window size plus the grace period",
    "hopping": "its window size plus the grace period",
    "session": "the inactivity gap plus the grace period",
}


def require_expressions(step: str, *expressions: object) -> None:
    """Reject arguments that are neither a string nor a Spark column, such as a Python function.

    Raises:
        InvalidTopology: An argument is neither a string nor a Spark column.
    """
    for expression in expressions:
        if isinstance(expression, str) or type(expression).__module__.startswith("pyspark."):
            continue
        given = (
            f"the function {short_name(expression)}" if callable(expression) else repr(expression)
        )
        message = f"{step}: an expression must be SQL text or a Spark Column, not {given}"
        if callable(expression):
            message += ". Write a Python function as F.udf(function, 'type')('column')"
        raise InvalidTopology(message)


def require_parameters(called: str, function: Callable[..., Any], given: Sequence[str]) -> None:
    """Reject a function that does not accept its arguments by position.

    Some built-in functions have no signature. They are not checked.

    Args:
        called: The step and the role of the function, for the message.
        function: The function.
        given: The names of the arguments that Oriel passes to the function.

    Raises:
        InvalidTopology: The function accepts more or fewer arguments. The message has both lists.
    """
    try:
        # Oriel calls the wrapper, which can pass other arguments to the wrapped function.
        accepted = signature(function, follow_wrapped=False)
    except (TypeError, ValueError):
        return
    try:
        accepted.bind(*given)
    except TypeError as error:
        names = [each.replace(annotation=Parameter.empty) for each in accepted.parameters.values()]
        own = accepted.replace(parameters=names, return_annotation=Signature.empty)
        message = (
            f"{called} is called with ({', '.join(given)}), but {short_name(function)} accepts "
            f"{own}"
        )
        raise InvalidTopology(message) from error


def checked_windows(windows: Windows) -> Windows:
    """Return the argument of ``windowed_by``.

    Raises:
        InvalidTopology: The argument is not a window definition.
    """
    if not isinstance(windows, Windows) or windows.kind == "none":
        message = (
            "windowed_by: windows must be TimeWindows, SlidingWindows or SessionWindows, not "
            f"{windows!r}"
        )
        raise InvalidTopology(message)
    return windows


def checked_strategy(strategy: EmitStrategy, windows: Windows, step: str = "emit") -> EmitStrategy:
    """Return the strategy of ``emit`` or ``suppress``.

    Raises:
        InvalidTopology: The argument is not a strategy, or it is ``on_window_close()`` without
            windows.
    """
    if not isinstance(strategy, EmitStrategy):
        example = "an EmitStrategy such as on_window_close()"
        if step == "suppress":
            example = "until_window_closes()"
        message = f"{step}: the argument must be {example}, not {strategy!r}"
        raise InvalidTopology(message)
    if strategy.name == "window-close" and windows.kind == "none":
        message = f"{step}: without windows, rows never become final. Call windowed_by() before it"
        raise InvalidTopology(message)
    return strategy


def checked_key_type(name: str, inputs: Sequence[Node], key_serde: StoreKeySerde | None) -> KeyType:
    """Return the type of keys that ``key_serde`` of a store with these ``inputs`` defines.

    Raises:
        InvalidTopology: A serde is not allowed for keys of a store, or it does not fit the number
            of expressions of ``group_by``.
    """
    if key_serde is None:
        return TEXT
    serdes = key_serde if isinstance(key_serde, tuple) else (key_serde,)
    types = [_KEY_TYPES.get(serde) if isinstance(serde, Serde) else None for serde in serdes]
    components = [each.name for each in types if each is not None]
    if not components or len(components) < len(types):
        message = (
            f"materialize: key_serde of the store {name!r} must be Serdes.string(), "
            f"Serdes.long(), or a tuple of such serdes for composite keys, not {key_serde!r}"
        )
        raise InvalidTopology(message)
    is_composite = isinstance(key_serde, tuple)
    chosen = key_type(f"[{', '.join(components)}]" if is_composite else components[0])
    for grouped in inputs:
        columns = len(grouped.key_columns)
        # A single column can contain a composite key as JSON. Several columns become the components
        # of a composite key, or one string.
        is_fitting = columns in {0, 1, len(components)} if is_composite else columns <= 1
        if not is_fitting and chosen is not TEXT:
            message = (
                f"materialize: the store {name!r} has keys of {columns} columns, "
                f"{grouping_text(grouped.key_columns)}, and key_serde is {chosen.name}. Pass a "
                f"tuple of {columns} serdes"
            )
            raise InvalidTopology(message)
    return chosen


def checked_retention(name: str, windows: Windows, retention: Duration | None) -> int | None:
    """Return the retention of a store in milliseconds, or None for no limit.

    Raises:
        InvalidTopology: The retention is negative or shorter than the windows need, or the store
            has no windows.
        IllegalArgument: The retention is neither an integer nor a ``timedelta``, or exceeds 64
            bits.
    """
    if retention is None:
        return None
    if windows.kind == "none":
        message = (
            f"materialize: the store {name!r} has no windows, so it has no retention period. Omit "
            "retention_ms"
        )
        raise InvalidTopology(message)
    retention_ms = to_ms(retention, f"materialize: the retention period of store {name!r}")
    least_ms = windows.least_retention_ms
    if retention_ms < 0:
        message = f"Retention of the window store {name!r} must not be negative"
        raise InvalidTopology(message)
    if retention_ms < least_ms:
        message = (
            f"materialize: the retention period of store {name!r} must be at least "
            f"{_LEAST_RETENTION[windows.kind]}, {least_ms} ms, not {retention_ms} ms"
        )
        raise InvalidTopology(message)
    return retention_ms


def check_final_table(name: str, windows: Windows, *, is_set: bool) -> None:
    """Check that a store with a table of final rows has windows, because other rows can change.

    Raises:
        InvalidTopology: It has no windows.
    """
    if is_set and windows.kind == "none":
        message = (
            f"materialize: the store {name!r} has no windows, so its rows never become final. Omit "
            "final_table, and read the table of the store"
        )
        raise InvalidTopology(message)


def check_mergeable(name: str, rows: Rows, *, is_set: bool) -> None:
    """Check that reads can merge the windows of a store (decision 0114).

    Raises:
        InvalidTopology: Its windows overlap, its rows are not those of one aggregation, or it has
            no aggregate that can be merged.
    """
    if not is_set:
        return
    kind = rows.windows.kind
    step = f"materialize: the store {name!r}"
    if kind != "tumbling":
        windows = "no windows" if kind == "none" else f"{kind} windows"
        message = (
            f"{step} has {windows}, and mergeable=True needs tumbling windows, because each record "
            "must be in one window. Omit mergeable, or aggregate in tumbling windows"
        )
        raise InvalidTopology(message)
    if rows.has_steps:
        message = (
            f"{step} has steps or a join after the aggregation, so its rows are not the partial "
            "aggregates. Call materialize with mergeable=True on the result of aggregate"
        )
        raise InvalidTopology(message)
    if not any(map(can_be_kept, rows.aggregates)):
        message = (
            f"{step} has no aggregate that can be merged, because the service runs no functions "
            "of users, and collect_list is a list of records. Omit mergeable, or add an aggregate "
            "such as avg"
        )
        raise InvalidTopology(message)


def checked_period(step: str, period: Duration) -> int:
    """Return a duration in milliseconds, for example a grace. Messages start with ``step``.

    Raises:
        InvalidTopology: The duration is negative.
        IllegalArgument: The duration is neither an integer nor a ``timedelta``, or it exceeds the
            times that the pipeline supports.
    """
    period_ms = to_ms(period, step)
    if period_ms < 0:
        message = f"{step} must not be negative, but it is {period_ms} ms"
        raise InvalidTopology(message)
    check_span_ms(period_ms, step)
    return period_ms


def checked_aggregation(
    initializer: Callable[[], Any] | None,
    aggregator: Aggregator | None,
    merger: Merger | None,
    schema: str | None,
    aggregates: Mapping[str, Aggregate],
) -> Columns | Functions:
    """Return the named aggregates or the functions of an aggregation.

    Raises:
        InvalidTopology: Neither or both are passed, or an argument is invalid.
    """
    no_functions = (initializer, aggregator, merger, schema) == (None, None, None, None)
    if aggregates and not no_functions:
        message = "aggregate: pass either functions with a schema or named aggregates"
        raise InvalidTopology(message)
    if no_functions:
        return checked_columns("aggregate", (aggregates,))
    if isinstance(initializer, Aggregate):
        message = f"aggregate: name the column of the aggregate. Write n={initializer.call}"
        raise InvalidTopology(message)
    if isinstance(merger, str):
        message = f"aggregate: pass the schema as a keyword argument, schema={merger!r}"
        raise InvalidTopology(message)
    if aggregator is None:
        message = "aggregate: initializer, merger and schema need the function aggregator"
        raise InvalidTopology(message)
    return checked_functions(initializer, (aggregator,), merger, schema)


def checked_columns(step: str, of_stream: Sequence[Mapping[str, Aggregate]]) -> Columns:
    """Return the named aggregates of each stream.

    Raises:
        InvalidTopology: No aggregate is passed, an argument is not an aggregate, or the name of a
            column is invalid, reserved or repeated.
    """
    named = [pair for aggregates in of_stream for pair in aggregates.items()]
    if not named:
        message = f"{step}: name at least one aggregate, for example n=count()"
        raise InvalidTopology(message)
    for name, aggregate in named:
        if not isinstance(aggregate, Aggregate):
            message = f"{step}: {name}={aggregate!r} is not an aggregate such as count()"
            raise InvalidTopology(message)
    check_names(step, [name for name, _ in named])
    return Columns(tuple(dict(aggregates) for aggregates in of_stream))


def checked_functions(
    initializer: Callable[[], Any] | None,
    aggregators: tuple[Aggregator, ...],
    merger: Merger | None,
    schema: str | None,
) -> Functions:
    """Return an aggregation with user-defined functions.

    Raises:
        InvalidTopology: An argument is not a function or accepts other arguments, or the schema is
            missing or invalid.
    """
    step = "aggregate"
    numbered = [f" {n}" for n in range(len(aggregators))] if len(aggregators) > 1 else [""]
    functions: list[tuple[str, Sequence[str], object]] = [
        ("initializer", (), initializer),
        *((f"aggregator{n}", _RECORD, each) for n, each in zip(numbered, aggregators, strict=True)),
        *([] if merger is None else [("merger", ("key", "left", "right"), merger)]),
    ]
    for argument, given, function in functions:
        if not callable(function):
            message = f"{step}: {argument} must be a function, not {function!r}"
            raise InvalidTopology(message)
        require_parameters(f"{step}: {argument}", function, given)
    if not isinstance(schema, str):
        message = (
            f'{step}: schema must name the aggregate\'s columns, like "n BIGINT", not {schema!r}'
        )
        raise InvalidTopology(message)
    check_names(step, arrow_schema(schema, step).names)
    return Functions(initializer, aggregators, merger, schema, step)


def checked_processing(
    function: Processor, schema: str, state: str | None, on_timer: OnTimer | None
) -> Processing:
    """Return the functions of ``process``.

    Raises:
        InvalidTopology: An argument is not a function or accepts other arguments, or a schema is
            missing or invalid.
    """
    functions: list[tuple[str, Sequence[str], object]] = [
        ("function", ("key", "value", "context"), function),
        *([] if on_timer is None else [("on_timer", ("key", "context"), on_timer)]),
    ]
    for argument, given, passed in functions:
        if not callable(passed):
            message = f"process: {argument} must be a function, not {passed!r}"
            raise InvalidTopology(message)
        require_parameters(f"process: {argument}", passed, given)
    if not isinstance(schema, str):
        message = f'process: schema must name the columns of a row, like "n BIGINT", not {schema!r}'
        raise InvalidTopology(message)
    check_names("process: schema", arrow_schema(schema, "process: schema").names)
    if state is not None:
        if not isinstance(state, str):
            message = f'process: state must name its columns, like "n BIGINT", not {state!r}'
            raise InvalidTopology(message)
        arrow_schema(state, "process: state")
    return Processing(function, schema, state, on_timer)


def checked_reducer(reducer: Callable[[Any, Any], Any]) -> Functions:
    """Return the aggregation of ``reduce``. The reducer also merges two kept values.

    Raises:
        InvalidTopology: The reducer is not a function of two arguments.
    """
    if not callable(reducer):
        message = f"reduce: the reducer must be a function (aggregate, value), not {reducer!r}"
        raise InvalidTopology(message)
    require_parameters("reduce: the reducer", reducer, ("aggregate", "value"))

    def aggregator(_key: str, value: Any, aggregate: Any) -> Any:
        return reducer(aggregate, value)

    def merger(_key: str, left: Any, right: Any) -> Any:
        return reducer(left, right)

    return Functions(None, (aggregator,), merger, None, "reduce")


def checked_table_aggregation(
    initializer: Callable[[], Any] | None,
    adder: Aggregator | None,
    subtractor: Aggregator | None,
    merger: Merger | None,
    schema: str | None,
    aggregates: Mapping[str, Aggregate],
) -> Columns | Functions:
    """Return the aggregation of a grouped table: named aggregates, or functions with a subtractor.

    Raises:
        InvalidTopology: Neither or both are passed, an argument is invalid, or an aggregate does
            not support the retraction of old rows.
    """
    if adder is None and subtractor is None:
        aggregation = checked_aggregation(initializer, None, merger, schema, aggregates)
        for name, aggregate in aggregates.items():
            if not aggregate.is_subtractable:
                message = (
                    f"aggregate: {name}={aggregate.call} cannot be an aggregate of a table, "
                    "because a deleted row cannot be subtracted from it. Use count, sum, avg or "
                    "stddev, or pass the functions initializer, adder and subtractor"
                )
                raise InvalidTopology(message)
        return aggregation
    if not callable(adder) or not callable(subtractor):
        message = (
            "aggregate: a table also deletes rows, so pass adder and subtractor, functions of "
            f"(key, value, aggregate), not {adder!r} and {subtractor!r}"
        )
        raise InvalidTopology(message)
    for role, function in (("adder", adder), ("subtractor", subtractor)):
        require_parameters(f"aggregate: {role}", function, _RECORD)
    functions = checked_aggregation(initializer, adder, merger, schema, aggregates)
    return replace(cast("Functions", functions), subtractor=subtractor)


def checked_table_reducers(
    adder: Callable[[Any, Any], Any], subtractor: Callable[[Any, Any], Any]
) -> Functions:
    """Return the aggregation of ``reduce`` of a grouped table.

    Raises:
        InvalidTopology: An argument is not a function of two arguments.
    """
    functions = checked_reducer(adder)
    if not callable(subtractor):
        message = (
            f"reduce: the subtractor must be a function (aggregate, value), not {subtractor!r}"
        )
        raise InvalidTopology(message)
    require_parameters("reduce: subtractor", subtractor, ("aggregate", "value"))

    def aggregator_of(reducer: Callable[[Any, Any], Any]) -> Aggregator:
        def aggregator(_key: str, value: Any, aggregate: Any) -> Any:
            return reducer(aggregate, value)

        # A store records the names of its functions, so the wrapper has the name of the user's.
        aggregator.__qualname__ = function_name(reducer)
        return aggregator

    return replace(
        functions, aggregators=(aggregator_of(adder),), subtractor=aggregator_of(subtractor)
    )


def aggregation_text(aggregation: Aggregation) -> str:
    """Return the call of an aggregation for messages, such as ``aggregate(n=count())``."""
    return f"aggregate({'functions' if aggregation.by_functions else aggregation})"
