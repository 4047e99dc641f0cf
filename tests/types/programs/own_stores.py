"""Stores that users write themselves: the conformance suites and the models."""

from collections.abc import Iterable
from typing import assert_type

import pytest

from oriel.storage import ScanPage, ScanRange, SessionRange, WindowPage, WindowRange
from oriel.storage.contracts import KeyPage, ReadOnlyStore
from oriel.testing import (
    KeyValueStoreConformance,
    MakeKeyValueStore,
    MakeSessionStore,
    MakeStore,
    MakeTypedStore,
    ModelKeyValueStore,
    ModelSessionStore,
    ModelWindowStore,
    Put,
    SessionStoreConformance,
    TypedKeyConformance,
    WindowStoreConformance,
)


class TestWindows(WindowStoreConformance):
    """A store of windows passes the suite of windows."""

    @pytest.fixture
    def make_store(self) -> MakeStore:
        """The model is such a store."""
        return ModelWindowStore


class TestSessions(SessionStoreConformance):
    """A store of sessions passes the suite of sessions."""

    @pytest.fixture
    def make_store(self) -> MakeSessionStore:
        """The model is such a store."""
        return ModelSessionStore


class TestRows(KeyValueStoreConformance):
    """A store of rows passes the suite of rows."""

    @pytest.fixture
    def make_store(self) -> MakeKeyValueStore:
        """The model is such a store."""
        return ModelKeyValueStore


class TestTypedKeys(TypedKeyConformance):
    """A store with typed keys passes the suite of typed keys."""

    @pytest.fixture
    def make_typed_store(self) -> MakeTypedStore:
        """The model is such a store."""

        def make(puts: Iterable[Put], key_type: str) -> ReadOnlyStore:
            return ModelKeyValueStore(puts, key_type)

        return make


def models(puts: list[Put]) -> None:
    """The models hold lists of puts."""
    assert_type(ModelWindowStore(puts, 1_000), ModelWindowStore)
    assert_type(ModelSessionStore(puts, None), ModelSessionStore)
    assert_type(ModelKeyValueStore(puts), ModelKeyValueStore)
    assert_type(Put("EWR", 0, 10, b"{}"), Put)
    for put in puts:
        assert_type(put, Put)
        assert_type(put.key, str)
        assert_type(put.start_ms, int)
        assert_type(put.end_ms, int)
        assert_type(put.value, bytes)


def windows(store: ModelWindowStore) -> None:
    """Reads of windows."""
    assert_type(store.fetch_window("EWR", 0), bytes | None)
    assert_type(store.fetch(WindowRange("EWR")), WindowPage)
    assert_type(store.backward_fetch(WindowRange("EWR")), WindowPage)
    assert_type(store.latest("EWR"), bytes | None)
    assert_type(store.current("EWR"), bytes | None)
    assert_type(store.latest_all(ScanRange()), ScanPage)
    assert_type(store.current_all(ScanRange()), ScanPage)
    assert_type(store.scan(ScanRange()), ScanPage)
    assert_type(store.backward_scan(ScanRange()), ScanPage)
    assert_type(store.keys("", 9), KeyPage)
    assert_type(store.earliest_ms, int)
    assert_type(store.key_type, str)


def sessions(store: ModelSessionStore) -> None:
    """Reads of sessions."""
    assert_type(store.fetch_session("EWR", 0, 10), bytes | None)
    assert_type(store.find_sessions(SessionRange("EWR")), WindowPage)
    assert_type(store.backward_find_sessions(SessionRange("EWR")), WindowPage)
    assert_type(store.current("EWR"), bytes | None)


def rows(store: ModelKeyValueStore) -> None:
    """Reads of rows."""
    assert_type(store.get("EWR"), bytes | None)
    assert_type(store.approximate_num_entries(), int)
    assert_type(store.scan(ScanRange()), ScanPage)
    assert_type(store.backward_scan(ScanRange()), ScanPage)
    assert_type(store.keys("", 9), KeyPage)
    assert_type(store.key_type, str)
