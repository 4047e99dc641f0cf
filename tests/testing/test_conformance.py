"""Conformance tests of the stores of the test driver, of every kind."""

import pytest

from oriel.storage import StoreKind
from oriel.testing import (
    KeyValueStoreConformance,
    MakeKeyValueStore,
    MakeSessionStore,
    MakeStore,
    MakeTypedStore,
    SessionStoreConformance,
    TypedKeyConformance,
    WindowStoreConformance,
)
from tests.testing.driver_stores import make_store


class TestDriverHasAWindowStore(WindowStoreConformance):
    """A window store of the driver passes the suite."""

    @pytest.fixture
    def make_store(self) -> MakeStore:
        """Return a function that creates a store of the driver."""
        return lambda puts, retention_ms: make_store(StoreKind.SLIDING, puts, retention_ms, "text")


class TestDriverHasASessionStore(SessionStoreConformance):
    """A session store of the driver passes the suite."""

    @pytest.fixture
    def make_store(self) -> MakeSessionStore:
        """Return a function that creates a store of the driver."""
        return lambda puts, retention_ms: make_store(StoreKind.SESSION, puts, retention_ms, "text")


class TestDriverHasAKeyValueStore(KeyValueStoreConformance):
    """A store of the driver without windows passes the suite."""

    @pytest.fixture
    def make_store(self) -> MakeKeyValueStore:
        """Return a function that creates a store of the driver."""
        return lambda puts: make_store(StoreKind.NONE, puts, None, "text")


class TestDriverHasTypedKeys(TypedKeyConformance):
    """Stores of the driver of every kind pass the suite."""

    @pytest.fixture(params=[StoreKind.SLIDING, StoreKind.SESSION, StoreKind.NONE])
    def make_typed_store(self, request: pytest.FixtureRequest) -> MakeTypedStore:
        """Return a function that creates a store of the driver."""
        return lambda puts, key_type: make_store(request.param, puts, None, key_type)
