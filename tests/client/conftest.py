"""A real service for the tests of its client."""

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from oriel.client import Client
from tests.app.serving import Serving
from tests.storage.store_tables import NONE, SESSION, TUMBLING, StoreTable, make_definition
from tests.storage.waiting import wait_for

#: Keys that need encoding in a path.
HOSTILE_KEYS = ("", ".", "..", "a/../b", "a//b", "%2F", "a b+c?d#e&f=g", '"\\\n\0é😀')


@dataclass(frozen=True)
class Running:
    """A running service and the table of ``store``, its store of windows."""

    url: str
    table: StoreTable


@pytest.fixture(scope="session")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """Yield `oriel serve` with a store of each kind. Tests can add windows with their own keys."""
    data = tmp_path_factory.mktemp("client")
    table = StoreTable(data, make_definition())
    starts = [{"key": "a", "start": 10 * n, "n": n} for n in range(1, 26)]
    hostile = [{"key": key, "start": 10, "n": at} for at, key in enumerate(HOSTILE_KEYS)]
    table.commit([*starts, *hostile, {"key": "big", "start": 5, "n": 2**63 - 1, "mean": None}])
    visits = StoreTable(data, make_definition("visits", window=SESSION))
    visits.commit([
        {"key": "a", "start": 10, "end": 20}, {"key": "a", "start": 40, "end": 90},
    ])  # fmt: skip
    StoreTable(data, make_definition("totals", window=NONE)).commit([{"key": "a", "n": 7}])
    turns = StoreTable(data, make_definition("turns", window=TUMBLING))
    turns.commit([{"key": "a", "start": 10 * n, "n": n} for n in range(25)])
    serving = Serving(data)
    try:
        url = f"http://127.0.0.1:{serving.port}"
        with Client(url) as client:
            wait_for([True] * 4, lambda: [s.ready for s in client.stores()], "ready of all stores")
        yield Running(url, table)
    finally:
        serving.end()


@pytest.fixture
def client(running: Running) -> Iterator[Client]:
    """Return a client of that service."""
    with Client(running.url) as made:
        yield made
