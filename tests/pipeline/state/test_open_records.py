"""Stream joins that read a part of the open records return what they return with all records."""

from collections.abc import Iterator
from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
import pytest

from oriel import JoinWindows
from oriel.pipeline.errors import CheckpointError
from oriel.pipeline.state import OpenRecords, Version
from oriel.pipeline.state import segments as state_files
from oriel.pipeline.state.segments import open_segment
from oriel.pipeline.windows import (
    LEFT,
    RIGHT,
    InputStreamTimes,
    JoinResult,
    StreamJoinEngine,
    Times,
)
from oriel.pipeline.windows.joins.inputs import How
from tests.campaigns import cases
from tests.models.joins import clock
from tests.windows.join_batches import batches, random_cuts, to_table
from tests.windows.test_stream_join_properties import (
    CARRIED,
    LEFT_VALUES,
    RIGHT_VALUES,
    Case,
    engine_of,
    random_case,
)

Segments = dict[int, list[str]]


def opened(
    directory: Path, engine: StreamJoinEngine, segments: Segments, task: int, tasks: int
) -> OpenRecords:
    """Return the state of a task as the next batch finds it."""
    schema, marks = engine.record_schema, engine.keeps_matches
    return OpenRecords.of_task(directory, segments, (task, tasks), schema, marks=marks)


def advanced(
    engine: StreamJoinEngine,
    state: OpenRecords,
    batch: pa.Table,
    stream_times: tuple[InputStreamTimes, InputStreamTimes],
) -> tuple[JoinResult, Version]:
    """Run one batch as the task of the join does."""
    rows = np.flatnonzero(engine.concerned(state.records, state.matched, batch, stream_times))
    done = engine.apply(state.state(rows), batch, Times.at(stream_times[1]))
    stays = engine.stays(state.records, stream_times[1])
    return done, state.replaced(rows[done.stayed], done.state, stays, "n", sync=False)


def arriving(
    case: Case, engine: StreamJoinEngine, random: Random
) -> Iterator[tuple[pa.Table, InputStreamTimes]]:
    """Yield the batches of the case, with the stream times after each batch."""
    for batch in batches(case.sides, random_cuts(case.sides, random)):
        sides = [
            to_table(engine.record_schema, batch.new[side], column, side=side)
            for side, column in ((RIGHT, "r"), (LEFT, "l"))
        ]
        yield pa.concat_tables(sides), (clock(batch.so_far[LEFT]), clock(batch.so_far[RIGHT]))


def in_order(rows: pa.Table) -> list[str]:
    """Return the rows in a fixed order."""
    return sorted(map(repr, rows.to_pylist()))


def of_task(rows: pa.Table, task: int, tasks: int) -> pa.Table:
    """Return the rows that a task receives."""
    return rows.filter(pa.array(np.asarray(rows["key_group"]) % tasks == task))


@pytest.mark.slow
@cases(8, 200)
@pytest.mark.parametrize("segments_at_most", [2, state_files.MAX_SEGMENTS])
def test_any_share_of_the_records_gives_what_all_of_them_give(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, segments_at_most: int, number: int
) -> None:
    """Results and numbers of open records are equal, after restarts, with one task or two."""
    monkeypatch.setattr(state_files, "MAX_SEGMENTS", segments_at_most)
    results = 0
    for seed in range(number):
        case, random = random_case(seed), Random(seed)
        engine = engine_of(case.how, case.span)
        whole = engine.empty_state()
        before: InputStreamTimes = (-1, -1)
        segments: Segments = {}
        for batch, after in arriving(case, engine, random):
            expected = engine.apply(whole, batch, Times.at(after))
            whole = expected.state
            tasks = random.choice([1, 1, 1, 2])
            states = [opened(tmp_path, engine, segments, task, tasks) for task in range(tasks)]
            advances = [
                advanced(engine, state, of_task(batch, task, tasks), (before, after))
                for task, state in enumerate(states)
            ]
            joined = pa.concat_tables([done.results for done, _ in advances])
            assert in_order(joined) == in_order(expected.results), f"seed {seed}"
            assert sum(sum(done.late) for done, _ in advances) == sum(expected.late)
            assert sum(version.rows for _, version in advances) == len(whole)
            segments = {task: version.names for task, (_, version) in enumerate(advances)}
            assert [names for names in segments.values() if len(names) > segments_at_most + 1] == []
            for task, (_, version) in enumerate(advances):
                stored = opened(tmp_path, engine, segments, task, tasks).records
                assert len(stored) <= 2 * version.rows, "most of what is stored has left"
            before, results = after, results + len(joined)
    assert results > 300 / 80 * number


def one_key_each(engine: StreamJoinEngine, number: int, start: int) -> pa.Table:
    """Return `number` left records, one per ms, each with its own key."""
    rows = [
        {
            "key": f"k{place}", "timestamp_ms": place, "partition": 0, "offset": place,
            "stream_time_ms": place, "side": LEFT, "key_group": 0, "l": "x",
        }
        for place in range(start, start + number)
    ]  # fmt: skip
    return pa.Table.from_pylist(rows, schema=engine.record_schema)


@pytest.mark.slow
@pytest.mark.parametrize("how", ["inner", "outer"])
def test_what_is_written_is_in_proportion_to_the_batch(tmp_path: Path, how: How) -> None:
    """Batches of ten records arrive while thousands are open. Few are written, and all stay."""
    case = random_case(0)
    engine = engine_of(how, case.span)
    stream_times = ((-1, -1), (-1, -1))
    state = opened(tmp_path, engine, {}, 0, 1)
    _, version = advanced(engine, state, one_key_each(engine, 5000, 0), stream_times)
    written = 0
    for number in range(100):
        state = opened(tmp_path, engine, {0: version.names}, 0, 1)
        _, version = advanced(
            engine, state, one_key_each(engine, 10, 5000 + 10 * number), stream_times
        )
        records = version.names[:-1] if engine.keeps_matches else version.names
        written += len(open_segment(tmp_path, records[-1]))
    assert written < 4 * 100 * 10
    assert version.rows == 6000
    assert len(opened(tmp_path, engine, {0: version.names}, 0, 1).records) == 6000


def test_a_state_without_records_has_no_files(tmp_path: Path) -> None:
    """When all records have left, no file is kept."""
    case = random_case(0)
    engine = engine_of("outer", case.span)
    first, last = (-1, -1), (10**6, 10**6)
    batch = one_key_each(engine, 10, 0)
    _, version = advanced(engine, opened(tmp_path, engine, {}, 0, 1), batch, (first, first))
    assert version.rows == 10
    state = opened(tmp_path, engine, {0: version.names}, 0, 1)
    done, version = advanced(engine, state, batch[:0], (first, last))
    assert len(done.results) == 10
    assert version == Version([], 0)


@pytest.mark.parametrize("how", ["inner", "outer"])
def test_a_batch_that_changes_nothing_writes_nothing(tmp_path: Path, how: How) -> None:
    """The version stays unchanged. A record that leaves or is late needs no file."""
    engine = StreamJoinEngine(JoinWindows(5, 5, 0), how, LEFT_VALUES, RIGHT_VALUES, CARRIED)
    stream_times = ((-1, -1), (-1, -1))
    batch = one_key_each(engine, 10, 0)
    _, version = advanced(engine, opened(tmp_path, engine, {}, 0, 1), batch, stream_times)
    state = opened(tmp_path, engine, {0: version.names}, 0, 1)
    _, same = advanced(engine, state, batch[:0], stream_times)
    assert same == version
    _, fewer = advanced(engine, state, batch[:0], ((-1, -1), (-1, 12)))
    assert fewer == Version(version.names, 8)
    place = [field.name for field in batch.schema].index("side")
    late_right = batch[:1].set_column(place, "side", pa.array([RIGHT], pa.int8()))
    late_right = late_right.set_column(4, "stream_time_ms", pa.array([9]))
    _, same = advanced(engine, state, late_right, stream_times)
    assert same == version


def test_a_match_is_kept_though_its_record_leaves_at_once(tmp_path: Path) -> None:
    """A right record below the left stream time joins and is not kept. The match is kept."""
    engine = StreamJoinEngine(JoinWindows(5, 5, 0), "outer", LEFT_VALUES, RIGHT_VALUES, CARRIED)
    first, second, third, last = (-1, -1), (11, -1), (11, 0), (11, 100)
    batch = one_key_each(engine, 12, 0)
    state = opened(tmp_path, engine, {}, 0, 1)
    _, version = advanced(engine, state, batch, (first, second))
    place = [field.name for field in batch.schema].index("side")
    right = batch[:1].set_column(place, "side", pa.array([RIGHT], pa.int8()))
    state = opened(tmp_path, engine, {0: version.names}, 0, 1)
    done, version = advanced(engine, state, right, (second, third))
    assert (len(done.results), version.rows) == (1, 12)
    state = opened(tmp_path, engine, {0: version.names}, 0, 1)
    done, _ = advanced(engine, state, batch[:0], (third, last))
    assert sorted(done.results["key"].to_pylist()) == sorted(f"k{n}" for n in range(1, 12))


def test_files_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    """A missing file, or a file with other columns, is an error that names the file."""
    case = random_case(0)
    engine, other = engine_of("outer", case.span), engine_of("inner", case.span)
    stream_times = ((-1, -1), (-1, -1))
    state = opened(tmp_path, engine, {}, 0, 1)
    _, version = advanced(engine, state, one_key_each(engine, 3, 0), stream_times)
    with pytest.raises(CheckpointError, match=f"{version.names[1]} has other columns"):
        opened(tmp_path, other, {0: version.names}, 0, 1)
    (tmp_path / version.names[0]).unlink()
    with pytest.raises(CheckpointError, match=f"{version.names[0]} cannot be read"):
        opened(tmp_path, engine, {0: version.names}, 0, 1)
