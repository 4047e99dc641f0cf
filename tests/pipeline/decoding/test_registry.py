"""A schema registry over real HTTP: ids, references, credentials and failures."""

import json
from base64 import b64encode
from collections.abc import Iterator
from typing import Any

import pytest

from oriel.pipeline.decoding import SchemaRegistry
from oriel.pipeline.decoding.formats import registry
from oriel.pipeline.errors import InvalidTopology, RegistryUnavailable
from oriel.pipeline.language import Consumed, Serdes
from tests.pipeline.decoding.messages import values_of
from tests.pipeline.decoding.registry_server import CUT, Registry, running_registry, with_id
from tests.pipeline.decoding.test_avro import ORDER, SCHEMA, written
from tests.ports import reserved_port
from tests.storage.waiting import wait_until

CONSUMED = Consumed(value_serde=Serdes.avro())

#: The next version of the order schema: `n` is a long, and `more` is new.
NEXT_SCHEMA = json.dumps({
    "type": "record", "name": "Order", "namespace": "shop", "fields": [
        {"name": "more", "type": "string"}, {"name": "n", "type": ["null", "long"]},
    ],
})  # fmt: skip
REFERRING = json.dumps({
    "type": "record", "name": "Outer", "fields": [{"name": "order", "type": "shop.Order"}],
})  # fmt: skip


@pytest.fixture
def server() -> Iterator[Registry]:
    """Yield a registry with the two versions of the order schema, as ids 7 and 300."""
    with running_registry() as made:
        made.responses["/schemas/ids/7"] = {"schema": SCHEMA}
        made.responses["/schemas/ids/300"] = {"schemaType": "AVRO", "schema": NEXT_SCHEMA}
        yield made


def test_each_value_is_read_with_the_schema_that_it_names(server: Registry) -> None:
    """Values in one batch can name different schemas. Each known id is requested once."""
    first = with_id(7, written(ORDER))
    second = with_id(300, written({"more": "x", "n": 2**31 - 1}, NEXT_SCHEMA))
    values = [first, second, None, first, b"", b"\0\0\0", b"\1" + first[1:], with_id(8, b"x")]
    found = values_of(values, "n INT, note STRING", CONSUMED, SchemaRegistry.at(server.url))
    assert found == [
        {"n": 2, "note": "hi"}, {"n": 2**31 - 1, "note": None}, None, {"n": 2, "note": "hi"},
        "not-avro", "not-avro", "not-avro", "unknown-schema",
    ]  # fmt: skip
    values_of(values, "n INT", CONSUMED, SchemaRegistry.at(server.url))
    requests = [path for path, _ in server.requests]
    # An unknown id can be registered later, so each batch requests it again.
    assert requests.count("/schemas/ids/7") == requests.count("/schemas/ids/300") == 1
    assert requests.count("/schemas/ids/8") == 2


def test_a_schema_may_refer_to_others(server: Registry) -> None:
    """References are resolved by subject and version."""
    reference = {"name": "shop.Order", "subject": "orders/value", "version": 2}
    server.responses["/schemas/ids/9"] = {"schema": REFERRING, "references": [reference]}
    server.responses["/subjects/orders%2Fvalue/versions/2"] = {"schema": SCHEMA}
    whole = json.dumps({
        "type": "record", "name": "Outer",
        "fields": [{"name": "order", "type": json.loads(SCHEMA)}],
    })  # fmt: skip
    value = with_id(9, written({"order": ORDER}, whole))
    found = values_of([value], "order STRUCT<n: INT>", CONSUMED, SchemaRegistry.at(server.url))
    assert found == [{"order": {"n": 2}}]


@pytest.mark.parametrize(
    "response",
    [
        {"schemaType": "PROTOBUF", "schema": "syntax"},
        {"schema": "no json"},
        {"schema": REFERRING, "references": [{"name": "a", "subject": "gone", "version": 1}]},
        {},
        [],
    ],
)
def test_an_id_without_an_avro_schema_that_can_be_used(server: Registry, response: Any) -> None:
    """Values with this id are dead letters, and the others are decoded."""
    server.responses["/schemas/ids/9"] = response
    values = [with_id(9, b"x"), with_id(7, written(ORDER))]
    found = values_of(values, "n INT", CONSUMED, SchemaRegistry.at(server.url))
    assert found == ["unknown-schema", {"n": 2}]


def test_credentials_are_sent_and_never_shown(server: Registry) -> None:
    """Credentials are in the URL or an argument. No message and no `repr` contains them."""
    separate = SchemaRegistry.at(server.url, "me:secret")
    within = SchemaRegistry.at(server.url.replace("//", "//me:se%63ret@"))
    assert separate == within
    assert "secret" not in repr(separate)
    values_of([with_id(7, written(ORDER))], "n INT", CONSUMED, separate)
    expected = "Basic " + b64encode(b"me:secret").decode()
    assert server.requests == [("/schemas/ids/7", expected)]
    server.responses["/schemas/ids/10"] = 401
    with pytest.raises(RegistryUnavailable, match="status 401") as refused:
        values_of([with_id(10, b"x")], "n INT", CONSUMED, separate)
    assert "secret" not in str(refused.value)
    assert len(server.requests) == 2


@pytest.mark.parametrize("response", [503, b"<html>", CUT])
def test_a_request_to_a_failing_registry_is_repeated(
    server: Registry, response: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Requests are repeated for a bounded time. Then the batch fails, without dead letters."""
    monkeypatch.setattr(registry, "WAIT_SECONDS", 0.2)
    monkeypatch.setattr(registry, "_PAUSE_SECONDS", 0.05)
    server.responses["/schemas/ids/11"] = response

    def requests_of_a_batch() -> int:
        before = len(server.requests)
        with pytest.raises(
            RegistryUnavailable, match="Nothing of the batch is committed"
        ) as raised:
            values_of([with_id(11, b"x")], "n INT", CONSUMED, SchemaRegistry.at(server.url))
        assert "\n" not in str(raised.value)
        return len(server.requests) - before

    # On a slow machine, the first request can use the whole time.
    wait_until(requests_of_a_batch, "a second request", lambda count: count > 1)
    server.responses["/schemas/ids/11"] = {"schema": SCHEMA}
    found = values_of(
        [with_id(11, written(ORDER))], "n INT", CONSUMED, SchemaRegistry.at(server.url)
    )
    assert found == [{"n": 2}]


def test_a_registry_that_is_down(monkeypatch: pytest.MonkeyPatch) -> None:
    """A refused connection is an error."""
    monkeypatch.setattr(registry, "WAIT_SECONDS", 0.1)
    url = f"http://127.0.0.1:{reserved_port()}"
    with pytest.raises(RegistryUnavailable, match="refused"):
        values_of([with_id(12, b"x")], "n INT", CONSUMED, SchemaRegistry.at(url))


@pytest.mark.parametrize("url", ["file:///etc/passwd", "localhost:8081", "http://", "me:secret@x"])
def test_an_address_that_is_none_is_refused(url: str) -> None:
    """The error does not contain the URL, because it can contain a password."""
    with pytest.raises(InvalidTopology, match="must be a URL") as refused:
        SchemaRegistry.at(url)
    assert "secret" not in str(refused.value)


def test_values_that_name_their_schema_need_a_registry() -> None:
    """The error names the option `--schema-registry`."""
    with pytest.raises(InvalidTopology, match="--schema-registry"):
        values_of([], "n INT", CONSUMED)
