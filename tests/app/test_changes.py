"""Tests of reading changed windows since a version, over HTTP."""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from deltalake import DeltaTable

from tests.app.api_client import Served, served
from tests.app.problem_shape import assert_problem
from tests.storage.followed import check_in_this_process
from tests.storage.other_hands import append, clean_log, live_rows, rewrite, vacuum
from tests.storage.store_tables import NONE, SESSION, make_record

PATH = "/v1/stores/store/changes"


@pytest.fixture
def grown(tmp_path: Path) -> Iterator[Served]:
    """Return three batches at versions 1 to 3, each with a change of the window 10 of "a"."""
    with check_in_this_process(), served(tmp_path) as made:
        made.commit({"key": "a", "start": 10}, {"key": "a", "start": 20}, {"key": "b", "start": 10})
        made.commit({"key": "b", "start": 10, "n": 2}, {"key": "a", "start": 10, "n": 2})
        made.commit({"key": "a", "start": 20, "deleted": True}, {"key": "a", "start": 10, "n": 3})
        yield made


def changes_of(response: Any) -> list[tuple[Any, ...]]:
    """Return version, key, start and count of each change, with count None for a removal."""
    assert response.status == 200, response.body
    return [
        (c["version"], c["key"], c["window_start_ms"], c["row"] and c["row"]["n"])
        for c in response.json["changes"]
    ]


def test_each_window_comes_once_at_its_last_change(grown: Served) -> None:
    """Each window has one change with its newest row, ordered by version, key and start."""
    response = grown.get(f"{PATH}?since_version=0")
    assert changes_of(response) == [(2, "b", 10, 2), (3, "a", 10, 3), (3, "a", 20, None)]
    assert response.json["position"]["version"] == response.json["through_version"] == 3
    assert response.json["next_cursor"] is None
    assert response.json["changes"][1]["row"] == grown.get("/v1/stores/store/window/10/a").json[
        "windows"][0]  # fmt: skip
    assert changes_of(grown.get(f"{PATH}?since_version=2")) == [(3, "a", 10, 3), (3, "a", 20, None)]
    assert changes_of(grown.get(f"{PATH}?since_version=3")) == []


def test_without_a_version_it_says_where_to_begin(grown: Served) -> None:
    """Without a version, the response has no changes and the newest version."""
    response = grown.get(PATH)
    assert (changes_of(response), response.json["through_version"]) == ([], 3)


@pytest.mark.parametrize("limit", [1, 2, 3])
def test_pages_join_to_all_changes(grown: Served, limit: int) -> None:
    """The pages together have all changes, including those committed between two pages."""
    seen: list[tuple[Any, ...]] = []
    query = f"{PATH}?since_version=0&limit={limit}"
    response = grown.get(query)
    if response.json["next_cursor"] is not None:
        grown.commit({"key": "c", "start": 1, "n": 9})
    while response.json["next_cursor"] is not None:
        seen += changes_of(response)
        response = grown.get(f"{query}&cursor={response.json['next_cursor']}")
    seen += changes_of(response)
    expected = [(2, "b", 10, 2), (3, "a", 10, 3), (3, "a", 20, None)]
    meanwhile = [(4, "c", 1, 9)] if limit < 3 else []
    assert seen == expected + meanwhile
    assert response.json["through_version"] == (4 if meanwhile else 3)


def test_many_changes_are_listed_in_several_pages(
    grown: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each page reads at least one log entry, and at most a number of entries or bytes."""
    for name, bound in (("_ENTRIES_MAX", 2), ("_ADDED_BYTES_MAX", 0)):
        with monkeypatch.context() as patched:
            patched.setattr(f"oriel.storage.table_store.changed_windows.{name}", bound)
            newest: dict[Any, Any] = {}
            response = grown.get(f"{PATH}?since_version=0")
            pages = 1
            while response.json["next_cursor"] is not None:
                newest |= {change[1:3]: change[3] for change in changes_of(response)}
                cursor = response.json["next_cursor"]
                response = grown.get(f"{PATH}?since_version=0&cursor={cursor}")
                pages += 1
            newest |= {change[1:3]: change[3] for change in changes_of(response)}
            assert pages == {"_ENTRIES_MAX": 2, "_ADDED_BYTES_MAX": 3}[name]
            assert newest == {("a", 10): 3, ("a", 20): None, ("b", 10): 2}


def test_compaction_changes_nothing(grown: Served) -> None:
    """A compaction has no changes, and none of its files is read."""
    rewrite(grown.table, live_rows(grown.table), None)
    grown.index()
    response = grown.get(f"{PATH}?since_version=3")
    assert (changes_of(response), response.json["through_version"]) == ([], 4)
    grown.commit({"key": "z", "start": 1})
    assert changes_of(grown.get(f"{PATH}?since_version=3")) == [(5, "z", 1, 1)]


def test_rows_of_other_writers_are_reported_as_in_the_index(grown: Served) -> None:
    """A foreign row with a later revision is returned as in the index."""
    append(grown.table, [{"key": "b", "start": 10, "n": 77, "revision": 99}])
    grown.index()
    grown.commit({"key": "b", "start": 10, "n": 5})
    assert changes_of(grown.get(f"{PATH}?since_version=3")) == [(5, "b", 10, 77)]


def test_the_error_for_deleted_versions_says_to_start_again(grown: Served) -> None:
    """If entries or files are deleted or rows were removed, the response is a 410."""
    assert_problem(
        grown.get(f"{PATH}?since_version=9"), 503, "behind-position-bound", "3 is less than 9"
    )
    rewrite(grown.table, live_rows(grown.table), make_record(2))
    vacuum(grown.table)
    grown.index()
    missing = grown.get(f"{PATH}?since_version=1")
    words = ("files of version 2 were cleaned up", "Read the store again", "at version 4")
    assert_problem(missing, 410, "version-gone", *words)
    clean_log(grown.table)
    missing = grown.get(f"{PATH}?since_version=0")
    assert_problem(missing, 410, "version-gone", "version 1 is no longer in the log")
    assert changes_of(grown.get(f"{PATH}?since_version=4")) == []
    DeltaTable(grown.table.path).delete("key = 'b'")
    grown.index()
    assert_problem(grown.get(f"{PATH}?since_version=4"), 410, "version-gone", "removed rows")
    assert changes_of(grown.get(f"{PATH}?since_version=5")) == []


def test_what_has_expired_is_no_change(tmp_path: Path) -> None:
    """Expired windows have no changes."""
    with check_in_this_process(), served(tmp_path, retention_ms=15) as made:
        made.commit({"key": "a", "start": 10}, {"key": "a", "start": 20})
        made.commit({"key": "a", "start": 30})
        assert changes_of(made.get(f"{PATH}?since_version=0")) == [(1, "a", 20, 1), (2, "a", 30, 1)]


def test_sessions_and_rows_have_changes_too(tmp_path: Path) -> None:
    """Sessions with one start have separate changes, and rows have no window."""
    with check_in_this_process(), served(tmp_path / "s", window=SESSION) as made:
        made.commit({"key": "a", "start": 1, "end": 5})
        made.commit({"key": "a", "start": 1, "end": 5, "deleted": True},
                    {"key": "a", "start": 1, "end": 9})  # fmt: skip
        found = made.get(f"{PATH}?since_version=0").json["changes"]
        assert [(c["window_end_ms"], c["row"] is None) for c in found] == [(5, True), (9, False)]
    with check_in_this_process(), served(tmp_path / "r", window=NONE) as made:
        made.commit({"key": "a", "n": 1}, {"key": "b"})
        made.commit({"key": "a", "n": 2})
        found = changes_of(made.get(f"{PATH}?since_version=0"))
        assert found == [(1, "b", None, 1), (2, "a", None, 2)]


def test_odd_cursors_are_refused(grown: Served) -> None:
    """Cursors of other reads or versions and invalid cursors are rejected."""
    cursor = grown.get(f"{PATH}?since_version=0&limit=1").json["next_cursor"]
    keys = grown.get("/v1/stores/store/keys?limit=1").json["next_cursor"]
    for query in (f"since_version=1&cursor={cursor}", f"since_version=0&cursor={keys}",
                  "since_version=0&cursor=x"):  # fmt: skip
        assert_problem(grown.get(f"{PATH}?{query}"), 400, "invalid-cursor")


def test_a_copy_that_is_kept_by_changes_is_the_store(tmp_path: Path) -> None:
    """A copy that applies all changes equals the windows of fetch."""
    chance = random.Random(7)
    copy: dict[tuple[str, int], Any] = {}
    with check_in_this_process(), served(tmp_path) as made:
        made.index()
        through = 0
        for _ in range(12):
            rows = {(chance.choice("abc"), chance.randrange(5)): None for _ in range(4)}
            made.commit(*({"key": k, "start": s, "n": chance.randrange(99),
                           "deleted": chance.random() < 0.3} for k, s in rows))  # fmt: skip
            if chance.random() < 0.3:
                rewrite(made.table, live_rows(made.table), None)
                made.index()
            query, cursor = f"{PATH}?since_version={through}&limit=2", ""
            while True:
                response = made.get(query + cursor).json
                for change in response["changes"]:
                    window = (change["key"], change["window_start_ms"])
                    copy.pop(window, None)
                    if change["row"] is not None:
                        copy[window] = change["row"]
                if response["next_cursor"] is None:
                    break
                cursor = f"&cursor={response['next_cursor']}"
            through = response["through_version"]
            there = [
                w for k in "abc" for w in made.get(f"/v1/stores/store/fetch/{k}").json["windows"]
            ]
            assert sorted(map(orjson.dumps, copy.values())) == sorted(map(orjson.dumps, there))
