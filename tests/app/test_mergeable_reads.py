"""Merged reads of stores that keep partial aggregates, against the slow model of windows."""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random
from shutil import rmtree
from typing import Any
from urllib.parse import quote

import numpy as np
import orjson
import pytest

from oriel.app.contract import MediaType
from oriel.app.reads import pages
from oriel.app.reads.merged import read as merged_read
from oriel.storage import PARTIALS_COLUMN
from oriel.storage.delta import DeltaLog
from oriel.storage.index import (
    IndexDirectory,
    IndexRows,
    IndexWriter,
    damage,
    index_differences,
)
from oriel.storage.index.check import find_damage
from oriel.storage.index.checksums import with_checksum
from oriel.storage.index.generation import open_for_writing
from oriel.storage.key_codec import window_times
from oriel.storage.shards import ALL_KEYS
from tests.app.api_client import ApiResponse, index_store
from tests.app.mergeable_stores import MERGEABLE, SIZE_MS, MergeableStore, mergeable_store
from tests.app.problem_shape import assert_problem
from tests.models.aggregates import check_window, wanted_row
from tests.models.tables import Window

ROOT = "/v1/stores/store"
COLUMNS = ",".join(MERGEABLE)
#: A log with many windows, and with late records.
SEED = 9_200_048
KEYS = ("a", "b", "ä/ \0")


def generation_of(store: MergeableStore) -> Path:
    """Return the current generation of the index, without open files."""
    store.service.catalog.close()
    generation = IndexDirectory(store.layout.index("store")).current()
    assert generation is not None
    return generation


@contextmanager
def partials_of_index(generation: Path) -> Iterator[tuple[Any, Any]]:
    """Yield a write transaction and the database of partial aggregates."""
    opened = open_for_writing(generation, sync=False)
    with opened.env.begin(write=True) as txn:
        yield txn, opened.partials
    opened.env.close()


def items_of(response: ApiResponse) -> list[Any]:
    """Return the windows of a response."""
    assert response.status == 200, response.body
    return list(response.json["windows"])


def all_items(store: MergeableStore, target: str, body: bytes | None = None) -> list[Any]:
    """Return the ranges of all pages."""
    found, cursor = [], ""
    while True:
        client = store.client
        response = (
            client.get(target + cursor) if body is None else client.post(target + cursor, body)
        )
        found += items_of(response)
        if response.json["next_cursor"] is None:
            return found
        cursor = f"&cursor={response.json['next_cursor']}"


def check_range(item: dict[str, Any], window: Window) -> None:
    """Compare a range with the aggregates that plain Python computes from its records."""
    # JSON cannot have NaN and infinities, so these values are null.
    missing = {
        name: value
        for name, value in wanted_row(window).items()
        if isinstance(value, float) and not math.isfinite(value)
    }
    assert [item[name] for name in missing] == [None] * len(missing)
    others = {"all": window.values("v"), "words": window.values("s")}
    check_window({**item, **missing, **others, "final": window.final}, window)


def check_reads(store: MergeableStore, seed: int) -> int:
    """Compare random merged reads with the model. Return the number of ranges."""
    choice = Random(seed)
    step_ms = SIZE_MS * choice.choice((1, 2, 3, 6))
    ranges = store.ranges(step_ms)
    query = f"step_ms={step_ms}&columns={COLUMNS}&limit={choice.choice((1, 3, 1000))}"
    listed = all_items(store, f"{ROOT}/mergedOfKeys?{query}", orjson.dumps(KEYS))
    scanned = all_items(store, f"{ROOT}/mergedAll?{query}")
    assert listed == scanned
    assert [(item["key"], item["window_start_ms"]) for item in listed] == sorted(
        ranges, key=lambda place: (place[0].encode(), place[1])
    )
    for item in listed:
        window = ranges[item["key"], item["window_start_ms"]]
        check_range(item, window)
        assert item["final"] <= window.final
        assert [*item] == ["key", "window_start_ms", "window_end_ms", *MERGEABLE,
                           "timestamp_ms", "final"]  # fmt: skip
    key = choice.choice(KEYS)
    of_key = all_items(store, f"{ROOT}/merged/{quote(key, safe='')}?{query}")
    assert of_key == [item for item in listed if item["key"] == key]
    return len(listed)


@pytest.mark.parametrize("seed", [*range(9_200_000, 9_200_005), 9_200_008, SEED])
def test_merged_reads_equal_the_model(tmp_path: Path, seed: int) -> None:
    """All aggregates of ranges are exact, over random logs, late records and batches."""
    with mergeable_store(tmp_path, seed) as store:
        check_reads(store, seed)
        check_reads(store, seed + 1)


def test_short_steps_change_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ranges that several steps read, or that a few bytes of partial aggregates end, are equal."""
    with mergeable_store(tmp_path, SEED) as store:
        assert check_reads(store, 2) > 5
        monkeypatch.setattr(pages, "_FIRST_STEP", 2)
        monkeypatch.setattr(pages, "_STEP", 2)
        monkeypatch.setattr(merged_read, "_STEP", 3)
        for seed in range(4):
            check_reads(store, seed)
        monkeypatch.setattr(merged_read, "_STEP_BYTES", 1)
        for seed in range(4):
            check_reads(store, seed)


def test_ranges_as_of_a_version_are_read_from_the_table(tmp_path: Path) -> None:
    """The table has the partial aggregates of each version."""
    with mergeable_store(tmp_path, SEED) as store:
        version = DeltaLog(store.layout.table("store")).snapshot().version
        target = f"{ROOT}/mergedAll?step_ms={2 * SIZE_MS}&columns={COLUMNS}"
        now = all_items(store, target)
        assert all_items(store, f"{target}&as_of_version={version}") == now != []
        earlier = all_items(store, f"{target}&as_of_version={version - 1}")
        assert len(earlier) <= len(now)


def test_other_reads_do_not_return_partial_aggregates(tmp_path: Path) -> None:
    """Windows have the fields of the aggregates in every read and format."""
    with mergeable_store(tmp_path, SEED) as store:
        for target in ("all", "latestAll", "fetchAll?from_ms=0&to_ms=99", "fetch/a", "latest/a"):
            for media in MediaType:
                response = store.client.get(f"{ROOT}/{target}", [("Accept", media)])
                assert response.status == 200
                assert PARTIALS_COLUMN.encode() not in response.body
        assert PARTIALS_COLUMN.encode() not in store.client.get(ROOT).body
        assert PARTIALS_COLUMN.encode() not in store.client.get(f"{ROOT}/changes?since=0").body


def test_an_index_with_partial_aggregates_equals_its_table(tmp_path: Path) -> None:
    """The index is sound, also after it is built again, and a wrong partial aggregate is found."""
    with mergeable_store(tmp_path, SEED) as store:
        target = f"{ROOT}/mergedAll?step_ms=10&columns={COLUMNS}"
        before = all_items(store, target)
        store.service.catalog.close()
        table = store.layout.table("store")
        generation = generation_of(store)
        assert find_damage(generation) is None
        assert list(index_differences(generation, table, ALL_KEYS)) == []
        rmtree(store.layout.index("store"))
        index_store(store.layout, "store")
        assert all_items(store, target) == before != []
        store.service.catalog.close()
        generation = generation_of(store)
        assert list(index_differences(generation, table, ALL_KEYS)) == []
        with partials_of_index(generation) as (txn, database):
            key = next(iter(txn.cursor(database)))[0]
            txn.put(key, with_checksum(key, b"wrong"), db=database)
        (found,) = index_differences(generation, table, ALL_KEYS)
        assert "1 are different" in found


def test_missing_partial_aggregates_are_damage(tmp_path: Path) -> None:
    """A merged read of a damaged index is rejected, and the index is marked for a rebuild."""
    with mergeable_store(tmp_path, SEED) as store:
        with partials_of_index(generation_of(store)) as (txn, database):
            txn.drop(database, delete=False)
        target = f"{ROOT}/mergedAll?step_ms=10&columns={COLUMNS}"
        assert_problem(store.client.get(target), 503, "index-damaged", "missing")
        store.service.catalog.close()
        assert "missing" in (damage(generation_of(store)) or "")


def test_expired_and_deleted_windows_leave_the_index(tmp_path: Path) -> None:
    """A sweep and a removal also delete the partial aggregates."""
    with mergeable_store(tmp_path, SEED, retention_ms=2 * SIZE_MS) as store:
        generation = generation_of(store)
        writer = IndexWriter(generation)
        assert writer.sweep(b"") is None
        state = writer.state()
        writer.close()
        with partials_of_index(generation) as (txn, database):
            left = [key for key, _ in txn.cursor(database)]
            assert [key for key in left if window_times(key)[0] < state.earliest_ms] == []
            assert left
        removed = IndexRows(
            left[:1], [b"{}"], np.ones(1, np.bool_), np.array([99]), state.extent, [b""]
        )
        writer = IndexWriter(generation)
        writer.apply([removed], state)
        writer.close()
        with partials_of_index(generation) as (txn, database):
            assert [key for key, _ in txn.cursor(database)] == left[1:]


def test_ranges_of_too_many_values_are_rejected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The memory of a read is bounded, although a quantile needs all values."""
    with mergeable_store(tmp_path, SEED) as store:
        monkeypatch.setattr(merged_read, "_RANGE_BYTES_MAX", 40)
        for target in (f"mergedAll?columns={COLUMNS}", "merged/a?columns=middle,mean,spread"):
            response = store.client.get(f"{ROOT}/{target}&step_ms=20")
            assert_problem(response, 400, "invalid-parameter", "smaller step_ms")
        assert items_of(store.client.get(f"{ROOT}/mergedAll?columns=n&step_ms=20"))


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("", ("all = collect_list(v) cannot be merged", "Send columns=n,values,")),
        ("columns=words", ("words = collect_list(s) cannot be merged", "list of records")),
    ],
)
def test_aggregates_that_are_not_kept_are_rejected(
    tmp_path: Path, query: str, words: Sequence[str]
) -> None:
    """The message names the aggregates that can be merged."""
    with mergeable_store(tmp_path, SEED) as store:
        response = store.client.get(f"{ROOT}/merged/a?{query}")
        assert_problem(response, 400, "invalid-parameter", *words)
