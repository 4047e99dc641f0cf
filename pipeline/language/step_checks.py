"""Checks of the arguments of row-wise steps, as a stream or a table is given them."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from oriel.pipeline.errors import InvalidTopology
from oriel.pipeline.language.arguments import require_expressions
from oriel.pipeline.language.topology import FlatMapValues, MapValues

if TYPE_CHECKING:
    from pyspark.sql import Column


def checked_map_values(keep: tuple[str, ...], columns: Mapping[str, "str | Column"]) -> MapValues:
    """The step of ``map_values``.

    Raises:
        InvalidTopology: there is no column, or an expression is no SQL text or ``Column``.
    """
    if not keep and not columns:
        message = "map_values: name at least one column, or '*' for all"
        raise InvalidTopology(message)
    require_expressions("map_values", *keep, *columns.values())
    return MapValues(keep, dict(columns))


def checked_key(
    called: str,
    key: "tuple[str | Column, ...]",
    keep: tuple[str, ...],
    columns: "Mapping[str, str | Column]",
) -> MapValues:
    """The step that makes a new key, of ``select_key`` or ``map``.

    Raises:
        InvalidTopology: there is no key, or an expression is no SQL text or ``Column``.
    """
    if not key:
        message = f"{called}: name at least one column or expression for the key"
        raise InvalidTopology(message)
    require_expressions(called, *key, *keep, *columns.values())
    return MapValues(keep, dict(columns), key)


def checked_flat_map(
    called: str, keep: tuple[str, ...], columns: "Mapping[str, str | Column]"
) -> FlatMapValues:
    """The step of ``flat_map_values`` or ``flat_map``.

    Raises:
        InvalidTopology: no column is computed, or an expression is no SQL text or ``Column``.
    """
    if not columns:
        message = f"{called}: compute a column that is an array, like word=\"split(line, ' ')\""
        raise InvalidTopology(message)
    require_expressions(called, *keep, *columns.values())
    return FlatMapValues(keep, dict(columns))


def check_builder(step: str, registry: object, other: object) -> None:
    """Refuse two sides that are not of one topology, whose builder's registry they have."""
    if registry is not other:
        message = f"{step}: the two sides are of different builders; make them with one"
        raise InvalidTopology(message)
