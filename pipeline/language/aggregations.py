"""Aggregations as the language takes them, checked: declarative ones and users' functions."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from oriel.pipeline.errors import InvalidTopology
from oriel.pipeline.language.schemas import arrow_schema
from oriel.pipeline.language.topology import Aggregation, Columns, Functions
from oriel.pipeline.windows import Aggregate, Aggregator, Merger
from oriel.storage import RESERVED_COLUMNS

#: What Delta can't have in the name of a column without column mapping.
_PLAIN_NAME = re.compile(r"[^ ,;{}()\n\t=]+")


def checked_aggregation(
    initializer: Callable[[], Any] | None,
    aggregator: Aggregator | None,
    merger: Merger | None,
    schema: str | None,
    aggregates: Mapping[str, Aggregate],
) -> Columns | Functions:
    """Return declarative aggregates or functions, whichever is given.

    Raises:
        InvalidTopology: neither or both are given, or one is wrong.
    """
    no_functions = (initializer, aggregator, merger, schema) == (None, None, None, None)
    if aggregates and not no_functions:
        message = "aggregate: give either functions with a schema or declarative aggregates"
        raise InvalidTopology(message)
    if no_functions:
        return checked_columns("aggregate", (aggregates,))
    if aggregator is None:
        message = "aggregate: initializer, merger and schema need an aggregator, a function"
        raise InvalidTopology(message)
    return checked_functions(initializer, (aggregator,), merger, schema)


def checked_columns(step: str, of_input: Sequence[Mapping[str, Aggregate]]) -> Columns:
    """Return declarative aggregates.

    Raises:
        InvalidTopology: there is none, one is not an aggregate, or a name can't be used.
    """
    named = [(name, aggregate) for one in of_input for name, aggregate in one.items()]
    if not named:
        message = f"{step}: name at least one aggregate, for example n=count()"
        raise InvalidTopology(message)
    for name, aggregate in named:
        if not isinstance(aggregate, Aggregate):
            message = f"{step}: {name}={aggregate!r} is not an aggregate such as count()"
            raise InvalidTopology(message)
    check_names(step, [name for name, _ in named])
    return Columns(tuple(dict(one) for one in of_input))


def checked_functions(
    initializer: Callable[[], Any] | None,
    aggregators: tuple[Aggregator, ...],
    merger: Merger | None,
    schema: str | None,
) -> Functions:
    """Return a user's aggregation.

    Raises:
        InvalidTopology: one is no function, or the schema is missing or can't be read.
    """
    step = "aggregate"
    given = {
        "initializer": initializer,
        **{f"aggregator {n}": a for n, a in enumerate(aggregators)},
    }
    for what, function in given.items():
        if not callable(function):
            message = f"{step}: {what} must be a function, not {function!r}"
            raise InvalidTopology(message)
    if merger is not None and not callable(merger):
        message = f"{step}: merger must be a function, not {merger!r}"
        raise InvalidTopology(message)
    if not isinstance(schema, str):
        message = (
            f'{step}: schema must name the aggregate\'s columns, like "n BIGINT", not {schema!r}'
        )
        raise InvalidTopology(message)
    check_names(step, arrow_schema(schema, step).names)
    return Functions(initializer, aggregators, merger, schema, step)


def checked_reducer(reducer: Callable[[Any, Any], Any]) -> Functions:
    """Return the aggregation of Kafka's reduce: the reducer merges, too.

    Raises:
        InvalidTopology: it is no function.
    """
    if not callable(reducer):
        message = f"reduce: expects a function of (kept value, new value), not {reducer!r}"
        raise InvalidTopology(message)

    def aggregator(_key: str, value: Any, aggregate: Any) -> Any:
        return reducer(aggregate, value)

    def merger(_key: str, left: Any, right: Any) -> Any:
        return reducer(left, right)

    return Functions(None, (aggregator,), merger, None, "reduce")


def check_names(step: str, names: Sequence[str]) -> None:
    """Refuse columns that a store's table can't have.

    Raises:
        InvalidTopology: a name is empty, odd, taken, or there twice.
    """
    for name in names:
        if not name or not _PLAIN_NAME.fullmatch(name):
            message = f"{step}: a Delta table can't have a column named {name!r}"
            raise InvalidTopology(message)
        if name.lower() in RESERVED_COLUMNS or name.lower() in {"store", "position"}:
            message = f"{step}: the name {name!r} is taken by a column of every store"
            raise InvalidTopology(message)
    if len({name.lower() for name in names}) != len(names):
        message = f"{step}: two names are equal or differ in case only: {sorted(names)}"
        raise InvalidTopology(message)


def told_of(aggregation: Aggregation) -> str:
    """How the aggregation is written, for messages."""
    if not isinstance(aggregation, Columns):
        return "aggregate(functions)"
    calls = (f"{n}={a.call}" for one in aggregation.of_input for n, a in one.items())
    return f"aggregate({', '.join(calls)})"
