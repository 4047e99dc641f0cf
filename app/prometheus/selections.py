"""Which windows a selector needs: the metrics, and the ranges of their keys.

A token's key prefixes limit the ranges before anything is read, so other keys are neither read nor
counted.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from typing import NamedTuple

import numpy as np
import orjson

from oriel.app.contract import Forbidden, InvalidParameter
from oriel.app.guards import Access
from oriel.app.prometheus.matchers import Mask, Matcher, mask_of
from oriel.app.prometheus.metrics import (
    NAME,
    STORE,
    Metric,
    component_types,
    components_of,
    key_labels,
    metrics_of,
    name_part,
)
from oriel.storage import KeyTypeMismatch, ScanRange, StoreDefinition

#: If more keys can match, their range is read and filtered.
_EXACT_KEYS_MAX = 1_000


class Selection(NamedTuple):
    """The metrics and keys of one store that a selector selects.

    Attributes:
        metrics: The metrics.
        ranges: The ranges of the keys. They do not overlap.
        matchers: The matchers of the labels of the key.
    """

    metrics: list[Metric]
    ranges: list[ScanRange]
    matchers: list[Matcher]


def possible_stores(matchers: Sequence[Matcher], stores: Sequence[str]) -> list[str]:
    """Return the stores that can have a selected metric, by their names only."""
    literals = [
        values
        for each in matchers
        if each.label == NAME and (values := each.literals()) is not None
    ]
    mask = mask_of(matchers, STORE, stores)
    return [
        store
        for store, is_possible in zip(stores, mask.tolist(), strict=True)
        if is_possible and all(_can_begin(store, names) for names in literals)
    ]


def _can_begin(store: str, names: Iterable[str]) -> bool:
    """Return whether one of the names can begin with the name of the store."""
    prefix = f"{name_part(store)}_".removeprefix("_")
    return any(name.removeprefix("_").startswith(prefix) for name in names)


def select(
    matchers: Sequence[Matcher], definition: StoreDefinition, access: Access | None
) -> Selection:
    """Return what a selector selects of a store. The ranges are empty if it selects nothing.

    Raises:
        Forbidden: the token grants access to keys whose range cannot be read.
    """
    labels = key_labels(definition)
    metrics = metrics_of(definition)
    is_selected = mask_of(matchers, NAME, [each.name for each in metrics])
    metrics = [metrics[index] for index in np.flatnonzero(is_selected)]
    absent = {each.label for each in matchers} - {NAME, STORE, *labels}
    of_key = [each for each in matchers if each.label in labels]
    # A series has no other labels.
    is_possible = all(mask_of(matchers, label, [""])[0] for label in absent)
    if not metrics or not is_possible or not mask_of(matchers, STORE, [definition.name])[0]:
        return Selection([], [], of_key)
    _reject_same_names(metrics, definition)
    return Selection(metrics, list(_ranges(of_key, definition, access)), of_key)


def keys_mask(
    keys: Sequence[str], definition: StoreDefinition, matchers: Sequence[Matcher]
) -> Mask:
    """Return for each key whether it meets the matchers of the labels of the key."""
    names = key_labels(definition)
    columns = list(zip(*map(components_of(definition), keys), strict=True))
    mask = np.ones(len(keys), np.bool_)
    for matcher in matchers if keys else ():
        mask &= matcher.mask(columns[names.index(matcher.label)])
    return mask


def _reject_same_names(metrics: Sequence[Metric], definition: StoreDefinition) -> None:
    names = [each.name for each in metrics]
    for metric in metrics:
        if names.count(metric.name) > 1:
            message = (
                f"store {definition.name!r}: several aggregates have the metric {metric.name}. "
                "Rename an aggregate in the topology."
            )
            raise InvalidParameter(message)


def _ranges(
    matchers: Sequence[Matcher], definition: StoreDefinition, access: Access | None
) -> Iterator[ScanRange]:
    """Yield ranges that contain all keys that match and that the token grants access to."""
    labels = key_labels(definition)
    possible = [_possible_values(matchers, label) for label in labels]
    exact = _exact_keys(possible, definition)
    if exact is not None:
        for key in exact:
            if access is None or access.grants_key(key):
                yield ScanRange(key_from=key, key_to=key)
        return
    prefixes = _leading_prefixes(possible, definition)
    if access is not None and access.key_prefixes is not None:
        prefixes = _common_prefixes(prefixes, access.key_prefixes)
    for prefix in prefixes:
        try:
            definition.keys.escaped_prefix(prefix)
        except KeyTypeMismatch as error:
            # Only the prefixes of a token are not checked yet.
            message = (
                f"The token grants access to some keys of store {definition.name!r}, and the "
                f"service cannot read only these. Select each key, for example with "
                f"{labels[0]}=... ({error})."
            )
            raise Forbidden(message) from error
        yield ScanRange(prefix=prefix)


def _possible_values(matchers: Sequence[Matcher], label: str) -> frozenset[str] | None:
    """Return the only values of a label that can match, or None if others can match."""
    of_label = [each for each in matchers if each.label == label]
    known = [values for each in of_label if (values := each.literals()) is not None]
    return frozenset.intersection(*known) if known else None


def _exact_keys(
    possible: Sequence[frozenset[str] | None], definition: StoreDefinition
) -> list[str] | None:
    """Return the only keys that can match, or None if this list would be incomplete or long."""
    components = [values for values in possible if values is not None]
    count = 1
    for values in components:
        count *= len(values)
    if len(components) < len(possible) or count > _EXACT_KEYS_MAX:
        return None
    keys: list[str] = []
    for parts in product(*map(sorted, components)):
        try:
            key = _key_of(parts, definition)
            definition.keys.escaped(key)
        except (KeyTypeMismatch, ValueError):
            continue  # No key of the store has this component.
        keys.append(key)
    return keys


def _key_of(parts: Sequence[str], definition: StoreDefinition) -> str:
    if not definition.key_type.startswith("["):
        return parts[0]
    return orjson.dumps(_values(parts, definition)).decode()


def _values(parts: Sequence[str], definition: StoreDefinition) -> list[str | int]:
    """Return the first components of a key. ValueError: one is not a decimal number."""
    return [
        int(part) if kind == "long" and str(int(part)) == part else part
        for part, kind in zip(parts, component_types(definition), strict=False)
    ]


def _leading_prefixes(
    possible: Sequence[frozenset[str] | None], definition: StoreDefinition
) -> list[str]:
    """Return prefixes of all keys that can match, from the first components of a composite key."""
    parts: list[str] = []
    for values in possible:
        if values is None or len(values) != 1:
            break
        parts += values
    if not parts or len(possible) == 1:
        return [""]
    try:
        return [f"{orjson.dumps(_values(parts, definition)).decode()[:-1]},"]
    except ValueError:
        return []


def _common_prefixes(own: Sequence[str], granted: Sequence[str]) -> list[str]:
    """Return the prefixes of keys that have a prefix of both lists, without overlaps."""
    both = {
        max(one, other, key=len)
        for one, other in product(own, granted)
        if one.startswith(other) or other.startswith(one)
    }
    return [
        prefix
        for prefix in sorted(both)
        if not any(prefix.startswith(other) for other in both if other != prefix)
    ]
