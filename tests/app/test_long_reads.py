"""Tests of page limits, and of reads that need several steps."""

import asyncio
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import orjson
import pytest

from oriel.app.contract import Limits
from oriel.app.guards import Turns
from oriel.app.reads import pages, steps
from oriel.storage import errors
from tests.app.api_client import ApiResponse, Served, served, starts
from tests.app.problem_shape import assert_problem
from tests.storage.store_tables import NONE, make_definition

ROOT = "/v1/stores/store"
KEYS = [f"k{i:02}" for i in range(40)]
READS = [
    "all", "backwardAll", "fetchRange?from_ms=20", "backwardFetchAll?to_ms=20", "latestAll",
    "currentAll", "keys", "fetch/k07", "backwardFetch/k07",
]  # fmt: skip


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Return 40 keys with 10 windows each, and a store without windows, for reads only."""
    with served(tmp_path_factory.mktemp("long")) as made:
        made.add(make_definition("rows", window=NONE), *({"key": key} for key in KEYS))
        made.commit(*({"key": key, "start": 10 * i} for key in KEYS for i in range(1, 11)))
        yield made


def items(response: ApiResponse) -> list[Any]:
    """Return the items of a page."""
    assert response.status == 200, response.body
    body = response.json
    return list(body["windows"] if "windows" in body else body["keys"])


def pages_of(read: Callable[[str], ApiResponse]) -> Iterator[ApiResponse]:
    """Yield every page. ``read`` gets the text to append to the query."""
    page = read("")
    yield page
    while page.json["next_cursor"] is not None:
        page = read(f"&cursor={page.json['next_cursor']}")
        yield page


@pytest.mark.parametrize("read", READS)
@pytest.mark.parametrize("step", [1, 7, 100])
def test_a_page_of_many_steps_is_the_page_of_one(
    many: Served, monkeypatch: pytest.MonkeyPatch, read: str, step: int
) -> None:
    """A page that needs many steps has the items and the next page of a page of one step."""
    separator = "&" if "?" in read else "?"
    for limit in (3, 1000):
        whole = many.get(f"{ROOT}/{read}{separator}limit={limit}")
        with monkeypatch.context() as patched:
            patched.setattr(pages, "_FIRST_STEP", step)
            patched.setattr(pages, "_STEP", step)
            stepped = many.get(f"{ROOT}/{read}{separator}limit={limit}")
        assert items(stepped) == items(whole)
        if stepped.json["next_cursor"] is not None:
            cursor = f"{separator}limit={limit}&cursor={stepped.json['next_cursor']}"
            going_on = many.get(f"{ROOT}/{read}{cursor}")
            rest = many.get(f"{ROOT}/{read}{separator}limit=10000")
            assert items(going_on) == items(rest)[len(items(whole)) :][:limit]


def test_other_requests_are_served_between_the_steps(
    many: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Short reads get their responses between the steps of long reads."""
    monkeypatch.setattr(pages, "_FIRST_STEP", 2)
    monkeypatch.setattr(pages, "_STEP", 2)
    ended: list[str] = []

    async def ask(target: str) -> None:
        assert (await many.client.call(f"{ROOT}/{target}")).status == 200
        ended.append(target)

    async def all_at_once() -> None:
        await asyncio.gather(
            *(ask("all?limit=1000") for _ in range(5)), ask("keys"), ask("latest/k01")
        )

    asyncio.run(all_at_once())
    assert ended[0] == "latest/k01"
    assert ended.count("all?limit=1000") == 5


def test_lists_of_keys_begin_in_turns(many: Served) -> None:
    """A read that arrives after 50 lists of keys responds first, and no list is rejected."""
    ended: list[str] = []

    async def list_keys() -> None:
        body = orjson.dumps(KEYS)
        response = await many.client.call(f"{ROOT}/latestOfKeys", method="POST", body=body)
        assert len(items(response)) == len(KEYS)
        ended.append("latestOfKeys")

    async def read() -> None:
        assert (await many.client.call(f"{ROOT}/latest/k01")).status == 200
        ended.append("latest")

    async def all_at_once() -> None:
        await asyncio.gather(*(list_keys() for _ in range(50)), read())

    asyncio.run(all_at_once())
    assert ended.index("latest") < 5
    assert ended.count("latestOfKeys") == 50


def test_lists_of_keys_beyond_the_limit_of_requests_are_refused(
    many: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At most as many lists of keys as the limit of requests can wait for their turn."""
    monkeypatch.setattr(many.service.gate, "limits", Limits(requests=3))

    async def list_keys() -> ApiResponse:
        return await many.client.call(f"{ROOT}/latestOfKeys", method="POST", body=b'["k01"]')

    async def all_at_once() -> list[ApiResponse]:
        return await asyncio.gather(*(list_keys() for _ in range(5)))

    responses = asyncio.run(all_at_once())
    assert sorted(response.status for response in responses) == [200, 200, 200, 503, 503]
    assert_problem(responses[-1], 503, "overloaded", "--limit-requests")


@pytest.mark.parametrize(("first", "later"), [(20, 40), (3, 0), (0, 3)])
def test_work_begins_while_other_work_continues(first: int, later: int) -> None:
    """Every fourth step starts new work if both kinds wait, so neither starves."""
    order: list[str] = []

    async def run() -> None:
        turns = Turns(1)

        async def begin() -> None:
            await turns.begin()
            order.append("first")

        async def proceed() -> None:
            await turns.run(lambda: None)
            order.append("later")

        await asyncio.gather(*(begin() for _ in range(first)), *(proceed() for _ in range(later)))

    asyncio.run(run())
    assert order.count("first") == first
    assert order.count("later") == later
    if first and later:
        assert order[:8] == ["later", "later", "later", "first"] * 2


def test_a_page_ends_where_the_store_moves_on(
    store: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page ends when a new version is published, and the next page has that version."""
    store.commit(*({"key": key, "start": 10} for key in KEYS))
    monkeypatch.setattr(pages, "_FIRST_STEP", 2)
    monkeypatch.setattr(pages, "_STEP", 2)
    steps = store.service.gate.steps
    run, turns = steps.run, list[Callable[[], Any]]()

    async def commit_in_between(step: Callable[[], Any]) -> Any:
        turns.append(step)
        if len(turns) == 3:
            store.commit({"key": "new", "start": 99})
        return await run(step)

    view = store.service.catalog.view("store")
    with monkeypatch.context() as patch:
        patch.setattr(steps, "run", commit_in_between)
        first = store.get(f"{ROOT}/all?limit=1000").json
    # The commit removed it from the catalog, and a process can open an index only once.
    view.close()
    assert (len(first["windows"]), len(turns)) == (6, 3)
    rest = store.get(f"{ROOT}/all?limit=1000&cursor={first['next_cursor']}").json
    assert len(rest["windows"]) == len(KEYS) - 6 + 1
    assert rest["position"]["version"] == first["position"]["version"] + 1


@pytest.mark.parametrize("read", READS)
def test_a_page_has_bounded_bytes(many: Served, monkeypatch: pytest.MonkeyPatch, read: str) -> None:
    """A page ends with the item that fills it, and its cursor continues after this item."""
    separator = "&" if "?" in read else "?"
    everything = items(many.get(f"{ROOT}/{read}{separator}limit=1000"))
    monkeypatch.setattr(pages, "PAGE_BYTES_MAX", 350)
    found: list[Any] = []
    for page in pages_of(lambda cursor: many.get(f"{ROOT}/{read}{separator}limit=1000{cursor}")):
        texts = [orjson.dumps(item) for item in items(page)]
        assert sum(map(len, texts[:-1])) < 350
        found += items(page)
    assert found == everything


@pytest.mark.parametrize(
    ("read", "least_pages"),
    [("fetchRange?from_ms=100", 3), ("all?final=true", 20), ("keys?prefix=k", 2)],
)
def test_a_page_ends_after_so_many_looks(
    many: Served, monkeypatch: pytest.MonkeyPatch, read: str, least_pages: int
) -> None:
    """A page ends after a number of records, possibly without items, and its cursor continues."""
    everything = items(many.get(f"{ROOT}/{read}&limit=1000"))
    monkeypatch.setattr(pages, "SCAN_RECORDS_MAX", 20)
    monkeypatch.setattr(pages, "_FIRST_STEP", 8)
    monkeypatch.setattr(pages, "_STEP", 8)
    found = [*pages_of(lambda cursor: many.get(f"{ROOT}/{read}&limit=1000{cursor}"))]
    assert [item for page in found for item in items(page)] == everything
    assert len(found) >= least_pages


def test_listed_keys_come_in_the_order_of_the_list(many: Served) -> None:
    """The response has the order of the list, and a repeated key is returned repeatedly."""
    listed = ["k07", "none", "k03", "k07"]
    body = orjson.dumps(listed)
    for read in ("latestOfKeys", "currentOfKeys"):
        response = many.post(f"{ROOT}/{read}", body)
        one = read.removesuffix("OfKeys")
        assert response.json["windows"] == [
            many.get(f"{ROOT}/{one}/{key}").json["windows"][0] for key in listed if key != "none"
        ]
        assert response.json["next_cursor"] is None
    rows = many.post("/v1/stores/rows/getOfKeys?columns=n", body).json["rows"]
    assert [row["key"] for row in rows] == ["k07", "k03", "k07"]
    assert [*rows[0]] == ["key", "n", "timestamp_ms"]


def _post(many: Served, target: str, cursor: str) -> ApiResponse:
    response: ApiResponse = many.post(target + cursor, b'["k07","none","k03"]')
    return response


@pytest.mark.parametrize("limit", [1, 4, 1000])
@pytest.mark.parametrize("step", [1, 3, 256])
def test_windows_of_listed_keys(
    many: Served, monkeypatch: pytest.MonkeyPatch, limit: int, step: int
) -> None:
    """Windows of listed keys are returned key by key, page by page, in both directions."""
    monkeypatch.setattr(pages, "_FIRST_STEP", step)
    monkeypatch.setattr(pages, "_STEP", step)
    for read, ordered in (("fetchOfKeys", [20, 30, 40]), ("backwardFetchOfKeys", [40, 30, 20])):
        target = f"{ROOT}/{read}?from_ms=20&to_ms=40&limit={limit}"
        responses = pages_of(partial(_post, many, target))
        found = [start for page in responses for start in starts(page)]
        assert found == ordered * 2


def test_a_list_of_keys_is_checked(many: Served) -> None:
    """An invalid list of keys or one above a limit is rejected with its problem."""
    for body in (b"", b"{}", b'"a"', b"[1.5]", b'["a"', b'["\xff"]', b"[null]", b"[true]", b"[{}]"):
        response = many.post(f"{ROOT}/latestOfKeys", body)
        assert_problem(response, 400, "invalid-body", "JSON list of keys")
    response = many.post(f"{ROOT}/latestOfKeys", orjson.dumps(["a"] * 1001))
    assert_problem(response, 400, "invalid-body", "1001", "1000")
    response = many.post(f"{ROOT}/latestOfKeys", orjson.dumps(["a" * 8193]))
    assert_problem(response, 400, "invalid-body", "8192")
    assert_problem(many.post("/v1/stores/no/latestOfKeys", b"[]"), 404, "unknown-store")
    wrong = many.post("/v1/stores/rows/latestOfKeys", b"[]")
    assert_problem(wrong, 400, "wrong-store-kind", "getOfKeys")
    cursor = many.post(f"{ROOT}/fetchOfKeys?limit=1", b'["k07"]').json["next_cursor"]
    other = many.post(f"{ROOT}/fetchOfKeys?limit=1&cursor={cursor}", b'["k08"]')
    assert_problem(other, 400, "invalid-cursor", "another request")


def test_an_error_of_a_later_step_is_the_response(
    many: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the index is damaged during a long read, the response is 503, `index-damaged`."""
    monkeypatch.setattr(pages, "_FIRST_STEP", 2)
    monkeypatch.setattr(steps, "_read_step", _fail_as_damaged)
    assert_problem(many.get(f"{ROOT}/all?limit=1000"), 503, "index-damaged")


def _fail_as_damaged(*_: object) -> None:
    message = "a page is damaged"
    raise errors.IndexDamaged(message)
