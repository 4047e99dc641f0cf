"""Tasks of cogroups and functions without Spark: order, dead letters, and numbers of tasks."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from oriel import (
    EmitStrategy,
    SessionWindows,
    SlidingWindows,
    StreamsBuilder,
    TimeWindows,
    Topology,
    collect_list,
    count,
)
from oriel.pipeline.plan import BatchPlan
from oriel.pipeline.tasks import Reports
from oriel.pipeline.windows import Windows
from tests.pipeline.tasks import task_runs
from tests.pipeline.tasks.task_runs import (
    Row,
    grouped,
    next_plan,
    plan_of,
    row,
    stream_of,
    written_dead_letters,
    written_rows,
)

TEXT = pa.schema([("v", pa.string())])
STEP = "store 's', aggregate"
KINDS: dict[str, Windows | None] = {
    "none": None,
    "tumbling": TimeWindows.of_size_and_grace(100, 100),
    "sliding": SlidingWindows.of_time_difference_and_grace(100, 100),
    "session": SessionWindows.of_inactivity_gap_and_grace(10, 100),
}


def start() -> str:
    """Return the aggregate of no record."""
    return ""


def append(_key: str, value: Any, aggregate: str) -> str:
    """Append the value, or raise on some values."""
    if value["v"].startswith("bad"):
        message = f"{value['v']} it is"
        raise ValueError(message)
    return f"{aggregate}{value['v']},"


def put_together(_key: str, left: str, right: str) -> str:
    """Concatenate the values of two partitions."""
    return left + right


def topology(windows: Windows | None, *topics: str, functions: bool = True) -> Topology:
    """Return a cogroup of topics, with functions or with lists of values."""
    builder = StreamsBuilder()
    streams = [builder.stream(topic, "v STRING").group_by_key() for topic in topics]
    cogroup: Any = None
    for place, stream in enumerate(streams):
        given: tuple[Any, ...] = (append,) if functions else ()
        named: dict[str, Any] = {}
        if not functions:
            named = {f"n{place}": count(), f"all{place}": collect_list("v")}
        if cogroup is None:
            cogroup = stream.cogroup(*given, **named)
        else:
            cogroup = cogroup.cogroup(stream, *given, **named)
    if windows is not None:
        cogroup = cogroup.windowed_by(windows)
    if functions:
        cogroup.aggregate(start, put_together, "s STRING").materialize("s")
    else:
        cogroup.aggregate().materialize("s")
    return builder.build()


#: One batch: the rows of each input.
Batch = Sequence[Sequence[Row]]


def run(
    directory: Path, what: Topology, batches: Sequence[tuple[Batch, int]]
) -> tuple[list[Row], list[Row]]:
    """Run batches, each with its number of tasks. Return the newest rows and all dead letters."""
    inputs = len(what.stores[0].inputs)
    plan = plan_of(directory, what, 1, *([TEXT] * inputs))
    newest: dict[Any, Row] = {}
    dead_letters: list[Row] = []
    for batch, tasks in batches:
        plan = replace(plan, tasks=tasks)
        reports = _reports(plan, batch)
        for one in written_rows(plan, reports):
            newest[one["key"], one.get("window_start"), one.get("window_end")] = one
        dead_letters += written_dead_letters(plan, reports.stores)
        plan = next_plan(plan, reports)
    rows = [newest[place] for place in sorted(newest, key=str) if not newest[place]["deleted"]]
    for one in rows:
        del one["revision"]
    return rows, dead_letters


def _reports(plan: BatchPlan, batch: Batch) -> Reports:
    sent = [
        task_runs.with_stream_times(plan, TEXT, list(rows), stream=stream_of(plan, place))
        for place, rows in enumerate(batch)
    ]
    return grouped(plan, *sent)


def records(partition: int, first: int, *values: str) -> list[Row]:
    """Return records of one key and partition, at every tenth offset from `first`."""
    return [
        row(partition, first + 10 * n, "k", 5 + n, v=value, raw=value.encode())
        for n, value in enumerate(values)
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_functions_see_a_partition_in_offset_order(tmp_path: Path, kind: str) -> None:
    """For any cuts of a partition, functions receive its records in the order of offsets."""
    log = records(0, 0, "a", "b", "c", "d"), records(1, 0, "x", "y")
    rows = {}
    for name, cuts in (("whole", ((4, 2),)), ("cut", ((1, 2), (2, 0), (1, 0)))):
        (tmp_path / name).mkdir()
        position = [0, 0]
        batches: list[tuple[Batch, int]] = []
        for tasks, sizes in enumerate(cuts, 1):
            taken = []
            for partition, size in enumerate(sizes):
                begin = position[partition]
                taken += log[partition][begin : begin + size]
                position[partition] = begin + size
            batches.append(([taken], tasks))
        rows[name], _ = run(tmp_path / name, topology(KINDS[kind], "t"), batches)
    assert rows["whole"] == rows["cut"]
    if kind in {"none", "tumbling"}:
        assert [one["s"] for one in rows["whole"]] == ["a,b,c,d,x,y,"]


@pytest.mark.parametrize("kind", KINDS)
def test_lists_of_a_cogroup_stay_separate(tmp_path: Path, kind: str) -> None:
    """Records of two topics with one partition, offset and time are two records."""
    first, second = records(0, 0, "a", "b"), records(0, 0, "x", "y")
    batches: list[tuple[Batch, int]] = [([first[:1], second], 2), ([first[1:], []], 3)]
    rows, _ = run(tmp_path, topology(KINDS[kind], "t", "u", functions=False), batches)
    wanted = {"n0": 2, "all0": ["a", "b"], "n1": 2, "all1": ["x", "y"]}
    assert wanted in [{name: one[name] for name in wanted} for one in rows]


@pytest.mark.parametrize("kind", KINDS)
def test_functions_of_a_cogroup_do_not_depend_on_cuts(tmp_path: Path, kind: str) -> None:
    """The row does not depend on which topic's records are in which batch."""
    first, second = records(0, 0, "a", "b"), records(0, 5, "x", "y")
    cuts: dict[str, list[tuple[Batch, int]]] = {
        "whole": [([first, second], 1)],
        "cut": [([first, []], 1), ([[], second], 1)],
    }
    found = {}
    for name, batches in cuts.items():
        (tmp_path / name).mkdir()
        found[name], _ = run(tmp_path / name, topology(KINDS[kind], "t", "u"), batches)
    assert found["whole"] == found["cut"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_function_error_is_a_dead_letter_with_topic_and_bytes(tmp_path: Path, kind: str) -> None:
    """The invalid records of each input are dead letters of its topic, also at equal offsets."""
    first, second = records(0, 0, "a", "bad1", "b"), records(0, 0, "bad2", "bad3", "x")
    batches: list[tuple[Batch, int]] = [([first, [*second, *records(1, 0, "bad4")]], 2)]
    _, dead_letters = run(tmp_path, topology(KINDS[kind], "t", "u"), batches)
    names = ("topic", "partition", "offset", "store", "reason", "raw")
    assert sorted(tuple(letter[name] for name in names) for letter in dead_letters) == [
        ("t", 0, 10, "s", "function-raised", b"bad1"),
        ("u", 0, 0, "s", "function-raised", b"bad2"),
        ("u", 0, 10, "s", "function-raised", b"bad3"),
        ("u", 1, 0, "s", "function-raised", b"bad4"),
    ]
    assert {letter["detail"] for letter in dead_letters} == {
        f"store 's', aggregate: ValueError: bad{n} it is" for n in (1, 2, 3, 4)
    }


@pytest.mark.parametrize("kind", KINDS)
def test_bad_records_change_no_row(tmp_path: Path, kind: str) -> None:
    """The rows are the same without these records, also after a restart with other tasks."""
    good, bad = records(0, 0, "a", "b", "c"), records(0, 100, "bad1", "bad2")
    mixed = [good[0], {**bad[0], "offset": 3}, good[1], {**bad[1], "offset": 13}, good[2]]
    found = []
    for name, log in (("good", good), ("mixed", mixed)):
        (tmp_path / name).mkdir()
        batches: list[tuple[Batch, int]] = [([log[:2]], 2), ([log[2:]], 3)]
        found.append(run(tmp_path / name, topology(KINDS[kind], "t"), batches))
    (rows, none), (others, dead_letters) = found
    assert rows == others
    assert (len(none), len(dead_letters)) == (0, 2)


def two_at_most(key: str, value: Any, aggregate: str) -> str:
    """Append the value, but raise on the third one."""
    if aggregate.count(",") > 1:
        message = f"no {value['v']} behind {aggregate}"
        raise ValueError(message)
    return append(key, value, aggregate)


def placed(partition: int, offset: int, time: int, value: str) -> Row:
    """Return a record of the key k."""
    return row(partition, offset, "k", time, v=value, raw=f"bytes of {value}".encode())


@pytest.mark.parametrize("closed", [False, True], ids=["on update", "on close"])
def test_a_record_left_out_of_a_window_is_a_dead_letter_with_topic_and_bytes(
    tmp_path: Path, closed: bool
) -> None:
    """The dead letter has topic, partition, offset and bytes, also some batches later."""
    builder = StreamsBuilder()
    streams = [builder.stream(topic, "v STRING").group_by_key() for topic in ("t", "u")]
    together = streams[0].cogroup(two_at_most).cogroup(streams[1], two_at_most)
    windowed = together.windowed_by(SlidingWindows.of_time_difference_and_grace(100, 100))
    if closed:
        windowed = windowed.emit(EmitStrategy.on_window_close())
    windowed.aggregate(start, put_together, "s STRING").materialize("s")
    first, second = (
        [placed(1, 70, 210, a), placed(1, 80, 211, b), placed(1, 90, 212, c)]
        for a, b, c in ("abc", "xyz")
    )
    batches: list[tuple[Batch, int]] = [
        ([first[:2], second], 1),
        ([first[2:], []], 3),
        # Its left window is a new one, and c and z are also left out of it.
        ([[placed(1, 100, 310, "d")], []], 2),
        (
            [
                [placed(n, 110, 900, "e") for n in (0, 1)],
                [placed(n, 110, 900, "e") for n in (0, 1)],
            ],
            1,
        ),
        ([[], []], 2),
    ]
    _, dead_letters = run(tmp_path, builder.build(), batches)
    wanted = [
        ("u", 90, "z", "[112, 212]", "x,y,", 0),
        ("t", 90, "c", "[112, 212]", "a,b,", 1),
        ("u", 90, "z", "[210, 310]", "x,y,", 2),
        ("t", 90, "c", "[210, 310]", "a,b,", 2),
        ("t", 100, "d", "[210, 310]", "a,b,", 2),
        ("t", 100, "d", "[211, 311]", "b,c,", 2),
    ]
    names = ("topic", "offset", "raw", "detail", "revision")
    assert sorted(tuple(one[name] for name in names) for one in dead_letters) == sorted(
        (
            topic,
            offset,
            f"bytes of {value}".encode(),
            f"left out of the window {window}: {STEP}: ValueError: no {value} behind {old}",
            3 if closed else revision,
        )
        for topic, offset, value, window, old, revision in wanted
    )
    assert {(one["partition"], one["store"], one["reason"]) for one in dead_letters} == {
        (1, "s", "function-raised")
    }


def test_what_is_left_out_of_a_window_counts_as_applied(tmp_path: Path) -> None:
    """The record counts in its other windows, so the task reports no rejected record for it."""
    builder = StreamsBuilder()
    stream = builder.stream("t", "v STRING").group_by_key()
    windowed = stream.windowed_by(SlidingWindows.of_time_difference_and_grace(100, 100))
    windowed.aggregate(start, two_at_most, put_together, "s STRING").materialize("s")
    plan = plan_of(tmp_path, builder.build(), 1, TEXT)
    log = [placed(0, 0, 5, "a"), placed(0, 10, 5, "b"), placed(0, 20, 5, "c")]
    bad = placed(0, 30, 5, "bad")
    (report,) = _reports(plan, [[*log, bad]]).stores
    assert report.counters.dead_lettered == 1
    assert len(written_dead_letters(plan, [report])) == 2


@pytest.mark.parametrize("kind", KINDS)
def test_only_sliding_windows_of_functions_keep_bytes(tmp_path: Path, kind: str) -> None:
    """In other windows, a function can only raise on a record in the record's own batch."""
    for functions in (True, False):
        what = topology(KINDS[kind], "t", "u", functions=functions)
        directory = tmp_path / str(functions)
        directory.mkdir()
        plan = plan_of(directory, what, 1, TEXT, TEXT)
        kept = "raw" in plan.assembly.engine.state_schema.names
        assert kept == (functions and kind == "sliding")
        assert plan.input_schema.names.count("raw") == functions
