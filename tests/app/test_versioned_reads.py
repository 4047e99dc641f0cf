"""Reads of versions over HTTP equal a plain list: of the index, and of earlier table versions."""

import csv
import io
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from random import Random
from typing import Any

import orjson
import pytest

from tests.app.api_client import Served, served
from tests.app.problem_shape import assert_problem
from tests.storage.store_tables import NONE, VERSIONED, Row, make_definition

ROOT = "/v1/stores/store"
KEYS = ("a", "b", "b/c", "ä" * 300)
#: Key -> time -> value. None: a tombstone.
Model = dict[str, dict[int, int | None]]


def row_of(key: str, time_ms: int, n: int | None) -> Row:
    """Return the row of a version in the table: a tombstone has an empty window."""
    window = {"start": time_ms, "end": time_ms + (n is not None), "timestamp": time_ms}
    return {"key": key, "n": n, "final": False, **window}


def expected(model: Model, key: str, from_ms: int, to_ms: int) -> list[tuple[Any, ...]]:
    """Return value and validity of the versions of a key that were valid in a range of time."""
    times = sorted(model.get(key, {}))
    found = []
    for time, end in zip_longest(times, times[1:]):
        n = model[key][time]
        is_valid = from_ms <= to_ms and time <= to_ms and (end is None or end > from_ms)
        if n is not None and is_valid:
            found.append((n, time, end))
    return found


def pages_of(made: Served, path: str, query: str) -> list[Any]:
    """Return the rows of all pages of a read."""
    rows: list[Any] = []
    cursor = ""
    while True:
        response = made.get(f"{ROOT}/{path}?{query}{cursor}")
        assert response.status == 200, response.body
        rows += response.json["rows"]
        if response.json["next_cursor"] is None:
            return rows
        cursor = f"&cursor={response.json['next_cursor']}"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Served, Model, Model]]:
    """Return a store with random versions in two batches, and its content after each."""
    random, models = Random(5), list[Model]()
    model: Model = {}
    with served(tmp_path_factory.mktemp("versions"), window=VERSIONED) as made:
        for _ in range(2):
            rows = []
            for key in KEYS:
                times = random.sample(range(60), 12)
                for time in times:
                    if time not in model.setdefault(key, {}):
                        n = None if random.random() < 0.3 else random.randrange(1000)
                        model[key][time] = n
                        rows.append(row_of(key, time, n))
            model["b"][60 + len(models)] = None
            rows.append(row_of("b", 60 + len(models), None))
            # One version leaves the history of each key.
            for key in KEYS if models else ():
                oldest = min(model[key])
                rows.append({**row_of(key, oldest, model[key].pop(oldest)), "deleted": True})
            made.commit(*rows)
            models.append({key: dict(versions) for key, versions in model.items()})
        yield made, models[0], models[1]


@pytest.mark.parametrize("seed", range(60))
def test_random_reads_equal_a_list(store: tuple[Served, Model, Model], seed: int) -> None:
    """Versions in both orders and the version at a time, with pages of any size."""
    made, earlier, newest = store
    random = Random(seed)
    key = random.choice([*KEYS, "none"])
    from_ms, to_ms = random.randint(-5, 65), random.randint(-5, 65)
    model, at = random.choice([(newest, ""), (earlier, "&as_of_version=1")])
    query = f"from_ms={from_ms}&to_ms={to_ms}&limit={random.choice((1, 2, 5, 100))}{at}"
    versions = expected(model, key, max(from_ms, 0), to_ms)
    for path, found in (("versions", versions), ("backwardVersions", versions[::-1])):
        rows = pages_of(made, f"{path}/{key}", query)
        assert [(r["n"], r["valid_from_ms"], r["valid_to_ms"]) for r in rows] == found
        assert {r["key"] for r in rows} <= {key}
    one = made.get(f"{ROOT}/get/{key}?at_ms={from_ms}{at}")
    if valid := expected(model, key, from_ms, from_ms):
        (row,) = one.json["rows"]
        assert (row["n"], row["valid_from_ms"], row["valid_to_ms"]) == valid[0]
    else:
        assert_problem(one, 404, "version-not-valid", str(from_ms), "history of 20 ms")


@pytest.mark.parametrize(("at", "which"), [("", 1), ("&as_of_version=1", 0)])
def test_other_reads_return_the_newest_versions(
    store: tuple[Served, Model, Model], at: str, which: int
) -> None:
    """`get`, `all`, `range`, reverse reads, listed keys and the list of keys skip tombstones."""
    made, first, last = store
    model = (first, last)[which]
    newest = {
        key: versions[max(versions)]
        for key, versions in model.items()
        if versions[max(versions)] is not None
    }
    ordered = sorted(newest)
    assert set(newest) < set(KEYS), "the random content has no key with a deleted row"
    for limit in (1, 2, 100):
        query = f"limit={limit}{at}"
        rows = pages_of(made, "all", query)
        assert [(row["key"], row["n"]) for row in rows] == [(key, newest[key]) for key in ordered]
        assert rows == pages_of(made, "reverseAll", query)[::-1]
        of_range = [row["key"] for row in pages_of(made, "range", f"key_from=b&{query}")]
        assert of_range == [key for key in ordered if key >= "b"]
        prefixed = [row["key"] for row in pages_of(made, "prefixScan", f"prefix=b&{query}")]
        assert prefixed == [key for key in ordered if key.startswith("b")]
        keys = made.get(f"{ROOT}/keys?{query}").json["keys"]
        assert keys == ordered[:limit]
    for key in KEYS:
        response = made.get(f"{ROOT}/get/{key}?{at}")
        if key in newest:
            assert response.json["rows"][0]["n"] == newest[key]
            assert "valid_from_ms" not in response.json["rows"][0]
        else:
            assert_problem(response, 404, "row-not-found", key[:20])
    listed = made.post(f"{ROOT}/getOfKeys?{at}", orjson.dumps(KEYS)).json["rows"]
    assert [row["key"] for row in listed] == [key for key in KEYS if key in newest]


def test_versions_have_all_formats_and_columns(tmp_path: Path) -> None:
    """CSV and ISO times have the validity. `columns` selects columns of versions."""
    with served(tmp_path, window=VERSIONED) as made:
        made.commit(row_of("a", 0, 1), row_of("a", 60_000, 2))
        body = made.get(f"{ROOT}/versions/a?columns=n", [("Accept", "text/csv")]).body.decode()
        assert list(csv.DictReader(io.StringIO(body))) == [
            {"key": "a", "n": "1", "timestamp_ms": "0", "valid_from_ms": "0",
             "valid_to_ms": "60000"},
            {"key": "a", "n": "2", "timestamp_ms": "60000", "valid_from_ms": "60000",
             "valid_to_ms": ""},
        ]  # fmt: skip
        rows = made.get(f"{ROOT}/backwardVersions/a?times=iso&columns=n&limit=1").json["rows"]
        minute = "1970-01-01T00:01:00.000Z"
        assert rows == [
            {"key": "a", "n": 2, "timestamp": minute, "valid_from": minute, "valid_to": None}
        ]


def test_other_stores_have_no_versions(tmp_path: Path) -> None:
    """A store without versions rejects `at_ms` and reads of versions. Its problem names others."""
    with served(tmp_path, window=NONE) as made:
        made.commit({"key": "a"})
        made.add(make_definition("history", window=VERSIONED), row_of("a", 5, 1))
        problem = made.get(f"{ROOT}/get/a?at_ms=5")
        assert_problem(problem, 400, "invalid-parameter", "no versions", "versions=True")
        assert_problem(made.get(f"{ROOT}/versions/a"), 400, "wrong-store-kind", "no windows")
        problem = made.get("/v1/stores/history/fetch/a")
        assert_problem(problem, 400, "wrong-store-kind", "it has versions", "backwardVersions")
        for value in ("x", "", "9" * 30):
            problem = made.get(f"/v1/stores/history/get/a?at_ms={value}")
            assert_problem(problem, 400, "invalid-parameter", "at_ms")


def test_a_cursor_of_versions_fits_only_its_read(tmp_path: Path) -> None:
    """A cursor is rejected by the read in the other order, and by other bounds."""
    with served(tmp_path, window=VERSIONED) as made:
        made.commit(*(row_of("a", time, time) for time in range(5)))
        cursor = made.get(f"{ROOT}/versions/a?limit=2").json["next_cursor"]
        for path in ("backwardVersions/a?limit=2", "versions/b?limit=2", "versions/a?to_ms=3"):
            response = made.get(f"{ROOT}/{path}&cursor={cursor}")
            assert_problem(response, 400, "invalid-cursor")


def test_changes_have_the_newest_row_of_each_key(tmp_path: Path) -> None:
    """A key is listed once, also if several of its versions changed."""
    with served(tmp_path, window=VERSIONED) as made:
        made.commit(row_of("a", 5, 1), row_of("a", 9, 2), row_of("b", 5, 3), row_of("b", 9, None))
        changes = made.get(f"{ROOT}/changes?since_version=0").json["changes"]
        assert [(one["key"], one["row"] and one["row"]["n"]) for one in changes] == [
            ("a", 2), ("b", None),
        ]  # fmt: skip


@pytest.mark.parametrize("seed", range(2))
def test_an_order_follows_the_newest_versions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """After each commit, `order_by` and `where` have the newest row of each key."""
    random = Random(seed)
    model: Model = {}
    with served(tmp_path, window=VERSIONED) as made:
        # The columns follow the changes of each commit.
        monkeypatch.setattr(made.service.catalog.newest, "clear", lambda: None)
        for number in range(6):
            rows = []
            for key in random.sample(KEYS, 2):
                time = random.choice((number, 10 + number))
                n = None if random.random() < 0.3 else random.randrange(10)
                is_newest = time >= max(model.get(key, {}), default=0)
                if time not in model.setdefault(key, {}):
                    model[key][time] = n
                    rows.append({**row_of(key, time, n), "final": not is_newest})
            made.commit(*rows)
            newest = {key: versions[max(versions)] for key, versions in model.items() if versions}
            present = sorted((-n, key) for key, n in newest.items() if n is not None)
            for _ in range(3):
                response = made.get(f"{ROOT}/all?order_by=-n,key&top=10&where=n%3E2")
                found = [(-row["n"], row["key"]) for row in response.json["rows"]]
                assert found == [(n, key) for n, key in present if n < -2]
