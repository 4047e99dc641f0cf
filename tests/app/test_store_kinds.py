"""Tests of stores of each kind over HTTP: rows without windows, and unsupported reads."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from oriel.app.contract import OPERATIONS
from oriel.app.reads.snapshot_reads import HOT_READS
from oriel.storage import WindowSpec
from tests.app.api_client import Served, served
from tests.app.problem_shape import assert_problem
from tests.storage.store_tables import (
    HOPPING,
    NONE,
    SESSION,
    SLIDING,
    TUMBLING,
    VERSIONED,
    make_definition,
    window_fields,
)

ROOT = "/v1/stores/store"
EVERY = [TUMBLING, HOPPING, SLIDING, SESSION, NONE, VERSIONED]
#: One request for each hot read.
REQUESTS = {
    "fetch": "fetch/a", "backwardFetch": "backwardFetch/a", "latest": "latest/a",
    "window": "window/1/a", "findSessions": "findSessions/a",
    "backwardFindSessions": "backwardFindSessions/a", "session": "session/1/2/a", "get": "get/a",
    "merged": "merged/a?columns=n", "current": "current/a", "covering": "covering/1/a",
    "fetchSession": "fetchSession/1/2/a",
    "mergedAll": "mergedAll?columns=n",
    "versions": "versions/a", "backwardVersions": "backwardVersions/a",
    **{name: name for name in (
        "fetchRange", "backwardFetchRange", "fetchAll", "backwardFetchAll", "all", "backwardAll",
        "latestAll", "currentAll", "findSessionsRange", "backwardFindSessionsRange", "range",
        "reverseRange", "prefixScan", "reverseAll",
    )},
}  # fmt: skip
BY_START = {
    "fetch", "backwardFetch", "latest", "window", "current", "covering", "fetchRange",
    "backwardFetchRange", "fetchAll", "backwardFetchAll", "all", "backwardAll", "latestAll",
    "currentAll",
}  # fmt: skip
BY_END = {
    "findSessions", "backwardFindSessions", "session", "findSessionsRange",
    "backwardFindSessionsRange", "fetchSession",
}  # fmt: skip
BY_KEY = {"get", "range", "reverseRange", "prefixScan", "all", "reverseAll"}
FITTING = {
    "tumbling": BY_START | {"merged", "mergedAll"},
    "hopping": BY_START,
    "sliding": BY_START,
    "session": BY_START | BY_END,
    "none": BY_KEY,
    "versioned": BY_KEY | {"versions", "backwardVersions"},
}


@pytest.fixture(scope="module")
def kinds(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Return a store of each kind with one window or row, named by its kind, for reads only."""
    with served(tmp_path_factory.mktemp("kinds")) as made:
        for window in EVERY:
            definition = make_definition(window.kind, window=window)
            made.add(replace(definition, emit="window-close"), {"key": "a", "start": 1, "end": 2})
        yield made


@pytest.fixture
def totals(tmp_path: Path) -> Iterator[Served]:
    """Return a store without windows with one row, at table version 1."""
    with served(tmp_path, window=NONE) as made:
        made.commit({"key": "a", "n": 7, "timestamp": 99})
        yield made


@pytest.mark.parametrize("window", EVERY)
def test_each_kind_has_its_own_reads(kinds: Served, window: WindowSpec) -> None:
    """A kind's own reads respond, and each other read is a problem that names them."""
    assert REQUESTS.keys() == {name.decode() for name in HOT_READS}
    assert set().union(*(op.store_kinds for op in OPERATIONS.values())) == FITTING.keys()
    fitting = FITTING[window.kind]
    for read, path in REQUESTS.items():
        response = kinds.get(f"/v1/stores/{window.kind}/{path}")
        if read in fitting:
            assert response.status == 200, response.body
        else:
            assert_problem(response, 400, "wrong-store-kind", f"'{window.kind}'", read, *fitting)


def test_a_row_has_no_window(totals: Served) -> None:
    """A row has key, aggregates and time, in a response with the usual fields."""
    response = totals.get(f"{ROOT}/get/a")
    row = window_fields({"key": "a", "n": 7, "timestamp": 99}, totals.definition)
    assert response.json == {
        "store": "store",
        "position": {
            "version": 1,
            "offsets": {"events": {"0": 100}},
            "history": response.headers["oriel-history"],
        },
        "rows": [row],
        "next_cursor": None,
    }
    assert list(response.json["rows"][0]) == ["key", "n", "mean", "last", "all", "timestamp_ms"]


def test_a_row_is_replaced_and_removed(totals: Served) -> None:
    """Each key has one row, and a key without a row is a 404."""
    totals.commit({"key": "a", "n": 8}, {"key": "b/c"})
    assert totals.get(f"{ROOT}/get/a").json["rows"][0]["n"] == 8
    assert totals.get(f"{ROOT}/get/b/c").json["rows"][0]["key"] == "b/c"
    assert totals.get(f"{ROOT}/keys").json["keys"] == ["a", "b/c"]
    totals.commit({"key": "a", "deleted": True})
    assert_problem(totals.get(f"{ROOT}/get/a"), 404, "row-not-found", "'a'")
    assert totals.get(f"{ROOT}/keys").json["keys"] == ["b/c"]


def test_rows_have_positions_and_entity_tags(totals: Served) -> None:
    """Reads of rows have the position bounds, ETags and errors of other reads."""
    response = totals.get(f"{ROOT}/get/a?min_version=2")
    assert_problem(response, 503, "behind-position-bound", "version 1 is less than 2")
    tag = totals.get(f"{ROOT}/get/a").headers["etag"]
    assert totals.get(f"{ROOT}/get/a", [("If-None-Match", tag)]).status == 304
    assert_problem(totals.get(f"{ROOT}/get/a?limit=1"), 400, "unknown-parameter", "min_version")
    assert_problem(totals.get(f"{ROOT}/get/%ff"), 400, "invalid-key")


@pytest.mark.parametrize("window", EVERY)
def test_details_say_what_a_store_is(kinds: Served, window: WindowSpec) -> None:
    """List and details have kind, parameters and the earliest visible time of a store."""
    summaries = {store["store"]: store for store in kinds.get("/v1/stores").json["stores"]}
    detail = kinds.get(f"/v1/stores/{window.kind}").json
    parameters = {
        "kind": window.kind, "size_ms": window.size_ms, "grace_ms": window.grace_ms,
        "advance_ms": 2 if window.kind == "hopping" else None,
    }  # fmt: skip
    assert summaries[window.kind]["window"] == parameters
    assert detail["definition"]["window"] == parameters
    assert detail["definition"]["emit"] == "window-close"
    assert detail["index"]["windows"] == 1
    expired = (detail["earliest_start_ms"], detail["earliest_end_ms"])
    assert expired == {
        "session": (None, 0),
        "none": (None, None),
        "versioned": (None, None),
    }.get(window.kind, (0, None))
