"""Check the arguments of the row-wise steps of streams and tables."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from oriel.pipeline.errors import InvalidTopology
from oriel.pipeline.language.arguments import require_expressions
from oriel.pipeline.language.kafka_hints import NO_VALUE_JOINER
from oriel.pipeline.language.names import SCOPE_COLUMNS
from oriel.pipeline.language.topology import FlatMapValues, MapValues, Node

if TYPE_CHECKING:
    from pyspark.sql import Column

#: The greatest number of inputs of a store or a join. Records and state files have the index of an
#: input in 8 bits.
_MAX_INPUTS = 128


def checked_map_values(keep: tuple[str, ...], columns: Mapping[str, "str | Column"]) -> MapValues:
    """Return the step of ``map_values``.

    Raises:
        InvalidTopology: No column is passed, ``keep`` has ``key`` or ``timestamp_ms``, or an
            expression is neither a string nor a ``Column``.
    """
    if not keep and not columns:
        message = "map_values: name at least one column, or '*' for all"
        raise InvalidTopology(message)
    require_expressions("map_values", *keep, *columns.values())
    _refuse_kept_scope("map_values", keep)
    return MapValues(keep, dict(columns))


def require_log_order(step: str, origins: Iterable[Node]) -> None:
    """Reject streams that are not the records of a topic in the order of its log.

    Raises:
        InvalidTopology: A stream has results of a join of streams, updates of a table, or records
            that waited for a table.
    """
    for origin in origins:
        creator = origin.operation.creator
        if creator.is_pair or creator.reorders or origin.emits_rows:
            message = (
                f"{step}: the stream must be the records of a topic. Results of joins and updates "
                f"of tables have no offset in one log. Call {step} before the join, or "
                "write the stream with to(topic) and read this topic"
            )
            raise InvalidTopology(message)


def checked_key(
    method: str,
    key: "tuple[str | Column, ...]",
    keep: tuple[str, ...],
    columns: "Mapping[str, str | Column]",
) -> MapValues:
    """Return the step of ``select_key`` or ``map``, which replaces the key.

    Raises:
        InvalidTopology: No key is passed, ``keep`` has ``key`` or ``timestamp_ms``, or an
            expression is neither a string nor a ``Column``.
    """
    if not key:
        message = f"{method}: name at least one column or expression for the key"
        raise InvalidTopology(message)
    require_expressions(method, *key, *keep, *columns.values())
    _refuse_kept_scope(method, keep)
    return MapValues(keep, dict(columns), key)


def checked_flat_map(
    method: str, keep: tuple[str, ...], columns: "Mapping[str, str | Column]"
) -> FlatMapValues:
    """Return the step of ``flat_map_values`` or ``flat_map``.

    Raises:
        InvalidTopology: No column is computed, ``keep`` has ``key`` or ``timestamp_ms``, or an
            expression is neither a string nor a ``Column``.
    """
    require_expressions(method, *keep, *columns.values())
    if not columns:
        message = f"{method}: compute an array column, for example word=\"split(line, ' ')\""
        raise InvalidTopology(message)
    _refuse_kept_scope(method, keep)
    return FlatMapValues(keep, dict(columns))


def _refuse_kept_scope(method: str, keep: tuple[str, ...]) -> None:
    """Reject ``key`` and ``timestamp_ms`` as columns to keep, because they are not in the value.

    Raises:
        InvalidTopology: ``keep`` has such a name. The message describes how to keep it.
    """
    # SQL names ignore case.
    taken = next((name for name in keep if name.strip("`").lower() in SCOPE_COLUMNS), None)
    if taken is not None:
        message = (
            f"{method}: {taken!r} is not a column of the value. Keep it under another name, "
            f"{taken[0].lower()}={taken!r}"
        )
        raise InvalidTopology(message)


def reject_value_joiner(step: str, windows: object) -> None:
    """Reject a ``ValueJoiner`` of Kafka Streams, which computes one value from two.

    Raises:
        InvalidTopology: ``windows`` is a function. The message describes the alternative.
    """
    if callable(windows):
        message = f"{step}: a function cannot be an argument. {NO_VALUE_JOINER}"
        raise InvalidTopology(message)


def reject_foreign_key(step: str, foreign_key: object, *, of_tables: bool = False) -> None:
    """Reject a foreign key for a stream, or with ``of_tables`` for an outer join of tables.

    Raises:
        InvalidTopology: ``foreign_key`` is not None.
    """
    if foreign_key is None:
        return
    message = (
        f"{step}: foreign_key= is for tables. To join a stream by another key, use a global "
        "table with key=, or call select_key first"
    )
    if of_tables:
        message = (
            f"{step}: not supported with foreign_key=, because a right row without left rows has "
            "no left key. Use join or left_join"
        )
    raise InvalidTopology(message)


def check_inputs(step: str, inputs: int) -> None:
    """Reject a number of inputs that a store or a join cannot have.

    Raises:
        InvalidTopology: There are more than 128 inputs.
    """
    if inputs > _MAX_INPUTS:
        message = (
            f"{step}: the result has {inputs} inputs, but a store or a join can have at most "
            f"{_MAX_INPUTS}. Write several inputs to one topic, and read this topic instead"
        )
        raise InvalidTopology(message)


def check_builder(step: str, registry: object, other: object) -> None:
    """Reject two inputs of different builders. The inputs of one builder share a registry.

    Raises:
        InvalidTopology: The registries are not the same object.
    """
    if registry is not other:
        message = f"{step}: the inputs are from different builders. Use one builder"
        raise InvalidTopology(message)
