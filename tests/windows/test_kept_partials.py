"""Partial aggregates that rows keep: merged windows equal the slow model of one longer window."""

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from oriel import TimeWindows
from oriel.pipeline import windows as w
from oriel.pipeline.windows import KeptPartials
from oriel.pipeline.windows.aggregates import row_encoding
from tests.campaigns import seeds
from tests.models.aggregates import check_window
from tests.models.tables import Arrived, Outcome, Window, in_order
from tests.models.time_windows import Hopping, expected_windows
from tests.windows.engine_runs import (
    AGGREGATES,
    VALUES,
    Setup,
    random_cuts,
    run_engine,
    valued_logs,
    whole,
)
from tests.windows.random_logs import random_case

#: These keep all records, so they cannot be merged.
NOT_KEPT = ("all", "words")


def longer_windows(outcome: Outcome, step: int) -> Mapping[tuple[str, int], Window]:
    """Return the windows of ``step`` with the accepted records of shorter windows, by the model."""
    members: dict[tuple[str, int], list[Arrived]] = {}
    for (key, start, _), window in outcome.windows.items():
        members.setdefault((key, start // step * step), []).extend(window.members)
    return {place: Window(in_order(records), final=False) for place, records in members.items()}


def check_merged(seed: int) -> None:
    """Merge the rows of a random log cut into batches, and compare the ranges with the model."""
    random = Random(seed)
    case, logs = random_case(seed), valued_logs(seed)
    size, count = random.choice((1, 2, 5)), random.choice((1, 3, 6))
    setup = Setup(TimeWindows.of_size_and_grace(size, case.grace), mergeable=True)
    cuts = random.choice((whole, lambda of: random_cuts(of, random)))(logs)
    rows = run_engine(setup, logs, cuts, restart=True, seed=seed).rows
    expected = longer_windows(expected_windows(logs, Hopping(size, size, case.grace)), size * count)
    parts: dict[tuple[str, int], list[Mapping[str, Any]]] = {}
    for key, start, end in sorted(rows):
        row = rows[key, start, end]
        parts.setdefault((key, start // (size * count) * size * count), []).append(row)
    assert parts.keys() == expected.keys()
    if not parts:
        return
    results = merged_results(KeptPartials(setup.engine().kept), list(parts.values()), random)
    for place, result in zip(parts, results, strict=True):
        window = expected[place]
        others = {"all": window.values("v"), "words": window.values("s")}
        times = {"timestamp_ms": window.timestamp, "final": False}
        assert result.keys() == AGGREGATES.keys() - NOT_KEPT
        check_window({**result, **others, **times}, window)
        ordered = sorted(window.values("v"))
        assert result["middle"] == (ordered[len(ordered) // 2] if ordered else None)


def merged_results(
    kept: KeptPartials, ranges: Sequence[Sequence[Mapping[str, Any]]], random: Random
) -> list[dict[str, Any]]:
    """Return the results of ranges of rows, merged in two random steps."""
    pieces, sizes = [], []
    for rows in ranges:
        cut = random.randint(1, len(rows))
        halves = [half for half in (rows[:cut], rows[cut:]) if half]
        sizes.append(len(halves))
        encoded = [row[w.PARTIALS.name] for half in halves for row in half]
        pieces.append(kept.merged(encoded, np.array([len(half) for half in halves])))
    results: list[dict[str, Any]] = pa.table(kept.results(pieces, np.array(sizes))).to_pylist()
    return results


@seeds(30, 5_000, first=9_100_000)
def test_merged_windows_equal_a_longer_window(seed: int) -> None:
    """All aggregates are equal to the last bit, with late records, NaN, infinities and nulls."""
    check_merged(seed)


def test_each_aggregate_can_be_merged_alone() -> None:
    """The other partial aggregates of a row are skipped."""
    setup = Setup(TimeWindows.of_size_and_grace(5, 30), mergeable=True)
    logs = valued_logs(4)
    rows = list(run_engine(setup, logs, whole(logs)).rows.values())
    encoded, sizes = [row[w.PARTIALS.name] for row in rows], np.array([len(rows)])
    every = KeptPartials(setup.engine().kept)
    wanted = every.results([every.merged(encoded, sizes)], np.array([1]))
    for name in AGGREGATES.keys() - NOT_KEPT:
        kept = KeptPartials(setup.engine().kept, [name])
        found = kept.results([kept.merged(encoded, sizes)], np.array([1]))
        assert repr(pa.table(found).to_pylist()) == repr([{name: wanted[name][0].as_py()}])


def test_flattened_records_keep_their_order() -> None:
    """``first`` and ``last`` of records with equal offsets compare the lineage."""
    setup = Setup(TimeWindows.of_size_and_grace(2, 30), shared_offsets=True)
    aggregates = {name: AGGREGATES[name].with_lineage() for name in ("first", "last", "n")}
    logs = valued_logs(7)
    rows = {}
    for size in (2, 12):
        windows = TimeWindows.of_size_and_grace(size, 30)
        rows[size] = run_engine(
            Setup(windows, aggregates, shared_offsets=True, mergeable=True), logs, whole(logs)
        ).rows
    kept = KeptPartials(
        Setup(setup.windows, aggregates, shared_offsets=True, mergeable=True).engine().kept
    )
    for (key, start, end), wanted in rows[12].items():
        parts = [row for (k, s, _), row in sorted(rows[2].items()) if k == key and start <= s < end]
        (found,) = merged_results(kept, [parts], Random(1))
        assert found == {name: wanted[name] for name in aggregates}


def test_rows_of_more_bytes_than_an_array_can_have(monkeypatch: pytest.MonkeyPatch) -> None:
    """Such rows are encoded in several arrays, with the same bytes."""
    column = pa.array([[1.0], [], [2.0, 3.0], [4.0] * 9, [5.0]])
    whole_array = row_encoding.encoded_rows([column])
    monkeypatch.setattr(row_encoding, "_ARRAY_BYTES", 40)
    split = row_encoding.encoded_rows([column])
    assert split.num_chunks > 1
    assert split.to_pylist() == whole_array.to_pylist()


@pytest.mark.parametrize(
    "column",
    [
        pa.array([1, -1, 2**63 - 1, None, -(2**63)]),
        pa.array([1.5, None, float("inf"), -0.0]),
        pa.array([True, None, False]),
        pa.array(["", "é\0", None, "\U0001f600"]),
        pa.array([b"", b"\xff\0", None]),
        pa.array([[], [1, 2], [-(2**63)]], pa.list_(pa.int64())),
        pa.array([None, {"a": None, "b": 3}, {"a": "x", "b": 0}, None]),
    ],
    ids=lambda column: str(column.type),
)
def test_each_type_is_decoded_as_it_was(column: pa.Array) -> None:
    """Also slices are decoded with equal values, and columns after them."""
    for array in (column, column.slice(1), column.slice(0, 0)):
        rows = row_encoding.encoded_rows([array, pa.array(range(len(array)), pa.int64())])
        fields = [pa.field("x", column.type), pa.field("n", pa.int64())]
        found = row_encoding.decoded_rows(rows.to_pylist(), fields, ["x", "n"])
        assert found["x"].to_pylist() == array.to_pylist()
        assert found["n"].to_pylist() == list(range(len(array)))


def test_only_aggregates_without_functions_of_users_are_kept() -> None:
    """A mergeable aggregate of a user needs its functions, and ``collect_list`` has no encoding."""
    longest = w.mergeable("approx_quantile", "v", lift=np.abs, merge=np.maximum, result=np.sqrt)
    assert not w.can_be_kept(longest)
    assert {n for n, each in AGGREGATES.items() if not w.can_be_kept(each)} == set(NOT_KEPT)


@pytest.mark.parametrize(
    ("windows", "aggregates"),
    [
        (TimeWindows.of_size_and_grace(10, 0).advance_by(5), AGGREGATES),
        (w.SlidingWindows.of_time_difference_and_grace(10, 0), AGGREGATES),
        (TimeWindows.of_size_and_grace(10, 0), {"all": AGGREGATES["all"]}),
    ],
)
def test_other_engines_keep_nothing(
    windows: w.Windows, aggregates: Mapping[str, w.Aggregate]
) -> None:
    """Windows that overlap, and aggregates that cannot be merged, are rejected."""
    engine = w.engine_for(windows, aggregates, VALUES)
    with pytest.raises(w.IllegalArgument, match="tumbling windows with named aggregates"):
        engine.keep_partials()
