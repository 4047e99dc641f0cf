"""Join tasks as plain functions: results equal the slow model, with reports and shares of keys."""

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oriel import JoinWindows, SessionWindows, StreamsBuilder, TimeWindows, collect_list, count
from oriel.pipeline.lowered import Store
from tests.models.joins import Logs, Span, joined
from tests.pipeline.tasks.join_runs import JoinRun
from tests.pipeline.tasks.task_runs import one_store
from tests.windows.lineages import values_of

SPAN = Span(before=4, after=6, grace=3)
WINDOWS = (
    JoinWindows.of_time_difference_and_grace(0, SPAN.grace).after(SPAN.after).before(SPAN.before)
)

RECORD = st.tuples(st.sampled_from("abcd"), st.integers(0, 40), st.just("v"))
LOG = st.lists(RECORD, max_size=8)
SIDE = st.fixed_dictionaries({0: LOG, 1: LOG})
#: One batch: the number of records of each side and partition, and the number of tasks.
CUT = st.tuples(
    st.tuples(st.integers(0, 4), st.integers(0, 4), st.integers(0, 4), st.integers(0, 4)),
    st.integers(1, 3),
)


def store_of(how: str, *, table: bool = False) -> Store:
    """Both sides' values of each key and ten ms, and how many results there are."""
    builder = StreamsBuilder()
    left = builder.stream("left", "l STRING")
    if table:
        right = builder.table("right", "r STRING")
        both = left.join(right) if how == "inner" else left.left_join(right)
    else:
        other = builder.stream("right", "r STRING")
        if how == "outer":
            both = left.outer_join(other, WINDOWS)
        else:
            both = (left.join if how == "inner" else left.left_join)(other, WINDOWS)
    windowed = both.group_by_key().windowed_by(TimeWindows.of_size_and_grace(10, 20))
    windowed.aggregate(n=count(), ls=collect_list("l"), rs=collect_list("r")).materialize("s")
    return one_store(builder.build())


def numbered(side: str, logs: Logs) -> Logs:
    """Return the logs. The value of a record names its source."""
    return {
        partition: [
            (key, time, None if value is None else f"{side}{partition}-{offset}")
            for offset, (key, time, value) in enumerate(log)
        ]
        for partition, log in logs.items()
    }


def run_all(run: JoinRun, sides: tuple[Logs, Logs], cuts: Sequence[tuple[Any, int]]) -> list[Any]:
    """Run the logs in batches. The last one has all remaining records. Return all written rows."""
    rows = []
    position = dict.fromkeys([(side, p) for side in (0, 1) for p in (0, 1)], 0)
    for sizes, tasks in (*cuts, ((99, 99, 99, 99), 2)):
        taken: dict[int, dict[int, Any]] = {0: {}, 1: {}}
        for (side, partition), size in zip(position, sizes, strict=True):
            start = position[side, partition]
            taken[side][partition] = sides[side][partition][start : start + size]
            position[side, partition] = start + size
        run.take(taken, tasks)
        rows += run.rows
    return rows


@pytest.mark.parametrize("how", ["inner", "left", "outer"])
@given(SIDE, SIDE, st.lists(CUT, max_size=4))
@settings(max_examples=settings().max_examples // 4)
def test_streams_join_as_the_slow_model_says(
    how: str, left: Logs, right: Logs, cuts: list[tuple[Any, int]]
) -> None:
    """Whatever the cuts and the numbers of tasks, results, counts and windows are the model's."""
    sides = numbered("l", left), numbered("r", right)
    with tempfile.TemporaryDirectory() as directory:
        run = JoinRun(Path(directory), store_of(how), ("l", "r"))
        rows = run_all(run, sides, cuts)
    model = joined(*sides, SPAN)
    wanted = model.results(how)
    names = ("key", "timestamp_ms", "partition", "offset", "__lineage", "stream_time_ms", "l", "r")
    found = [values_of({name: result[name] for name in names}) for result in run.results]
    assert sorted(found, key=lambda one: one[1:5]) == wanted
    number = sum(len(log) for logs in sides for log in logs.values())
    late = len(model.left_late) + len(model.right_late)
    counters = dict(run.counters)
    # Each result is of two records' lateness, so its window may have closed long ago.
    late_results = sum(_is_late(result) for result in wanted)
    assert counters.pop("late_results") == late_results
    assert counters.pop("rejected_results") == 0
    assert counters == {
        "input": number, "applied": number - late, "late": late,
        "dead_lettered": 0, "filtered": 0,
    }  # fmt: skip
    _check_windows(rows, [result for result in wanted if not _is_late(result)])


def _is_late(result: Sequence[Any]) -> bool:
    _, time, _, _, _, stream_time, _, _ = result
    return bool(time // 10 * 10 + 10 <= stream_time - 20)


def _check_windows(rows: list[Any], results: Sequence[Any]) -> None:
    """Compare the newest row of each window with the results that belong into it."""
    newest: dict[Any, Any] = {}
    for row in rows:
        place = row["key"], round(row["window_start"].timestamp() * 1000)
        assert not newest.get(place, {}).get("final"), "a final window changed"
        newest[place] = row
    windows: dict[Any, list[Any]] = {}
    for result in sorted(results, key=lambda one: one[1:5]):
        windows.setdefault((result[0], result[1] // 10 * 10), []).append(result)
    assert {place: (row["n"], row["ls"], row["rs"]) for place, row in newest.items()} == {
        place: (
            len(inside),
            [result[6] for result in inside if result[6] is not None],
            [result[7] for result in inside if result[7] is not None],
        )
        for place, inside in windows.items()
    }


@pytest.mark.parametrize("how", ["inner", "left"])
@given(SIDE, SIDE, st.lists(CUT, max_size=4))
@settings(max_examples=settings().max_examples // 4)
def test_a_stream_looks_up_the_table_as_it_is(
    how: str, left: Logs, right: Logs, cuts: list[tuple[Any, int]]
) -> None:
    """Each stream record gets the row that the table has after the same batch.

    Only records that find a row advance the stream time of their partition.
    """
    keyed = {p: [(f"{key}{p}", time, "v") for key, time, _ in log] for p, log in left.items()}
    # Every third record of the table deletes its key.
    table = {
        p: [
            (f"{key}{p}", time, None if (time + place) % 3 == 0 else "v")
            for place, (key, time, _) in enumerate(log)
        ]
        for p, log in right.items()
    }
    sides = numbered("l", keyed), numbered("r", table)
    with tempfile.TemporaryDirectory() as directory:
        run = JoinRun(Path(directory), store_of(how, table=True), ("l", "r"))
        run_all(run, sides, cuts)
    wanted, dropped = _looked_up(sides, [*(sizes for sizes, _ in cuts), (99, 99, 99, 99)], how)
    assert sorted((one["l"], one["key"], one["r"]) for one in run.results) == sorted(
        (value, key, row) for _, value, key, row, _ in wanted
    )
    assert run.counters["filtered"] == dropped
    assert run.counters["late"] == _late(wanted)
    assert run.counters.get("table_records", 0) == sum(map(len, table.values()))
    assert (
        sum(run.counters[name] for name in ("applied", "late", "filtered"))
        == (run.counters["input"])
    )


def test_looking_up_writes_no_state(tmp_path: Path) -> None:
    """A batch without a table record leaves the table's files, unless the tasks change."""
    run = JoinRun(tmp_path, store_of("left", table=True), ("l", "r"))
    run.take({1: {0: [(key, 1, "v") for key in "abcd"]}}, 2)
    assert run.previous is not None
    segments = run.previous.join_segments
    run.take({0: {0: [(key, 2, "x") for key in "abxy"]}}, 2)
    assert run.previous.join_segments == segments
    assert [one["r"] for one in run.results if one["key"] in "ab"] == ["v", "v"]
    run.take({0: {0: [(key, 2, "x") for key in "abxy"]}}, 3)
    assert sum(join.open_records for join in run.reports.joins) == 4
    run.take({0: {0: [(key, 3, "x") for key in "cd"]}}, 3)
    assert [one["r"] for one in run.results if one["key"] in "cd"] == ["v", "v"]


#: Partition, value, key, the table's row and time of a record that found one.
_Found = tuple[int, str, str, str | None, int]


def _looked_up(sides: tuple[Logs, Logs], cuts: Sequence[Any], how: str) -> tuple[list[_Found], int]:
    """Replay the batches: all table records of one first, then look up its stream records."""
    rows: dict[str, str | None] = {}
    found, dropped = [], 0
    left = {p: list(log) for p, log in sides[0].items()}
    right = {p: list(log) for p, log in sides[1].items()}
    for sizes in cuts:
        for partition in (0, 1):
            mine, right[partition] = _cut(right[partition], sizes[2 + partition])
            rows.update({key: value for key, _, value in mine})
        for partition in (0, 1):
            mine, left[partition] = _cut(left[partition], sizes[partition])
            for key, time, value in mine:
                assert value is not None
                row = rows.get(key)
                if row is None and how == "inner":
                    dropped += 1
                else:
                    found.append((partition, value, key, row, time))
    return found, dropped


def _late(found: list[_Found]) -> int:
    """Return the number of records that are late for windows of 10 ms with a grace of 20 ms."""
    stream_time = dict.fromkeys((0, 1), -1)
    late = 0
    for partition, _, _, _, time in found:
        stream_time[partition] = max(stream_time[partition], time)
        late += time // 10 * 10 + 10 <= stream_time[partition] - 20
    return late


def _cut(log: list[Any], size: int) -> tuple[list[Any], list[Any]]:
    return log[:size], log[size:]


def test_each_task_reports_once(tmp_path: Path) -> None:
    """For any number of tasks of a join, the reports have each stream and join task once."""
    run = JoinRun(tmp_path, store_of("left"), ("l", "r"))
    records = [("a", 1, "x"), ("b", 2, "y"), ("c", 3, "z")]
    run.take({0: {0: records}, 1: {1: records}}, 3)
    reports = run.reports
    assert sorted(report.task for report in reports.stores) == [0, 1, 2]
    # Two sides of two partitions, then one stream task for each of the join's tasks.
    streams = reports.streams
    assert sorted(s.stream_time_name for s in streams if s.counters.input) == ["left", "right"]
    assert len(streams) == 4 + 3
    assert sorted(join.task for join in reports.joins) == [0, 1, 2]
    assert reports.stream_times_after({"left": {}, "right": {}}) == {
        "left": {0: 3},
        "right": {1: 3},
    }
    assert run.counters["input"] == 6


def test_each_task_keeps_its_own_share_of_the_keys(tmp_path: Path) -> None:
    """After a change of the number of tasks no record is kept by two tasks, or by none."""
    run = JoinRun(tmp_path, store_of("inner"), ("l", "r"))
    keys = "abcdefgh"
    run.take({0: {0: [(key, 5, f"l-{key}") for key in keys]}}, 3)
    open_records = []
    for tasks in (2, 5, 1):
        run.take({}, tasks)
        assert run.previous is not None
        assert set(run.previous.join_segments[0]) == set(range(tasks))
        joins = run.reports.joins
        open_records.append(sum(join.open_records for join in joins))
    assert open_records == [len(keys)] * 3
    run.take({1: {1: [(key, 5, f"r-{key}") for key in keys]}}, 4)
    assert sorted((one["l"], one["r"]) for one in run.results) == [
        (f"l-{key}", f"r-{key}") for key in keys
    ]


def test_a_replayed_batch_gives_the_same(tmp_path: Path) -> None:
    """A batch that is computed again from the same version has the same rows."""
    run = JoinRun(tmp_path, store_of("outer"), ("l", "r"))
    run.take({0: {0: [("a", 1, "x")]}, 1: {0: [("b", 2, "y")]}}, 2)
    before, position = run.previous, dict(run.position)
    second = {0: {0: [("a", 90, "z"), ("b", 91, "w")], 1: [("c", 95, "q")]}, 1: {
        0: [("a", 92, "y")], 1: [("d", 95, "p")]}}  # fmt: skip
    run.take(second, 2)
    rows, counters = run.rows, run.counters
    run.previous, run.batch, run.position = before, 1, position
    run.take(second, 3)
    assert sorted(map(str, run.rows)) == sorted(map(str, rows))
    assert run.counters == counters


def fold_of(how: str) -> Store:
    """Return a store whose aggregator raises an error for unmatched records and invalid values."""

    def add(_key: str, value: Any, aggregate: int) -> int:
        if None in value.values() or "bad" in value.values():
            raise ValueError
        return aggregate + 1

    builder = StreamsBuilder()
    left, right = builder.stream("left", "l STRING"), builder.stream("right", "r STRING")
    both = left.outer_join(right, WINDOWS) if how == "outer" else left.join(right, WINDOWS)
    both.group_by_key().aggregate(
        lambda: 0, add, lambda _, one, other: one + other, "n BIGINT"
    ).materialize("s")
    return one_store(builder.build())


def dead_letters_of(run: JoinRun) -> list[tuple[Any, ...]]:
    """Where the dead letters of the last batch say that their records are."""
    assert run.previous is not None
    dead_letters = [
        letter
        for file in run.previous.dead_letters
        for letter in pq.read_table(run.directory / "dead" / file.path).to_pylist()
    ]
    return sorted((one["topic"], one["partition"], one["offset"]) for one in dead_letters)


def test_a_join_result_with_a_function_error_is_a_dead_letter_of_its_left_record(
    tmp_path: Path,
) -> None:
    """A result has no bytes of its own: its dead letter names the left record's place."""
    run = JoinRun(tmp_path, fold_of("inner"), ("l", "r"))
    run.take({0: {1: [("a", 5, "x"), ("a", 6, "bad")]}, 1: {0: [("a", 5, "y")]}}, 2)
    assert dead_letters_of(run) == [("left", 1, 1)]
    assert [row["n"] for row in run.rows] == [1]


def test_a_dead_letter_of_a_right_record_names_its_topic(tmp_path: Path) -> None:
    """A record of the right side that stays alone has its place in the right topic."""
    run = JoinRun(tmp_path, fold_of("outer"), ("l", "r"))
    run.take({1: {0: [("a", 5, "y")]}}, 1)
    later = {p: [("b", 90, "z")] for p in (0, 1)}
    run.take({0: later, 1: later}, 1)
    assert dead_letters_of(run) == [("right", 0, 0)]


@pytest.mark.parametrize("problem", ["raises", "late"])
def test_no_more_records_are_bad_than_came(tmp_path: Path, problem: str) -> None:
    """A record with many matches counts once if its results are invalid or late."""
    store = fold_of("inner")
    if problem == "late":
        builder = StreamsBuilder()
        both = builder.stream("left", "l STRING").join(builder.stream("right", "r STRING"), WINDOWS)
        sessions = SessionWindows.of_inactivity_gap_with_no_grace(0)
        both.group_by_key().windowed_by(sessions).count().materialize("s")
        store = one_store(builder.build())
    run = JoinRun(tmp_path, store, ("l", "r"))
    run.take({0: {0: [("b", 12, "x")]}, 1: {0: [("b", 12, "y")]}}, 1)
    run.take({0: {0: [("a", 10, "bad")] * 4}, 1: {0: [("a", 10, "bad")] * 4}}, 1)
    assert run.counters["input"] == 10
    assert {name: number for name, number in run.counters.items() if number < 0} == {}
