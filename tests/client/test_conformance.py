"""Conformance tests of the client with a service, as stores of every kind."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest

from oriel.storage import ReadOnlyStore, StoreKind
from oriel.testing import (
    KeyValueStoreConformance,
    MakeKeyValueStore,
    MakeSessionStore,
    MakeStore,
    MakeTypedStore,
    Put,
    SessionStoreConformance,
    TypedKeyConformance,
    WindowStoreConformance,
)
from tests.client.http_stores import http_stores
from tests.storage.store_tables import NONE, SESSION, SLIDING

Stores = dict[StoreKind, Callable[..., Any]]


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stores]:
    """Yield functions that create stores, which all tests share, by kind."""
    data = [tmp_path_factory.mktemp("http") for _ in range(3)]
    with (
        http_stores(data[0], SLIDING) as windows,
        http_stores(data[1], SESSION) as sessions,
        http_stores(data[2], NONE) as rows,
    ):
        yield {StoreKind.SLIDING: windows, StoreKind.SESSION: sessions, StoreKind.NONE: rows}


class TestClientIsAWindowStore(WindowStoreConformance):
    """A window store of the client passes the suite."""

    @pytest.fixture
    def make_store(self, stores: Stores) -> MakeStore:
        """Return a function that creates a store of the client."""
        return stores[StoreKind.SLIDING]


class TestClientIsASessionStore(SessionStoreConformance):
    """A session store of the client passes the suite."""

    @pytest.fixture
    def make_store(self, stores: Stores) -> MakeSessionStore:
        """Return a function that creates a store of the client."""
        return stores[StoreKind.SESSION]


class TestClientIsAKeyValueStore(KeyValueStoreConformance):
    """A store of the client without windows passes the suite."""

    @pytest.fixture
    def make_store(self, stores: Stores) -> MakeKeyValueStore:
        """Return a function that creates a store of the client."""
        return stores[StoreKind.NONE]


class TestClientHasTypedKeys(TypedKeyConformance):
    """Stores of the client of every kind pass the suite."""

    @pytest.fixture(params=[StoreKind.SLIDING, StoreKind.SESSION, StoreKind.NONE])
    def make_typed_store(self, stores: Stores, request: pytest.FixtureRequest) -> MakeTypedStore:
        """Return a function that creates a store of the client."""
        make = stores[request.param]

        def make_typed(puts: Iterable[Put], key_type: str) -> ReadOnlyStore:
            store: ReadOnlyStore = make(puts, key_type=key_type)
            return store

        return make_typed
