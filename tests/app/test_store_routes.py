"""Tests of the routes for the list of stores, for one store and for its keys."""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from pathlib import Path
from typing import Any

import pytest

from oriel.storage.tailer import StoreStatus
from tests.app.api_client import ApiResponse, Served, served
from tests.app.problem_shape import assert_problem
from tests.storage.store_tables import StoreTable, make_definition

KEYS = "/v1/stores/store/keys"
#: The header of a cursor: its format, a digest of the request and the version of the table.
_HEAD_BYTES = 29


def _keys(response: Any) -> list[str]:
    assert response.status == 200, response.body
    return list(response.json["keys"])


def test_the_list_says_what_each_store_is_and_how_far_it_reaches(store: Served) -> None:
    """The list has the definition and position of each store, also without an index."""
    store.commit({"key": "a", "start": 1})
    StoreTable(store.data, make_definition("another"))
    (store.data / "tables" / "_dead_letters" / "_delta_log").mkdir(parents=True)
    (store.data / "tables" / "empty").mkdir()
    response = store.get("/v1/stores")
    assert response.status == 200
    another, ours = response.json["stores"]
    assert another == {
        "store": "another", "ready": False, "window": None, "aggregates": [], "position": None,
        "close_ms": None,
        "problem": "the index of store 'another' is being built. Send the request again",
        "committed_ms": None, "stream_time_ms": {}, "counters": {}, "windows": None,
    }  # fmt: skip
    assert ours["ready"] is True
    assert ours["window"] == {
        "kind": "sliding", "size_ms": 10, "grace_ms": 5, "advance_ms": None,
    }  # fmt: skip
    assert ours["aggregates"][0] == {"name": "n", "function": "count()", "type": "long"}
    assert ours["position"] == store.get("/v1/stores/store").json["position"]
    assert ours["close_ms"] == -5
    assert ours["stream_time_ms"] == {"events": {"0": 0}}
    assert ours["counters"]["applied"] == 100
    assert ours["windows"] == 1
    assert ours["committed_ms"] == _entry_ms(store, 1)


def _entry_ms(store: Served, version: int) -> int:
    return store.table.entry(version).stat().st_mtime_ns // 1_000_000


def test_a_version_that_left_the_log_has_no_time(store: Served) -> None:
    """The commit time is the time of the entry's file, and null without the entry."""
    store.commit({"key": "a", "start": 1})
    assert store.get("/v1/stores/store").json["committed_ms"] == _entry_ms(store, 1)
    store.table.entry(1).unlink()
    assert store.get("/v1/stores/store").json["committed_ms"] is None


def test_no_stores_is_an_empty_list(tmp_path: Path) -> None:
    """Without stores, the list is empty."""
    with served(tmp_path / "one") as made:
        made.table.path.rename(tmp_path / "elsewhere")
        assert made.get("/v1/stores").json == {"stores": []}
        assert_problem(made.get("/v1/stores/store"), 404, "unknown-store", "none yet")


def test_a_store_is_described_whole(tmp_path: Path) -> None:
    """The details have definition, position, stream time, counters, retention and index."""
    with served(tmp_path, retention_ms=100) as made:
        made.commit({"key": "a", "start": 150})
        made.tailer_says(StoreStatus("following", 1))
        detail = made.get("/v1/stores/store").json
    assert detail["definition"]["retention_ms"] == 100
    assert detail["definition"]["window"]["size_ms"] == 10
    assert detail["position"]["version"] == 1
    assert detail["stream_time_ms"] == {"events": {"0": 0}}
    assert detail["close_ms"] == -5
    assert detail["counters"] == {"input": 100, "applied": 100, "late": 0, "dead_lettered": 0}
    assert detail["earliest_start_ms"] == 51
    assert detail["mergeable"] == []
    assert detail["index"] == {"state": "following", "problem": None, "windows": 1}


def test_a_store_before_its_first_batch(empty_store: Served) -> None:
    """Before the first batch, a store has a version and no other numbers."""
    detail = empty_store.get("/v1/stores/store").json
    assert (detail["position"]["version"], detail["position"]["offsets"]) == (0, {})
    assert (detail["stream_time_ms"], detail["close_ms"], detail["counters"]) == ({}, None, {})
    assert detail["index"]["state"] == "unknown"


def test_a_failing_tailer_is_shown(store: Served) -> None:
    """The details show the tailer's problem next to the last version."""
    store.tailer_says(StoreStatus("failed", 0, "CorruptLog: torn"))
    detail = store.get("/v1/stores/store").json
    assert detail["index"]["state"] == "failed"
    assert detail["index"]["problem"] == "CorruptLog: torn"


def test_keys_are_listed_in_order_of_their_bytes(store: Served) -> None:
    """Each key is listed once in byte order, with a prefix and page by page."""
    names = ["", "a", "a b", "a/b", "b", "é", "😀", "a" * 600]
    store.commit(*({"key": key, "start": start} for key in names for start in (1, 2)))
    assert _keys(store.get(KEYS)) == sorted(names, key=str.encode)
    assert _keys(store.get(f"{KEYS}?prefix=a+b")) == ["a b"]
    assert _keys(store.get(f"{KEYS}?prefix=a%2F")) == ["a/b"]
    assert _keys(store.get(f"{KEYS}?prefix=%C3%A9")) == ["é"]
    assert _keys(store.get(f"{KEYS}?prefix=zzz")) == []
    all_keys: list[str] = []
    cursor = ""
    for _ in names:
        response = store.get(f"{KEYS}?limit=3{cursor}")
        all_keys += _keys(response)
        if response.json["next_cursor"] is None:
            break
        cursor = f"&cursor={response.json['next_cursor']}"
    assert all_keys == sorted(names, key=str.encode)


def test_a_cursor_of_keys_is_for_that_prefix_only(store: Served) -> None:
    """A cursor of keys is rejected for another prefix, and a cursor of windows for keys."""
    store.commit(*({"key": key, "start": start} for key in "ab" for start in (1, 2)))
    cursor = store.get(f"{KEYS}?limit=1").json["next_cursor"]
    assert_problem(store.get(f"{KEYS}?prefix=a&cursor={cursor}"), 400, "invalid-cursor")
    windows = store.get("/v1/stores/store/fetch/a?limit=1").json["next_cursor"]
    assert_problem(store.get(f"{KEYS}?cursor={windows}"), 400, "invalid-cursor")


@pytest.mark.parametrize("read", ["fetch/a", "keys", "fetchOfKeys"])
def test_a_cursor_whose_place_was_changed_is_refused(store: Served, read: str) -> None:
    """A cursor with a valid header and an invalid position is rejected."""
    store.commit(*({"key": key, "start": start} for key in "ab" for start in (1, 2)))

    def response(query: str) -> ApiResponse:
        target = f"/v1/stores/store/{read}?limit=1{query}"
        found: ApiResponse = (
            store.post(target, b'["a","b"]') if read == "fetchOfKeys" else store.get(target)
        )
        return found

    cursor = response("").json["next_cursor"]
    head = urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))[:_HEAD_BYTES]
    forged = urlsafe_b64encode(head + b"\xff\xff\xff").decode().rstrip("=")
    assert_problem(
        response(f"&cursor={forged}"), 400, "invalid-cursor", "not a cursor of this service"
    )


@pytest.mark.parametrize("path", ["/v1/stores", "/v1/stores/store", "/healthz", "/readyz"])
def test_unknown_parameters_are_refused(empty_store: Served, path: str) -> None:
    """Routes without parameters reject any parameter."""
    assert_problem(empty_store.get(f"{path}?x=1"), 400, "unknown-parameter", "none")


@pytest.mark.parametrize("path", ["/v1/stores/nope", "/v1/stores/nope/keys"])
def test_an_unknown_store_is_404(empty_store: Served, path: str) -> None:
    """The error for an unknown store names the existing stores."""
    assert_problem(empty_store.get(path), 404, "unknown-store", "stores are: store")


@pytest.mark.parametrize("path", ["/v1/stores/store", "/v1/stores/store/keys"])
def test_a_store_without_an_index_is_not_ready(tmp_path: Path, path: str) -> None:
    """A store without an index is a 503, which the client can retry."""
    with served(tmp_path) as made:
        assert_problem(made.get(path), 503, "store-not-ready")


@pytest.mark.parametrize(
    "path", ["/nope", "/v1", "/v1/stores/", "/v1/stores/store/", "/v1/stores/store/fetch"]
)
def test_an_unknown_path_is_a_problem(empty_store: Served, path: str) -> None:
    """An unknown path is a problem, without a redirect or a page of the framework."""
    assert_problem(empty_store.get(path), 404, "unknown-route")


@pytest.mark.parametrize("path", ["/", "/v1/stores", "/healthz", "/openapi.json"])
def test_other_methods_are_refused_and_head_is_get(empty_store: Served, path: str) -> None:
    """All routes are read-only: they reject POST, and HEAD equals GET."""
    assert_problem(empty_store.get(path, method="POST"), 405, "method-not-allowed")
    assert empty_store.get(path, method="HEAD").status == empty_store.get(path).status


def test_an_unexpected_error_is_a_500_without_a_trace(
    store: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An unexpected error is a 500 problem without the text of the error."""

    def fail() -> None:
        message = "secret"
        raise RuntimeError(message)

    monkeypatch.setattr(store.service.catalog, "names", fail)
    response = store.get("/v1/stores")
    assert_problem(response, 500, "internal-error")
    assert b"secret" not in response.body
