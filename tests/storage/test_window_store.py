"""Conformance tests of index, table and model as window stores, and a comparison at random."""

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oriel.storage import ScanRange, StoreKind, WindowRange, WindowSpec
from oriel.storage.contracts import UNBOUNDED
from oriel.storage.index import IndexDirectory, IndexReader
from oriel.testing.scan_conformance import LONG_KEYS
from oriel.testing.store_models import ModelWindowStore, Put, put
from oriel.testing.window_store_conformance import MakeStore, WindowStoreConformance
from tests.models.record_windows import windows_of
from tests.storage.same_pages import assert_same_pages
from tests.storage.store_tables import SLIDING
from tests.storage.written_index import window_snapshot, write_index, written_stores
from tests.storage.written_tables import table_stores


class TestModelIsAWindowStore(WindowStoreConformance):
    """The reference model passes the suite."""

    @pytest.fixture
    def make_store(self) -> MakeStore:
        """Return a function that creates a model."""
        return ModelWindowStore


class TestIndexIsAWindowStore(WindowStoreConformance):
    """A snapshot of the index passes the suite."""

    @pytest.fixture
    def make_store(self, tmp_path: Path) -> Iterator[MakeStore]:
        """Return a function that creates a snapshot of an index on disk."""
        with written_stores(tmp_path, SLIDING) as make:
            yield make


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> MakeStore:
    """Return a function that creates table stores, which all tests share."""
    return table_stores(tmp_path_factory.mktemp("tables"), SLIDING)


@pytest.mark.slow
class TestTableIsAWindowStore(WindowStoreConformance):
    """A version of a table, read without an index, passes the suite."""

    @pytest.fixture
    def make_store(self, tables: MakeStore) -> MakeStore:
        """Return a function that creates the store of a table on disk."""
        return tables


_KEYS = st.sampled_from(["", "a", "a\x00", "ab", "b", "\x00", "é", LONG_KEYS[0]])
_TIMES = st.integers(0, 30)
_PUTS = st.lists(
    st.builds(put, _KEYS, _TIMES, st.sampled_from([10, 11]), final=st.booleans()), max_size=40
)
_FINAL = st.sampled_from([None, None, True, False])
_BYTES = st.sampled_from([1, 150, UNBOUNDED])
_LOOKS = st.sampled_from([1, 2, 5, UNBOUNDED])
_BOUNDS = st.integers(-3, 33)
_LIMITS = st.integers(1, 6)
_RANGES = st.builds(
    WindowRange, _KEYS, _BOUNDS, _BOUNDS, _LIMITS, st.none(), _FINAL, _BYTES, _LOOKS,
    # No store here has partial aggregates.
    with_partials=st.just(value=False),
)  # fmt: skip
_KEY_BOUNDS = st.one_of(st.none(), _KEYS, st.sampled_from(["a\x00\x00", "aa", "é" * 299, "zz"]))
_PREFIXES = st.sampled_from(["", "", "a", "a\x00", "é", "é" * 280])
_SCANS = st.builds(
    ScanRange, _KEY_BOUNDS, _KEY_BOUNDS, _PREFIXES, _BOUNDS, _BOUNDS, st.just(0), _LIMITS,
    st.none(), _FINAL, _BYTES, _LOOKS, with_partials=st.just(value=False),
)  # fmt: skip


@given(_PUTS, _RANGES, _SCANS, st.one_of(st.none(), st.integers(1, 30)))
def test_index_and_model_agree(
    puts: list[Put], window_range: WindowRange, scan_range: ScanRange, retention_ms: int | None
) -> None:
    """Every read of a random store returns the pages of the model."""
    model = ModelWindowStore(puts, retention_ms)
    with TemporaryDirectory() as name:
        directory = IndexDirectory(Path(name) / "store")
        write_index(directory, puts, retention_ms, SLIDING)
        reader = IndexReader(directory)
        with window_snapshot(reader) as index:
            for of_key in ("fetch", "backward_fetch"):
                assert_same_pages(index, model, of_key, window_range)
            for of_keys in ("scan", "backward_scan", "latest_all"):
                assert_same_pages(index, model, of_keys, scan_range)
            assert index.latest(window_range.key) == model.latest(window_range.key)
            assert index.keys("a", 3) == model.keys("a", 3)
        reader.close()


@given(
    st.lists(st.tuples(st.sampled_from(["a", "b"]), st.integers(0, 40)), max_size=14),
    st.integers(1, 9),
    st.integers(0, 6),
    st.sampled_from([None, 30]),
)
def test_current_ends_at_the_newest_record_of_windows_that_records_made(
    records: list[tuple[str, int]], size_ms: int, grace_ms: int, retention_ms: int | None
) -> None:
    """`current` of the index equals the model for every kind, also with late records."""
    kinds = (StoreKind.SLIDING, None), (StoreKind.TUMBLING, None), (StoreKind.HOPPING, 2)
    for kind, advance_ms in kinds:
        size = size_ms if advance_ms is None else size_ms + advance_ms
        window = WindowSpec(kind, size, grace_ms, advance_ms)
        puts = windows_of(records, window)
        model = ModelWindowStore(puts, retention_ms, window)
        with TemporaryDirectory() as name:
            directory = IndexDirectory(Path(name) / "store")
            write_index(directory, puts, retention_ms, window)
            reader = IndexReader(directory)
            with window_snapshot(reader) as index:
                for key in ("a", "b", "c"):
                    assert index.current(key) == model.current(key)
                assert_same_pages(index, model, "current_all", ScanRange(limit=1))
            reader.close()
