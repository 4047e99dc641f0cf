"""The options about wall-clock time, and the log lines about idle partitions."""

from dataclasses import replace

import pytest

from oriel.pipeline.arguments import rebuild_parser, run_parser
from oriel.pipeline.plan import (
    NO_STREAM_TIME_NOTES,
    PreparedBatch,
    StreamTimeNotes,
    WallClockLimits,
)
from oriel.pipeline.run.options.stream_time import idle_lines, stream_time_settings
from oriel.storage import CommitRecord

DAY_MS, HOUR_MS = 86_400_000, 3_600_000


@pytest.mark.parametrize(
    ("options", "settings"),
    [
        ([], WallClockLimits(DAY_MS, None)),
        (["--once"], WallClockLimits(DAY_MS, None)),
        (["--once", "--max-ahead", "2h"], WallClockLimits(2 * HOUR_MS, None)),
        (["--once", "--max-ahead", "off"], WallClockLimits(None, None)),
        (["--max-ahead", "off", "--idle-after", "5m"], WallClockLimits(None, 300_000)),
        (["--max-ahead", "3d", "--idle-after", "off"], WallClockLimits(3 * DAY_MS, None)),
    ],
)
def test_a_live_run_and_a_run_once_have_the_same_bound(
    options: list[str], settings: WallClockLimits
) -> None:
    """The bound is a day in both modes, unless the options set another one."""
    given = run_parser().parse_args(["t.py", "--event-log", "x", "--data", "d", *options])
    assert stream_time_settings(given) == settings


@pytest.mark.parametrize(
    ("options", "last", "max_ahead_ms"),
    [
        ([], StreamTimeNotes(now_ms=1, max_ahead_ms=HOUR_MS), HOUR_MS),
        ([], StreamTimeNotes(now_ms=1, max_ahead_ms=None), None),
        ([], NO_STREAM_TIME_NOTES, DAY_MS),
        (["--max-ahead", "2h"], StreamTimeNotes(now_ms=1, max_ahead_ms=None), 2 * HOUR_MS),
    ],
)
def test_a_rebuild_has_the_bound_of_the_last_batch(
    options: list[str], last: StreamTimeNotes, max_ahead_ms: int | None
) -> None:
    """A version of an earlier release has no notes, so the rebuild uses the default."""
    arguments = ["s", "t.py", "--event-log", "x", "--data", "d", *options]
    settings = stream_time_settings(rebuild_parser().parse_args(arguments), last)
    assert settings.max_ahead_ms == max_ahead_ms


def test_a_bound_is_a_time_or_off(capsys: pytest.CaptureFixture[str]) -> None:
    """Any other value is an error with an example."""
    with pytest.raises(SystemExit):
        run_parser().parse_args(["t.py", "--event-log", "x", "--data", "d", "--max-ahead", "never"])
    assert "'never' is not a time like 200ms, 1s, 1m, 1h or 1d" in capsys.readouterr().err


def prepared(idle: dict[str, list[int]]) -> PreparedBatch:
    """Return a batch with these idle partitions."""
    record = CommitRecord(0, {}, {}, 0)
    made = PreparedBatch(record, {}, {}, [], [], changed=0, open_records=0)
    return replace(made, clock_notes=replace(NO_STREAM_TIME_NOTES, idle=idle))


def test_each_change_of_who_is_left_out_is_a_line() -> None:
    """A line reports a partition that becomes idle, and a partition that has records again."""
    assert list(idle_lines({}, {"s": prepared({"t": [1]})})) == [
        "partition is idle: store=s topic=t partition=1. Windows become final without it"
    ]
    before, after = {"s": prepared({"t": [1, 2]})}, {"s": prepared({"t": [2, 3]})}
    assert list(idle_lines(before, before)) == []
    assert list(idle_lines(before, after)) == [
        "partition is idle: store=s topic=t partition=3. Windows become final without it",
        "partition has new records: store=s topic=t partition=1. Windows wait for it again",
    ]


def test_notes_of_the_clocks_come_back_as_they_were() -> None:
    """A loaded version has the same `clock_notes`. A version of an earlier release lacks them."""
    notes = replace(
        NO_STREAM_TIME_NOTES, now_ms=7, heard_ms={"t": {"0": 5}}, idle={"t": [1]}, held_by=("t", 0)
    )
    made = replace(prepared({}), clock_notes=notes)
    assert PreparedBatch.from_json(made.to_json()) == made
    assert b'"clock_notes"' in made.to_json()
    older = made.to_json().split(b',"clock_notes"')[0] + b"}"
    assert PreparedBatch.from_json(older) == prepared({})
