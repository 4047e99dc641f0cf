"""Tests of reads of sessions over HTTP: findSessions, backwardFindSessions, session."""

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.app.api_client import ApiResponse, Served, served
from tests.app.problem_shape import assert_problem
from tests.storage.store_tables import SESSION, window_fields

ROOT = "/v1/stores/store"

#: One session around two others, and two sessions with the same start.
SPANS = [(0, 20), (5, 12), (10, 10), (25, 35), (25, 40)]


def spans(response: ApiResponse) -> list[tuple[int, int]]:
    """Return start and end of the sessions of a successful response, in its order."""
    assert response.status == 200, response.body
    return [
        (session["window_start_ms"], session["window_end_ms"])
        for session in response.json["windows"]
    ]


ROWS = [{"key": "a", "start": start, "end": end} for start, end in SPANS]


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Return key "a" with these sessions at table version 1, for reads only."""
    with served(tmp_path_factory.mktemp("filled"), window=SESSION) as made:
        made.commit(*ROWS)
        yield made


@pytest.fixture
def changing(tmp_path: Path) -> Iterator[Served]:
    """Return the same store for one test, which can change it."""
    with served(tmp_path, window=SESSION) as made:
        made.commit(*ROWS)
        yield made


def test_sessions_have_the_envelope_of_windows(filled: Served) -> None:
    """The response has store, position, sessions and cursor, and sessions have ordered fields."""
    response = filled.get(f"{ROOT}/findSessions/a?latest_start_ms=0")
    assert response.json == {
        "store": "store",
        "position": {
            "version": 1,
            "offsets": {"events": {"0": 100}},
            "history": response.headers["oriel-history"],
        },
        "windows": [window_fields({"key": "a", "start": 0, "end": 20}, filled.definition)],
        "next_cursor": None,
    }
    assert list(response.json["windows"][0]) == [
        "key", "window_start_ms", "window_end_ms", "n", "mean", "last", "all", "timestamp_ms",
        "final",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", SPANS),
        ("?earliest_end_ms=12&latest_start_ms=12", [(0, 20), (5, 12)]),
        ("?earliest_end_ms=36", [(25, 40)]),
        ("?latest_start_ms=4", [(0, 20)]),
        ("?latest_start_ms=-1", []),
        ("?earliest_end_ms=-9223372036854775808", SPANS),
        ("?earliest_end_ms=9223372036854775807", []),
        ("?earliest_end_ms=30&latest_start_ms=5", []),
    ],
)
def test_bounds_are_inclusive_and_optional(
    filled: Served, query: str, expected: list[tuple[int, int]]
) -> None:
    """Both directions accept the same bounds, and backwardFindSessions is newest first."""
    assert spans(filled.get(f"{ROOT}/findSessions/a{query}")) == expected
    assert spans(filled.get(f"{ROOT}/backwardFindSessions/a{query}")) == expected[::-1]


@pytest.mark.parametrize("limit", [1, 2, 4])
@pytest.mark.parametrize("operation", ["findSessions", "backwardFindSessions"])
def test_pages_join_to_all_sessions(filled: Served, operation: str, limit: int) -> None:
    """The pages together have each session once, also with equal starts."""
    all_spans: list[tuple[int, int]] = []
    cursor = ""
    for _ in SPANS:
        response = filled.get(f"{ROOT}/{operation}/a?earliest_end_ms=11&limit={limit}{cursor}")
        all_spans += spans(response)
        if response.json["next_cursor"] is None:
            break
        cursor = f"&cursor={response.json['next_cursor']}"
    expected = [span for span in SPANS if span[1] >= 11]
    assert all_spans == (expected if operation == "findSessions" else expected[::-1])


@pytest.mark.parametrize(
    "other",
    [
        "findSessions/b?limit=1", "backwardFindSessions/a?limit=1", "fetch/a?limit=1",
        "findSessions/a?earliest_end_ms=1&limit=1", "findSessions/a?latest_start_ms=30&limit=1",
    ],
)  # fmt: skip
def test_a_cursor_of_another_request_is_refused(filled: Served, other: str) -> None:
    """A cursor is rejected for another key, read or bound."""
    cursor = filled.get(f"{ROOT}/findSessions/a?limit=1").json["next_cursor"]
    response = filled.get(f"{ROOT}/{other}&cursor={cursor}")
    assert_problem(response, 400, "invalid-cursor", "another request")


def test_one_session_is_read_by_start_and_end(filled: Served) -> None:
    """One session is read by its exact times, and other times are a 404."""
    for start, end in SPANS:
        assert spans(filled.get(f"{ROOT}/session/{start}/{end}/a")) == [(start, end)]
    for path in ("session/0/19/a", "session/1/20/a", "session/-1/-1/a", "session/0/20/b"):
        assert_problem(filled.get(f"{ROOT}/{path}"), 404, "window-not-found", "no session")


def test_the_path_of_a_session_has_two_times_and_a_key(filled: Served) -> None:
    """A path without two times and a key is unknown, and invalid times are rejected."""
    for path in ("session/0", "session/0/20"):
        words = "session/{window_start_ms}/{window_end_ms}/{key}"
        assert_problem(filled.get(f"{ROOT}/{path}"), 404, "unknown-route", words)
    response = filled.get(f"{ROOT}/session/x/20/a")
    assert_problem(response, 400, "invalid-parameter", "window_start_ms")
    response = filled.get(f"{ROOT}/session/0/9223372036854775808/a")
    assert_problem(response, 400, "invalid-parameter", "window_end_ms")


def test_reads_by_start_work_for_sessions(filled: Served) -> None:
    """`fetch` and `backwardFetch` select sessions by their start."""
    assert spans(filled.get(f"{ROOT}/fetch/a?from_ms=5&to_ms=25")) == SPANS[1:]
    assert spans(filled.get(f"{ROOT}/backwardFetch/a?from_ms=5&to_ms=25")) == SPANS[:0:-1]
    assert spans(filled.get(f"{ROOT}/latest/a")) == [(25, 40)]
    assert spans(filled.get(f"{ROOT}/window/25/a")) == [(25, 35)]


@pytest.mark.parametrize("key", ["", "a/b", "/", "0/1", "é", "\x00", "a" * 700])
def test_any_key_works(changing: Served, key: str) -> None:
    """Sessions of any key can be read, even if the key looks like the path of a session."""
    changing.commit({"key": key, "start": 3, "end": 4})
    for safe in ("", "/"):
        path = quote(key, safe=safe)
        for read in ("findSessions", "backwardFindSessions", "session/3/4"):
            response = changing.get(f"{ROOT}/{read}/{path}")
            assert spans(response) == [(3, 4)]
            assert response.json["windows"][0]["key"] == key


def test_a_merged_session_takes_the_place_of_the_others(changing: Served) -> None:
    """The next version has only the merged session."""
    deleted = [{"key": "a", "start": s, "end": e, "deleted": True} for s, e in SPANS[3:]]
    changing.commit(*deleted, {"key": "a", "start": 25, "end": 60})
    assert spans(changing.get(f"{ROOT}/findSessions/a?earliest_end_ms=21")) == [(25, 60)]
    assert_problem(changing.get(f"{ROOT}/session/25/40/a"), 404, "window-not-found")


def test_retention_hides_sessions_by_their_end(tmp_path: Path) -> None:
    """Each read hides the sessions that end before stream time - retention + 1."""
    with served(tmp_path, retention_ms=21, window=SESSION) as made:
        made.commit(*ROWS)
        visible = [(0, 20), (25, 35), (25, 40)]
        for read in ("findSessions", "fetch"):
            assert spans(made.get(f"{ROOT}/{read}/a")) == visible
        for read in ("backwardFindSessions", "backwardFetch"):
            assert spans(made.get(f"{ROOT}/{read}/a")) == visible[::-1]
        for path in ("session/5/12/a", "window/5/a"):
            response = made.get(f"{ROOT}/{path}")
            assert_problem(response, 404, "window-not-found", "earliest visible end is 20")
        detail = made.get(ROOT).json
        assert (detail["earliest_start_ms"], detail["earliest_end_ms"]) == (None, 20)


def test_position_bounds_and_entity_tags_hold_here_too(filled: Served) -> None:
    """Reads of sessions have the position bounds, ETags and errors of other reads."""
    for path in ("findSessions/a", "backwardFindSessions/a", "session/0/20/a"):
        response = filled.get(f"{ROOT}/{path}?min_version=2")
        assert_problem(response, 503, "behind-position-bound", "version 1 is less than 2")
        tag = filled.get(f"{ROOT}/{path}?min_version=1").headers["etag"]
        again = filled.get(f"{ROOT}/{path}?min_version=1", [("If-None-Match", tag)])
        assert (again.status, again.body) == (304, b"")
        assert_problem(filled.get(f"{ROOT}/{path}?from_ms=1"), 400, "unknown-parameter", "wait_ms")
        assert_problem(filled.get(f"{ROOT}/{path}", method="PUT"), 405, "method-not-allowed")
