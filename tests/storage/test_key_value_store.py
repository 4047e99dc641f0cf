"""The index, the table and the model are key-value stores: one row a key."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from oriel.testing.key_value_store_conformance import KeyValueStoreConformance, MakeKeyValueStore
from oriel.testing.store_models import ModelKeyValueStore
from tests.storage.store_tables import NONE
from tests.storage.written_index import written_stores
from tests.storage.written_tables import table_stores


class TestModelIsAKeyValueStore(KeyValueStoreConformance):
    """The model passes the suite that it is the measure of."""

    @pytest.fixture
    def make_store(self) -> MakeKeyValueStore:
        """Make a model."""
        return ModelKeyValueStore


class TestIndexIsAKeyValueStore(KeyValueStoreConformance):
    """A snapshot of the index passes the suite."""

    @pytest.fixture
    def make_store(self, tmp_path: Path) -> Iterator[MakeKeyValueStore]:
        """Make a snapshot of an index on disk."""
        with written_stores(tmp_path, NONE) as make:
            yield make


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> MakeKeyValueStore:
    """Make stores of tables that all tests share."""
    return table_stores(tmp_path_factory.mktemp("tables"), NONE)


@pytest.mark.slow
class TestTableIsAKeyValueStore(KeyValueStoreConformance):
    """A version of a table, read without an index, passes the suite."""

    @pytest.fixture
    def make_store(self, tables: MakeKeyValueStore) -> MakeKeyValueStore:
        """Make the store of a table on disk."""
        return tables
