"""Rows as the engine returns them, for the tests of the read-only stores."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import product
from random import Random
from typing import Any

import pytest

from oriel.pipeline.testing.rows import FIXED_COLUMNS, StoreRows
from oriel.pipeline.windows import FOREVER_MS
from oriel.testing import WindowedValue

Changed = dict[str, Any]

#: Sorted by their UTF-8 bytes. In UTF-16, the last two have the reverse order.
KEYS = ("", "a", "a!", "aa", "b", "z", "ä", "€", "\uffff", "😀")

TIME_MAX = 2**63 - 1

#: Values that are not times and cannot be converted to times.
NO_TIMES = (None, True, 1.0, "1", 2**63, -(2**63) - 1)


def changed(key: str, start_ms: int, end_ms: int, **aggregates: Any) -> Changed:
    """Return the changed row of a window whose newest record is at its end."""
    fixed = {"key": key, "window_start_ms": start_ms, "window_end_ms": end_ms}
    return {**fixed, **aggregates, "timestamp_ms": end_ms, "final": False, "deleted": False}


def removed(key: str, start_ms: int, end_ms: int) -> Changed:
    """Return the row of a session that was merged into another one."""
    return {**changed(key, start_ms, end_ms), "deleted": True}


def entry(key: str, timestamp_ms: int = 0, **aggregates: Any) -> Changed:
    """Return a row of a grouping without windows."""
    return {**changed(key, 0, FOREVER_MS, **aggregates), "timestamp_ms": timestamp_ms}


def stored(
    *rows: Changed, retention_ms: int | None = None, clock: str = "window_start_ms"
) -> StoreRows:
    """Return a store after these rows. Its retention counts from their greatest ``clock``."""
    content = StoreRows(retention_ms)
    content.apply(rows)
    content.observed_ms = max((row[clock] for row in rows), default=-1)
    return content


def places(windows: list[WindowedValue]) -> list[tuple[str, int, int]]:
    """Return key, start and end of each window, in the same order."""
    return [(w.key, w.window_start_ms, w.window_end_ms) for w in windows]


def random_rows(random: Random, spans: Callable[[Random], tuple[int, int]]) -> list[Changed]:
    """Return random updates and removals of windows of few keys, so that windows repeat."""
    rows = []
    for number in range(random.randint(0, 60)):
        key, (start_ms, end_ms) = random.choice(KEYS), spans(random)
        row = changed(key, start_ms, end_ms, number=number)
        rows.append(row if random.random() < 0.8 else removed(key, start_ms, end_ms))
    return rows


def left_over(rows: list[Changed]) -> list[WindowedValue]:
    """Return the rows of a store after ``rows``, found from the end backward and unsorted."""
    found, seen = [], set()
    for row in reversed(rows):
        place = row["key"], row["window_start_ms"], row["window_end_ms"]
        if place in seen:
            continue
        seen.add(place)
        if not row["deleted"]:
            value = {name: row[name] for name in row.keys() - FIXED_COLUMNS}
            found.append(WindowedValue(*place, value, row["timestamp_ms"], row["final"]))
    return found


def inside(key: str, key_from: str | None, key_to: str | None) -> bool:
    """Return whether a key is in a range, compared by its bytes."""
    after = key_from is None or key.encode() >= key_from.encode()
    return after and (key_to is None or key.encode() <= key_to.encode())


def key_ranges() -> Iterator[tuple[str | None, str | None]]:
    """Yield every range between two keys, including unbounded and reversed ranges."""
    bounds = (None, *KEYS)
    return product(bounds, bounds)


@contextmanager
def one_warning(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Check that the block logs one warning about a reversed range of keys."""
    caplog.clear()
    yield
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "compared by their UTF-8 bytes" in caplog.text
