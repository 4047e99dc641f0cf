"""Tests of the clients and `oriel get` with numeric and composite keys."""

import asyncio
from collections.abc import Iterator

import pytest

from oriel.client import AsyncClient, Client, InvalidRequest, Key
from oriel.client.protocol import key_text
from oriel.client.terminal import main
from oriel.testing.typed_key_conformance import ORDERED_KEYS
from tests.app.serving import Serving
from tests.storage.store_tables import NONE, StoreTable, make_definition
from tests.storage.waiting import wait_for

LONG, COMPOSITE = "long", "[text, long]"


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Yield the URL of a service with windows by number, and rows by a string and a number."""
    data = tmp_path_factory.mktemp("typed")
    numbers = StoreTable(data, make_definition("numbers", key_type=LONG))
    numbers.commit([{"key": key, "start": 10} for key in ORDERED_KEYS[LONG]])
    pairs = StoreTable(data, make_definition("pairs", window=NONE, key_type=COMPOSITE))
    pairs.commit([{"key": key} for key in ORDERED_KEYS[COMPOSITE]])
    serving = Serving(data)
    try:
        address = f"http://127.0.0.1:{serving.port}"
        with Client(address) as client:
            wait_for([True] * 2, lambda: [s.ready for s in client.stores()], "ready of both stores")
        yield address
    finally:
        serving.end()


def test_keys_are_given_as_texts_or_values(url: str) -> None:
    """Keys can be strings or values in reads, bounds and lists, and results have strings."""
    with Client(url) as client:
        numbers, pairs = client.window_store("numbers"), client.key_value_store("pairs")
        for key in (-10, "-10"):
            latest = numbers.latest(key)
            assert latest is not None
            assert latest.key == "-10"
        assert [w.key for w in numbers.fetch_range(9, 255)] == ["9", "10", "255"]
        assert [w.key for w in numbers.latest_of_keys([10, "9", -7])] == ["10", "9"]
        row = pairs.get(("a", -256))
        assert row is not None
        assert row.key == '["a",-256]'
        found = pairs.range(("a", 3), ("a\x00", 0))
        assert [row.key for row in found] == ['["a",10]', '["a\\u0000",-3]']
        assert [row.key for row in pairs.get_of_keys([("é", 7), '["é",8]'])] == ['["é",7]']
        assert list(numbers.keys(page_size=3)) == [*ORDERED_KEYS[LONG]]
        assert [row.key for row in pairs.prefix_scan('["a",')] == [
            '["a",-256]', '["a",2]', '["a",10]',
        ]  # fmt: skip


@pytest.mark.slow
def test_a_key_of_another_type_is_an_error(url: str) -> None:
    """The error for an invalid key has the store's key type."""
    with Client(url) as client:
        with pytest.raises(InvalidRequest, match="64-bit integers"):
            client.window_store("numbers").latest("abc")
        with pytest.raises(InvalidRequest, match=r"\[text, long\]"):
            client.key_value_store("pairs").get(("a", "b"))


def test_asyncio_has_the_same(url: str) -> None:
    """The asynchronous client accepts keys as values."""

    async def read() -> list[str]:
        async with AsyncClient(url) as client:
            store = client.window_store("numbers")
            return [window.key async for window in store.fetch_range(9, 10)]

    assert asyncio.run(read()) == ["9", "10"]


def test_the_terminal_takes_texts(url: str, capfd: pytest.CaptureFixture[str]) -> None:
    """In the terminal, a negative number is a key instead of an option."""
    assert main(["numbers", "-10", "--csv", "--url", url]) == 0
    assert capfd.readouterr().out.splitlines()[1].startswith('"-10",10,20')
    assert main(["pairs", '["é",7]', "--json", "--url", url]) == 0
    assert main(["numbers", "abc", "--url", url]) == 1
    assert "64-bit integers" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("key", "text"),
    [("a", "a"), (-(2**63), "-9223372036854775808"), (("é\n\x01", 7), '["é\\n\\u0001",7]')],
)
def test_the_text_of_a_key_is_the_one_that_the_store_has(key: Key, text: str) -> None:
    """The client writes the canonical string of a key, because the service rejects others."""
    assert key_text(key) == text
