"""Tests that run the docstring examples of ``oriel.client`` against a service.

The examples use the names of ``oriel.client``, ``asyncio``, the ``url`` of the service, a
``client``, and its stores ``departures`` (tumbling windows), ``bursts`` (sessions) and ``totals``
(no windows).
"""

import asyncio
import doctest
import inspect
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import oriel.client
from oriel.client import Client, OrielError
from oriel.storage import AggregateSpec, DataLayout, Drawing, StoreDefinition, StoreKind, WindowSpec
from oriel.storage.monitoring import record_topology
from tests.app.serving import Serving
from tests.storage.store_tables import StoreTable, make_definition
from tests.storage.waiting import wait_for

_MINUTE_MS = 60_000
#: 2013-01-01 10:00 UTC.
_TEN_MS = 1357034400000
_MEMBERS = {
    f"{name}.{member}": getattr(thing, member)
    for name in oriel.client.__all__
    if inspect.isclass(thing := getattr(oriel.client, name))
    for member in ["", *dir(thing)]
    if member and not member.startswith("_") and callable(getattr(thing, member, None))
} | {name: getattr(oriel.client, name) for name in oriel.client.__all__}
_WITH_EXAMPLE = {
    name: thing for name, thing in _MEMBERS.items() if ">>>" in (inspect.getdoc(thing) or "")
}


def _definition(name: str, window: WindowSpec) -> StoreDefinition:
    aggregates = (AggregateSpec("departures", "count()", "long"),)
    return replace(make_definition(name, window=window), aggregates=aggregates)


def _make_stores(data: Path) -> None:
    half_hour = 30 * _MINUTE_MS
    first = {
        "key": "EWR", "start": _TEN_MS, "departures": 12, "final": True,
        "timestamp": _TEN_MS + 29 * _MINUTE_MS,
    }  # fmt: skip
    departures = StoreTable(
        data, _definition("departures", WindowSpec(StoreKind.TUMBLING, half_hour, 0))
    )
    departures.commit([
        first,
        {**first, "start": _TEN_MS + half_hour, "departures": 7, "final": False,
         "timestamp": _TEN_MS + 45 * _MINUTE_MS},
        {**first, "key": "JFK", "departures": 9},
    ])  # fmt: skip
    bursts = StoreTable(
        data, _definition("bursts", WindowSpec(StoreKind.SESSION, 10 * _MINUTE_MS, 0))
    )
    last_ms = _TEN_MS + 45 * _MINUTE_MS
    bursts.commit([
        {**first, "end": first["timestamp"]},
        {**first, "start": last_ms, "end": last_ms, "timestamp": last_ms, "departures": 1},
    ])  # fmt: skip
    totals = StoreTable(data, _definition("totals", WindowSpec(StoreKind.NONE, 0, 0)))
    totals.commit([
        {**first, "key": key, "departures": departures}
        for key, departures in (("EWR", 1201), ("JFK", 988), ("LGA", 640))
    ])  # fmt: skip
    prices = replace(
        make_definition("prices", window=WindowSpec(StoreKind.VERSIONED, 1, 86_400_000)),
        aggregates=(AggregateSpec("price", "the table's own column", "long"),),
    )
    StoreTable(data, prices).commit([
        {"key": "tea", "start": start_ms, "timestamp": start_ms, "price": price}
        for start_ms, price in ((_TEN_MS, 3), (_TEN_MS + 2 * _MINUTE_MS, 4))
    ])  # fmt: skip


@pytest.fixture(scope="module")
def scope(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """Serve the four stores, and yield the names that the examples use."""
    data = tmp_path_factory.mktemp("docstrings")
    _make_stores(data)
    record_topology(DataLayout(data), "flights", Drawing((), ()))
    serving = Serving(data, "--sql")
    url = f"http://127.0.0.1:{serving.port}"
    try:
        with Client(url) as client:
            wait_for([True] * 4, lambda: [s.ready for s in client.stores()], "ready of all stores")
            yield {name: getattr(oriel.client, name) for name in oriel.client.__all__} | {
                "asyncio": asyncio,
                "url": url,
                "client": client,
                "departures": client.window_store("departures"),
                "bursts": client.session_store("bursts"),
                "totals": client.key_value_store("totals"),
                "prices": client.versioned_store("prices"),
            }
    finally:
        serving.end()


@pytest.mark.parametrize("name", _WITH_EXAMPLE)
def test_the_example_of_a_public_name_runs(scope: dict[str, Any], name: str) -> None:
    """The example of each public name prints the documented output."""
    docstring = inspect.getdoc(_WITH_EXAMPLE[name]) or ""
    example = doctest.DocTestParser().get_doctest(docstring, dict(scope), name, None, None)
    printed: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    failures = runner.run(example, out=printed.append).failed
    assert failures == 0, "".join(printed)


def test_every_class_and_every_read_has_an_example() -> None:
    """Each public class except the error subclasses has an example, and so does each read."""
    needed = {
        name
        for name, thing in _MEMBERS.items()
        if inspect.isclass(thing) and not issubclass(thing, OrielError)
    }
    reads = {
        "WindowStoreClient", "SessionStoreClient", "KeyValueStoreClient", "VersionedStoreClient",
    }  # fmt: skip
    needed |= {name for name in _MEMBERS if name.partition(".")[0] in reads}
    assert needed - _WITH_EXAMPLE.keys() == set()
