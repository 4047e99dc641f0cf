"""Tests of the examples of docs/reference/http-api.md: the requests work as shown."""

import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Any, NamedTuple

import orjson
import pytest

from oriel.storage import (
    AggregateSpec,
    DataLayout,
    Drawing,
    DrawnArrow,
    DrawnNode,
    StoreDefinition,
    StoreKind,
    WindowSpec,
)
from oriel.storage.monitoring import record_topology
from oriel.storage.tailer import StoreStatus
from tests.app.api_client import Served, served
from tests.documentation.pages import RUN_BY, Block, blocks
from tests.storage.dead_letter_tables import add_dead_letters
from tests.storage.store_tables import make_definition
from tests.tidy.project import ROOT

_PAGE = ROOT / "docs" / "reference" / "http-api.md"
_MINUTE_MS = 60_000
_START_MS = 1357034400000
_AGGREGATES = (
    AggregateSpec("departures", "count()", "long"),
    AggregateSpec("mean_delay", "avg(delay)", "double"),
)


class _Example(NamedTuple):
    """A request of the page, the language of its response, and the response."""

    request: Block
    language: str
    response: str


def _examples() -> list[_Example]:
    found = blocks(_PAGE)
    return [
        _Example(request, response.language, response.text)
        for request, response in pairwise(found)
        if request.note.startswith(RUN_BY)
    ]


def _definition(name: str, window: WindowSpec) -> StoreDefinition:
    has_mean = window.kind is not StoreKind.NONE
    aggregates = _AGGREGATES if has_mean else _AGGREGATES[:1]
    return replace(make_definition(name, window=window), aggregates=aggregates)


@pytest.fixture(scope="module")
def departures(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Serve the stores of the page."""
    window = {
        "key": "EWR", "start": _START_MS, "end": _START_MS + 30 * _MINUTE_MS, "departures": 12,
        "mean_delay": 4.25, "timestamp": _START_MS + 29 * _MINUTE_MS, "final": True,
    }  # fmt: skip
    session = {**window, "end": window["timestamp"]}
    row = {"key": "EWR", "departures": 1201, "timestamp": window["timestamp"]}
    with served(tmp_path_factory.mktemp("examples")) as made:
        for name, spec, item in (
            ("departures", WindowSpec(StoreKind.TUMBLING, 30 * _MINUTE_MS, 0), window),
            ("bursts", WindowSpec(StoreKind.SESSION, 10 * _MINUTE_MS, 0), session),
            ("totals", WindowSpec(StoreKind.NONE, 0, 0), row),
        ):
            made.add(_definition(name, spec), item)
        prices = make_definition("prices", window=WindowSpec(StoreKind.VERSIONED, 1, 20))
        price = {"end": _START_MS + 1, "timestamp": _START_MS, "price": 3, "final": False}
        prices = replace(prices, aggregates=(AggregateSpec("price", "price", "long"),))
        made.add(prices, {"key": "EWR", "start": _START_MS, **price})
        add_dead_letters(made.data, {"offset": 4711, "key": b"EWR", "headers": [], "raw": b"{"})
        made.commit()
        made.tailer_says(StoreStatus("following", 1))
        made.pipeline_says()
        nodes = (
            DrawnNode("topic0", "topic", "flights"),
            DrawnNode("store0", "store", "departures", ("sliding windows",)),
        )
        drawing = Drawing(nodes, (DrawnArrow("topic0", "store0", ("group_by(origin)",)),))
        record_topology(DataLayout(made.data), "flights", drawing)
        yield made


@pytest.mark.parametrize("example", _examples(), ids=lambda one: f"line-{one.request.line}")
def test_an_example_of_the_page_works(departures: Served, example: _Example) -> None:
    """The response has the fields of the example, and its windows and rows."""
    match = re.fullmatch(r"curl (?:-d '(.*)' )?'localhost:8080(\S+)'\n", example.request.text)
    assert match, example.request.text
    body, target = match.groups()
    if "/changes?" in target:
        target = re.sub(r"since_version=\d+", "since_version=0", target)
    response = departures.post(target, body.encode()) if body else departures.get(target)
    assert response.status == 200, response.body
    if example.language == "text":
        first_line = example.response.partition("\n")[0]
        assert first_line in response.body.decode()
        return
    shown = orjson.loads(example.response)
    assert _fits(shown, response.json), response.json
    for name in ("windows", "rows"):
        if isinstance(shown.get(name), list):
            assert response.json[name] == shown[name]


def _fits(shown: Any, real: Any) -> bool:
    """Compare field names. Null fits everything, and maps by topic have any names."""
    if isinstance(shown, dict) and isinstance(real, dict):
        by_topic = {"offsets", "stream_time_ms", "counters", "by_reason", "stores", "pipelines"}
        return shown.keys() == real.keys() and all(
            (name in by_topic and isinstance(shown[name], dict)) or _fits(shown[name], real[name])
            for name in shown
        )
    if isinstance(shown, list) and isinstance(real, list):
        return not shown or not real or _fits(shown[0], real[0])
    return shown is None or real is None or isinstance(real, type(shown) | int | float)
