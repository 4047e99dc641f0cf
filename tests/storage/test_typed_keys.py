"""Stores of every kind and of each implementation, with keys of every type."""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from oriel.storage.contracts import ReadOnlyStore
from oriel.storage.delta import DeltaLog
from oriel.storage.errors import CorruptLog
from oriel.storage.table_store import ChangeRange, ReadBudget, changes
from oriel.testing import (
    MakeTypedStore,
    ModelKeyValueStore,
    ModelSessionStore,
    ModelWindowStore,
    Put,
    TypedKeyConformance,
)
from oriel.testing.typed_key_conformance import ORDERED_KEYS, UNFIT_KEYS
from tests.storage.followed import Followed
from tests.storage.other_hands import append
from tests.storage.store_tables import NONE, SESSION, SLIDING
from tests.storage.written_index import written_stores
from tests.storage.written_tables import table_stores

_KINDS = (SLIDING, SESSION, NONE)


class TestModelsHaveTypedKeys(TypedKeyConformance):
    """The models pass the suite that they are the measure of."""

    @pytest.fixture(params=[ModelWindowStore, ModelSessionStore])
    def make_typed_store(self, request: pytest.FixtureRequest) -> MakeTypedStore:
        """Make a model with windows."""
        return lambda puts, key_type: request.param(puts, key_type=key_type)


class TestModelOfRowsHasTypedKeys(TypedKeyConformance):
    """The model without windows passes the suite, too."""

    @pytest.fixture
    def make_typed_store(self) -> MakeTypedStore:
        """Make a model without windows."""
        return ModelKeyValueStore


class TestIndexHasTypedKeys(TypedKeyConformance):
    """A snapshot of the index passes the suite."""

    @pytest.fixture(params=_KINDS, ids=lambda window: str(window.kind))
    def make_typed_store(
        self, tmp_path: Path, request: pytest.FixtureRequest
    ) -> Iterator[MakeTypedStore]:
        """Make a snapshot of an index on disk."""
        with written_stores(tmp_path, request.param) as make:

            def make_typed(puts: Iterable[Put], key_type: str) -> ReadOnlyStore:
                store: ReadOnlyStore = make(puts, key_type=key_type)
                return store

            yield make_typed


class TestTableHasTypedKeys(TypedKeyConformance):
    """A version of a table, read without an index, passes the suite."""

    @pytest.fixture(params=_KINDS, ids=lambda window: str(window.kind))
    def make_typed_store(self, tmp_path: Path, request: pytest.FixtureRequest) -> MakeTypedStore:
        """Make the store of a table on disk."""
        make = table_stores(tmp_path, request.param)

        def make_typed(puts: Iterable[Put], key_type: str) -> ReadOnlyStore:
            store: ReadOnlyStore = make(puts, key_type=key_type)
            return store

        return make_typed


@pytest.mark.parametrize("key_type", ORDERED_KEYS)
def test_an_index_is_in_one_order_followed_and_built(tmp_path: Path, key_type: str) -> None:
    """And the changes that lead to it come in the same, page after page."""
    keys = ORDERED_KEYS[key_type]
    followed = Followed(tmp_path, key_type=key_type)
    followed.table.commit([{"key": key, "start": 0} for key in keys[::-2]])
    followed.catch_up()
    followed.table.commit([{"key": key, "start": 0} for key in keys])
    followed.catch_up()
    state, windows = followed.content()
    assert [window["key"] for window in windows] == [*keys]
    followed.tailer._rebuild("the test says so")
    assert followed.content() == (state, windows)
    followed.tailer.close()

    log, after, told = DeltaLog(followed.table.path), None, []
    while True:
        page = changes(log, state, ChangeRange(1, 3, after=after), ReadBudget())
        told += [change.key for change in page.changes]
        if not page.has_more:
            break
        after = page.changes[-1]
    assert told == [*keys]


@pytest.mark.parametrize("key_type", UNFIT_KEYS)
def test_rows_of_others_with_keys_of_another_type_are_named(tmp_path: Path, key_type: str) -> None:
    """In one line with the file, the type and such a key; the index answers on."""
    followed = Followed(tmp_path, key_type=key_type)
    followed.table.commit([{"key": ORDERED_KEYS[key_type][0], "start": 0}])
    followed.catch_up()
    unfit = UNFIT_KEYS[key_type][1]
    append(followed.table, [{"key": unfit, "start": 0, "revision": 7}])
    expected = f"key is not of the type {key_type}, like {unfit!r}"
    with pytest.raises(CorruptLog, match=re.escape(expected)):
        followed.catch_up()
    assert len(followed.content()[1]) == 1
    followed.tailer.close()
