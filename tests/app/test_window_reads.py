"""Tests of hot reads over HTTP: fetch, backwardFetch, latest, window."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from oriel.app.contract import OPERATIONS
from oriel.app.reads import route
from oriel.app.reads.pages import bind
from oriel.app.reads.snapshot_reads import HOT_READS
from oriel.storage import DataLayout
from oriel.storage.index import IndexDirectory
from tests.app.api_client import Served, served, starts
from tests.app.problem_shape import assert_problem
from tests.storage.store_tables import window_fields

ROOT = "/v1/stores/store"
ODD_KEYS = (
    "", "/", "a/b", "a//b", "/a/", "..", "../..", ".", "a b", "a+b", "a%2Fb", "%", "?", "#",
    "a?b=c",
    "é", "日本", "😀", "\x00", "a\x00b", "\n", '"', "\\", "é" * 400, "fetch/x", "\u202e", "\ufeff",
)  # fmt: skip


def test_a_response_has_store_position_windows_and_cursor(filled: Served) -> None:
    """The response has store, position, windows and cursor, and windows have ordered fields."""
    response = filled.get(f"{ROOT}/fetch/a?from_ms=20&to_ms=20")
    assert response.json == {
        "store": "store",
        "position": {
            "version": 1,
            "offsets": {"events": {"0": 100}},
            "history": response.headers["oriel-history"],
        },
        "windows": [window_fields({"key": "a", "start": 20, "n": 20}, filled.definition)],
        "next_cursor": None,
    }
    assert list(response.json["windows"][0]) == [
        "key", "window_start_ms", "window_end_ms", "n", "mean", "last", "all", "timestamp_ms",
        "final",
    ]  # fmt: skip
    assert response.headers["content-type"] == "application/json"
    assert int(response.headers["content-length"]) == len(response.body)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", [10, 20, 30, 40, 50]),
        ("?from_ms=20&to_ms=40", [20, 30, 40]),
        ("?from_ms=21", [30, 40, 50]),
        ("?to_ms=19", [10]),
        ("?from_ms=-9223372036854775808&to_ms=10", [10]),
        ("?to_ms=-1", []),
        ("?from_ms=40&to_ms=20", []),
        ("?to_ms=9223372036854775807", [10, 20, 30, 40, 50]),
        ("?from_ms=9223372036854775807", []),
        ("?&&", [10, 20, 30, 40, 50]),
    ],
)
def test_bounds_are_inclusive_and_optional(filled: Served, query: str, expected: list[int]) -> None:
    """Both directions accept the same bounds, and backwardFetch is newest first."""
    assert starts(filled.get(f"{ROOT}/fetch/a{query}")) == expected
    assert starts(filled.get(f"{ROOT}/backwardFetch/a{query}")) == expected[::-1]


@pytest.mark.parametrize(
    ("operation", "expected"),
    [("fetch", [10, 20, 30, 40, 50]), ("backwardFetch", [50, 40, 30, 20, 10])],
)
@pytest.mark.parametrize("limit", [1, 2, 4, 5])
def test_pages_join_to_the_whole_range(
    filled: Served, operation: str, expected: list[int], limit: int
) -> None:
    """The pages together have each window once, and the last page has no cursor."""
    all_starts: list[int] = []
    cursor = ""
    for _ in expected:
        response = filled.get(f"{ROOT}/{operation}/a?limit={limit}{cursor}")
        all_starts += starts(response)
        if response.json["next_cursor"] is None:
            break
        cursor = f"&cursor={response.json['next_cursor']}"
    assert response.json["next_cursor"] is None
    assert all_starts == expected


def test_a_page_continues_with_the_newer_version(changing: Served) -> None:
    """The next page can have a newer version, which its position shows."""
    first = changing.get(f"{ROOT}/fetch/a?limit=2")
    changing.commit({"key": "a", "start": 15}, {"key": "a", "start": 35})
    second = changing.get(f"{ROOT}/fetch/a?limit=9&cursor={first.json['next_cursor']}")
    assert starts(second) == [30, 35, 40, 50]
    assert second.json["position"]["version"] == 2


@pytest.mark.parametrize(
    "other",
    [
        "fetch/b?limit=2", "backwardFetch/a?limit=2", "fetch/a?from_ms=1&limit=2",
        "fetch/a?to_ms=49&limit=2",
    ],
)  # fmt: skip
def test_a_cursor_of_another_request_is_refused(filled: Served, other: str) -> None:
    """A cursor is rejected for another key, direction or bound."""
    cursor = filled.get(f"{ROOT}/fetch/a?limit=2").json["next_cursor"]
    response = filled.get(f"{ROOT}/{other}&cursor={cursor}")
    assert_problem(response, 400, "invalid-cursor", "another request")


@pytest.mark.parametrize(
    "cursor", ["", "x", "AAAA", "%ff%ff", "é", "A" * 66, "_" * 50, "=", "a%00b"]
)
def test_a_cursor_that_nobody_gave_out_is_refused(filled: Served, cursor: str) -> None:
    """An invalid cursor is rejected and never returns a wrong page."""
    response = filled.get(f"{ROOT}/fetch/a?cursor={cursor}")
    assert response.json["code"] in ("invalid-cursor", "invalid-parameter")
    assert_problem(response, 400, response.json["code"])


def test_a_cursor_does_not_outlive_its_table(tmp_path: Path) -> None:
    """A cursor of a re-created store is rejected."""
    with served(tmp_path / "one") as one, served(tmp_path / "two") as two:
        for made in (one, two):
            made.commit({"key": "a", "start": 1}, {"key": "a", "start": 2})
        cursor = one.get(f"{ROOT}/fetch/a?limit=1").json["next_cursor"]
        response = two.get(f"{ROOT}/fetch/a?limit=1&cursor={cursor}")
        assert_problem(response, 400, "invalid-cursor", "re-created")


def test_latest_and_window_give_one_window_in_the_same_envelope(filled: Served) -> None:
    """`latest` and `window` have the format of a page with one window."""
    latest = filled.get(f"{ROOT}/latest/a").json
    assert latest == filled.get(f"{ROOT}/window/50/a").json
    assert latest == filled.get(f"{ROOT}/fetch/a?from_ms=50").json


@pytest.mark.parametrize(
    "path", ["latest/b", "latest/", "window/11/a", "window/10/b", "window/-10/a"]
)
def test_no_such_window_is_404(filled: Served, path: str) -> None:
    """A read of one missing window is a 404, and a fetch of an unknown key is empty."""
    assert_problem(filled.get(f"{ROOT}/{path}"), 404, "window-not-found")
    assert starts(filled.get(f"{ROOT}/fetch/b")) == []
    assert starts(filled.get(f"{ROOT}/backwardFetch/b")) == []


def test_any_key_works(store: Served) -> None:
    """Any key can be read, percent-encoded or with plain slashes."""
    store.commit(*({"key": key, "start": i} for i, key in enumerate(ODD_KEYS)))
    for i, key in enumerate(ODD_KEYS):
        for safe in ("", "/"):
            path = quote(key, safe=safe)
            for operation in ("latest", "fetch", "backwardFetch", f"window/{i}"):
                response = store.get(f"{ROOT}/{operation}/{path}")
                assert starts(response) == [i], key
                assert response.json["windows"][0]["key"] == key


@pytest.mark.parametrize("raw", [b"%ff", b"%C3%28", b"%", b"%4", b"%zz", b"\xff", b"a%ED%A0%80"])
def test_keys_that_are_no_utf8_are_refused(filled: Served, raw: bytes) -> None:
    """Invalid escapes and bytes that are not UTF-8, including surrogates, are rejected."""
    for operation in (b"latest", b"fetch", b"window/1"):
        response = filled.get(ROOT.encode() + b"/" + operation + b"/" + raw)
        assert_problem(response, 400, "invalid-key")


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("from_ms=x", ["from_ms", "integer"]),
        ("from_ms=", ["from_ms"]),
        ("from_ms=1.5", ["from_ms"]),
        ("from_ms=9223372036854775808", ["from_ms", "9223372036854775807"]),
        ("from_ms=%D9%A1", ["from_ms"]),
        ("limit=0", ["limit", "1 to 10000"]),
        ("limit=10001", ["limit"]),
        ("limit=1&limit=2", ["limit", "twice"]),
        ("min_version=-1", ["min_version"]),
        ("min_offset=events:0", ["TOPIC:PARTITION:OFFSET"]),
        ("wait_ms=30001", ["wait_ms"]),
        ("from_ms=%ff", ["UTF-8"]),
    ],
)
def test_values_out_of_range_are_refused(filled: Served, query: str, words: list[str]) -> None:
    """The error for an invalid value has the parameter's name and its valid values."""
    assert_problem(filled.get(f"{ROOT}/fetch/a?{query}"), 400, "invalid-parameter", *words)


@pytest.mark.parametrize("query", ["from=1", "FROM_MS=1", "x", "=1", "from_ms%20=1"])
def test_unknown_parameters_are_refused(filled: Served, query: str) -> None:
    """The error for an unknown parameter has the valid names."""
    response = filled.get(f"{ROOT}/fetch/a?{query}")
    assert_problem(response, 400, "unknown-parameter", "from_ms", "cursor")
    response = filled.get(f"{ROOT}/latest/a?limit=1")
    assert_problem(response, 400, "unknown-parameter", "min_version")


def test_a_window_start_must_be_a_number(filled: Served) -> None:
    """The start of a window must be a time, with a key after it."""
    response = filled.get(f"{ROOT}/window/now/a")
    assert_problem(response, 400, "invalid-parameter", "window_start_ms")
    assert_problem(filled.get(f"{ROOT}/window/10"), 404, "unknown-route")


@pytest.mark.parametrize("name", ["nope", "%2e%2e", "_dead_letters", "a%2Fb", "", "x" * 300])
def test_an_unknown_store_is_404_and_the_known_ones_are_named(filled: Served, name: str) -> None:
    """An unknown or invalid store name is a 404 that names the existing stores."""
    assert_problem(
        filled.get(f"/v1/stores/{name}/latest/a"), 404, "unknown-store", "stores are: store"
    )


def test_a_store_without_an_index_is_not_ready(tmp_path: Path) -> None:
    """A store without an index is a 503, which the client can retry."""
    with served(tmp_path) as made:
        for path in ("fetch/a", "backwardFetch/a", "latest/a", "window/1/a"):
            assert_problem(
                made.get(f"{ROOT}/{path}"), 503, "store-not-ready", "Send the request again"
            )


def test_a_damaged_index_is_said_to_be_rebuilt(changing: Served) -> None:
    """A damaged index is a 503 that announces the rebuild."""
    changing.service.catalog.close()
    generation = IndexDirectory(DataLayout(changing.data).index("store")).current()
    assert generation is not None
    with (generation / "data.mdb").open("r+b") as file:
        file.truncate(8192)
    assert_problem(changing.get(f"{ROOT}/latest/a"), 503, "index-damaged", "rebuilds")


def test_other_methods_are_refused(filled: Served) -> None:
    """Stores are read-only: other methods are rejected, and HEAD is accepted."""
    for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS"):
        assert_problem(filled.get(f"{ROOT}/fetch/a", method=method), 405, "method-not-allowed")
    assert filled.get(f"{ROOT}/fetch/a", method="HEAD").status == 200


def test_an_unexpected_error_is_a_500_without_a_trace(
    changing: Served, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """An unexpected error is a 500, and only the log has its traceback."""

    def fail(_: object) -> None:
        message = "secret"
        raise RuntimeError(message)

    monkeypatch.setattr(changing.service.catalog, "view", fail)
    response = changing.get(f"{ROOT}/latest/a")
    assert_problem(response, 500, "internal-error")
    assert b"secret" not in response.body
    assert "secret" in caplog.text


def test_retention_hides_windows_in_every_read(tmp_path: Path) -> None:
    """Each read hides the windows that start before stream time - retention + 1."""
    with served(tmp_path, retention_ms=20) as made:
        made.commit(*({"key": "a", "start": start} for start in (10, 20, 31)))
        made.commit({"key": "b", "start": 39})
        assert starts(made.get(f"{ROOT}/fetch/a")) == [20, 31]
        assert starts(made.get(f"{ROOT}/backwardFetch/a")) == [31, 20]
        response = made.get(f"{ROOT}/window/10/a")
        assert_problem(response, 404, "window-not-found", "earliest visible start is 20")
        assert starts(made.get(f"{ROOT}/window/20/a")) == [20]


def test_odd_values_are_json(store: Served) -> None:
    """NaN and infinities are null, 64-bit integers keep all digits, and strings are escaped."""
    odd: Sequence[dict[str, Any]] = [
        {"key": "nan", "start": 1, "mean": float("nan"), "all": [float("inf"), None, 2.0]},
        {"key": "big", "start": 1, "n": 2**63 - 1},
        {"key": "null", "start": 1, "n": None, "mean": None, "last": None, "all": None},
        {"key": "text", "start": 1, "last": 'q"\\\n\x00é😀'},
    ]
    store.commit(*odd)
    responses = {row["key"]: store.get(f"{ROOT}/latest/{row['key']}") for row in odd}
    windows = {key: response.json["windows"][0] for key, response in responses.items()}
    assert windows["nan"]["mean"] is None
    assert windows["nan"]["all"] == [None, None, 2.0]
    assert windows["big"]["n"] == 2**63 - 1
    assert [windows["null"][name] for name in ("n", "mean", "last", "all")] == [None] * 4
    assert windows["text"]["last"] == 'q"\\\n\x00é😀'


@pytest.mark.parametrize(
    "path",
    [b"/v1/stores", b"/v1/stores/s", b"/v1/stores/s/keys", b"/v1/stores/s/latest", b"/",
     b"/v2/stores/s/latest/a", b"/v1/store/s/latest/a", b"/v1/stores/s/Latest/a"],
)  # fmt: skip
def test_other_paths_are_not_hot_reads(path: bytes) -> None:
    """FastAPI handles all paths that are not hot reads."""
    assert route(path) is None


def test_a_read_of_a_whole_store_has_no_path_after_its_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A read without path parameters only matches a path that ends with its name."""
    record = replace(OPERATIONS["fetch"], name="all", path="/v1/stores/{store}/all")
    read = bind(record, HOT_READS[b"fetch"].function)
    monkeypatch.setitem(HOT_READS, b"all", read)
    assert route(b"/v1/stores/s/all") == (read, b"s", b"")
    assert route(b"/v1/stores/s/all/") is None
    assert route(b"/v1/stores/s/all/a") is None


def test_a_removed_store_is_unknown(changing: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store is unknown when its table and its index are deleted."""
    assert starts(changing.get(f"{ROOT}/latest/a")) == [50]
    changing.table.path.rename(changing.data / "elsewhere")
    monkeypatch.setattr("oriel.app.reads.catalog._TABLE_SECONDS", 0.0)
    assert starts(changing.get(f"{ROOT}/latest/a")) == [50]
    IndexDirectory(DataLayout(changing.data).index("store")).remove()
    assert_problem(changing.get(f"{ROOT}/latest/a"), 404, "unknown-store")
