"""The index and the model are key-value stores: one row a key."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.storage.key_value_store_conformance import KeyValueStoreConformance, MakeKeyValueStore
from tests.storage.store_tables import NONE
from tests.storage.window_store_model import ModelKeyValueStore
from tests.storage.written_index import written_stores


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
