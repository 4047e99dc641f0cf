"""Tests of the OpenAPI document: it is committed, complete, and true for the service."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import orjson
import pytest

import oriel
from oriel.app.contract import OPERATIONS, PROMETHEUS_PATH, InvalidParameter, document_bytes
from oriel.app.reads.snapshot_reads import HOT_READS
from oriel.storage import DataLayout, Drawing, DrawnArrow, DrawnNode
from oriel.storage.monitoring import record_topology
from oriel.storage.tailer import StoreStatus
from tests.app.api_client import ApiResponse, Served, served
from tests.app.problem_shape import all_codes
from tests.storage.dead_letter_tables import add_dead_letters
from tests.storage.store_tables import NONE, SESSION, TUMBLING, VERSIONED, make_definition
from tools.openapi import OPENAPI_FILE, written_files

_ROOT = "/v1/stores/store"


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Return stores with windows, with sessions and without windows, and dead letters."""
    with served(tmp_path_factory.mktemp("example")) as made:
        made.add(make_definition("visits", window=SESSION), {"key": "a/b", "start": 10, "end": 12})
        made.add(make_definition("totals", window=NONE), {"key": "a/b", "mean": None})
        prices = [{"key": "a/b", "start": ms, "timestamp": ms} for ms in (10, 20)]
        made.add(make_definition("prices", window=VERSIONED), *prices)
        made.add(make_definition("turns", window=TUMBLING), {"key": "a/b", "start": 10})
        made.commit({"key": "a/b", "start": 10}, {"key": "a/b", "start": 20, "mean": None})
        add_dead_letters(
            made.data, {"offset": 1, "key": b"k", "headers": [{"key": "h", "value": None}]},
            {"offset": 2, "raw": b"\xff", "store": "store"},
        )  # fmt: skip
        made.tailer_says(StoreStatus("following", 1))
        nodes = DrawnNode("topic0", "topic", "t"), DrawnNode("store0", "store", "store", ("x",))
        drawing = Drawing(nodes, (DrawnArrow("topic0", "store0", ("group_by(a)",)),))
        record_topology(DataLayout(made.data), "flights", drawing)
        yield made


def _document(store: Served) -> Any:
    return store.get("/openapi.json").json


def test_the_committed_file_is_what_is_served(empty_store: Served) -> None:
    """The committed document is the served one. `python -m tools.openapi` writes it."""
    served_bytes = document_bytes(_document(empty_store))
    assert OPENAPI_FILE.read_bytes() == served_bytes, "run: python -m tools.openapi"


@pytest.mark.parametrize("path", written_files(), ids=lambda path: path.name)
def test_what_follows_from_the_operations_is_committed(path: Path) -> None:
    """Files that are generated from the operations are committed."""
    assert path.read_bytes() == written_files()[path], "run: python -m tools.openapi"


def test_the_version_is_that_of_the_package(empty_store: Served) -> None:
    """The document has the version of the package."""
    document = empty_store.get("/openapi.json").json
    assert document["info"]["version"] == oriel.__version__


def test_the_description_names_every_hot_read(empty_store: Served) -> None:
    """The description names every hot read."""
    description = _document(empty_store)["info"]["description"]
    for name in HOT_READS:
        assert f"`{name.decode()}`" in description


def test_every_operation_is_described(empty_store: Served) -> None:
    """Every operation has an id, a summary, a description, parameters and errors."""
    document = _document(empty_store)
    operations = [_operation(path) for path in document["paths"].values()]
    assert len(operations) == len(OPERATIONS)
    assert {operation["operationId"] for operation in operations} >= {
        name.decode() for name in HOT_READS
    }
    for operation in operations:
        assert operation["summary"]
        assert operation["description"]
        assert {"200", "405", "500"} <= operation["responses"].keys()
        for parameter in operation.get("parameters", []):
            assert parameter["description"]
            assert parameter["schema"]


def test_the_path_parameters_are_those_of_the_path(empty_store: Served) -> None:
    """The names in braces of a path are exactly its required path parameters."""
    for path, item in _document(empty_store)["paths"].items():
        named = set(re.findall(r"{(\w+)}", path))
        parameters = _operation(item).get("parameters", [])
        described = {p["name"] for p in parameters if p["in"] == "path" and p["required"]}
        assert described == named, path


def test_every_code_is_documented_somewhere(empty_store: Served) -> None:
    """Every problem code except the one for unknown routes is in the document."""
    text = orjson.dumps(_document(empty_store)).decode()
    missing = {code for code in all_codes() if f'"{code}"' not in text}
    assert missing == {"unknown-route"}


def test_every_example_fits_its_schema(empty_store: Served) -> None:
    """Every example of a response or a parameter is valid by its schema."""
    document = _document(empty_store)
    for item in document["paths"].values():
        for parameter in _operation(item).get("parameters", []):
            if "example" in parameter:
                jsonschema.validate(parameter["example"], parameter["schema"])
        for response in _operation(item)["responses"].values():
            for content in response.get("content", {}).values():
                examples = [e["value"] for e in content.get("examples", {}).values()]
                examples += [content["example"]] if "example" in content else []
                for value in examples:
                    _validate(document, content["schema"], value)


_CALLS = {
    "/": ["/"],
    "/docs": ["/docs"],
    "/healthz": ["/healthz", "/healthz?x=1"],
    "/metrics": ["/metrics"],
    "/readyz": ["/readyz"],
    "/freshz": ["/freshz"],
    "/v1/topology": ["/v1/topology", "/v1/topology?x=1"],
    "/v1/status": ["/v1/status", "/v1/status?x=1"],
    "/v1/stores": ["/v1/stores", "/v1/stores?x=1"],
    "/v1/stores/{store}": [_ROOT, "/v1/stores/nope"],
    "/v1/stores/{store}/keys": [
        f"{_ROOT}/keys", f"{_ROOT}/keys?limit=0", f"{_ROOT}/keys?min_version=99",
        f"{_ROOT}/keys?cursor=x",
    ],
    "/v1/stores/{store}/fetch/{key}": [
        f"{_ROOT}/fetch/a/b", f"{_ROOT}/fetch/a%2Fb?limit=1", f"{_ROOT}/fetch/a/b?times=iso",
        f"{_ROOT}/fetch/none", f"{_ROOT}/fetch/%ff", "/v1/stores/nope/fetch/a",
        f"{_ROOT}/fetch/a?cursor=x",
    ],
    "/v1/stores/{store}/backwardFetch/{key}": [
        f"{_ROOT}/backwardFetch/a/b?from_ms=10&to_ms=20", f"{_ROOT}/backwardFetch/a?limit=x",
    ],
    "/v1/stores/{store}/latest/{key}": [
        f"{_ROOT}/latest/a/b", f"{_ROOT}/latest/none", f"{_ROOT}/latest/a?min_offset=a:0:1",
    ],
    "/v1/stores/{store}/window/{window_start_ms}/{key}": [
        f"{_ROOT}/window/10/a/b", f"{_ROOT}/window/11/a/b", f"{_ROOT}/window/x/a",
    ],
    "/v1/stores/{store}/findSessions/{key}": [
        "/v1/stores/visits/findSessions/a/b?earliest_end_ms=1", f"{_ROOT}/findSessions/a/b",
        "/v1/stores/visits/findSessions/a?limit=0",
    ],
    "/v1/stores/{store}/backwardFindSessions/{key}": [
        "/v1/stores/visits/backwardFindSessions/a/b?latest_start_ms=99",
        f"{_ROOT}/backwardFindSessions/a/b", "/v1/stores/visits/backwardFindSessions/a?cursor=x",
    ],
    "/v1/stores/{store}/session/{window_start_ms}/{window_end_ms}/{key}": [
        "/v1/stores/visits/session/10/12/a/b", "/v1/stores/visits/session/10/13/a/b",
        "/v1/stores/visits/session/x/1/a", f"{_ROOT}/session/10/20/a/b",
    ],
    "/v1/stores/{store}/watch": [
        f"{_ROOT}/watch?for_ms=1", f"{_ROOT}/watch?key=a&after=x", "/v1/stores/nope/watch",
    ],
    "/v1/stores/{store}/versions/{key}": [
        "/v1/stores/prices/versions/a/b", "/v1/stores/prices/versions/a/b?limit=1",
        "/v1/stores/prices/versions/a/b?times=iso", "/v1/stores/prices/versions/none",
        "/v1/stores/prices/versions/a/b?from_ms=x", "/v1/stores/totals/versions/a/b",
        "/v1/stores/prices/versions/a/b?as_of_version=1",
    ],
    "/v1/stores/{store}/backwardVersions/{key}": [
        "/v1/stores/prices/backwardVersions/a/b?to_ms=15",
        "/v1/stores/prices/backwardVersions/a/b?columns=nope",
    ],
    "/v1/stores/{store}/get/{key}": [
        "/v1/stores/prices/get/a/b?at_ms=15", "/v1/stores/prices/get/a/b?at_ms=5",
        "/v1/stores/totals/get/a/b?at_ms=5",
        "/v1/stores/totals/get/a/b", "/v1/stores/totals/get/a/b?times=iso",
        "/v1/stores/totals/get/none", f"{_ROOT}/get/a/b",
        "/v1/stores/totals/fetch/a/b", "/v1/stores/totals/get/a?min_version=99",
        "/v1/stores/totals/get/a/b?as_of_version=1", "/v1/stores/totals/get/a?as_of_version=9",
    ],
    "/v1/deadLetters": [
        "/v1/deadLetters", "/v1/deadLetters?limit=1&order=oldest", "/v1/deadLetters?order=x",
        "/v1/deadLetters?cursor=x", "/v1/deadLetters?partition=-1", "/v1/deadLetters?x=1",
    ],
    "/v1/deadLetters/count": [
        "/v1/deadLetters/count", "/v1/deadLetters/count?topic=t", "/v1/deadLetters/count?limit=1",
    ],
    "/v1/stores/{store}/changes": [
        f"{_ROOT}/changes?since_version=0", f"{_ROOT}/changes?limit=0", f"{_ROOT}/changes?cursor=x",
        f"{_ROOT}/changes?since_version=9", "/v1/stores/visits/changes?since_version=0",
        "/v1/stores/totals/changes?since_version=0", f"{_ROOT}/changes?since_version=0&limit=1",
    ],
    "/v1/stores/{store}/current/{key}": [
        f"{_ROOT}/current/a/b", f"{_ROOT}/current/none", f"{_ROOT}/current/a/b?columns=n",
        f"{_ROOT}/current/a/b?columns=x", "/v1/stores/totals/current/a",
    ],
    "/v1/stores/{store}/covering/{instant_ms}/{key}": [
        f"{_ROOT}/covering/15/a/b", f"{_ROOT}/covering/x/a", f"{_ROOT}/covering/1/a?cursor=x",
    ],
    "/v1/stores/{store}/merged/{key}": [
        "/v1/stores/turns/merged/a/b?columns=n&step_ms=20", "/v1/stores/turns/merged/a/b",
        f"{_ROOT}/merged/a/b", "/v1/stores/turns/merged/a?columns=n&step_ms=5",
        "/v1/stores/turns/merged/a?columns=n&cursor=x",
    ],
    "/v1/stores/{store}/fetchRange": [
        f"{_ROOT}/fetchRange?key_from=a&key_to=b&from_ms=1&limit=1", f"{_ROOT}/fetchRange?key=a",
    ],
    "/v1/stores/{store}/backwardFetchRange": [f"{_ROOT}/backwardFetchRange"],
    "/v1/stores/{store}/fetchAll": [f"{_ROOT}/fetchAll?to_ms=9", f"{_ROOT}/fetchAll?final=1"],
    "/v1/stores/{store}/backwardFetchAll": [f"{_ROOT}/backwardFetchAll?final=false"],
    "/v1/stores/{store}/all": [
        f"{_ROOT}/all", "/v1/stores/visits/all", "/v1/stores/totals/all",
        "/v1/stores/totals/all?final=true", f"{_ROOT}/all?cursor=x",
    ],
    "/v1/stores/{store}/backwardAll": [f"{_ROOT}/backwardAll", "/v1/stores/totals/backwardAll"],
    "/v1/stores/{store}/latestAll": [f"{_ROOT}/latestAll?prefix=a", f"{_ROOT}/latestAll?limit=0"],
    "/v1/stores/{store}/currentAll": ["/v1/stores/visits/currentAll?key_to=b"],
    "/v1/stores/{store}/mergedAll": [
        "/v1/stores/turns/mergedAll?prefix=a&columns=n&step_ms=20&limit=1", f"{_ROOT}/mergedAll",
    ],
    "/v1/stores/{store}/findSessionsRange": [
        "/v1/stores/visits/findSessionsRange?earliest_end_ms=1", f"{_ROOT}/findSessionsRange",
    ],
    "/v1/stores/{store}/backwardFindSessionsRange": [
        "/v1/stores/visits/backwardFindSessionsRange?latest_start_ms=99",
    ],
    "/v1/stores/{store}/fetchSession/{window_start_ms}/{window_end_ms}/{key}": [
        "/v1/stores/visits/fetchSession/10/12/a/b", "/v1/stores/visits/fetchSession/1/2/a/b",
    ],
    "/v1/stores/{store}/range": ["/v1/stores/totals/range?key_from=a", f"{_ROOT}/range"],
    "/v1/stores/{store}/reverseRange": ["/v1/stores/totals/reverseRange?key_to=b"],
    "/v1/stores/{store}/prefixScan": ["/v1/stores/totals/prefixScan?prefix=a&columns=n"],
    "/v1/stores/{store}/reverseAll": ["/v1/stores/totals/reverseAll"],
    "/v1/stores/{store}/approximateNumEntries": [
        "/v1/stores/totals/approximateNumEntries", f"{_ROOT}/approximateNumEntries",
    ],
    f"{PROMETHEUS_PATH}/query": [
        f"{PROMETHEUS_PATH}/query?query=store_n&time=0.02", f"{PROMETHEUS_PATH}/query?query=1%2B1",
        f"{PROMETHEUS_PATH}/query?query='a'", f"{PROMETHEUS_PATH}/query?query=rate(a[5m])",
        f"{PROMETHEUS_PATH}/query", f"{PROMETHEUS_PATH}/query?query=-{{key!=''}}&time=0.02",
    ],
    f"{PROMETHEUS_PATH}/query_range": [
        f"{PROMETHEUS_PATH}/query_range?query=store_n&start=0&end=1&step=5ms",
        f"{PROMETHEUS_PATH}/query_range?query=1&start=0&end=1&step=0",
    ],
    f"{PROMETHEUS_PATH}/series": [
        f"{PROMETHEUS_PATH}/series?match[]=store_n", f"{PROMETHEUS_PATH}/series?match[]=1",
    ],
    f"{PROMETHEUS_PATH}/labels": [
        f"{PROMETHEUS_PATH}/labels", f"{PROMETHEUS_PATH}/labels?match[]=store_n&limit=1",
    ],
    f"{PROMETHEUS_PATH}/label/{{label}}/values": [
        f"{PROMETHEUS_PATH}/label/__name__/values", f"{PROMETHEUS_PATH}/label/key/values?limit=1",
        f"{PROMETHEUS_PATH}/label/%ff/values",
    ],
    f"{PROMETHEUS_PATH}/metadata": [
        f"{PROMETHEUS_PATH}/metadata", f"{PROMETHEUS_PATH}/metadata?limit=-1",
    ],
    f"{PROMETHEUS_PATH}/status/buildinfo": [f"{PROMETHEUS_PATH}/status/buildinfo?x=1"],
}  # fmt: skip
_POSTS = {
    "/v1/sql": [
        ("/v1/sql", b'{"query": "SELECT * FROM totals"}'),
        ("/v1/sql", b'{"query": "SELECT * FROM nothing"}'),
        ("/v1/sql", b'{"query": "DROP TABLE totals"}'),
        ("/v1/sql", b"[]"),
        ("/v1/sql?x=1", b"[]"),
    ],
    "/v1/stores/{store}/latestOfKeys": [
        (f"{_ROOT}/latestOfKeys", b'["a/b", "none"]'),
        (f"{_ROOT}/latestOfKeys", b"{}"),
        (f"{_ROOT}/latestOfKeys?columns=x", b'["a/b"]'),
        ("/v1/stores/totals/latestOfKeys", b"[]"),
    ],
    "/v1/stores/{store}/currentOfKeys": [
        ("/v1/stores/visits/currentOfKeys", b'["a/b"]'),
        (f"{_ROOT}/currentOfKeys", b"[" + b" " * (1 << 20) + b"]"),
    ],
    "/v1/stores/{store}/fetchOfKeys": [
        (f"{_ROOT}/fetchOfKeys?from_ms=1&limit=1", b'["a/b", "a/b"]'),
        (f"{_ROOT}/fetchOfKeys?cursor=x", b'["a/b"]'),
    ],
    "/v1/stores/{store}/backwardFetchOfKeys": [(f"{_ROOT}/backwardFetchOfKeys", b'["a/b"]')],
    "/v1/stores/{store}/mergedOfKeys": [
        ("/v1/stores/turns/mergedOfKeys?columns=n", b'["a/b"]'),
        (f"{_ROOT}/mergedOfKeys", b'["a/b"]'),
    ],
    "/v1/stores/{store}/getOfKeys": [
        ("/v1/stores/totals/getOfKeys", b'["a/b"]'),
        (f"{_ROOT}/getOfKeys", b'["a/b"]'),
    ],
}


def _operation(item: Any) -> Any:
    """Return the operation of a path. If it also accepts a form, this is its GET."""
    return item["get"] if {"get", "post"} == item.keys() else next(iter(item.values()))


def test_every_operation_has_its_documented_response(example: Served) -> None:
    """Valid and invalid calls of every operation have a documented status, type and body."""
    example.pipeline_says()
    document = _document(example)
    assert _CALLS.keys() | _POSTS.keys() == document["paths"].keys()
    for path, targets in _CALLS.items():
        operation = _operation(document["paths"][path])
        statuses = {_check_call(document, operation, example.get(target)) for target in targets}
        assert 200 in statuses, path
        refused = example.get(targets[0], method="PUT")
        assert _check_call(document, operation, refused) == 405
    for path, calls in _POSTS.items():
        operation = document["paths"][path]["post"]
        statuses = {
            _check_call(document, operation, example.post(*target_and_body))
            for target_and_body in calls
        }
        assert 200 in statuses, path
        refused = example.get(calls[0][0])
        assert _check_call(document, operation, refused) == 405
        assert refused.headers["allow"] == "POST"


_QUERY_PARAMETERS = {
    (parameter.name, str(parameter.schema)): parameter
    for operation in OPERATIONS.values()
    for parameter in operation.query.parameters
}


@pytest.mark.parametrize("parameter", _QUERY_PARAMETERS.values(), ids=lambda one: one.name)
def test_the_schema_of_a_parameter_is_as_strict_as_its_reader(parameter: Any) -> None:
    """Schema and parser agree on the bounds of integers and the precision of times."""
    for schema in parameter.schema.get("anyOf", [parameter.schema]):
        if schema["type"] == "integer":
            for value in (schema["minimum"], schema["maximum"]):
                parameter.read(str(value))
            for value in (schema["minimum"] - 1, schema["maximum"] + 1):
                with pytest.raises(InvalidParameter, match=parameter.name):
                    parameter.read(str(value))
        if schema.get("format") == "date-time":
            for time in ("2013-01-01T10:00:00Z", "2013-01-01T10:00:00.123+01:00"):
                assert re.search(schema["pattern"], time)
                parameter.read(time)
            assert not re.search(schema["pattern"], "2013-01-01T10:00:00.1234Z")
            with pytest.raises(InvalidParameter, match=parameter.name):
                parameter.read("2013-01-01T10:00:00.1234Z")


def test_a_304_is_documented(example: Served) -> None:
    """A 304 is documented without a body."""
    document = _document(example)
    target = f"{_ROOT}/latest/a/b"
    tag = example.get(target).headers["etag"]
    operation = document["paths"]["/v1/stores/{store}/latest/{key}"]["get"]
    response = example.get(target, [("If-None-Match", tag)])
    assert _check_call(document, operation, response) == 304


@pytest.mark.parametrize("media", ["text/csv", "image/png"])
def test_other_forms_are_documented(example: Served, media: str) -> None:
    """Operations with several formats document CSV and the 406 for other formats."""
    document = _document(example)
    for operation in OPERATIONS.values():
        if operation.has_formats:
            described = document["paths"][operation.path][operation.method.lower()]
            accept = [("Accept", media)]
            if operation.method == "POST":
                response = example.post(*_POSTS[operation.path][0], accept)
            else:
                response = example.get(_CALLS[operation.path][0], accept)
            assert _check_call(document, described, response) == (
                200 if media == "text/csv" else 406
            )


def test_not_ready_is_documented(tmp_path: Path) -> None:
    """The 503 of readiness has its own body, and the 503 of a store is a problem."""
    with served(tmp_path) as made:
        document = _document(made)
        response = made.get("/readyz")
        assert _check_call(document, document["paths"]["/readyz"]["get"], response) == 503
        operation = document["paths"]["/v1/stores/{store}"]["get"]
        assert _check_call(document, operation, made.get(_ROOT)) == 503


def _check_call(document: Any, operation: Any, response: ApiResponse) -> int:
    described = operation["responses"][str(response.status)]
    content = described.get("content")
    if content is None:
        assert response.body == b""
        return response.status
    media_type = response.headers["content-type"].partition(";")[0]
    assert media_type in content
    if not media_type.startswith("text/"):
        _validate(document, content[media_type]["schema"], response.json)
    for name in described.get("headers", {}):
        assert name.lower() in response.headers
    return response.status


def _validate(document: Any, schema: Any, value: Any) -> None:
    whole = {**schema, "components": document["components"]}
    jsonschema.Draft202012Validator(whole).validate(value)
