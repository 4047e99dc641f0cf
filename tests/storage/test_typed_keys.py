"""Conformance tests of stores of every kind and implementation, with keys of every type."""

import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oriel.storage import ScanRange, SessionRange, StoreKind, WindowRange
from oriel.storage.contracts import UNBOUNDED, ReadOnlyStore
from oriel.storage.delta import DeltaLog
from oriel.storage.errors import CorruptLog
from oriel.storage.index import IndexDirectory, IndexReader, IndexState
from oriel.storage.table_store import ChangeRange, ReadBudget, changes
from oriel.testing import (
    MakeTypedStore,
    ModelKeyValueStore,
    ModelSessionStore,
    ModelWindowStore,
    Put,
    TypedKeyConformance,
)
from oriel.testing.store_models import put
from oriel.testing.typed_key_conformance import ORDERED_KEYS, PREFIXES, UNFIT_KEYS
from tests.storage.followed import Followed, rebuild
from tests.storage.other_hands import append
from tests.storage.same_pages import assert_same_pages
from tests.storage.store_tables import NONE, SESSION, SLIDING, make_definition
from tests.storage.written_index import window_snapshot, write_index, written_stores
from tests.storage.written_tables import table_stores

_KINDS = (SLIDING, SESSION, NONE)


class TestModelsHaveTypedKeys(TypedKeyConformance):
    """The reference models with windows pass the suite."""

    @pytest.fixture(params=[ModelWindowStore, ModelSessionStore])
    def make_typed_store(self, request: pytest.FixtureRequest) -> MakeTypedStore:
        """Return a function that creates a model with windows."""
        return lambda puts, key_type: request.param(puts, key_type=key_type)


class TestModelOfRowsHasTypedKeys(TypedKeyConformance):
    """The reference model without windows passes the suite."""

    @pytest.fixture
    def make_typed_store(self) -> MakeTypedStore:
        """Return a function that creates a model without windows."""
        return ModelKeyValueStore


class TestIndexHasTypedKeys(TypedKeyConformance):
    """A snapshot of the index passes the suite."""

    @pytest.fixture(params=_KINDS, ids=lambda window: str(window.kind))
    def make_typed_store(
        self, tmp_path: Path, request: pytest.FixtureRequest
    ) -> Iterator[MakeTypedStore]:
        """Return a function that creates a snapshot of an index on disk."""
        with written_stores(tmp_path, request.param) as make:

            def make_typed(puts: Iterable[Put], key_type: str) -> ReadOnlyStore:
                store: ReadOnlyStore = make(puts, key_type=key_type)
                return store

            yield make_typed


Tables = dict[StoreKind, Callable[..., Any]]


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Tables:
    """Return functions that create table stores, which all tests share, by kind."""
    return {
        window.kind: table_stores(tmp_path_factory.mktemp("tables"), window) for window in _KINDS
    }


@pytest.mark.slow
class TestTableHasTypedKeys(TypedKeyConformance):
    """A version of a table, read without an index, passes the suite."""

    @pytest.fixture(params=_KINDS, ids=lambda window: str(window.kind))
    def make_typed_store(self, tables: Tables, request: pytest.FixtureRequest) -> MakeTypedStore:
        """Return a function that creates the store of a table on disk."""
        make = tables[request.param.kind]

        def make_typed(puts: Iterable[Put], key_type: str) -> ReadOnlyStore:
            store: ReadOnlyStore = make(puts, key_type=key_type)
            return store

        return make_typed


@pytest.mark.parametrize("key_type", ORDERED_KEYS)
def test_an_index_is_in_one_order_followed_and_built(tmp_path: Path, key_type: str) -> None:
    """A followed and a rebuilt index have the same key order, and so have the changes."""
    keys = ORDERED_KEYS[key_type]
    followed = Followed(tmp_path, key_type=key_type)
    followed.table.commit([{"key": key, "start": 0} for key in keys[::-2]])
    followed.catch_up()
    followed.table.commit([{"key": key, "start": 0} for key in keys])
    followed.catch_up()
    state, windows = followed.content()
    assert [window["key"] for window in windows] == [*keys]
    rebuild(followed.tailer)
    assert followed.content() == (state, windows)
    followed.tailer.close()

    log, after, changed = DeltaLog(followed.table.path), None, []
    while True:
        page = changes(log, state, ChangeRange(1, 3, after=after), ReadBudget())
        changed += [change.key for change in page.changes]
        if not page.has_more:
            break
        after = page.changes[-1]
    assert changed == [*keys]


@pytest.mark.parametrize("key_type", UNFIT_KEYS)
def test_rows_of_others_with_keys_of_another_type_are_named(tmp_path: Path, key_type: str) -> None:
    """Foreign rows with keys of another type raise an error with the type and a key."""
    followed = Followed(tmp_path, key_type=key_type)
    followed.table.commit([{"key": ORDERED_KEYS[key_type][0], "start": 0}])
    followed.catch_up()
    unfit = UNFIT_KEYS[key_type][1]
    append(followed.table, [{"key": unfit, "start": 0, "revision": 7}])
    expected = f"key does not have the type {key_type}, for example {unfit!r}"
    with pytest.raises(CorruptLog, match=re.escape(expected)):
        followed.catch_up()
    assert len(followed.content()[1]) == 1
    followed.tailer.close()


_TIMES = st.integers(0, 30)
_LIMITS = st.integers(1, 6)


@st.composite
def _reads(draw: st.DrawFn) -> tuple[str, list[Put], str, ScanRange]:
    """Draw a key type, windows with such keys, one of the keys, and a range of keys."""
    key_type = draw(st.sampled_from([*ORDERED_KEYS]))
    keys = st.sampled_from(ORDERED_KEYS[key_type])
    lengths = st.sampled_from([0, 1, 9, 300, 70_000])
    puts = st.lists(st.builds(put, keys, _TIMES, lengths, final=st.booleans()), max_size=40)
    bounds = st.one_of(st.none(), keys)
    prefixes = st.sampled_from(["", *PREFIXES.get(key_type, ())])
    scan_range = ScanRange(
        draw(bounds), draw(bounds), draw(prefixes), draw(_TIMES), draw(_TIMES),
        limit=draw(_LIMITS), final=draw(st.sampled_from([None, True, False])),
        bytes_max=draw(st.sampled_from([1, 150, UNBOUNDED])),
        records_max=draw(st.sampled_from([1, 3, UNBOUNDED])),
    )  # fmt: skip
    return key_type, draw(puts), draw(keys), scan_range


@given(_reads(), st.one_of(st.none(), st.integers(1, 400)))
def test_index_and_model_agree_on_sessions_of_typed_keys(
    reads: tuple[str, list[Put], str, ScanRange], retention_ms: int | None
) -> None:
    """Searches by start, by end and for many keys return the pages of the model."""
    key_type, puts, key, scan_range = reads
    model = ModelSessionStore(puts, retention_ms, key_type=key_type)
    with TemporaryDirectory() as name:
        directory = IndexDirectory(Path(name) / "store")
        write_index(directory, puts, retention_ms, SESSION, key_type)
        reader = IndexReader(directory)
        with window_snapshot(reader) as index:
            for of_keys in ("scan", "backward_scan", "latest_all", "current_all"):
                assert_same_pages(index, model, of_keys, scan_range)
            for by_start in ("fetch", "backward_fetch"):
                starts = WindowRange(key, scan_range.from_ms, scan_range.to_ms, scan_range.limit)
                assert_same_pages(index, model, by_start, starts)
            for by_end in ("find_sessions", "backward_find_sessions"):
                overlap = SessionRange(key, scan_range.from_ms, scan_range.to_ms, scan_range.limit)
                assert_same_pages(index, model, by_end, overlap)
            assert index.latest(key) == model.latest(key)
            # Read all keys, because a full page can announce more keys that have all expired.
            assert index.keys(scan_range.prefix, 99) == model.keys(scan_range.prefix, 99)
        reader.close()


def test_an_index_of_texts_is_written_as_it_was_before_there_were_types() -> None:
    """The state of an index with `text` keys is as before key types, so older programs read it."""
    state = IndexState("table", 1, "", make_definition(), None)
    assert "key_type" not in orjson.loads(state.to_json())["definition"]
    for key_type in ("text", *ORDERED_KEYS):
        state = IndexState("table", 1, "", make_definition(key_type=key_type), None)
        assert IndexState.from_json(state.to_json()) == state
