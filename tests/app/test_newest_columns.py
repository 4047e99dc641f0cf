"""Ranked reads of the newest items, from columns that follow a changing store."""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from deltalake import write_deltalake

from oriel.app.reads import changes
from oriel.app.reads.ranked import NewestColumns, newest, sorted_columns
from tests.app.api_client import Served, served
from tests.app.selections import ordered, random_condition, random_order
from tests.app.test_selected_reads import all_pages
from tests.storage.store_tables import HOPPING, NONE, SESSION, SLIDING, TUMBLING, make_definition

KEYS = [f"k{i}" for i in range(30)] + ["é", "", "k1/x"]
NAMES = ("key", "n", "mean", "last", "timestamp_ms")
ROOT = "/v1/stores/store"


class Builds:
    """Counts how often columns are built from the whole index."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Count from now on."""
        self.count = 0
        build = NewestColumns._build

        async def counted(columns: NewestColumns, *args: Any) -> None:
            self.count += 1
            await build(columns, *args)

        monkeypatch.setattr(NewestColumns, "_build", counted)


@pytest.fixture
def builds(monkeypatch: pytest.MonkeyPatch) -> Builds:
    """Return the counter of builds."""
    return Builds(monkeypatch)


def keep_columns(store: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the columns of a store while a test updates its index."""
    monkeypatch.setattr(store.service.catalog.newest, "clear", lambda: None)


def random_row(choice: random.Random, newest_start: int) -> dict[str, Any]:
    """Return a row near the newest windows. Some rows remove a window."""
    start = max(0, newest_start - 10 * choice.randrange(4))
    return {
        "key": choice.choice(KEYS),
        "start": start,
        "n": choice.choice((0, 1, 2, 3, None)),
        "mean": choice.choice((0.5, -1.0, None)),
        "last": choice.choice(("a", "é", None)),
        "timestamp": start + choice.randrange(10),
        "deleted": choice.random() < 0.15,
    }


def check(store: Served, read: str, choice: random.Random) -> None:
    """Compare ranked reads with the items of the same read without an order."""
    separator = "&" if "?" in read else "?"
    everything = all_pages(store, f"{read}{separator}limit=1000")
    for _ in range(2):
        order, limit = random_order(choice, NAMES), choice.choice((5, 1000))
        names = ",".join(f"-{name}" if descending else name for name, descending in order)
        query = f"{separator}order_by={names}&limit={limit}"
        wanted = ordered(everything, order)
        if choice.random() < 0.5:
            text, holds = random_condition(choice)
            query += f"&where={quote(text)}"
            wanted = [item for item in wanted if holds(item)]
        assert all_pages(store, read + query) == wanted, query


@pytest.mark.parametrize(
    "window", [TUMBLING, HOPPING, SLIDING, SESSION, NONE], ids=lambda w: w.kind
)
@pytest.mark.parametrize("retention_ms", [None, 50])
def test_columns_follow_the_versions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, builds: Builds, window: Any,
    retention_ms: int | None,
) -> None:  # fmt: skip
    """After each commit, an order has the rows of its version. The columns are built once."""
    retention_ms = retention_ms if window.is_windowed else None
    choice = random.Random(3)
    reads = ["latestAll", "currentAll"] if window.is_windowed else ["all", "reverseAll"]
    with served(tmp_path, retention_ms, window) as store:
        keep_columns(store, monkeypatch)
        store.commit(*(random_row(choice, 30) for _ in range(40)))
        for batch in range(10):
            for read in reads:
                check(store, f"{ROOT}/{read}", choice)
                check(store, f"{ROOT}/{read}?prefix=k1" if window.is_windowed else
                      f"{ROOT}/prefixScan?prefix=k1", choice)  # fmt: skip
            rows = {}
            for _ in range(choice.randrange(1, 5)):
                row = random_row(choice, 30 + 10 * batch)
                rows[row["key"], row["start"] if window.is_windowed else 0] = row
            store.commit(*rows.values())
        assert builds.count == (2 if window.is_windowed else 1)


@pytest.mark.parametrize(("quick", "examined"), [(0, 10), (0, 1000), (12, 20), (1000, 1000)])
def test_short_blocks_of_an_order_change_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quick: int, examined: int
) -> None:
    """If the first rows of an order are far apart, the read examines all rows."""
    monkeypatch.setattr(sorted_columns, "_BLOCK", 1)
    monkeypatch.setattr(sorted_columns, "_QUICK_MAX", quick)
    monkeypatch.setattr(sorted_columns, "_EXAMINED_MAX", examined)
    choice = random.Random(examined)
    with served(tmp_path, window=TUMBLING) as store:
        keep_columns(store, monkeypatch)
        for _ in range(10):
            rows = [random_row(choice, 30) for _ in range(25)]
            store.commit(*{(row["key"], row["start"]): row for row in rows}.values())
            for _ in range(10):
                check(store, f"{ROOT}/currentAll", choice)


def test_changes_that_are_unknown_build_the_columns_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, builds: Builds
) -> None:
    """Rows of other programs, many versions and deleted log entries build the columns again."""
    choice = random.Random(4)
    with served(tmp_path, window=TUMBLING) as store:
        keep_columns(store, monkeypatch)
        store.commit(*(random_row(choice, 30) for _ in range(20)))
        check(store, f"{ROOT}/currentAll", choice)
        assert builds.count == 1
        foreign = store.table.arrow([{"key": "other", "start": 90, "n": 7, "revision": 0}])
        write_deltalake(store.table.path, foreign, mode="append")
        store.index()
        check(store, f"{ROOT}/currentAll", choice)
        assert builds.count == 2
        monkeypatch.setattr(changes, "VERSIONS_MAX", 1)
        store.commit({"key": "a", "start": 0})
        store.commit({"key": "b", "start": 0})
        check(store, f"{ROOT}/currentAll", choice)
        assert builds.count == 3


def test_a_store_without_memory_for_columns_is_read_in_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, builds: Builds
) -> None:
    """If the columns exceed their memory, every read reads all items."""
    choice = random.Random(5)
    monkeypatch.setattr(newest, "BYTES_MAX", 100)
    with served(tmp_path, window=TUMBLING) as store:
        keep_columns(store, monkeypatch)
        store.commit(*(random_row(choice, 30) for _ in range(20)))
        check(store, f"{ROOT}/currentAll", choice)
        check(store, f"{ROOT}/currentAll", choice)
        assert builds.count == 1


def test_columns_that_were_used_least_recently_are_dropped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, builds: Builds
) -> None:
    """The columns of all stores have a common limit of memory."""
    monkeypatch.setattr(newest, "TOTAL_BYTES_MAX", 100)
    with served(tmp_path, window=TUMBLING) as store:
        store.add(make_definition("rows", window=NONE), {"key": "a", "n": 1}, {"key": "b", "n": 2})
        store.commit({"key": "a", "start": 0, "n": 1})
        for _ in range(2):
            assert len(all_pages(store, f"{ROOT}/currentAll?order_by=n")) == 1
            assert len(all_pages(store, "/v1/stores/rows/all?order_by=-n")) == 2
        assert builds.count == 4


@pytest.fixture
def long_keys(tmp_path: Path) -> Iterator[Served]:
    """Return a store of rows with keys of the type ``long``."""
    with served(tmp_path) as store:
        definition = make_definition("numbers", window=NONE, key_type="long")
        store.add(definition, *({"key": str(i), "n": i % 3} for i in range(-5, 6)))
        yield store


def test_keys_of_numbers_are_ordered_by_value(long_keys: Served) -> None:
    """A key of the type ``long`` is a number in an order, in a condition and in bounds."""
    read = "/v1/stores/numbers/all"
    found = all_pages(long_keys, f"{read}?order_by=-key&where=key%20%3C%202&limit=2")
    assert [item["key"] for item in found] == [str(i) for i in range(1, -6, -1)]
    found = all_pages(long_keys, "/v1/stores/numbers/range?key_from=-3&order_by=n,key&limit=3")
    assert [item["key"] for item in found] == [str(i) for i in (-3, 0, 3, -2, 1, 4, -1, 2, 5)]
