"""Checks of the arguments of row-wise steps, as a stream or a table is given them."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from oriel.pipeline.errors import InvalidTopology
from oriel.pipeline.language.arguments import require_expressions
from oriel.pipeline.language.names import SCOPE
from oriel.pipeline.language.other_words import NO_VALUE_JOINER
from oriel.pipeline.language.topology import FlatMapValues, MapValues

if TYPE_CHECKING:
    from pyspark.sql import Column


def checked_map_values(keep: tuple[str, ...], columns: Mapping[str, "str | Column"]) -> MapValues:
    """The step of ``map_values``.

    Raises:
        InvalidTopology: there is no column, one to keep is none of the value, or an expression is
            no SQL text or ``Column``.
    """
    if not keep and not columns:
        message = "map_values: name at least one column, or '*' for all"
        raise InvalidTopology(message)
    require_expressions("map_values", *keep, *columns.values())
    _refuse_kept_scope("map_values", keep)
    return MapValues(keep, dict(columns))


def checked_key(
    called: str,
    key: "tuple[str | Column, ...]",
    keep: tuple[str, ...],
    columns: "Mapping[str, str | Column]",
) -> MapValues:
    """The step that makes a new key, of ``select_key`` or ``map``.

    Raises:
        InvalidTopology: there is no key, a column to keep is none of the value, or an expression is
            no SQL text or ``Column``.
    """
    if not key:
        message = f"{called}: name at least one column or expression for the key"
        raise InvalidTopology(message)
    require_expressions(called, *key, *keep, *columns.values())
    _refuse_kept_scope(called, keep)
    return MapValues(keep, dict(columns), key)


def checked_flat_map(
    called: str, keep: tuple[str, ...], columns: "Mapping[str, str | Column]"
) -> FlatMapValues:
    """The step of ``flat_map_values`` or ``flat_map``.

    Raises:
        InvalidTopology: no column is computed, one to keep is none of the value, or an expression
            is no SQL text or ``Column``.
    """
    require_expressions(called, *keep, *columns.values())
    if not columns:
        message = f"{called}: compute a column that is an array, like word=\"split(line, ' ')\""
        raise InvalidTopology(message)
    _refuse_kept_scope(called, keep)
    return FlatMapValues(keep, dict(columns))


def _refuse_kept_scope(called: str, keep: tuple[str, ...]) -> None:
    """Refuse to keep what stands beside the value, where it would stay anyway and make no column.

    Raises:
        InvalidTopology: ``key`` or ``timestamp_ms`` is to be kept; the message says how.
    """
    # SQL names ignore case.
    taken = next((name for name in keep if name.strip("`").lower() in SCOPE), None)
    if taken is not None:
        message = (
            f"{called}: {taken!r} is not a column of the value. Keep it under another name, "
            f"{taken[0].lower()}={taken!r}"
        )
        raise InvalidTopology(message)


def refuse_value_joiner(step: str, windows: object) -> None:
    """Refuse Kafka's ``ValueJoiner``, a function that makes one value of two.

    Raises:
        InvalidTopology: there is one in the place of windows.
    """
    if callable(windows):
        message = f"{step}: {NO_VALUE_JOINER}"
        raise InvalidTopology(message)


def refuse_foreign_key(step: str, foreign_key: object, *, of_tables: bool = False) -> None:
    """Refuse a foreign key where there is none: of a stream, or in an outer join of tables.

    Raises:
        InvalidTopology: there is one.
    """
    if foreign_key is None:
        return
    message = (
        f"{step}: foreign_key= is for tables. To join a stream by another key, use a global "
        "table with key=, or call select_key first"
    )
    if of_tables:
        message = (
            f"{step}: a row that nobody names has no key to be under, so a join by foreign_key= "
            "is join or left_join"
        )
    raise InvalidTopology(message)


def check_builder(step: str, registry: object, other: object) -> None:
    """Refuse two sides that are not of one topology, whose builder's registry they have."""
    if registry is not other:
        message = f"{step}: the inputs are from different builders. Use one builder"
        raise InvalidTopology(message)
