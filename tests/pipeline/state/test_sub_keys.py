"""Rows of a key by sub-key: one sub-key is read and written without the others."""

from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from oriel.pipeline.state import KeyedState, Layout, Version
from oriel.pipeline.state import hashes as hashing
from oriel.pipeline.state.hashes import SUB_KEY_BITS, key_hashes
from oriel.pipeline.state.segments import open_segment
from tests.campaigns import cases

SCHEMA = pa.schema([
    ("key", pa.string()), ("key_group", pa.int32()), ("member", pa.string()), ("n", pa.int64()),
])  # fmt: skip
LAYOUT = Layout(SCHEMA, sub_key="member")

#: (Key, sub-key, or None for the key itself) -> the value.
Model = dict[tuple[str, str | None], int]


def table_of(model: Model) -> pa.Table:
    """Return the rows of a model as state."""
    rows = [
        {"key": key, "key_group": len(key), "member": sub_key, "n": n}
        for (key, sub_key), n in model.items()
    ]
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def model_of(rows: pa.Table) -> Model:
    """Return state rows as a model, and check that no row exists twice."""
    model = {(row["key"], row["member"]): row["n"] for row in rows.to_pylist()}
    assert len(model) == len(rows)
    return model


def keys_of(*keys: str) -> pa.ChunkedArray:
    """Return keys whose rows are all read."""
    return pa.chunked_array([pa.array(keys, pa.string())])


def advanced(
    directory: Path, version: Version, changes: dict[Any, int | None], name: str
) -> Version:
    """Return the next version. The value None removes a row."""
    state = KeyedState(directory, version.names, LAYOUT)
    needed = state.working_set_of_sub_keys(table_of(dict.fromkeys(changes, 0)), keys_of())
    rows = model_of(needed.rows)
    for place, n in changes.items():
        rows.pop(place, None)
        if n is not None:
            rows[place] = n
    return state.replaced(needed, table_of(rows), name, sync=False)


@pytest.mark.parametrize("few", [False, True], ids=["", "hashes collide"])
@cases(4, 200)
def test_any_changes_leave_what_a_dict_would_hold(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, number: int, *, few: bool
) -> None:
    """State rows equal a dict's, and a batch reads named rows, rows of keys, and whole keys."""
    if few:
        of_keys = hashing.key_hashes
        monkeypatch.setattr(hashing, "key_hashes", lambda keys: of_keys(keys) % 3 * (2**33 + 1))
    for seed in range(number):
        random = Random(seed)
        directory = tmp_path / str(seed)
        directory.mkdir()
        model: Model = {}
        version = Version([], 0)
        for batch in range(random.choice((3, 12, 30))):
            places = [(random.choice("abc"), random.choice((None, *"mnop"))) for _ in range(4)]
            changes = {place: random.choice((None, batch, batch)) for place in places}
            version = advanced(directory, version, changes, f"{batch}")
            model |= {place: n for place, n in changes.items() if n is not None}
            for place in [place for place, n in changes.items() if n is None]:
                model.pop(place, None)
            state = KeyedState(directory, version.names, LAYOUT)
            assert state.rows == len(model)
            assert model_of(state.all_rows()) == model
            (named, *_), whole = changes, random.choice("abc")
            read = model_of(
                state.working_set_of_sub_keys(table_of({named: 0}), keys_of(whole)).rows
            )
            wanted = {(key, m) for key, m in model if key == whole or (key, m) == named}
            wanted |= {(named[0], None)} & model.keys()
            assert read.items() <= model.items()
            assert wanted <= read.keys()
            assert few or wanted == read.keys()


def test_one_sub_key_of_many_is_read_and_written_alone(tmp_path: Path) -> None:
    """A batch reads and writes what it changes, however many sub-keys its key has."""
    many: dict[Any, int | None] = {("a", None): 0, **{("a", str(n)): n for n in range(10_000)}}
    version = advanced(tmp_path, Version([], 0), many, "0")
    state = KeyedState(tmp_path, version.names, LAYOUT)
    one = table_of({("a", "77"): 0})
    assert model_of(state.working_set_of_sub_keys(one, keys_of()).rows) == {
        ("a", None): 0,
        ("a", "77"): 77,
    }
    assert len(state.working_set_of_sub_keys(one, keys_of("a")).rows) == 10_001
    assert len(state.working_set_of_sub_keys(one, keys_of("b")).rows) == 2
    after = advanced(tmp_path, version, {("a", "77"): None}, "1")
    assert after.rows == 10_000
    # Only a tombstone is written. The other rows stay in their file.
    assert len(open_segment(tmp_path, after.names[-1])) == 1
    assert after.names[0] == version.names[0]


def test_members_of_a_key_lie_side_by_side() -> None:
    """The row of the key itself is first. Files are sorted in this order, which never changes."""
    keys, members = keys_of("a", "a", "a"), pa.chunked_array([pa.array([None, "m", "n"])])
    own, first, second = hashing.sub_key_hashes(keys, members).tolist()
    # Existing files contain these hashes.
    assert (own, first - own, second - own) == (-2619445427925155840, 616551380, 581244807)
    assert own == key_hashes(keys_of("a"))[0] & ~SUB_KEY_BITS
