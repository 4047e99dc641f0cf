"""Tests of ``where``, ``order_by`` and ``top``, over HTTP, against plain lists."""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import orjson
import pytest

from oriel.app.reads import pages
from oriel.app.reads.ranked import read as ranked
from oriel.app.selection import ranking
from tests.app.api_client import ApiResponse, Served, served
from tests.app.problem_shape import assert_problem
from tests.app.selections import Item, ordered, random_condition, random_order, random_rows
from tests.storage.store_tables import NONE, SESSION, TUMBLING, make_definition, window_fields

ROOT = "/v1/stores/store"
NAMES = ("key", "n", "mean", "last", "timestamp_ms")


def items(response: ApiResponse) -> list[Any]:
    """Return the items of a page."""
    assert response.status == 200, response.body
    return list(response.json.get("windows") or response.json.get("rows") or [])


def all_pages(store: Served, target: str) -> list[Any]:
    """Return the items of all pages of a read with a query."""
    found, cursor = [], ""
    while True:
        response = store.get(target + cursor)
        found += items(response)
        if response.json["next_cursor"] is None:
            return found
        cursor = f"&cursor={response.json['next_cursor']}"


class Model:
    """Stores of every kind as plain lists."""

    def __init__(self, store: Served, choice: random.Random, count: int = 300) -> None:
        """Fill each store with at most ``count`` items."""
        self.store = store
        self.items: dict[str, list[Item]] = {}
        for name, window in (("store", TUMBLING), ("sessions", SESSION), ("rows", NONE)):
            definition = make_definition(name, window=window)
            rows = random_rows(choice, count, 1 if window is NONE else 40)
            if name == "store":
                store.commit(*rows)
            else:
                store.add(definition, *rows)
            self.items[name] = sorted(
                (window_fields(row, definition) for row in rows),
                key=lambda item: (item["key"].encode(), item.get("window_start_ms", 0)),
            )


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Model]:
    """Return stores with random rows, for reads only."""
    with served(tmp_path_factory.mktemp("selected"), window=TUMBLING) as made:
        yield Model(made, random.Random(5))


@pytest.mark.parametrize("seed", range(40))
def test_random_selections_equal_a_list(model: Model, seed: int) -> None:
    """Conditions, orders and pages of random reads return the items of a plain list."""
    check_random_read(model, random.Random(seed))


def check_random_read(model: Model, choice: random.Random) -> None:
    """Compare a random read of a random store with the list."""
    name = choice.choice(list(model.items))
    target, wanted = _random_target(choice, name, model.items[name])
    query = [f"limit={choice.choice((1, 3, 50, 10_000))}"]
    if choice.random() < 0.8:
        text, holds = random_condition(choice)
        query.append(f"where={quote(text)}")
        wanted = [item for item in wanted if holds(item)]
    if choice.random() < 0.6:
        order = random_order(choice, NAMES)
        names = ",".join(
            f"-{column}" if is_descending else column for column, is_descending in order
        )
        query.append(f"order_by={names}")
        wanted = ordered(wanted, order)
        if choice.random() < 0.4:
            top = choice.choice((1, 10, 1000))
            query.append(f"top={top}")
            wanted = wanted[:top]
    target = f"/v1/stores/{name}/{target}&{'&'.join(query)}"
    assert all_pages(model.store, target) == wanted, target


def _random_target(
    choice: random.Random, name: str, all_items: list[Item]
) -> tuple[str, list[Item]]:
    """Return a read as the text before its selection, and the items that it reads, in order."""
    key = choice.choice(("a", "ab", "é"))
    if name == "rows":
        return choice.choice((
            ("all?", all_items),
            ("reverseAll?", all_items[::-1]),
            (f"range?key_from={quote(key)}", [i for i in all_items if i["key"] >= key]),
            (f"prefixScan?prefix={quote(key)}", [i for i in all_items if i["key"].startswith(key)]),
        ))  # fmt: skip
    of_key = [i for i in all_items if i["key"] == key]
    early = [i for i in all_items if i["window_start_ms"] <= 200]
    newest = {item["key"]: item for item in all_items}
    return choice.choice((
        ("all?", all_items),
        ("backwardAll?", all_items[::-1]),
        (f"fetch/{quote(key)}?", of_key),
        (f"backwardFetch/{quote(key)}?", of_key[::-1]),
        ("fetchAll?to_ms=200", early),
        ("backwardFetchAll?to_ms=200", early[::-1]),
        (f"fetchRange?key_to={quote(key)}", [i for i in all_items if i["key"] <= key]),
        ("latestAll?", list(newest.values())),
        ("all?final=true", [i for i in all_items if i["final"]]),
    ))  # fmt: skip


@pytest.mark.parametrize("step", [1, 7])
def test_short_steps_change_nothing(
    model: Model, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    """Reads in many short steps return the same items."""
    monkeypatch.setattr(pages, "_FIRST_STEP", step)
    monkeypatch.setattr(pages, "_STEP", step)
    monkeypatch.setattr(ranked, "_STEP", step)
    monkeypatch.setattr(ranking, "_COLLECTED_MIN", 2)
    for seed in range(100, 110):
        check_random_read(model, random.Random(seed))


def test_listed_keys_are_selected(model: Model) -> None:
    """Reads of listed keys have conditions and orders."""
    keys = ["é", "a", "unknown"]
    by_key = [i for key in keys for i in model.items["store"] if i["key"] == key and i["n"] == 1]
    body = orjson.dumps(keys)
    response = model.store.post(f"{ROOT}/fetchOfKeys?where=n%20%3D%201", body)
    assert items(response) == by_key
    response = model.store.post(f"{ROOT}/fetchOfKeys?where=n%20%3D%201&order_by=-mean", body)
    assert items(response) == ordered(by_key, [("mean", True)])
    newest = {i["key"]: i for i in model.items["rows"] if i["key"] in keys}
    response = model.store.post("/v1/stores/rows/getOfKeys?order_by=last&top=1", body)
    assert items(response) == ordered(list(newest.values()), [("last", False)])[:1]


@pytest.mark.parametrize("limit", [1, 4])
def test_an_order_has_a_key_that_is_listed_twice_once(model: Model, limit: int) -> None:
    """Pages of an order have each window of the listed keys once."""
    wanted = ordered([i for i in model.items["store"] if i["key"] == "a"], [("n", False)])
    body, found, cursor = b'["a", "a"]', [], ""
    while cursor is not None:
        query = f"order_by=n&limit={limit}{cursor and '&cursor='}{cursor}"
        response = model.store.post(f"{ROOT}/fetchOfKeys?{query}", body)
        found += items(response)
        cursor = response.json["next_cursor"]
    assert found == wanted


def test_a_selection_reads_columns_that_the_response_lacks(model: Model) -> None:
    """``columns`` selects the fields of the response only."""
    response = model.store.get(
        f"{ROOT}/all?where=last%20IS%20NOT%20NULL&order_by=-mean&top=5&columns=n"
    )
    wanted = [i for i in model.items["store"] if i["last"] is not None]
    kept = ("key", "window_start_ms", "window_end_ms", "n", "timestamp_ms", "final")
    assert items(response) == [
        {name: item[name] for name in kept} for item in ordered(wanted, [("mean", True)])[:5]
    ]


def test_a_version_of_the_table_is_selected(model: Model) -> None:
    """A read as of a version has conditions, orders and cursors."""
    target = f"{ROOT}/all?as_of_version=1&where=n%20%3E%200&order_by=n,key&limit=7"
    wanted = [i for i in model.items["store"] if i["n"] is not None and i["n"] > 0]
    assert all_pages(model.store, target) == ordered(wanted, [("n", False), ("key", False)])


@pytest.mark.parametrize(
    ("query", "code", "words"),
    [
        ("where=n%20%3E", "invalid-parameter", "where: it is not a condition"),
        ("where=x%20%3E%201", "invalid-parameter", "'x' does not exist"),
        ("order_by=x", "invalid-parameter", "order_by: column 'x' does not exist"),
        ("order_by=all", "invalid-parameter", "is a list"),
        ("order_by=n,-n", "invalid-parameter", "each column once"),
        ("order_by=", "invalid-parameter", "at least one column"),
        ("top=3", "invalid-parameter", "top needs order_by"),
        ("top=0&order_by=n", "invalid-parameter", "top must be an integer"),
        ("order_by=n&cursor=xyz", "invalid-cursor", "not a cursor"),
    ],
)
def test_an_invalid_selection_is_rejected(model: Model, query: str, code: str, words: str) -> None:
    """The problem names the parameter and what is wrong."""
    response = model.store.get(f"{ROOT}/all?{query}")
    assert_problem(response, 400, code)
    assert words in response.json["detail"]


def test_a_cursor_belongs_to_one_selection(model: Model) -> None:
    """A cursor is rejected with another condition or order, and with ``top``."""
    cursor = model.store.get(f"{ROOT}/all?order_by=n&limit=1").json["next_cursor"]
    for query in ("order_by=-n", "order_by=n&where=n%20%3E%200", ""):
        response = model.store.get(f"{ROOT}/all?{query}&cursor={cursor}")
        assert_problem(response, 400, "invalid-cursor")
    response = model.store.get(f"{ROOT}/all?order_by=n&top=2&cursor={cursor}")
    assert_problem(response, 400, "invalid-parameter")


def test_a_ranked_read_has_limits(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    """If a read exceeds a limit, the error names it and the solution."""
    monkeypatch.setattr(ranked, "RANKED_RECORDS_MAX", 100)
    monkeypatch.setattr(ranked, "_STEP", 10)
    response = model.store.get(f"{ROOT}/all?order_by=n")
    assert_problem(response, 400, "ranked-read-limit")
    assert "Narrow its keys or times" in response.json["detail"]
    assert len(items(model.store.get(f"{ROOT}/fetch/a?order_by=n&top=3"))) == 3
    monkeypatch.setattr(ranked, "PAGE_BYTES_MAX", 300)
    response = model.store.get(f"{ROOT}/fetch/a?order_by=n&top=30")
    assert_problem(response, 400, "ranked-read-limit")
    monkeypatch.setattr(ranked, "SECONDS_MAX", -1.0)
    assert_problem(model.store.get(f"{ROOT}/fetch/a?order_by=n"), 503, "request-too-slow")


def test_an_order_continues_after_a_commit(tmp_path: Path) -> None:
    """The next page continues after the place of the last item, also in a newer version."""
    with served(tmp_path, window=TUMBLING) as store:
        store.commit(*({"key": key, "start": 0, "n": n} for n, key in enumerate("dcba", 1)))
        first = store.get(f"{ROOT}/all?order_by=-n&limit=2")
        assert [item["key"] for item in items(first)] == ["a", "b"]
        store.commit({"key": "c", "start": 0, "n": 9}, {"key": "e", "start": 0, "n": 3})
        cursor = first.json["next_cursor"]
        second = store.get(f"{ROOT}/all?order_by=-n&limit=2&cursor={cursor}")
        # The new row has the value of the last item, and its key is greater.
        assert [item["key"] for item in items(second)] == ["e", "d"]
