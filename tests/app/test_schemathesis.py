"""Tests of the served document with schemathesis: valid and invalid requests of every operation.

Schemathesis draws requests from the schemas of the document and checks each response. Status, media
type, headers and body must be documented, no response is a 500, and requests that violate the
schemas are rejected. Requests also use existing stores and keys, and read the next page.
"""

import asyncio
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import orjson
import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.config import SchemathesisConfig
from schemathesis.core.transport import Response
from schemathesis.specs.openapi.checks import positive_data_acceptance

from oriel.app.contract import OPERATIONS, MediaType
from oriel.storage import AggregateSpec
from tests.app.api_client import ApiClient, Served, served
from tests.campaigns import full
from tests.storage.dead_letter_tables import add_dead_letters
from tests.storage.store_tables import HOPPING, NONE, SESSION, TUMBLING, make_definition

_BASE_URL = "http://127.0.0.1"
_KEYS = ("a", "a/b", "a//b", " ", "%2F", "é😀", '"\\\n\0', "k" * 8_192, "?#&=+;", "ÿ")
_STORES = ("store", "visits", "totals", "hops", "turns")

#: Operations that also have their parameters in a form.
_FORMS = [f"{name}ByForm" for name, record in OPERATIONS.items() if record.accepts_form]

#: 503 is also valid: for a position that is not reached, and for limits.
_CONFIG = {
    "checks": {
        "not_a_server_error": {"expected-statuses": ["2xx", "3xx", "4xx", 503]},
        "negative_data_rejection": {"expected-statuses": ["4xx", 503]},
    }
}

#: Details of a 400 to a request that is valid by the schemas, which cannot express these rules.
_BEYOND_SCHEMAS = re.compile(
    r"cursor|does not fit it|cannot be combined|must be sent with|column .* does not exist"
    r"|cannot be merged|step_ms must be (a multiple|at most)|^where: |^order_by|top needs order_by"
    r"|Send the request without current|^query: "
)


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Return stores of each kind with hostile keys and values, and dead letters, for reads only."""
    values: list[dict[str, Any]] = [
        {"n": 2**63 - 1, "mean": float("nan"), "last": '"\n\0', "all": [float("inf"), -0.0]},
        {"n": -(2**63), "mean": float("-inf"), "last": "", "all": []},
        {"n": None, "mean": None, "last": None, "all": None},
    ]
    rows = [
        {"key": key, "start": start, "end": start + 5, **value}
        for key in ("", *_KEYS)
        for start, value in zip((0, 10, 2**40), values, strict=True)
    ]
    with served(tmp_path_factory.mktemp("hostile")) as made:
        made.add(make_definition("visits", window=SESSION), *rows)
        made.add(make_definition("hops", window=HOPPING), *rows)
        made.add(make_definition("totals", window=NONE), *rows[::3])
        turns = make_definition("turns", window=TUMBLING)
        # All its aggregates can be merged.
        counts = (AggregateSpec("n", "count()", "long"), AggregateSpec("mean", "sum(v)", "double"))
        made.add(replace(turns, aggregates=counts), *rows)
        made.commit(*rows)
        add_dead_letters(
            made.data, {"offset": 1, "key": b"k", "headers": [{"key": "h", "value": None}]},
            {"offset": 2, "raw": b"\xff\x00", "store": "store"},
        )  # fmt: skip
        yield made


@pytest.fixture(scope="module")
def schema(hostile: Served) -> Any:
    """Return the served document as a schemathesis schema."""
    config = SchemathesisConfig.from_dict(_CONFIG)
    return schemathesis.openapi.from_dict(hostile.get("/openapi.json").json, config=config)


@pytest.mark.slow
@pytest.mark.parametrize("cases", [pytest.param(2, id="short"), *full(280, id="long")])
@pytest.mark.parametrize("name", [*OPERATIONS, *_FORMS])
def test_responses_are_as_documented(hostile: Served, schema: Any, name: str, cases: int) -> None:
    """Valid and invalid requests, half each, have documented responses."""
    operation = schema.find_operation_by_id(name)
    record = OPERATIONS[name.removesuffix("ByForm")]
    has_parameters = bool(record.path_parameters or record.query.parameters)
    modes = [*GenerationMode] if has_parameters else [GenerationMode.POSITIVE]
    for mode in modes:

        @given(_cases(operation, mode), st.sampled_from(MediaType))
        @settings(
            max_examples=cases // len(modes),
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
            deadline=None,
        )
        def ask(case: Any, media: MediaType) -> None:
            response = _check(hostile.client, case, media)
            is_rejected = case.meta.generation.mode.is_positive and response.status_code == 400
            # No schema describes PromQL.
            if is_rejected and not record.is_prometheus:
                detail = orjson.loads(response.content)["detail"]
                assert _BEYOND_SCHEMAS.search(detail), detail

        ask()


def _cases(operation: Any, mode: GenerationMode) -> Any:
    """Return requests to an operation, with drawn parameters and with existing stores and keys."""
    query = {"for_ms": 1} if operation.path.endswith("/watch") else None
    names = [parameter.name for parameter in operation.path_parameters]
    if "store" not in names:
        return operation.as_strategy(generation_mode=mode, query=query)

    def of_stores(store: str) -> Any:
        keys = st.sampled_from(_KEYS) if "key" in names else st.none()
        return keys.flatmap(lambda key: of_store(store, key))

    def of_store(store: str, key: str | None) -> Any:
        path = {"store": store} if key is None else {"store": store, "key": key}
        return operation.as_strategy(generation_mode=mode, path_parameters=path, query=query)

    others = operation.as_strategy(generation_mode=mode, query=query)
    return others | st.sampled_from(_STORES).flatmap(of_stores)


def _check(client: ApiClient, case: Any, media: MediaType) -> Response:
    """Send a request, check its response, and check the next page."""
    if isinstance(case.query, dict) and "wait_ms" in case.query:
        case.query["wait_ms"] = 0
    response = _sent(client, case, media)
    case.validate_response(response, excluded_checks=[positive_data_acceptance])
    cursor = _next_cursor(response)
    if cursor is not None:
        case.query = {**(case.query or {}), "cursor": cursor}
        further = _sent(client, case, media)
        case.validate_response(further, excluded_checks=[positive_data_acceptance])
        assert further.status_code == 200
    return response


def _sent(client: ApiClient, case: Any, media: MediaType) -> Response:
    sent = requests.Request(**case.as_transport_kwargs(_BASE_URL)).prepare()
    headers = {
        name: value if isinstance(value, str) else value.decode("latin-1")
        for name, value in {
            # Schemathesis does not decode bodies.
            **sent.headers,
            "Accept": f"{media}, */*;q=0.1",
            "Accept-Encoding": "identity",
        }.items()
    }
    body = sent.body.encode() if isinstance(sent.body, str) else sent.body or b""
    assert isinstance(body, bytes)
    assert sent.method is not None
    response = asyncio.run(client.call(sent.path_url, [*headers.items()], sent.method, body))
    return Response(
        status_code=response.status,
        headers={name: [value] for name, value in response.headers.items()},
        content=response.body,
        request=sent,
        elapsed=0.0,
        verify=False,
    )


def _next_cursor(response: Response) -> str | None:
    (media,) = response.headers.get("content-type", [""])
    if response.status_code == 200 and media == MediaType.JSON:
        cursor: str | None = orjson.loads(response.content).get("next_cursor")
        return cursor
    return response.headers.get("oriel-next-cursor", [None])[0]
