"""Select the aggregates of the items of a response."""

from collections.abc import Collection

import orjson

from oriel.app.contract import InvalidParameter
from oriel.storage import StoreDefinition


def excluded_columns(
    store: str, definition: StoreDefinition, chosen: Collection[str] | None
) -> frozenset[str]:
    """Return the aggregates to remove if a request selects these columns.

    Args:
        chosen: Names of aggregates, or None for all.

    Raises:
        InvalidParameter: A name is not an aggregate of the store.
    """
    if chosen is None:
        return frozenset()
    known = {aggregate.name for aggregate in definition.aggregates}
    unknown = [name for name in chosen if name not in known]
    if unknown:
        columns = ", ".join(sorted(known))
        message = (
            f"store {store!r}: column {unknown[0][:80]!r} does not exist. Use one of: {columns}."
        )
        raise InvalidParameter(message)
    return frozenset(known.difference(chosen))


def without_columns(items: list[bytes], excluded: Collection[str]) -> list[bytes]:
    """Return JSON items without the aggregates in ``excluded``."""
    if not excluded:
        return items
    return [
        orjson.dumps(
            {name: value for name, value in orjson.loads(item).items() if name not in excluded}
        )
        for item in items
    ]
