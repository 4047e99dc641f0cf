"""Random queries against sorted lists: ``python -m tests.storage.query_campaign --queries 100000``.

The stores have random windows, with and without retention. Each query runs on the index, on the
table and on the list (``oriel.testing``), and the results are compared.
"""

import argparse
import random
import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import orjson

from oriel.storage import LATEST_MS, SessionRange, WindowId, WindowRange, WindowSpec
from oriel.testing import ModelKeyValueStore, ModelSessionStore, ModelWindowStore, Put
from tests.storage.store_tables import NONE, SESSION, SLIDING
from tests.storage.written_index import written_stores
from tests.storage.written_tables import table_stores

_KEYS = ("", "a", "a\x00", "a\x00b", "ab", "b", "é", "é" * 300 + "1", "é" * 300 + "2", "\U0010ffff")
_QUERIES_A_STORE = 2000
#: One of this many queries also runs on the table, because each one reads files there.
_OF_THE_TABLE = 10

Query = Callable[[Any], Any]


def main() -> int:
    """Run the queries. Stop at the first different result, and print its seed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--queries", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    started = time.monotonic()
    compared, of_tables, seed = 0, 0, options.seed
    while compared < options.queries:
        of_tables += check_store(seed)
        compared += _QUERIES_A_STORE
        seed += 1
    seconds = time.monotonic() - started
    sys.stdout.write(
        f"{compared} queries of indexes, {of_tables} of tables: 0 differences, {seconds:.0f} s\n"
    )
    return 0


def check_store(seed: int) -> int:
    """Compare the results of one store, and return the number of queries on the table."""
    chance = random.Random(seed)
    window = (SLIDING, SESSION, NONE)[seed % 3]
    retention_ms = chance.choice([None, 30, 100]) if window.is_windowed else None
    puts = list(_puts(chance, window))
    model = _model(window, puts, retention_ms)
    of_table = 0
    with TemporaryDirectory() as name:
        data = Path(name)
        table = table_stores(data, window)(puts, retention_ms)
        with written_stores(data, window) as make:
            index = make(puts, retention_ms)
            for number in range(_QUERIES_A_STORE):
                query = _query(chance, window)
                expected = query(model)
                if query(index) != expected:
                    message = f"seed {seed}, query {number}: the index differs"
                    raise AssertionError(message)
                if number % _OF_THE_TABLE == 0:
                    of_table += 1
                    if query(table) != expected:
                        message = f"seed {seed}, query {number}: the table differs"
                        raise AssertionError(message)
    return of_table


def _model(window: WindowSpec, puts: list[Put], retention_ms: int | None) -> Any:
    if window.kind.is_session:
        return ModelSessionStore(puts, retention_ms)
    return ModelWindowStore(puts, retention_ms) if window.is_windowed else ModelKeyValueStore(puts)


def _puts(chance: random.Random, window: WindowSpec) -> list[Put]:
    windows = {}
    for number in range(chance.choice([0, 1, 300])):
        start = chance.randrange(200) if window.is_windowed else 0
        length = chance.choice([0, 5, 90]) if window.kind.is_session else window.size_ms
        key, end = chance.choice(_KEYS), start + length
        # As in the API: the index distinguishes long keys by the first bytes of the JSON.
        fields = {"key": key, "window_start_ms": start, "window_end_ms": end, "n": number}
        windows[key, start, end] = Put(key, start, end, orjson.dumps(fields))
    return list(windows.values())


def _query(chance: random.Random, window: WindowSpec) -> Query:
    """Return a random query with random pages and bounds."""
    key = chance.choice((*_KEYS, "none"))
    prefix = chance.choice(("", "a", "a\x00", "é", "é" * 300, "\U0010ffff", "z"))
    # Not compared: whether more keys can follow is only a hint, and long keys are unordered.
    keys: Query = lambda store: sorted(store.keys(prefix, 50).keys)  # noqa: E731
    if not window.is_windowed:
        return chance.choice([keys, lambda store: store.get(key)])
    bounds = [chance.choice([-3, 0, LATEST_MS, chance.randrange(250)]) for _ in range(2)]
    place = WindowId(chance.randrange(200), chance.randrange(300))
    after = chance.choice([None, place])
    span = WindowRange(key, bounds[0], bounds[1], chance.choice([1, 3, 1000]), after)
    queries: list[Query] = [
        keys,
        lambda store: store.fetch(span),
        lambda store: store.backward_fetch(span),
        lambda store: store.latest(key),
        lambda store: store.fetch_window(key, span.from_ms),
        lambda store: store.earliest_ms,
    ]
    if window.kind.is_session:
        found = SessionRange(*span[:5])
        queries += [
            lambda store: store.find_sessions(found),
            lambda store: store.backward_find_sessions(found),
            lambda store: store.fetch_session(key, place.start_ms, place.start_ms + 5),
        ]
    return chance.choice(queries)


if __name__ == "__main__":
    sys.exit(main())
