"""Rows as the engine gives them, for the tests of the read-only stores."""

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

#: In the order of their UTF-8 bytes; the last two are reversed in UTF-16.
KEYS = ("", "a", "a!", "aa", "b", "z", "ä", "€", "\uffff", "😀")

TIME_MAX = 2**63 - 1

#: Neither a time nor convertible to one.
NO_TIMES = (None, True, 1.0, "1", 2**63, -(2**63) - 1)


def changed(key: str, start_ms: int, end_ms: int, **aggregates: Any) -> Changed:
    """A row of a window that was put; its newest record is at its end."""
    fixed = {"key": key, "window_start_ms": start_ms, "window_end_ms": end_ms}
    return {**fixed, **aggregates, "timestamp_ms": end_ms, "final": False, "deleted": False}


def removed(key: str, start_ms: int, end_ms: int) -> Changed:
    """A row of a session that was merged away."""
    return {**changed(key, start_ms, end_ms), "deleted": True}


def entry(key: str, timestamp_ms: int = 0, **aggregates: Any) -> Changed:
    """A row of a grouping without windows."""
    return {**changed(key, 0, FOREVER_MS, **aggregates), "timestamp_ms": timestamp_ms}


def stored(
    *rows: Changed, retention_ms: int | None = None, clock: str = "window_start_ms"
) -> StoreRows:
    """A store's content after these rows; retention counts from their greatest ``clock``."""
    content = StoreRows(retention_ms)
    content.apply(rows)
    content.observed_ms = max((row[clock] for row in rows), default=-1)
    return content


def places(windows: list[WindowedValue]) -> list[tuple[str, int, int]]:
    """Which windows these are, in their order."""
    return [(w.key, w.window_start_ms, w.window_end_ms) for w in windows]


def random_rows(random: Random, spans: Callable[[Random], tuple[int, int]]) -> list[Changed]:
    """Puts and removals of windows of a few keys, so that many hit the same window."""
    rows = []
    for number in range(random.randint(0, 60)):
        key, (start_ms, end_ms) = random.choice(KEYS), spans(random)
        row = changed(key, start_ms, end_ms, number=number)
        rows.append(row if random.random() < 0.8 else removed(key, start_ms, end_ms))
    return rows


def left_over(rows: list[Changed]) -> list[WindowedValue]:
    """What is in a store after ``rows``, looked for from the back; in no order."""
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
    """Whether a key lies in a range, by its bytes."""
    after = key_from is None or key.encode() >= key_from.encode()
    return after and (key_to is None or key.encode() <= key_to.encode())


def key_ranges() -> Iterator[tuple[str | None, str | None]]:
    """Every range between two keys, those without a bound and the wrong way round too."""
    bounds = (None, *KEYS)
    return product(bounds, bounds)


@contextmanager
def one_warning(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Check that what runs inside logs the warning of a range of keys the wrong way round."""
    caplog.clear()
    yield
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "compared by their UTF-8 bytes" in caplog.text
