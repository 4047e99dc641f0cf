"""Tests of stores with numeric and composite keys over HTTP."""

from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote

import orjson
import pytest

from oriel.app.server import Service
from oriel.storage import Shard
from oriel.testing.typed_key_conformance import ORDERED_KEYS, UNFIT_KEYS, UNFIT_PREFIXES
from tests.app.api_client import ApiClient, ApiResponse, Served
from tests.app.problem_shape import assert_problem
from tests.storage.store_tables import NONE, SLIDING, make_definition

LONG, COMPOSITE = "long", "[text, long]"
TYPES = {"numbers": LONG, "pairs": COMPOSITE}
#: The part of a read's path between the store and the key.
READS = ("fetch/", "backwardFetch/", "latest/", "current/", "window/0/", "covering/5/")


@pytest.fixture(scope="module")
def typed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Return a store of windows and a store of rows per key type, for reads only."""
    made = Served(tmp_path_factory.mktemp("typed"), make_definition())
    for name, key_type in TYPES.items():
        rows = [{"key": key, "start": 0} for key in ORDERED_KEYS[key_type][::-1]]
        made.add(make_definition(name, window=SLIDING, key_type=key_type), *rows)
        made.add(make_definition(f"{name}-rows", window=NONE, key_type=key_type), *rows)
    yield made
    made.service.catalog.close()


def _keys(response: ApiResponse) -> list[str]:
    assert response.status == 200, response.body
    return [item["key"] for item in response.json.get("windows", response.json.get("rows"))]


def _all_pages(get: Callable[[str], ApiResponse], target: str) -> list[str]:
    """Return the keys of all pages of a request."""
    keys: list[str] = []
    cursor = ""
    while True:
        response = get(f"{target}{'&' if '?' in target else '?'}limit=4{cursor}")
        keys += response.json["keys"] if "/keys" in target else _keys(response)
        if response.json["next_cursor"] is None:
            return keys
        cursor = f"&cursor={response.json['next_cursor']}"


@pytest.mark.slow
@pytest.mark.parametrize("as_of", ["", "as_of_version=1"])
@pytest.mark.parametrize("name", TYPES)
def test_many_keys_come_in_the_order_of_their_type(typed: Served, name: str, as_of: str) -> None:
    """Index and table return keys in the order of their type, and backward reads reversed."""
    expected = [*ORDERED_KEYS[TYPES[name]]]
    for store, forward, backward in (
        (name, "fetchRange", "backwardFetchRange"),
        (name, "all", "backwardAll"),
        (f"{name}-rows", "range", "reverseRange"),
    ):
        root = f"/v1/stores/{store}"
        query = f"?{as_of}" if as_of else ""
        assert _all_pages(typed.get, f"{root}/{forward}{query}") == expected
        assert _all_pages(typed.get, f"{root}/{backward}{query}") == expected[::-1]
        assert _all_pages(typed.get, f"{root}/keys{query}") == expected
    assert _all_pages(typed.get, f"/v1/stores/{name}/latestAll?{as_of}") == expected


@pytest.mark.parametrize("name", TYPES)
def test_a_key_is_read_by_its_string(typed: Served, name: str) -> None:
    """A key is requested by its percent-encoded string, and ranges include both bounds."""
    keys = ORDERED_KEYS[TYPES[name]]
    for key in keys:
        for read in READS:
            assert _keys(typed.get(f"/v1/stores/{name}/{read}{quote(key, safe='')}")) == [key]
        assert _keys(typed.get(f"/v1/stores/{name}-rows/get/{quote(key, safe='')}")) == [key]
    bounds = f"key_from={quote(keys[4])}&key_to={quote(keys[7])}"
    assert _keys(typed.get(f"/v1/stores/{name}/fetchRange?{bounds}")) == [*keys[4:8]]
    assert _keys(typed.get(f"/v1/stores/{name}-rows/range?{bounds}")) == [*keys[4:8]]


@pytest.mark.parametrize("as_of", ["", "&as_of_version=1"])
def test_a_prefix_of_composites_is_of_whole_components(typed: Served, as_of: str) -> None:
    """A prefix of composite keys is their string up to a comma."""
    prefix = f"prefix={quote(chr(91) + chr(34) + 'a' + chr(34) + ',')}{as_of}"
    expected = ['["a",-256]', '["a",2]', '["a",10]']
    assert _keys(typed.get(f"/v1/stores/pairs-rows/prefixScan?{prefix}")) == expected
    assert _keys(typed.get(f"/v1/stores/pairs/currentAll?{prefix}")) == expected
    assert typed.get(f"/v1/stores/pairs/keys?{prefix}").json["keys"] == expected


@pytest.mark.parametrize("as_of", ["", "as_of_version=1"])
@pytest.mark.parametrize("name", TYPES)
def test_what_is_no_key_of_the_store_is_a_clear_problem(
    typed: Served, name: str, as_of: str
) -> None:
    """An invalid key is a problem with a solution in paths, bounds, prefixes and streams."""
    root, key_type = f"/v1/stores/{name}", TYPES[name]
    for key in UNFIT_KEYS[key_type]:
        for read in READS:
            response = typed.get(f"{root}/{read}{quote(key, safe='')}?{as_of}")
            assert_problem(response, 400, "unfit-key", "is not a key of this store")
        for bound in ("key_from", "key_to"):
            response = typed.get(f"{root}/fetchRange?{bound}={quote(key)}&{as_of}")
            assert_problem(response, 400, "unfit-key", "is not a key of this store")
        response = typed.post(f"{root}/latestOfKeys?{as_of}", orjson.dumps([key]))
        assert_problem(response, 400, "unfit-key", "is not a key of this store")
        response = typed.get(f"{root}/watch?for_ms=1&key={quote(key)}")
        assert_problem(response, 400, "unfit-key", "is not a key of this store")
    way_out = "key_from and key_to" if key_type == LONG else "whole components"
    for prefix in UNFIT_PREFIXES[key_type]:
        for read in ("keys", "latestAll"):
            response = typed.get(f"{root}/{read}?prefix={quote(prefix)}&{as_of}")
            assert_problem(response, 400, "unfit-key", way_out)


@pytest.mark.parametrize(
    ("name", "listed", "keys"),
    [
        ("numbers", [10, "9", -1], ["10", "9", "-1"]),
        ("numbers", [7], []),
        ("pairs", [["a", 10], '["a",2]', ["none", 1]], ['["a",10]', '["a",2]']),
    ],
)
def test_a_list_has_keys_as_texts_or_as_values(
    typed: Served, name: str, listed: list[Any], keys: list[str]
) -> None:
    """A list can have keys as strings or as JSON values, and the response keeps its order."""
    body = orjson.dumps(listed)
    for read in ("latestOfKeys", "currentOfKeys", "fetchOfKeys"):
        assert _keys(typed.post(f"/v1/stores/{name}/{read}", body)) == keys
    assert _keys(typed.post(f"/v1/stores/{name}-rows/getOfKeys", body)) == keys
    found = _all_pages(
        lambda target: typed.post(target.replace("limit=4", "limit=1"), body),
        f"/v1/stores/{name}/fetchOfKeys",
    )
    assert found == keys


def test_values_that_are_no_keys_of_the_store_are_refused(typed: Served) -> None:
    """JSON values that are not keys of the store's type are rejected."""
    for store, listed in (
        ("numbers", [["a", 1]]), ("numbers", [2**63]), ("pairs", [7]), ("pairs", [["a"]]),
        ("pairs", [["a", 1.5]]),
    ):  # fmt: skip
        response = typed.post(f"/v1/stores/{store}/latestOfKeys", orjson.dumps(listed))
        assert_problem(response, 400, "unfit-key", "is not a key of this store")


def test_a_store_of_texts_takes_texts_only(filled: Served) -> None:
    """A store with string keys accepts only strings, because a number is not a string."""
    for listed in (b"[1]", b'[["a"]]'):
        response = filled.post("/v1/stores/store/latestOfKeys", listed)
        assert_problem(response, 400, "unfit-key", "Keys are strings")


def test_a_store_says_the_type_of_its_keys(typed: Served) -> None:
    """The description of a store has its key type."""
    for store, key_type in {"store": "text", **TYPES}.items():
        typed.index(store)
        definition = typed.get(f"/v1/stores/{store}").json["definition"]
        assert definition["key_type"] == key_type


def test_changes_and_forms_have_the_texts(typed: Served) -> None:
    """Changes and CSV have the strings of keys in the order of the type."""
    response = typed.get("/v1/stores/numbers/changes?since_version=0&limit=3")
    assert [change["key"] for change in response.json["changes"]] == [*ORDERED_KEYS[LONG][:3]]
    more = typed.get(
        f"/v1/stores/numbers/changes?since_version=0&limit=3&cursor={response.json['next_cursor']}"
    )
    assert [change["key"] for change in more.json["changes"]] == [*ORDERED_KEYS[LONG][3:6]]
    csv = typed.get("/v1/stores/numbers/fetchRange?key_from=9&key_to=10", [("accept", "text/csv")])
    assert [line.split(b",")[0].strip(b'"') for line in csv.body.splitlines()[1:]] == [b"9", b"10"]


def test_a_listed_value_is_with_the_shard_of_its_text(typed: Served) -> None:
    """A listed JSON value belongs to the shard of its string, as in a path."""
    for value, text in ((10, "10"), (["a", 10], '["a",10]')):
        for number in (1, 2):
            shard = Shard(number, 2)
            service = Service(typed.data, shard=shard)
            response = ApiClient(service).post(
                "/v1/stores/numbers/latestOfKeys", orjson.dumps([value])
            )
            service.catalog.close()
            is_own = shard.owner(text) == number
            assert (response.status == 421) == (not is_own), response.body
