"""Conformance tests of index, table and model as session stores, and a comparison at random."""

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oriel.storage import ScanRange, SessionRange, WindowRange
from oriel.storage.contracts import UNBOUNDED
from oriel.storage.index import IndexDirectory, IndexReader, SessionSnapshot
from oriel.testing.scan_conformance import LONG_KEYS
from oriel.testing.session_store_conformance import (
    MakeSessionStore,
    SessionStoreConformance,
    session,
)
from oriel.testing.store_models import ModelSessionStore, Put
from tests.storage.same_pages import assert_same_pages
from tests.storage.store_tables import SESSION
from tests.storage.written_index import write_index, written_stores
from tests.storage.written_tables import table_stores


class TestModelIsASessionStore(SessionStoreConformance):
    """The reference model passes the suite."""

    @pytest.fixture
    def make_store(self) -> MakeSessionStore:
        """Return a function that creates a model."""
        return ModelSessionStore


class TestIndexIsASessionStore(SessionStoreConformance):
    """A snapshot of the index passes the suite."""

    @pytest.fixture
    def make_store(self, tmp_path: Path) -> Iterator[MakeSessionStore]:
        """Return a function that creates a snapshot of an index on disk."""
        with written_stores(tmp_path, SESSION) as make:
            yield make


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> MakeSessionStore:
    """Return a function that creates table stores, which all tests share."""
    return table_stores(tmp_path_factory.mktemp("tables"), SESSION)


@pytest.mark.slow
class TestTableIsASessionStore(SessionStoreConformance):
    """A version of a table, read without an index, passes the suite."""

    @pytest.fixture
    def make_store(self, tables: MakeSessionStore) -> MakeSessionStore:
        """Return a function that creates the store of a table on disk."""
        return tables


_KEYS = st.sampled_from(["", "a", "a\x00", "ab", "\x00", LONG_KEYS[0]])
_PUTS = st.lists(
    st.builds(
        lambda key, start, length: session(key, start, start + length),
        _KEYS, st.integers(0, 30), st.one_of(st.integers(0, 6), st.integers(0, 40)),
    ),
    max_size=40,
)  # fmt: skip
_BOUNDS = st.integers(-3, 75)
_RANGES = st.builds(
    SessionRange, _KEYS, _BOUNDS, _BOUNDS, st.integers(1, 6), st.none(), st.just(None),
    st.sampled_from([1, 150, UNBOUNDED]), st.sampled_from([1, 2, 5, UNBOUNDED]),
)  # fmt: skip


@given(_PUTS, _RANGES, _BOUNDS, st.one_of(st.none(), st.integers(1, 50)))
def test_index_and_model_agree(
    puts: list[Put], session_range: SessionRange, from_ms: int, retention_ms: int | None
) -> None:
    """Every read of a random store returns the pages of the model."""
    model = ModelSessionStore(puts, retention_ms)
    key, earliest_ms, latest_ms, limit, _, _, bytes_max, records_max = session_range
    with TemporaryDirectory() as name:
        directory = IndexDirectory(Path(name) / "store")
        write_index(directory, puts, retention_ms, SESSION)
        reader = IndexReader(directory)
        with reader.snapshot() as index:
            assert isinstance(index, SessionSnapshot)
            for read in ("find_sessions", "backward_find_sessions"):
                assert_same_pages(index, model, read, session_range)
            for read in ("fetch", "backward_fetch"):
                by_start = WindowRange(
                    key, earliest_ms, latest_ms, limit, bytes_max=bytes_max, records_max=records_max
                )
                assert_same_pages(index, model, read, by_start)
            for read in ("scan", "backward_scan", "latest_all", "current_all"):
                scan_range = ScanRange(
                    "", "b", "", from_ms, latest_ms, earliest_ms, limit, bytes_max=bytes_max,
                    records_max=records_max,
                )  # fmt: skip
                assert_same_pages(index, model, read, scan_range)
            assert index.latest(session_range.key) == model.latest(session_range.key)
            assert index.current(session_range.key) == model.current(session_range.key)
            assert index.keys("a", 3) == model.keys("a", 3)
            for put in puts:
                window = (put.key, put.start_ms, put.end_ms)
                assert index.fetch_session(*window) == model.fetch_session(*window)
                assert index.fetch_window(*window[:2]) == model.fetch_window(*window[:2])
        reader.close()
