"""Conformance tests of index, table and model as key-value stores, with one row per key."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from oriel.testing.key_value_store_conformance import KeyValueStoreConformance, MakeKeyValueStore
from oriel.testing.store_models import ModelKeyValueStore
from tests.storage.store_tables import NONE
from tests.storage.written_index import written_stores
from tests.storage.written_tables import table_stores


class TestModelIsAKeyValueStore(KeyValueStoreConformance):
    """The reference model passes the suite."""

    @pytest.fixture
    def make_store(self) -> MakeKeyValueStore:
        """Return a function that creates a model."""
        return ModelKeyValueStore


class TestIndexIsAKeyValueStore(KeyValueStoreConformance):
    """A snapshot of the index passes the suite."""

    @pytest.fixture
    def make_store(self, tmp_path: Path) -> Iterator[MakeKeyValueStore]:
        """Return a function that creates a snapshot of an index on disk."""
        with written_stores(tmp_path, NONE) as make:
            yield make


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> MakeKeyValueStore:
    """Return a function that creates table stores, which all tests share."""
    return table_stores(tmp_path_factory.mktemp("tables"), NONE)


@pytest.mark.slow
class TestTableIsAKeyValueStore(KeyValueStoreConformance):
    """A version of a table, read without an index, passes the suite."""

    @pytest.fixture
    def make_store(self, tables: MakeKeyValueStore) -> MakeKeyValueStore:
        """Return a function that creates the store of a table on disk."""
        return tables
