"""Tests of content codings: gzip and zstd by ``Accept-Encoding``."""

import asyncio
import http.client
import zlib
from collections.abc import Iterator
from pathlib import Path
from threading import Event
from typing import Any

import orjson
import pyarrow as pa
import pytest

from oriel.app.contract import MediaType
from oriel.app.formats import compression
from tests.app.api_client import ApiResponse, Served, served
from tests.app.problem_shape import assert_problem
from tests.app.serving import Serving
from tests.storage.store_tables import NONE, StoreTable, make_definition
from tests.storage.waiting import wait_in_loop

ROOT = "/v1/stores/store"
#: A response of 100 windows has some 12 KB, and a response of 2,000 windows some 250 KB.
_FEW, _MANY = f"{ROOT}/fetch/a?limit=100", f"{ROOT}/fetch/a?limit=2000"
_WINDOWS = 2_000


@pytest.fixture(scope="module")
def long(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Return a store with long responses, for reads only."""
    with served(tmp_path_factory.mktemp("long")) as made:
        made.add(
            make_definition("rows", window=NONE), *({"key": f"a long key {i}"} for i in range(200))
        )
        texts = [{"key": "b", "start": 10, "last": "x" * 5_000}]
        made.commit(*({"key": "a", "start": 10 * i, "n": i} for i in range(_WINDOWS)), *texts)
        yield made


def decoded(response: ApiResponse) -> bytes:
    """Return the body without its coding."""
    match response.headers.get("content-encoding"):
        case "gzip":
            return zlib.decompress(response.body, wbits=31)
        case "zstd":
            with pa.CompressedInputStream(pa.BufferReader(response.body), "zstd") as stream:
                content: bytes = stream.read()
                return content
        case other:
            assert other is None
            return response.body


def _accepting(store: Served, codings: str, target: str, *others: tuple[str, str]) -> ApiResponse:
    response: ApiResponse = store.get(target, [("Accept-Encoding", codings), *others])
    return response


@pytest.mark.parametrize(
    ("accepted", "coding"),
    [
        ("gzip", "gzip"), ("zstd", "zstd"), ("gzip, deflate, br, zstd", "zstd"),
        ("GZIP ;Q=1.0", "gzip"), ("x-gzip", "gzip"), ("zstd;q=0.5, gzip;q=0.8", "gzip"),
        ("zstd;q=0, gzip", "gzip"), ("zstd;q=0.001", "zstd"), ("zstd;q=0.0001, gzip", "gzip"),
        ("*", "gzip"), ("*;q=0.5", "gzip"), ("zstd, *;q=0.5", "zstd"), ("zstd;q=0, *", "gzip"),
        ("gzip;q=0, *", "zstd"), ("gzip;q=0.2, *;q=0.8", "zstd"), ("gzip, identity", "gzip"),
        ("identity;q=0, *", "gzip"), ("identity;q=0, zstd", "zstd"), ("*;q=0, gzip", "gzip"),
        ("", None), ("identity", None), ("deflate, br", None), ("gzip;q=0", None), (",, ,", None),
        ("gzip;q=0.5, identity", None), ("identity, *", None), ("*;q=0, identity;q=0.1", None),
        ("gzip;q=2", None), ("gzip;q=x", None), ("ünknown", None),
    ],
)  # fmt: skip
def test_q_values_select_the_coding(long: Served, accepted: str, coding: str | None) -> None:
    """The greatest q-value wins, then the named coding, then zstd (RFC 9110, 12.5.3)."""
    response = _accepting(long, accepted.encode().decode("latin-1"), _FEW)
    assert response.status == 200
    assert response.headers.get("content-encoding") == coding
    assert decoded(response) == long.get(_FEW).body


def test_several_lines_are_one_list(long: Served) -> None:
    """Two header lines have the effect of one line with both values (RFC 9110, 5.3)."""
    fields = [("Accept-Encoding", "gzip;q=0"), ("Accept-Encoding", "zstd")]
    assert long.get(_FEW, fields).headers["content-encoding"] == "zstd"


@pytest.mark.parametrize("accepted", ["identity;q=0", "*;q=0", "identity;q=0, br", "a," * 600])
@pytest.mark.parametrize("target", [_FEW, f"{ROOT}/latest/a", "/v1/stores", f"{ROOT}/watch"])
def test_nothing_acceptable_is_406(long: Served, accepted: str, target: str) -> None:
    """If a client accepts neither a coding nor a plain body, the error lists the codings."""
    response = _accepting(long, accepted, target)
    assert_problem(response, 406, "not-acceptable", "Accept-Encoding", "gzip, zstd, identity")


@pytest.mark.parametrize("coding", ["gzip", "zstd"])
@pytest.mark.parametrize("media", MediaType)
@pytest.mark.parametrize(
    "target",
    [
        _FEW,
        _MANY,
        f"{ROOT}/all?limit=1500",
        "/v1/stores/rows/all",
        "/v1/stores/rows/keys?limit=200",
    ],
)
def test_each_format_has_each_coding(
    long: Served, coding: str, media: MediaType, target: str
) -> None:
    """A coding changes the bytes, their number and one header field, and nothing else."""
    accept = ("Accept", media.value)
    plain, coded = long.get(target, [accept]), _accepting(long, coding, target, accept)
    assert coded.headers["content-encoding"] == coding
    assert int(coded.headers["content-length"]) == len(coded.body) < len(plain.body) / 2
    assert int(plain.headers["content-length"]) == len(plain.body)
    assert decoded(coded) == plain.body
    changing = ("content-encoding", "content-length", "oriel-lag")
    own, others = (
        {name: value for name, value in each.headers.items() if name not in changing}
        for each in (coded, plain)
    )
    assert own == others
    assert own["vary"] == "Accept, Accept-Encoding"


@pytest.mark.parametrize("target", [_FEW, "/", "/page/main.js"])
@pytest.mark.parametrize("coding", ["gzip", "zstd"])
def test_a_tag_is_valid_for_each_coding(long: Served, coding: str, target: str) -> None:
    """The tag is weak, so the tag of a compressed body results in 304 for a plain one."""
    coded = _accepting(long, coding, target)
    tag = coded.headers["etag"]
    assert coded.headers["content-encoding"] == coding
    assert tag.startswith('W/"')
    assert tag == long.get(target).headers["etag"]
    for accepted in ("", coding):
        again = _accepting(long, accepted, target, ("If-None-Match", tag))
        assert (again.status, again.body) == (304, b"")
        assert again.headers["vary"].endswith("Accept-Encoding")
        assert "content-encoding" not in again.headers


@pytest.mark.parametrize(
    "target", [f"{ROOT}/latest/a", f"{ROOT}/fetch/a?limit=2", "/healthz", f"{ROOT}/latest/b"]
)
def test_short_responses_and_point_reads_are_plain(long: Served, target: str) -> None:
    """Bodies below 1 KiB and reads of one window are plain, except if the client rejects that."""
    plain = _accepting(long, "gzip, zstd", target)
    assert "content-encoding" not in plain.headers
    coded = _accepting(long, "gzip, identity;q=0", target)
    assert coded.headers["content-encoding"] == "gzip"
    assert orjson.loads(decoded(coded)) == orjson.loads(plain.body)


def test_a_body_of_1_kib_is_compressed(store: Served) -> None:
    """The limit is 1,024 bytes."""
    store.commit({"key": "a", "start": 10, "last": ""})
    target = f"{ROOT}/fetch/a"
    missing = 1_024 - len(store.get(target).body)
    for more, coding in ((-1, None), (0, "gzip")):
        store.commit({"key": "a", "start": 10, "last": "x" * (missing + more)})
        assert len(store.get(target).body) == 1_024 + more
        assert _accepting(store, "gzip", target).headers.get("content-encoding") == coding


def test_other_responses_are_compressed(long: Served) -> None:
    """The document, the page and reads of listed keys have codings. Errors do not have them."""
    for target in ("/openapi.json", "/page/vendor/uplot.js", "/metrics"):
        coded = _accepting(long, "gzip", target)
        assert coded.headers["content-encoding"] == "gzip", target
        assert coded.headers["vary"] == "Accept-Encoding"
        if target != "/metrics":
            assert decoded(coded) == long.get(target).body
    keys = orjson.dumps([f"a long key {i}" for i in range(100)])
    plain = long.post("/v1/stores/rows/getOfKeys", keys)
    listed = long.post("/v1/stores/rows/getOfKeys", keys, [("Accept-Encoding", "zstd")])
    assert listed.headers["content-encoding"] == "zstd"
    assert decoded(listed) == plain.body
    error = _accepting(long, "gzip", f"/v1/stores/{'x' * 2_000}")
    assert_problem(error, 404, "unknown-store", "x")
    assert "content-encoding" not in error.headers


def test_events_are_sent_at_once(long: Served) -> None:
    """An event stream is never compressed, because a codec would delay its events."""
    response = _accepting(long, "gzip, zstd, identity;q=0.1", f"{ROOT}/watch?for_ms=1")
    assert response.headers["content-type"] == "text/event-stream"
    assert "content-encoding" not in response.headers
    assert response.body.startswith(b"event: position")


def test_other_requests_are_served_meanwhile(long: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread compresses a long body, one at a time, while the worker serves other requests."""
    encode = compression._encode
    may_end, running, most = Event(), 0, 0

    def encode_slowly(*arguments: Any) -> bytes:
        nonlocal running, most
        running += 1
        most = max(most, running)
        may_end.wait()
        running -= 1
        return encode(*arguments)

    monkeypatch.setattr(compression, "_encode", encode_slowly)

    async def read() -> None:
        fields = [("Accept-Encoding", "gzip")]
        reads = [asyncio.ensure_future(long.client.call(_MANY, fields)) for _ in range(3)]
        try:
            await wait_in_loop(lambda: running, "the compression")
            newest = await long.client.call(f"{ROOT}/latest/a", fields)
            assert newest.status == 200
            assert [each for each in reads if each.done()] == []
        finally:
            may_end.set()
        plain = await long.client.call(_MANY)
        for response in await asyncio.gather(*reads):
            assert decoded(response) == plain.body

    asyncio.run(read())
    assert most == 1


@pytest.mark.slow
def test_a_real_service_compresses(tmp_path: Path) -> None:
    """Over a socket, the length of a coded body is right for GET and HEAD, in several pieces."""
    table = StoreTable(tmp_path, make_definition())
    table.commit([{"key": "a", "start": start, "n": start * 7**12} for start in range(10_000)])
    serving = Serving(tmp_path)
    try:
        serving.wait_for(1)
        target = f"{ROOT}/fetch/a?limit=10000"
        plain = serving.get(target).body
        connection = http.client.HTTPConnection("127.0.0.1", serving.port)
        for coding in ("gzip", "zstd"):
            lengths = []
            for method in ("GET", "HEAD"):
                connection.request(method, target, headers={"Accept-Encoding": coding})
                response = connection.getresponse()
                body = response.read()
                headers = {name.lower(): value for name, value in response.getheaders()}
                assert headers["content-encoding"] == coding
                lengths.append(headers["content-length"])
                if method == "GET":
                    assert len(body) > 65_536
                    assert decoded(ApiResponse(200, headers, body)) == plain
            assert lengths[0] == lengths[1]
        connection.close()
    finally:
        assert serving.end() == 0
