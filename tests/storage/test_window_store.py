"""The index, the table and the model are window stores; and they agree on random ones."""

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oriel.storage import WindowRange
from oriel.storage.contracts import ReadOnlyWindowStore
from oriel.storage.index import IndexFolder, IndexReader
from oriel.testing.store_models import ModelWindowStore, Put
from oriel.testing.window_store_conformance import (
    LONG_KEYS,
    MakeStore,
    WindowStoreConformance,
    put,
)
from tests.storage.store_tables import SLIDING
from tests.storage.written_index import write_index, written_stores
from tests.storage.written_tables import table_stores


class TestModelIsAWindowStore(WindowStoreConformance):
    """The model passes the suite that it is the measure of."""

    @pytest.fixture
    def make_store(self) -> MakeStore:
        """Make a model."""
        return ModelWindowStore


class TestIndexIsAWindowStore(WindowStoreConformance):
    """A snapshot of the index passes the suite."""

    @pytest.fixture
    def make_store(self, tmp_path: Path) -> Iterator[MakeStore]:
        """Make a snapshot of an index on disk."""
        with written_stores(tmp_path, SLIDING) as make:
            yield make


class TestTableIsAWindowStore(WindowStoreConformance):
    """A version of a table, read without an index, passes the suite."""

    @pytest.fixture
    def make_store(self, tmp_path: Path) -> MakeStore:
        """Make the store of a table on disk."""
        return table_stores(tmp_path, SLIDING)


_KEYS = st.sampled_from(["", "a", "a\x00", "ab", "b", "\x00", "é", LONG_KEYS[0]])
_TIMES = st.integers(0, 30)
_PUTS = st.lists(st.builds(put, _KEYS, _TIMES, st.sampled_from([10, 11])), max_size=40)
_RANGES = st.builds(WindowRange, _KEYS, st.integers(-3, 33), st.integers(-3, 33), st.integers(1, 6))


@given(_PUTS, _RANGES, st.one_of(st.none(), st.integers(1, 30)))
def test_index_and_model_agree(
    puts: list[Put], window_range: WindowRange, retention_ms: int | None
) -> None:
    """Every read of a random store gives what the model gives, page after page."""
    model = ModelWindowStore(puts, retention_ms)
    with TemporaryDirectory() as name:
        folder = IndexFolder(Path(name) / "store")
        write_index(folder, puts, retention_ms, SLIDING)
        reader = IndexReader(folder)
        with reader.snapshot() as index:
            assert _all_pages(index, window_range) == _all_pages(model, window_range)
            assert index.latest(window_range.key) == model.latest(window_range.key)
            assert index.keys("a", 3) == model.keys("a", 3)
        reader.close()


def _all_pages(store: ReadOnlyWindowStore, window_range: WindowRange) -> list[list[bytes]]:
    pages: list[list[bytes]] = []
    for read in (store.fetch, store.backward_fetch):
        after = None
        while True:
            page = read(window_range._replace(after=after))
            pages.append(page.windows)
            after = page.next_after
            if after is None:
                break
    return pages
