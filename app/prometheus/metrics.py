"""The metrics of a store, and the labels of its series.

The name of a metric is STORE_AGGREGATE. Each character that a metric cannot have becomes ``_``.

| label | value |
|---|---|
| ``store`` | the name of the store |
| ``key`` | the key, if it is a string or a number |
| ``key_1`` ... | the components of a composite key |
"""

import re
from collections.abc import Callable
from typing import NamedTuple

import orjson
import pyarrow as pa

from oriel.app.selection import item_schema
from oriel.storage import StoreDefinition

#: The label of the name of a metric.
NAME = "__name__"
STORE = "store"
_KEY = "key"
_NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9_]", re.ASCII)

#: The labels of a series, ordered by name. A label without a value is left out.
Labels = tuple[tuple[str, str], ...]


class Metric(NamedTuple):
    """One numeric aggregate of a store.

    Attributes:
        name: The name of the metric.
        aggregate: The name of the aggregate.
        help: A description for users.
    """

    name: str
    aggregate: str
    help: str


def name_part(text: str) -> str:
    """Return a part of the name of a metric: the name of a store, or of an aggregate."""
    return _NOT_IN_NAMES.sub("_", text)


def metrics_of(definition: StoreDefinition) -> list[Metric]:
    """Return the metrics of a store, an empty list for a store without windows."""
    if not definition.window.is_windowed:
        return []
    schema = item_schema(definition)
    prefix = name_part(definition.name)
    if prefix[0].isdigit():
        prefix = f"_{prefix}"
    return [
        Metric(
            f"{prefix}_{name_part(each.name)}",
            each.name,
            f"{each.function} of {definition.window.kind} windows in store {definition.name}",
        )
        for each in definition.aggregates
        if _is_numeric(schema.field(each.name).type)
    ]


def key_labels(definition: StoreDefinition) -> list[str]:
    """Return the labels of the key, one per component."""
    if not definition.key_type.startswith("["):
        return [_KEY]
    count = definition.key_type.count(",") + 1
    return [f"{_KEY}_{number}" for number in range(1, count + 1)]


def component_types(definition: StoreDefinition) -> list[str]:
    """Return the type of each component of the key, ``text`` or ``long``."""
    return definition.key_type.strip("[]").split(", ")


def components_of(definition: StoreDefinition) -> Callable[[str], list[str]]:
    """Return a function from a key to the values of its labels."""
    if not definition.key_type.startswith("["):
        return lambda key: [key]
    return lambda key: list(map(str, orjson.loads(key)))


def labels_of(metric: str, store: str, names: list[str], values: list[str]) -> Labels:
    """Return the labels of a series from the values of its key's labels."""
    key = zip(names, values, strict=True)
    labels = [(NAME, metric), *(pair for pair in key if pair[1]), (STORE, store)]
    return tuple(labels)


def _is_numeric(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_decimal(kind)
        or pa.types.is_boolean(kind)
    )
