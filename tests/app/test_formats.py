"""Tests of response formats: JSON, NDJSON, CSV and Arrow by ``Accept``, times in ms or ISO."""

import csv
import io
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

import orjson
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from oriel.app.contract import MediaType
from oriel.app.formats import items_with_iso_times, keys_body, windows_body
from oriel.storage import AggregateSpec, StoreDefinition
from oriel.storage.delta import arrow_type, store_schema
from oriel.storage.index import row_json
from tests.app.api_client import ApiResponse, Served, served
from tests.app.problem_shape import assert_problem
from tests.storage.store_tables import NONE, SESSION, make_definition, make_record

ROOT = "/v1/stores/store"
VARY = "Accept, Accept-Encoding"
_HOSTILE = 'a"b\n\r\\,;=1+1\x00é😀 '
_WINDOWS = [
    {"key": _HOSTILE, "start": 10, "n": 2**63 - 1, "mean": 0.1, "last": _HOSTILE, "all": [1.5]},
    {"key": _HOSTILE, "start": 20, "n": -(2**63), "mean": float("nan"), "last": "", "all": []},
    {"key": _HOSTILE, "start": 30, "n": None, "mean": None, "last": None, "all": None},
]
_PATH = f"{ROOT}/fetch/a%22b%0A%0D%5C,;=1+1%00%C3%A9%F0%9F%98%80%20"


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Return a store whose key and values need escaping. Tests must not change it."""
    with served(tmp_path_factory.mktemp("hostile")) as made:
        made.add(make_definition("totals", window=NONE), {"key": "a", "n": 7, "timestamp": 99})
        made.commit(*_WINDOWS)
        yield made


def _as(store: Served, media: str, target: str, *headers: tuple[str, str]) -> ApiResponse:
    response: ApiResponse = store.get(target, [("Accept", media), *headers])
    return response


def _arrow(body: bytes) -> Any:
    with pa.ipc.open_stream(body) as stream:
        return stream.read_all()


def test_json_is_the_default_format(hostile: Served) -> None:
    """Without ``Accept``, or if it includes JSON, the body is the same JSON."""
    plain = hostile.get(_PATH)
    for accept in ("*/*", "application/json", "application/*", "", "text/html, */*;q=0.8"):
        response = _as(hostile, accept, _PATH)
        assert (response.status, response.body) == (200, plain.body), accept
        assert response.headers["vary"] == VARY


def test_ndjson_is_the_items_a_line_each(hostile: Served) -> None:
    """NDJSON has one JSON object per line. Version, offsets and cursor are in headers."""
    plain = hostile.get(f"{_PATH}?limit=2")
    response = _as(hostile, "application/x-ndjson", f"{_PATH}?limit=2")
    assert response.headers["content-type"] == "application/x-ndjson"
    assert [orjson.loads(line) for line in response.body.splitlines()] == plain.json["windows"]
    position = plain.json["position"]
    assert int(response.headers["oriel-version"]) == position["version"]
    assert position["offsets"] == {"events": {"0": 100}}
    assert response.headers["oriel-offsets"] == "events:0:100"
    assert response.headers["oriel-items"] == "2"
    cursor = response.headers["oriel-next-cursor"]
    rest = _as(hostile, "application/x-ndjson", f"{_PATH}?limit=2&cursor={cursor}")
    assert orjson.loads(rest.body)["window_start_ms"] == 30
    assert "oriel-next-cursor" not in rest.headers


def test_csv_keeps_every_character_and_digit(hostile: Served) -> None:
    """CSV quotes strings and empty strings, has empty fields for null, and lists as JSON."""
    response = _as(hostile, "text/csv", _PATH)
    assert response.headers["content-type"] == "text/csv; charset=utf-8"
    names, *rows = csv.reader(io.StringIO(response.body.decode(), newline=""), strict=True)
    assert names == list(hostile.get(_PATH).json["windows"][0])
    first, second, third = (dict(zip(names, row, strict=True)) for row in rows)
    assert first["key"] == first["last"] == _HOSTILE
    assert (first["n"], second["n"]) == (str(2**63 - 1), str(-(2**63)))
    assert (first["all"], second["all"], third["all"]) == ("[1.5]", "[]", "")
    assert [row["mean"] for row in (first, second, third)] == ["0.1", "", ""]
    assert b',"",' in response.body
    assert first["final"] == "false"


def test_arrow_has_the_types_of_the_table(hostile: Served) -> None:
    """Arrow has the columns and types of the Delta table, without internal columns."""
    response = _as(hostile, "application/vnd.apache.arrow.stream", _PATH)
    table = _arrow(response.body)
    aggregates = {a.name: arrow_type(a.type) for a in hostile.definition.aggregates}
    assert table.schema == pa.schema(list(store_schema(aggregates))[:-2])
    assert table["n"].to_pylist() == [2**63 - 1, -(2**63), None]
    assert table["mean"].to_pylist() == [0.1, None, None]
    assert table["window_start"].cast(pa.int64()).to_pylist() == [10_000, 20_000, 30_000]


def test_a_response_without_windows_has_the_same_columns(hostile: Served) -> None:
    """A response without windows has the same columns, so that responses can be concatenated."""
    full, empty = (
        _arrow(_as(hostile, "application/vnd.apache.arrow.stream", target).body)
        for target in (_PATH, f"{ROOT}/fetch/nobody")
    )
    assert len(empty) == 0
    assert empty.schema == full.schema


def test_pandas_and_polars_read_arrow_in_one_line(hostile: Served) -> None:
    """Pandas and polars read 64-bit integers, strings and times from Arrow."""
    body = _as(hostile, "application/vnd.apache.arrow.stream", _PATH).body
    with pa.ipc.open_stream(body) as stream:
        frame = stream.read_pandas()
    assert frame["window_start"][1] == pd.Timestamp(20, unit="ms", tz="UTC")
    polars = pl.read_ipc_stream(body)
    assert polars["n"].to_list() == [2**63 - 1, -(2**63), None]
    assert polars["key"].to_list() == [_HOSTILE] * 3


_LISTED = {
    "store": ("latestOfKeys", "currentOfKeys", "fetchOfKeys?limit=2", "backwardFetchOfKeys"),
    "totals": ("getOfKeys",),
}


@pytest.mark.parametrize("wish", ["", "columns=n", "times=iso", "times=iso&columns=n,last"])
@pytest.mark.parametrize(
    ("store", "read"), [(store, read) for store, reads in _LISTED.items() for read in reads]
)
def test_listed_keys_come_in_the_same_forms(
    hostile: Served, store: str, read: str, wish: str
) -> None:
    """Operations on a list of keys have the body and headers of the GET of one key."""
    listed, _, bounds = read.partition("?")
    key, path = (_HOSTILE, _PATH.rpartition("/")[2]) if store == "store" else ("a", "a")
    one = f"/v1/stores/{store}/{listed.removesuffix('OfKeys')}/{path}?{bounds}&{wish}"
    many = f"/v1/stores/{store}/{read}{'&' if bounds else '?'}{wish}"
    body = orjson.dumps(["absent", key])
    for media in MediaType:
        expected = _as(hostile, media, one)
        response = hostile.post(many, body, [("Accept", media)])
        assert response.status == expected.status == 200
        if media is MediaType.JSON:
            # Cursors differ, because a cursor belongs to its request.
            expected_page, page = expected.json, response.json
            assert bool(expected_page.pop("next_cursor")) == bool(page.pop("next_cursor"))
            assert page == expected_page
        else:
            assert response.body == expected.body
        compared = ("content-type", "vary", "oriel-version", "oriel-offsets", "oriel-items")
        assert [response.headers.get(name) for name in compared] == [
            expected.headers.get(name) for name in compared
        ]
        assert ("oriel-next-cursor" in response.headers) == (
            "oriel-next-cursor" in expected.headers
        )
        assert "etag" not in response.headers
    refused = hostile.post(many, body, [("Accept", "image/png")])
    assert_problem(refused, 406, "not-acceptable", "application/json")


@pytest.mark.parametrize("media", list(MediaType))
def test_rows_and_keys_have_all_forms(hostile: Served, media: MediaType) -> None:
    """Rows without windows, lists of keys and empty pages have all formats."""
    for target in ("/v1/stores/totals/get/a", f"{ROOT}/keys", f"{ROOT}/fetch/none"):
        response = _as(hostile, media, target)
        assert response.status == 200, response.body
        assert response.headers["content-type"].startswith(media)
        assert response.headers["vary"] == VARY
        assert response.headers["content-length"] == str(len(response.body))
    keys = _as(hostile, media, f"{ROOT}/keys").body
    match media:
        case MediaType.JSON:
            assert orjson.loads(keys)["keys"] == [_HOSTILE]
        case MediaType.NDJSON:
            assert orjson.loads(keys) == {"key": _HOSTILE}
        case MediaType.CSV:
            assert _csv_rows(keys) == [{"key": _HOSTILE}]
        case MediaType.ARROW:
            assert _arrow(keys).to_pylist() == [{"key": _HOSTILE}]


def _csv_rows(body: bytes) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(body.decode(), newline=""), strict=True))


@pytest.mark.parametrize(
    ("accept", "media"),
    [
        ("text/csv, */*", "text/csv"),
        ("text/csv;q=0.5, application/json;q=0.9", "application/json"),
        ("application/json;q=0, */*", "application/x-ndjson"),
        ("text/*, application/json;q=0.1", "text/csv"),
        ("TEXT/CSV ; header=present ; Q=1.0", "text/csv"),
        ("image/png, application/x-ndjson;q=0.001", "application/x-ndjson"),
        ("text/csv;q=many, application/json", "application/json"),
        (" , ", "application/json"),
    ],
)
def test_the_form_goes_by_q_values(hostile: Served, accept: str, media: str) -> None:
    """The format with the greatest q value is used, exact names first, and q=0 excludes one."""
    response = _as(hostile, accept, f"{_PATH}?limit=1")
    assert response.headers["content-type"].partition(";")[0] == media


@pytest.mark.parametrize(
    "accept",
    ["image/png", "application/json;q=0", "application/problem+json", "*/*;q=0", "x" * 5_000,
     "text/csv;q=many"],
)  # fmt: skip
@pytest.mark.parametrize("target", [_PATH, f"{ROOT}/keys"])
def test_a_form_that_there_is_not_is_refused(hostile: Served, accept: str, target: str) -> None:
    """An unsupported format is a 406 that names the supported ones."""
    response = _as(hostile, accept, target)
    assert_problem(response, 406, "not-acceptable", *MediaType)


def test_several_lines_of_accept_are_one_list(hostile: Served) -> None:
    """Several Accept fields are one list (RFC 9110)."""
    response = _as(hostile, "image/png", _PATH, ("Accept", "text/csv"))
    assert response.headers["content-type"].startswith("text/csv")


def test_each_form_has_a_tag_of_its_own(hostile: Served) -> None:
    """Each format has its own ETag, so a cache never confuses formats."""
    tags = {media: _as(hostile, media, _PATH).headers["etag"] for media in MediaType}
    assert len(set(tags.values())) == len(tags)
    for media, tag in tags.items():
        again = _as(hostile, media, _PATH, ("If-None-Match", tag))
        assert (again.status, again.body, again.headers["vary"]) == (304, b"", VARY)
        other = _as(hostile, media, f"{_PATH}?times=iso", ("If-None-Match", tag))
        assert other.status == 200


def test_times_are_iso_on_request(hostile: Served) -> None:
    """ISO times have other field names, and all other fields are unchanged."""
    plain = hostile.get(f"{_PATH}?limit=1")
    response = hostile.get(f"{_PATH}?limit=1&times=iso")
    (window,) = response.json["windows"]
    assert window["window_start"] == "1970-01-01T00:00:00.010Z"
    assert window["window_end"] == "1970-01-01T00:00:00.020Z"
    renamed = {name.removesuffix("_ms"): value for name, value in plain.json["windows"][0].items()}
    assert list(window) == list(renamed)
    times = {"window_start", "window_end", "timestamp"}
    assert {k: v for k, v in window.items() if k not in times} == {
        k: v for k, v in renamed.items() if k not in times
    }
    line = _as(hostile, "application/x-ndjson", f"{_PATH}?limit=1&times=iso")
    assert orjson.loads(line.body) == window
    (row,) = _csv_rows(_as(hostile, "text/csv", f"{_PATH}?limit=1&times=iso").body)
    assert row["window_start"] == window["window_start"]
    (total,) = hostile.get("/v1/stores/totals/get/a?times=iso").json["rows"]
    assert total == {**total, "n": 7, "timestamp": "1970-01-01T00:00:00.099Z"}
    assert hostile.get(f"{ROOT}/fetch/none?times=iso").json["windows"] == []
    refused = hostile.get(f"{_PATH}?times=unix")
    assert_problem(refused, 400, "invalid-parameter", "times", "ms", "iso")


@pytest.mark.parametrize(
    "text",
    ["20", "1970-01-01T00:00:00.020Z", "1970-01-01T01:00:00.020%2B01:00",
     "1970-01-01t01:00:00.02+01:00", "1969-12-31T23:00:00.020-01:00", "1970-01-01%2000:00:00.020"],
)  # fmt: skip
def test_bounds_may_be_iso_times(hostile: Served, text: str) -> None:
    """Bounds can be ISO times with an offset (its plus can be unencoded) or in UTC without one."""
    query = f"{_PATH}?from_ms={text}&to_ms={text}"
    assert [w["window_start_ms"] for w in hostile.get(query).json["windows"]] == [20]


def test_a_cursor_holds_for_each_spelling_of_a_time(hostile: Served) -> None:
    """A cursor is valid for equal bounds in any format, and a date is its midnight."""
    page = hostile.get(f"{_PATH}?from_ms=1970-01-01&limit=1").json
    rest = hostile.get(f"{_PATH}?from_ms=0&limit=1&cursor={page['next_cursor']}").json
    assert rest["windows"][0]["window_start_ms"] == 20
    path = _PATH.replace("/fetch/", "/window/1970-01-01T00:00:00.030Z/")
    assert hostile.get(path).json["windows"][0]["window_start_ms"] == 30


@pytest.mark.parametrize(
    "text",
    ["1970-02-30", "1970-01-01T00:00:00.0001Z", "1970-01", "now", "1970-01-01T25:00Z",
     "-1970-01-01", "T" * 20_000, "1970-01-01T00:00:00ZZ", "9223372036854775808"],
)  # fmt: skip
def test_what_is_no_time_is_refused(hostile: Served, text: str) -> None:
    """The error for an invalid time has the parameter's name and an example."""
    response = hostile.get(f"{_PATH}?from_ms={text}")
    assert_problem(response, 400, "invalid-parameter", "from_ms", "2013-01-01T10:00:00Z")


def test_a_long_page_is_the_same_in_every_form(tmp_path: Path) -> None:
    """A long page, which a thread converts, is complete in every format."""
    with served(tmp_path) as made:
        made.commit(*({"key": "k", "start": start, "n": start} for start in range(2_000)))
        target = f"{ROOT}/fetch/k?limit=10000"
        table = _arrow(_as(made, "application/vnd.apache.arrow.stream", target).body)
        assert table["n"].to_pylist() == list(range(2_000))
        assert [int(row["n"]) for row in _csv_rows(_as(made, "text/csv", target).body)] == list(
            range(2_000)
        )
        assert len(made.get(f"{target}&times=iso").json["windows"]) == 2_000


def test_offsets_too_long_for_a_header_are_left_out(tmp_path: Path) -> None:
    """Offsets that do not fit into a header are omitted, because clients reject long headers."""
    with served(tmp_path) as made:
        offsets = {"ä": {str(partition): 10**12 for partition in range(200)}}
        made.table.commit([{"key": "k", "start": 1}], make_record(0, offsets=offsets))
        made.index()
        response = _as(made, "text/csv", f"{ROOT}/fetch/k")
        assert "oriel-offsets" not in response.headers
        assert response.headers["oriel-version"] == "1"
        made.table.commit([], make_record(1, offsets={"ä": {"0": 7, "1": 8}, "b": {"0": 9}}))
        made.index()
        response = _as(made, "text/csv", f"{ROOT}/fetch/k")
        assert response.headers["oriel-offsets"] == "b:0:9, %C3%A4:0:7, %C3%A4:1:8"


@given(st.text(max_size=40), st.text(max_size=25))
@example(accept="text/csv;q=0.0001", time="9999-12-31T23:59:59.999-23:59")
@example(accept="*/*;;;q=", time="0001-01-01T00:00:00+23:59")
def test_no_header_and_no_time_is_too_odd(empty_store: Served, accept: str, time: str) -> None:
    """Any header and any time result in a response or a problem document."""
    response = empty_store.get(f"{ROOT}/fetch/k?from_ms={quote(time)}", [("Accept", accept)])
    assert response.status in {200, 400, 406}, response.body


@pytest.mark.parametrize("iso_times", [False, True])
def test_items_with_fewer_fields_have_fewer_columns(iso_times: bool) -> None:
    """If a response has selected columns only, all its formats have only these."""
    item = b'{"key":"k","timestamp_ms":1}'
    definition = make_definition(window=NONE)
    assert _arrow(
        windows_body(MediaType.ARROW, [item], definition, iso_times=iso_times)
    ).column_names == ["key", "timestamp"]
    text = windows_body(MediaType.CSV, [item], definition, iso_times=iso_times)
    time = b'"timestamp"\n"k","1970-01-01T00:00:00.001Z"' if iso_times else b'"timestamp_ms"\n"k",1'
    assert text == b'"key",' + time + b"\n"
    iso = [orjson.loads(one) for one in items_with_iso_times([item], definition)]
    assert iso == [{"key": "k", "timestamp": "1970-01-01T00:00:00.001Z"}]


_TIMES = st.integers(0, 253402300799999)
_DEFINITION = StoreDefinition(
    "store", "topic", "key", SESSION,
    (
        AggregateSpec("long", "", "long"), AggregateSpec("double", "", "double"),
        AggregateSpec('te"xt', "", "string"), AggregateSpec("flag", "", "boolean"),
        AggregateSpec("texts", "", "array<string>"),
        AggregateSpec("nested", "", "array<array<double>>"),
    ),
    4,
)  # fmt: skip
_VALUES = st.fixed_dictionaries({
    "key": st.text(max_size=5), "window_start": _TIMES, "window_end": _TIMES,
    "long": st.none() | st.integers(-(2**63), 2**63 - 1), "double": st.none() | st.floats(),
    'te"xt': st.none() | st.text(max_size=5), "flag": st.none() | st.booleans(),
    "texts": st.none() | st.lists(st.none() | st.text(max_size=3), max_size=3),
    "nested": st.none() | st.lists(st.none() | st.lists(st.none() | st.floats(), max_size=2),
                                   max_size=2),
    "timestamp": _TIMES, "final": st.booleans(), "deleted": st.just(value=False),
    "revision": st.just(1),
})  # fmt: skip


def _items(rows: list[dict[str, Any]]) -> list[bytes]:
    """Return the rows in the format of the index."""
    aggregates = {a.name: arrow_type(a.type) for a in _DEFINITION.aggregates}
    schema = store_schema(aggregates)
    times = ("window_start", "window_end", "timestamp")
    micros = [{**row, **{name: row[name] * 1000 for name in times}} for row in rows]
    plain = pa.schema([
        pa.field(f.name, pa.int64() if pa.types.is_timestamp(f.type) else f.type) for f in schema
    ])  # fmt: skip
    items: list[bytes] = row_json(
        pa.Table.from_pylist(micros, plain).cast(schema), _DEFINITION
    ).to_pylist()
    return items


@given(st.lists(_VALUES, max_size=4))
def test_every_form_says_what_json_says(rows: list[dict[str, Any]]) -> None:
    """Arrow, CSV, NDJSON and ISO times have the values of JSON, read with other libraries."""
    items = _items(rows)
    expected = [orjson.loads(item) for item in items]

    lines = windows_body(MediaType.NDJSON, items, _DEFINITION, iso_times=False)
    assert [orjson.loads(line) for line in lines.split(b"\n")[:-1]] == expected

    table = _arrow(windows_body(MediaType.ARROW, items, _DEFINITION, iso_times=False))
    renamed = {f"{name}_ms": name for name in ("window_start", "window_end", "timestamp")}
    for name in expected[0] if expected else ():
        column = table[renamed.get(name, name)]
        if name in renamed:
            column = column.cast(pa.timestamp("ms", "UTC")).cast(pa.int64())
        assert column.to_pylist() == [item[name] for item in expected]

    body = windows_body(MediaType.CSV, items, _DEFINITION, iso_times=False)
    _names, *read = csv.reader(io.StringIO(body.decode(), newline=""), strict=True)
    for item, fields in zip(expected, read, strict=True):
        for value, field in zip(item.values(), fields, strict=True):
            assert _from_csv(field, value) == value

    for item, written in zip(expected, items_with_iso_times(items, _DEFINITION), strict=True):
        iso = orjson.loads(written)
        for field, name in renamed.items():
            since = datetime.fromisoformat(iso.pop(name)) - datetime(1970, 1, 1, tzinfo=UTC)
            assert since == timedelta(milliseconds=item.pop(field))
        assert iso == item


def _from_csv(field: str, value: object) -> object:
    """Parse a field with the type of the expected value."""
    match value:
        case None:
            return field or None
        case bool():
            return {"true": True, "false": False}[field]
        case list():
            return orjson.loads(field)
        case float():
            # CSV has whole doubles without a decimal point.
            return float(field)
        case int():
            return int(field)
        case _:
            return field


@given(st.lists(st.text(max_size=8)))
def test_keys_come_back_from_every_form(keys: list[str]) -> None:
    """Keys with any characters are read back from every format."""
    lines = keys_body(MediaType.NDJSON, keys).split(b"\n")[:-1]
    assert [orjson.loads(line)["key"] for line in lines] == keys
    assert _arrow(keys_body(MediaType.ARROW, keys))["key"].to_pylist() == keys
    assert [row["key"] for row in _csv_rows(keys_body(MediaType.CSV, keys))] == keys
