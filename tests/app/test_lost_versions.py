"""Tests of requests with a version, cursor or ETag of a history that a restore ended."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.app.api_client import Served, served
from tests.app.backups import Backups
from tests.app.problem_shape import assert_problem
from tests.storage.dead_letter_tables import add_dead_letters
from tests.storage.store_tables import NONE

ROOT = "/v1/stores/store"

#: Reads with one item per page, whose first page has a cursor.
_PAGES = (
    "fetch/a?limit=1", "backwardFetch/a?limit=1", "fetchAll?limit=1", "fetchRange?limit=1",
    "keys?limit=1", "latestAll?limit=1", "changes?since_version=0&limit=1",
    "fetchAll?limit=1&as_of_version={version}",
)  # fmt: skip


def _replace_history(backups: Backups, commits: int) -> None:
    backups.restore()
    for start in range(commits):
        backups.served.commit({"key": "a", "start": 100 + start}, {"key": "b", "start": 1})
    backups.served.index()


def _position(store: Served) -> Any:
    return store.get(ROOT).json["position"]


def _cursor(store: Served, page: str) -> str:
    cursor = store.get(f"{ROOT}/{page}").json["next_cursor"]
    assert cursor is not None
    return str(cursor)


@pytest.mark.parametrize("commits", [0, 1, 2, 4])
@pytest.mark.parametrize("page", _PAGES)
def test_a_cursor_of_a_lost_history_is_unavailable(
    backups: Backups, page: str, commits: int
) -> None:
    """A cursor of a lost history is a 410, with fewer, equally many or more versions."""
    store = backups.served
    target = page.format(version=3)
    cursor = _cursor(store, target)
    assert store.get(f"{ROOT}/{target}&cursor={cursor}").status == 200
    _replace_history(backups, commits)
    response = store.get(f"{ROOT}/{target}&cursor={cursor}")
    assert_problem(response, 410, "history-lost", "'store'", "version 3", "Read the store again")


@pytest.mark.parametrize("page", [page for page in _PAGES if "as_of" not in page])
def test_a_cursor_from_before_the_backup_stays_valid(backups: Backups, page: str) -> None:
    """A cursor from before the backup stays valid, because both histories have its version."""
    store = backups.served
    _replace_history(backups, 1)
    cursor = _cursor(store, page)
    backups.take()
    store.commit({"key": "a", "start": 60})
    backups.restore(1)
    store.commit({"key": "a", "start": 70})
    assert store.get(f"{ROOT}/{page}&cursor={cursor}").status == 200


def test_a_cursor_of_listed_keys_is_unavailable(backups: Backups) -> None:
    """A cursor of a list of keys is a 410 after a restore."""
    store, target = backups.served, f"{ROOT}/fetchOfKeys?limit=1"
    cursor = store.post(target, b'["a"]').json["next_cursor"]
    _replace_history(backups, 3)
    response = store.post(f"{target}&cursor={cursor}", b'["a"]')
    assert_problem(response, 410, "history-lost", "version 3 was replaced")


@pytest.mark.parametrize("commits", [0, 1, 2, 4])
@pytest.mark.parametrize("name", ["min_version", "as_of_version", "since_version"])
def test_a_version_of_a_lost_history_is_unavailable(
    backups: Backups, name: str, commits: int
) -> None:
    """A version that is sent with a lost history is a 410."""
    store = backups.served
    read = "changes" if name == "since_version" else "latest/a"
    lost, wait = _position(store), "&wait_ms=30000" if name == "min_version" else ""
    target = f"{ROOT}/{read}?{name}=3&history={lost['history']}{wait}"
    assert store.get(target).status == 200
    _replace_history(backups, commits)
    assert_problem(store.get(target), 410, "history-lost", "version 3")
    there = _position(store)
    version, history = there["version"], there["history"]
    store.commit({"key": "a", "start": 200})
    assert store.get(f"{ROOT}/{read}?{name}={version}&history={history}").status == 200


def test_a_count_of_a_lost_history_is_unavailable(tmp_path: Path) -> None:
    """A count with a version of a lost history is a 410."""
    with served(tmp_path / "data", window=NONE) as store:
        store.commit({"key": "a"})
        lost = _position(store)["history"]
        backup = tmp_path / "backup"
        shutil.copytree(store.table.path, backup)
        store.commit({"key": "b"})
        replaced = _position(store)["history"]
        shutil.rmtree(store.table.path)
        backup.rename(store.table.path)
        store.index()
        count = f"{ROOT}/approximateNumEntries"
        assert store.get(f"{count}?min_version=1&history={lost}").json["count"] == 1
        for name in ("min_version", "as_of_version"):
            response = store.get(f"{count}?{name}=2&history={replaced}")
            assert_problem(response, 410, "history-lost", "version 2")


@pytest.mark.parametrize(
    ("query", "words"),
    [("history=1-2", "sent with min_version"), ("min_version=1&history=x", "'x'")],
)
def test_a_history_without_its_version_is_refused(filled: Served, query: str, words: str) -> None:
    """A history without a version is rejected."""
    response = filled.get(f"{ROOT}/latest/a?{query}")
    assert_problem(response, 400, "invalid-parameter", "history", words)


def test_a_tag_of_a_lost_history_brings_the_page_and_its_cursor(backups: Backups) -> None:
    """An ETag of a lost history gets the page again, because its cursor became invalid."""
    store, target = backups.served, f"{ROOT}/fetch/a?limit=3"
    lost = store.get(target).headers["etag"]
    assert store.get(target, [("If-None-Match", lost)]).status == 304
    _replace_history(backups, 2)
    response = store.get(target, [("If-None-Match", lost)])
    assert response.status == 200
    assert store.get(f"{target}&cursor={response.json['next_cursor']}").status == 200
    both = f"{lost}, {response.headers['etag']}"
    assert store.get(target, [("If-None-Match", both)]).status == 304


def test_changes_name_the_history_to_go_on_with(backups: Backups) -> None:
    """Each page of changes has the history of the version that it reaches."""
    store = backups.served
    page = store.get(f"{ROOT}/changes?since_version=0&limit=1").json
    assert page["through_version"] == page["position"]["version"]
    assert page["through_history"] == page["position"]["history"]
    target = f"{ROOT}/changes?since_version=3&history={page['through_history']}"
    store.commit({"key": "a", "start": 200})
    assert [one["version"] for one in store.get(target).json["changes"]] == [4]


@pytest.mark.parametrize(("commits", "status"), [(1, 410), (2, 503), (4, 503)])
def test_only_changes_that_the_index_has_are_reported(
    backups: Backups, commits: int, status: int
) -> None:
    """Until the index is rebuilt after a restore, changes of the restored log are not returned."""
    store = backups.served
    backups.restore()
    for start in range(commits):
        store.table.commit([{"key": "a", "start": 100 + start}])
    assert store.get(f"{ROOT}/changes?since_version=1").status == status
    store.index()
    assert store.get(f"{ROOT}/changes?since_version=1").status == 200


@pytest.mark.parametrize("added", [0, 1, 3])
def test_a_cursor_of_lost_dead_letters_is_gone(store: Served, tmp_path: Path, added: int) -> None:
    """A cursor of lost dead letters is a 410, because new ones could precede its position."""
    target, directory = "/v1/deadLetters?order=oldest&limit=1", store.data / "tables/_dead_letters"
    add_dead_letters(store.data, {"offset": 1}, {"offset": 2})
    kept = store.get(target).json["next_cursor"]
    shutil.copytree(directory, tmp_path / "backup")
    add_dead_letters(store.data, {"offset": 3}, {"offset": 4})
    lost = store.get(f"{target}&cursor={kept}").json["next_cursor"]
    shutil.rmtree(directory)
    shutil.copytree(tmp_path / "backup", directory)
    for offset in range(added):
        add_dead_letters(store.data, {"offset": 10 + offset})
    response = store.get(f"{target}&cursor={lost}")
    assert_problem(response, 410, "history-lost", "dead letters: version", "without a cursor")
    assert store.get(f"{target}&cursor={kept}").status == 200
