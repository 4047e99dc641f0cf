"""Tests of store definitions, as tables save them."""

from dataclasses import replace

import orjson
import pytest

from oriel.storage import (
    AggregateSpec,
    InvalidDefinition,
    StoreDefinition,
    StoreKind,
    WindowSpec,
)
from tests.storage.store_tables import HOPPING, NONE, SESSION, SLIDING, TUMBLING, VERSIONED

DEFINITION = StoreDefinition(
    name="s",
    topic="t",
    grouped_by="key",
    window=WindowSpec(StoreKind.SLIDING, 10, 5),
    aggregates=(AggregateSpec("n", "count()", "long"),),
    key_groups=64,
    retention_ms=1000,
    application="app",
)


@pytest.mark.parametrize("window", [TUMBLING, HOPPING, SLIDING, SESSION, NONE, VERSIONED])
@pytest.mark.parametrize("emit", ["window-update", "window-close"])
def test_a_definition_comes_back_as_it_was(window: WindowSpec, emit: str) -> None:
    """A definition of any kind is equal after a round trip through the table property."""
    definition = replace(DEFINITION, window=window, emit=emit)
    assert StoreDefinition.from_json(definition.to_json()) == definition
    assert definition.format == 3


def test_only_a_store_of_other_keys_than_texts_has_a_format_that_says_it() -> None:
    """String keys keep format 3 without ``key_type``, and other key types need format 4."""
    fields = orjson.loads(DEFINITION.to_json())
    assert "key_type" not in fields
    assert fields["format"] == 3
    assert StoreDefinition.from_json(orjson.dumps(fields)).key_type == "text"
    typed = replace(DEFINITION, key_type="[text, long]")
    assert orjson.loads(typed.to_json())["key_type"] == "[text, long]"
    assert orjson.loads(typed.to_json())["format"] == 4
    assert StoreDefinition.from_json(typed.to_json()) == typed
    with pytest.raises(InvalidDefinition, match="key type 'int' is not known"):
        replace(DEFINITION, key_type="int")


def test_format_1_is_read() -> None:
    """A definition of format 1 is read and keeps its format."""
    text = (
        '{"aggregates":[{"function":"count()","name":"n","type":"long"}],"application":"app",'
        '"format":1,"grouped_by":"key","key_groups":64,"name":"s","retention_ms":1000,"topic":"t",'
        '"window":{"grace_ms":5,"kind":"sliding","size_ms":10}}'
    )
    assert StoreDefinition.from_json(text) == replace(DEFINITION, format=1)


@pytest.mark.parametrize(
    ("kind", "advance_ms", "message"),
    [
        ("hoping", None, "tumbling, hopping, sliding, session, none"),
        ("hopping", None, "advance_ms of hopping windows is None"),
        ("tumbling", 10, "advance_ms of tumbling windows is 10"),
    ],
)
def test_a_window_is_of_a_known_kind(kind: str, advance_ms: int | None, message: str) -> None:
    """Unknown kinds are rejected, and only hopping windows have an advance."""
    with pytest.raises(InvalidDefinition, match=message):
        WindowSpec(StoreKind(kind), 10, 5, advance_ms)


def test_stores_of_the_kinds_none_and_versioned_have_no_windows() -> None:
    """Each other kind has windows. The table of versions also has the columns of windows."""
    windows = (TUMBLING, HOPPING, SLIDING, SESSION, NONE, VERSIONED)
    windowed = {w.kind: w.is_windowed for w in windows}
    assert windowed == {kind: kind not in {"none", "versioned"} for kind in StoreKind}
    with_columns = {w.kind: w.has_window_columns for w in windows}
    assert with_columns == {kind: kind != "none" for kind in StoreKind}


def test_a_kind_is_the_text_that_the_table_has() -> None:
    """A kind is saved as its string, and the string is read as the kind."""
    definition = replace(DEFINITION, window=SESSION)
    recorded = orjson.loads(definition.to_json())
    assert recorded["window"]["kind"] == "session"
    read = StoreDefinition.from_json(orjson.dumps(recorded)).window.kind
    assert read is StoreKind.SESSION
    assert (read, f"{read}") == ("session", "session")


@pytest.mark.parametrize(
    ("kind", "has_inclusive_end", "expires_by"),
    [
        (StoreKind.TUMBLING, False, "start"),
        (StoreKind.HOPPING, False, "start"),
        (StoreKind.SLIDING, True, "start"),
        (StoreKind.SESSION, True, "end"),
        (StoreKind.NONE, False, None),
        (StoreKind.VERSIONED, False, None),
    ],
)
def test_a_kind_says_how_its_windows_end_and_expire(
    kind: StoreKind, has_inclusive_end: bool, expires_by: str | None
) -> None:
    """Sliding windows and sessions include their end, and only sessions expire by their end."""
    assert kind.has_inclusive_end == has_inclusive_end
    assert (kind.expires_by_start, kind.expires_by_end) == (
        expires_by == "start", expires_by == "end",
    )  # fmt: skip
    assert kind.is_session == (kind == "session")


def test_an_unknown_way_to_emit_is_refused() -> None:
    """The error for an unknown emit strategy names the two valid ones."""
    with pytest.raises(InvalidDefinition, match="'window-update' or 'window-close'"):
        replace(DEFINITION, emit="sometimes")


def test_a_newer_format_is_refused() -> None:
    """A definition with a newer format is rejected with the advice to upgrade."""
    newer = orjson.loads(DEFINITION.to_json()) | {"format": 99}
    with pytest.raises(InvalidDefinition, match="Upgrade Oriel"):
        StoreDefinition.from_json(orjson.dumps(newer))


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": 1, "name": "s"}'])
def test_something_else_is_no_definition(text: str) -> None:
    """A text that is not a definition is rejected."""
    with pytest.raises(InvalidDefinition, match="the store definition is not valid"):
        StoreDefinition.from_json(text)


@pytest.mark.parametrize(
    ("names", "message"), [(("final",), "are reserved"), (("n", "n"), "have the same name")]
)
def test_aggregate_names_must_be_free(names: tuple[str, ...], message: str) -> None:
    """An aggregate cannot have the name of another column or of another aggregate."""
    specs = tuple(AggregateSpec(name, "count()", "long") for name in names)
    with pytest.raises(InvalidDefinition, match=message):
        replace(DEFINITION, aggregates=specs)


def test_what_a_definition_says_reads_well() -> None:
    """Windows and aggregates are formatted for messages as users write them."""
    assert (
        str(WindowSpec(StoreKind.HOPPING, 10, 5, 2)) == "hopping (10 ms, advance 2 ms, grace 5 ms)"
    )
    assert str(WindowSpec(StoreKind.SESSION, 10, 0)) == "session (10 ms, grace 0 ms)"
    assert str(WindowSpec(StoreKind.NONE, 0, 0)) == "none"
    assert str(VERSIONED) == "versioned (history 20 ms)"
    assert str(AggregateSpec("mean", "avg(v)", "double")) == "mean = avg(v) double"
