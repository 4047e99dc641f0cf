"""Store definitions as tables record them."""

from dataclasses import replace

import orjson
import pytest

from storage.definition import AggregateSpec, StoreDefinition, WindowSpec
from storage.errors import InvalidDefinition

DEFINITION = StoreDefinition(
    name="s",
    topic="t",
    grouped_by="key",
    window=WindowSpec("sliding", 10, 5),
    aggregates=(AggregateSpec("n", "count()", "long"),),
    key_groups=64,
    retention_ms=1000,
    application="app",
)


def test_a_definition_comes_back_as_it_was() -> None:
    """The table property holds all of it."""
    assert StoreDefinition.from_json(DEFINITION.to_json()) == DEFINITION


def test_a_newer_format_is_refused() -> None:
    """An old version says that it is too old."""
    newer = orjson.loads(DEFINITION.to_json()) | {"format": 99}
    with pytest.raises(InvalidDefinition, match="upgrade Oriel"):
        StoreDefinition.from_json(orjson.dumps(newer))


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": 1, "name": "s"}'])
def test_something_else_is_no_definition(text: str) -> None:
    """Any other text is refused, not half read."""
    with pytest.raises(InvalidDefinition, match="not a store definition"):
        StoreDefinition.from_json(text)


@pytest.mark.parametrize(
    ("names", "said"), [(("final",), "are reserved"), (("n", "n"), "have the same name")]
)
def test_aggregate_names_must_be_free(names: tuple[str, ...], said: str) -> None:
    """No aggregate hides another column."""
    specs = tuple(AggregateSpec(name, "count()", "long") for name in names)
    with pytest.raises(InvalidDefinition, match=said):
        replace(DEFINITION, aggregates=specs)
