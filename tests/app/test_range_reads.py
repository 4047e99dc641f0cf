"""Tests of reads of many keys, of the newest windows of a key, and of filters, over HTTP."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.app.api_client import ApiResponse, Served, served, starts
from tests.app.problem_shape import assert_problem
from tests.storage.store_tables import HOPPING, NONE, SESSION, TUMBLING, make_definition

ROOT = "/v1/stores/store"
KEYS = ("", "\x00", "a", "a\x00", "a/b", "ab", "b", "é" * 300)
ORDERED = [(key, start) for key in sorted(KEYS, key=str.encode) for start in (10, 20, 30)]


def ids(response: ApiResponse) -> list[tuple[str, int]]:
    """Return key and start of windows, or key and 0 of rows."""
    assert response.status == 200, response.body
    items = response.json.get("windows") or response.json.get("rows") or []
    return [(item["key"], item.get("window_start_ms", 0)) for item in items]


def joined(store: Served, target: str) -> list[tuple[str, int]]:
    """Return the items of all pages."""
    found: list[tuple[str, int]] = []
    cursor = ""
    while True:
        response = store.get(target + cursor)
        found += ids(response)
        if response.json["next_cursor"] is None:
            return found
        separator = "&" if "?" in target else "?"
        cursor = f"{separator}cursor={response.json['next_cursor']}"


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Return keys with windows at 10 (final), 20 and 30, and a store of rows, for reads only."""
    with served(tmp_path_factory.mktemp("many")) as made:
        rows = make_definition("rows", window=NONE)
        made.add(rows, *({"key": key} for key in KEYS))
        made.commit(*({"key": key, "start": start, "final": start == 10} for key, start in ORDERED))
        yield made


@pytest.mark.parametrize("limit", [1, 5, 1000])
def test_everything_has_one_order(many: Served, limit: int) -> None:
    """All items are ordered by key bytes and start, and backward reads are the exact reverse."""
    assert joined(many, f"{ROOT}/all?limit={limit}") == ORDERED
    assert joined(many, f"{ROOT}/backwardAll?limit={limit}") == ORDERED[::-1]
    rows = [(key, 0) for key in sorted(KEYS, key=str.encode)]
    assert joined(many, f"/v1/stores/rows/all?limit={limit}") == rows
    assert joined(many, f"/v1/stores/rows/reverseAll?limit={limit}") == rows[::-1]


@pytest.mark.parametrize("key_from", [None, "", "a", "aa", "é" * 300])
@pytest.mark.parametrize("key_to", [None, "", "a\x00", "zz", "é" * 299])
def test_key_ranges_are_inclusive_and_open(
    many: Served, key_from: str | None, key_to: str | None
) -> None:
    """Key ranges include both bounds or are open, for windows and for rows."""
    bounds = [
        f"{name}={quote(key)}"
        for name, key in (("key_from", key_from), ("key_to", key_to))
        if key is not None
    ]
    query = "&".join(["limit=2", *bounds])
    expected = [
        (key, start)
        for key, start in ORDERED
        if (key_from is None or key.encode() >= key_from.encode())
        and (key_to is None or key.encode() <= key_to.encode())
    ]
    assert joined(many, f"{ROOT}/fetchRange?{query}") == expected
    assert joined(many, f"{ROOT}/backwardFetchRange?{query}") == expected[::-1]
    at_20 = [(key, start) for key, start in expected if start == 20]
    assert joined(many, f"{ROOT}/fetchRange?from_ms=11&to_ms=20&{query}") == at_20
    rows = [(key, 0) for key, start in expected if start == 10]
    assert joined(many, f"/v1/stores/rows/range?{query}") == rows
    assert joined(many, f"/v1/stores/rows/reverseRange?{query}") == rows[::-1]
    latest = [(key, start) for key, start in expected if start == 30]
    assert joined(many, f"{ROOT}/latestAll?{query}") == latest
    assert joined(many, f"{ROOT}/currentAll?{query}") == latest


def test_all_keys_in_a_range_of_time(many: Served) -> None:
    """`fetchAll` has the windows of ``fetch`` of every key."""
    expected = [(key, start) for key, start in ORDERED if 15 <= start <= 30]
    assert joined(many, f"{ROOT}/fetchAll?from_ms=15&to_ms=30&limit=3") == expected
    assert joined(many, f"{ROOT}/backwardFetchAll?from_ms=15&limit=3") == expected[::-1]
    assert joined(many, f"{ROOT}/fetchAll?from_ms=31") == []
    assert joined(many, f"{ROOT}/fetchAll?from_ms=30&to_ms=10") == []
    assert joined(many, f"{ROOT}/fetchAll?to_ms=-1") == []


def test_prefixes(many: Served) -> None:
    """A prefix selects the keys that start with it."""
    expected = [(key, 0) for key in ("a", "a\x00", "a/b", "ab")]
    assert joined(many, "/v1/stores/rows/prefixScan?prefix=a&limit=1") == expected
    assert [key for key, _ in joined(many, f"{ROOT}/latestAll?prefix=a&limit=3")] == [
        key for key, _ in expected
    ]
    count = many.get("/v1/stores/rows/approximateNumEntries").json
    assert count == {"store": "rows", "position": count["position"], "count": len(KEYS)}


@pytest.mark.parametrize(
    "read", ["fetch/a", "backwardFetch/a", "all", "fetchRange", "covering/20/a"]
)
def test_final_windows_and_open_ones(many: Served, read: str) -> None:
    """`final` selects final or open windows in every read of several windows."""
    for final in (True, False):
        found = joined(many, f"{ROOT}/{read}?final={str(final).lower()}&limit=1")
        assert found == [e for e in joined(many, f"{ROOT}/{read}") if (e[1] == 10) == final]
        assert found
    assert_problem(many.get(f"{ROOT}/{read}?final=yes"), 400, "invalid-parameter", "true or false")
    refused = many.get("/v1/stores/rows/all?final=true")
    assert_problem(refused, 400, "invalid-parameter", "never final")


@pytest.mark.parametrize("read", ["fetch/a?", "latest/a?", "window/10/a?", "all?", "currentAll?"])
def test_chosen_columns(many: Served, read: str) -> None:
    """`columns` selects aggregates. Key, times and `final` are always included."""
    always = ["key", "window_start_ms", "window_end_ms", "timestamp_ms", "final"]
    for columns, fields in (("", always), ("mean,n", [*always[:3], "n", "mean", *always[3:]])):
        response = many.get(f"{ROOT}/{read}columns={columns}")
        assert response.status == 200, response.body
        assert [*response.json["windows"][0]] == fields
    response = many.get(f"{ROOT}/{read}columns=n,key")
    assert_problem(response, 400, "invalid-parameter", "'key'", "all, last, mean, n")


@pytest.mark.parametrize(
    "other",
    [
        "fetchRange?key_from=b", "fetchRange?key_to=b", "fetchRange?from_ms=1",
        "fetchRange?to_ms=9", "fetchRange?final=true", "fetchRange?columns=n",
        "backwardFetchRange?", "fetchAll?", "all?", "latestAll?",
    ],
)  # fmt: skip
def test_a_cursor_is_bound_to_read_range_and_filters(many: Served, other: str) -> None:
    """A cursor is rejected for another read, range or filter."""
    cursor = many.get(f"{ROOT}/fetchRange?limit=2").json["next_cursor"]
    response = many.get(f"{ROOT}/{other}&cursor={cursor}")
    assert_problem(response, 400, "invalid-cursor", "another request")


def test_the_longest_keys_can_be_read_in_pages(tmp_path: Path) -> None:
    """Keys of up to 8,192 bytes of UTF-8 can be read, and a longer one is rejected."""
    longest = ["é" * 4095 + end for end in ("xx", "xy")]
    with served(tmp_path) as made:
        made.commit(*({"key": key, "start": 10} for key in (*longest, "a")))
        for read in ("latest", "current", "fetch", "window/10"):
            for key in longest:
                assert ids(made.get(f"{ROOT}/{read}/{quote(key)}")) == [(key, 10)]
        assert len(joined(made, f"{ROOT}/all?limit=1")) == 3
        found: list[str] = []
        cursor = ""
        while True:
            page = made.get(f"{ROOT}/keys?limit=1{cursor}").json
            found += page["keys"]
            if page["next_cursor"] is None:
                break
            cursor = f"&cursor={page['next_cursor']}"
        assert sorted(found) == sorted([*longest, "a"])
        response = made.get(f"{ROOT}/latest/{quote(longest[0])}x")
        assert_problem(response, 400, "invalid-key", "8193 bytes", "8192")


def test_current_is_the_window_that_ends_at_the_newest_record(tmp_path: Path) -> None:
    """The current sliding window ends at the newest record. The latest one has this record only."""
    with served(tmp_path) as made:
        # Records at 10, 12, 14 and 18, D = 10: [8,18] contains all records, [15,25] the last one.
        made.commit(
            {"key": "a", "start": 0, "n": 1, "timestamp": 10},
            {"key": "a", "start": 8, "n": 4, "timestamp": 18},
            {"key": "a", "start": 11, "n": 3, "timestamp": 18},
            {"key": "a", "start": 13, "n": 2, "timestamp": 18},
            {"key": "a", "start": 15, "n": 1, "timestamp": 18},
        )
        assert made.get(f"{ROOT}/latest/a").json["windows"][0]["n"] == 1
        (current,) = made.get(f"{ROOT}/current/a").json["windows"]
        assert (current["window_end_ms"], current["n"]) == (18, 4)
        assert_problem(made.get(f"{ROOT}/current/b"), 404, "window-not-found", "'b'")


def test_current_contains_the_newest_record_of_a_key(tmp_path: Path) -> None:
    """The current window contains the newest record, which a closed window does not."""
    with served(tmp_path) as made:
        # D = 10, grace 5: a@4, a@6, b@16, then a@8, for which [0,10] is closed.
        made.commit(
            {"key": "a", "start": 0, "n": 2, "timestamp": 6},
            {"key": "a", "start": 5, "n": 2, "timestamp": 8},
            {"key": "a", "start": 7, "n": 1, "timestamp": 8},
        )
        assert starts(made.get(f"{ROOT}/current/a")) == [5]
        assert starts(made.get(f"{ROOT}/currentAll")) == [5]
        as_of = made.get(f"{ROOT}/current/a?as_of_version=1")
        assert starts(as_of) == [5]


@pytest.mark.parametrize(
    ("window", "rows", "current"),
    [
        (TUMBLING, [(0, 10, 5), (10, 20, 13)], [10]),
        (HOPPING, [(6, 16, 13), (8, 18, 13), (4, 14, 13), (2, 12, 11)], [4]),
        (SESSION, [(0, 100, 100), (50, 60, 60), (70, 100, 100)], [70]),
    ],
)
def test_current_of_other_kinds(
    tmp_path: Path, window: object, rows: Sequence[tuple[int, int, int]], current: list[int]
) -> None:
    """Current is the window, or first hopping window, of the newest record, or the last session."""
    with served(tmp_path, window=window) as made:  # type: ignore[arg-type]
        fields = ("start", "end", "timestamp")
        made.commit(*({"key": "a", **dict(zip(fields, row, strict=True))} for row in rows))
        assert starts(made.get(f"{ROOT}/current/a")) == current
        assert starts(made.get(f"{ROOT}/currentAll")) == current


@pytest.mark.parametrize(
    ("window", "rows", "instant_ms", "covering"),
    [
        (TUMBLING, [(0, 10), (10, 20)], 10, [10]),
        (HOPPING, [(6, 16), (8, 18), (10, 20), (0, 10)], 10, [6, 8, 10]),
        (SESSION, [(0, 9), (5, 10), (10, 12), (11, 12)], 10, [5, 10]),
    ],
)
def test_windows_that_hold_an_instant(
    tmp_path: Path,
    window: object,
    rows: Sequence[tuple[int, int]],
    instant_ms: int,
    covering: list[int],
) -> None:
    """Ends are exclusive for tumbling and hopping windows, and inclusive for sessions."""
    with served(tmp_path, window=window) as made:  # type: ignore[arg-type]
        made.commit(*({"key": "a", "start": start, "end": end} for start, end in rows))
        assert starts(made.get(f"{ROOT}/covering/{instant_ms}/a")) == covering
        for outside in (-1, -(2**63), 2**63 - 1):
            assert starts(made.get(f"{ROOT}/covering/{outside}/a")) == []


def test_a_sliding_window_holds_its_end(many: Served) -> None:
    """A sliding window includes its end: [20,30] and [30,40] contain 30."""
    assert starts(many.get(f"{ROOT}/covering/30/a")) == [20, 30]
    assert starts(many.get(f"{ROOT}/covering/41/a")) == []


def test_sessions_of_a_range_of_keys(tmp_path: Path) -> None:
    """Sessions of a key range are found by overlap, and `fetchSession` equals ``session``."""
    with served(tmp_path, window=SESSION) as made:
        spans = [(0, 5), (0, 20), (30, 40)]
        made.commit(
            *({"key": key, "start": a, "end": b} for key in ("a", "b", "c") for a, b in spans)
        )
        query = "key_from=b&earliest_end_ms=10&latest_start_ms=29&limit=1"
        found = joined(made, f"{ROOT}/findSessionsRange?{query}")
        assert found == [("b", 0), ("c", 0)]
        assert joined(made, f"{ROOT}/backwardFindSessionsRange?{query}") == found[::-1]
        assert len(joined(made, f"{ROOT}/all?limit=2")) == 9
        one = made.get(f"{ROOT}/fetchSession/0/20/a")
        assert one.json == made.get(f"{ROOT}/session/0/20/a").json
        assert_problem(made.get(f"{ROOT}/fetchSession/0/21/a"), 404, "window-not-found")
