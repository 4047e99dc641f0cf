"""Keyed state: the rows that are read equal the rows of a plain dict."""

from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest

from oriel.pipeline.errors import CheckpointError
from oriel.pipeline.state import KeyedState, Layout, Version
from oriel.pipeline.state import hashes as hashing
from oriel.pipeline.state.hashes import key_hashes
from oriel.pipeline.state.keyed_state import KeyedWorkingSet
from oriel.pipeline.state.segments import MAX_SEGMENTS, open_segment, write_segment
from oriel.pipeline.windows import FOREVER_MS, NEVER_CLOSED_MS

SCHEMA = pa.schema([
    ("key", pa.string()), ("key_group", pa.int32()), ("last_ms", pa.int64()),
    ("some", pa.list_(pa.int64())),
])  # fmt: skip

#: Key -> its rows: last ms, and values.
Model = dict[str, list[tuple[int, list[int]]]]


def last_ms(rows: pa.Table) -> npt.NDArray[np.int64]:
    """Return when each row is due: its column `last_ms`."""
    return np.asarray(rows["last_ms"])


LAYOUT = Layout(SCHEMA, last_ms)


def table_of(model: Model) -> pa.Table:
    """Return the rows of a model as state."""
    rows = [
        {"key": key, "key_group": len(key), "last_ms": last, "some": some}
        for key, rows_of_key in model.items()
        for last, some in rows_of_key
    ]
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def model_of(table: pa.Table) -> Model:
    """Return state rows as a model."""
    model: Model = {}
    for row in table.to_pylist():
        model.setdefault(row["key"], []).append((row["last_ms"], row["some"]))
    return {key: sorted(rows) for key, rows in model.items()}


def keys_of(*keys: str) -> pa.ChunkedArray:
    """Return the keys of a batch's records."""
    return pa.chunked_array([pa.array(keys, pa.string())])


def opened(directory: Path, version: Version) -> KeyedState:
    """Open a version as the task of the next batch does."""
    return KeyedState(directory, version.names, LAYOUT)


def advanced(directory: Path, version: Version, model: Model, batch: Model, close: int) -> Version:
    """Replace the rows of the keys in `batch`. No window closes."""
    state = opened(directory, version)
    needed = state.working_set(keys_of(*batch), (close, close))
    model |= batch
    return state.replaced(needed, table_of(batch), "n", sync=False)


def few_hashes(number: int) -> Any:
    """Return a hash function with `number` values, so that many keys share a hash."""

    def hashes(keys: pa.ChunkedArray | pa.Array) -> npt.NDArray[np.int64]:
        return key_hashes(keys) % number

    return hashes


@pytest.mark.slow
@pytest.mark.parametrize("hashes", [None, 40, 3])
@pytest.mark.parametrize("seed", range(4))
def test_any_batches_leave_what_a_dict_would_hold(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, seed: int, hashes: int | None
) -> None:
    """Batches have any size, windows close, keys vanish, and each batch follows a restart."""
    if hashes is not None:
        monkeypatch.setattr(hashing, "key_hashes", few_hashes(hashes))
    random = Random(seed)
    names = [f"key-{number}" for number in range(150)]
    model: Model = {}
    version = Version([], 0)
    previous, close = NEVER_CLOSED_MS, 0
    for batch in range(60):
        chosen = random.sample(names, random.choice([0, 1, 1, 3, 8, 100]))
        state = opened(tmp_path, version)
        needed = state.working_set(keys_of(*chosen), (previous, close))
        rows_of = model_of(needed.rows)
        due = {key for key, rows in model.items() if any(last < close for last, _ in rows)}
        must = {key for key in (*chosen, *due) if key in model}
        assert must <= set(rows_of), "a key is missing"
        assert rows_of.items() <= model.items(), "a key has other rows than it should"
        for key in chosen:
            size = random.choice([0, 1, 1, 2])
            lasts = [random.choice([close + random.randint(0, 60), FOREVER_MS]) for _ in "x" * size]
            rows_of[key] = [(last, [batch] * random.randint(0, 3)) for last in lasts]
        rows_of = {key: sorted(r for r in rows if r[0] >= close) for key, rows in rows_of.items()}
        model = {key: rows for key, rows in {**model, **rows_of}.items() if rows}
        version = state.replaced(needed, table_of(rows_of), f"{batch}", sync=False)
        assert version.rows == sum(map(len, model.values()))
        assert len(version.names) <= MAX_SEGMENTS
        stored = sum(len(open_segment(tmp_path, name)) for name in version.names)
        assert stored <= 2 * version.rows, "most of what is stored does not count"
        previous, close = close, close + random.randint(0, 10)
        if not batch % 10:
            assert model_of(opened(tmp_path, version).all_rows()) == model


@pytest.mark.slow
def test_what_is_written_is_in_proportion_to_the_batch(tmp_path: Path) -> None:
    """Each batch changes ten of ten thousand keys, so it writes few rows."""
    model: Model = {}
    everything: Model = {f"key-{number}": [(FOREVER_MS, [0])] for number in range(10_000)}
    version = advanced(tmp_path, Version([], 0), model, everything, 0)
    random = Random(1)
    written = 0
    for _ in range(200):
        batch: Model = {key: [(FOREVER_MS, [1])] for key in random.sample(list(model), 10)}
        version = advanced(tmp_path, version, model, batch, 0)
        written += len(open_segment(tmp_path, version.names[-1]))
    assert written < 4 * 200 * 10
    assert model_of(opened(tmp_path, version).all_rows()) == model


def test_only_touched_rows_are_read(tmp_path: Path) -> None:
    """A batch reads the rows of its keys and the rows that are due now, each once."""
    model: Model = {"a": [(5, [1]), (9, [2])], "b": [(7, [])], "c": [(FOREVER_MS, [3])]}
    version = advanced(tmp_path, Version([], 0), {}, model, 0)
    state = opened(tmp_path, version)
    assert model_of(state.working_set(keys_of("c", "x", "c"), (0, 5)).rows) == {"c": model["c"]}
    assert model_of(state.working_set(keys_of(), (0, 6)).rows) == {"a": model["a"]}
    assert model_of(state.working_set(keys_of(), (6, 8)).rows) == {"b": model["b"]}
    assert not len(state.working_set(keys_of(), (10, FOREVER_MS)).rows)


def test_a_batch_that_touches_nothing_writes_nothing(tmp_path: Path) -> None:
    """The version and its count stay unchanged. A state without rows has no files."""
    version = advanced(tmp_path, Version([], 0), {}, {"a": [(5, [1]), (6, [])]}, 0)
    state = opened(tmp_path, version)
    assert (
        state.replaced(state.working_set(keys_of(), (0, 1)), table_of({}), "n", sync=True)
        == version
    )
    emptied = state.replaced(state.working_set(keys_of("a"), (0, 1)), table_of({}), "n", sync=True)
    assert emptied == Version([], 0)


@pytest.mark.parametrize("hashes", [None, 3])
def test_rows_of_keys_that_do_not_change_are_not_written(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, hashes: int | None
) -> None:
    """A batch can read more keys than it changes. Its rows of the other keys are ignored."""
    if hashes is not None:
        monkeypatch.setattr(hashing, "key_hashes", few_hashes(hashes))
    model: Model = {f"key-{number}": [(FOREVER_MS, [number])] for number in range(200)}
    version = advanced(tmp_path, Version([], 0), {}, model, 0)
    state = opened(tmp_path, version)
    needed = state.working_set(keys_of(*model))
    rows = table_of(model | {"key-7": [(FOREVER_MS, [70]), (FOREVER_MS, [71])], "key-8": []})
    same = state.replaced(needed, rows, "n", sync=False, changed_keys=keys_of())
    assert same == version
    changed = keys_of("key-7", "key-8", "none")
    after = state.replaced(needed, rows, "n", sync=False, changed_keys=changed)
    written = open_segment(tmp_path, after.names[-1])["key"]
    if hashes is None:
        # A tombstone is written for the key without rows.
        assert written.to_pylist().count(None) == 1
        assert len(written) == 3
    assert after.rows == 200
    assert model_of(opened(tmp_path, after).all_rows()) == model_of(rows)


def test_a_removed_key_stays_removed(tmp_path: Path) -> None:
    """A tombstone hides older rows, also after a restart, until the key has rows again."""
    model: Model = {name: [(FOREVER_MS, [1])] for name in "abcdefgh"}
    version = advanced(tmp_path, Version([], 0), {}, model, 0)
    version = advanced(tmp_path, version, {}, {"a": [], "b": [(FOREVER_MS, [2])]}, 0)
    state = opened(tmp_path, version)
    assert model_of(state.working_set(keys_of("a", "b"), (0, 0)).rows) == {"b": [(FOREVER_MS, [2])]}
    assert state.rows == len(model) - 1
    assert set(model_of(state.all_rows())) == set("bcdefgh")
    version = advanced(tmp_path, version, {}, {"a": [(FOREVER_MS, [3])]}, 0)
    again = opened(tmp_path, version).working_set(keys_of("a"), (0, 0)).rows
    assert model_of(again) == {"a": [(FOREVER_MS, [3])]}


@pytest.mark.parametrize("changing", [None, keys_of(), keys_of("xx", "xxx")])
def test_tasks_of_another_number_share_the_rows(
    tmp_path: Path, changing: pa.ChunkedArray | None
) -> None:
    """Each task reads its key groups from all files, and writes them all, changed or not."""
    model: Model = {"x" * size: [(50, [size])] for size in range(1, 40)}
    segments = {}
    for task in range(3):
        of_task: Model = {key: rows for key, rows in model.items() if len(key) % 3 == task}
        segments[task] = advanced(tmp_path, Version([], 0), {}, of_task, 0).names
    together: Model = {}
    for task in range(2):
        state = KeyedState.of_task(tmp_path, segments, (task, 2), LAYOUT)
        needed = state.working_set(keys_of(), (0, 1))
        assert [key for key in model_of(needed.rows) if len(key) % 2 != task] == []
        version = state.replaced(needed, needed.rows, "n", sync=False, changed_keys=changing)
        assert version.rows == state.rows == len(needed.rows)
        together |= model_of(opened(tmp_path, version).all_rows())
    assert together == model


def test_files_that_cannot_be_trusted_are_refused(tmp_path: Path) -> None:
    """A missing, torn or foreign file is an error that names it."""
    version = advanced(tmp_path, Version([], 0), {}, {"a": [(5, [1])]}, 0)
    (name,) = version.names
    other = Layout(SCHEMA.remove(3), last_ms)
    with pytest.raises(CheckpointError, match=f"{name} has other columns"):
        KeyedState(tmp_path, [name], other)
    records = write_segment(tmp_path, table_of({}), "x", sync=False)
    with pytest.raises(CheckpointError, match="has other columns"):
        KeyedState(tmp_path, [records], LAYOUT)
    with pytest.raises(CheckpointError, match="cannot be read"):
        KeyedState(tmp_path, ["missing.arrow"], LAYOUT)
    path = tmp_path / name
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(CheckpointError, match="is not what the pipeline wrote"):
        KeyedState(tmp_path, [name], LAYOUT)


def test_columns_of_users_may_have_any_name() -> None:
    """A column with the name of a segment's own column does not conflict with it."""
    schema = pa.schema([("key", pa.string()), ("hash", pa.int64()), ("due_ms", pa.int64())])
    layout = Layout(schema, lambda rows: np.full(len(rows), FOREVER_MS))
    rows = pa.table([["a"], [1], [2]], schema=schema)
    with TemporaryDirectory() as name:
        needed = KeyedWorkingSet(key_hashes(rows["key"]), rows[:0])
        version = KeyedState(Path(name), [], layout).replaced(needed, rows, "n", sync=False)
        assert KeyedState(Path(name), version.names, layout).all_rows().equals(rows)


def test_hashes_never_change() -> None:
    """State files are sorted by hash. A key has the same hash in any slice of keys."""
    keys = ["", "a", "\0", "\0\0", "aé", *("x" * size for size in range(2, 3000, 7))]
    together = key_hashes(pa.array(keys))
    assert together[:3].tolist() == [0, -2619445425694125662, 5627194300713089401]
    assert len(set(together.tolist())) == len(keys)
    alone = [int(key_hashes(pa.array([key]))[0]) for key in keys]
    assert together.tolist() == alone
    assert key_hashes(pa.array(keys)[3:]).tolist() == alone[3:]
    assert not len(key_hashes(pa.chunked_array([], pa.string())))


def test_long_keys_are_hashed_in_shares() -> None:
    """In megabytes of keys, each key has the hash that it has alone."""
    keys = [f"{number}-" + "y" * 40_000 for number in range(80)]
    alone = [int(key_hashes(pa.array([key]))[0]) for key in keys]
    assert key_hashes(pa.array(keys)).tolist() == alone
