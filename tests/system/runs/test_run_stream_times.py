"""Runs with wall clock: each batch is judged once, wherever it is computed. Also `oriel clock`."""

import time
from pathlib import Path
from typing import Any

import orjson
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from oriel import (
    JoinWindows,
    SessionWindows,
    SlidingWindows,
    StreamsBuilder,
    TimeWindows,
    Topology,
    collect_list,
    count,
)
from oriel.pipeline.arguments import run_parser
from oriel.pipeline.commit import Checkpoint
from oriel.pipeline.commit.checkpoint.versions import StateVersions
from oriel.pipeline.errors import FilesFailed
from oriel.pipeline.operations import clock
from oriel.pipeline.plan import PreparedBatch, WallClockLimits
from oriel.pipeline.run import PipelineRun, RunSettings
from oriel.pipeline.run.options import stream_time_settings
from oriel.pipeline.sources import EventLog
from oriel.storage import WindowRange
from oriel.storage.delta import DeltaLog, Limits, MaintenanceSettings
from oriel.storage.index import IndexDirectory
from oriel.storage.index.reading.reader import IndexReader
from oriel.storage.tailer.store import StoreTailer
from tests.bits import flip_bit
from tests.pipeline.run.topic_logs import Stores, write_topics
from tests.pipeline.run.wall_clock_runs import YEAR_9999, ClockRuns, runs
from tests.storage.followed import check_health_next
from tests.storage.waiting import wait_until

__all__ = ["runs"]

# A dozen runs of a streaming query run in CI, not during development.
pytestmark = pytest.mark.slow

#: The start of the year 2100, in ms.
YEAR_2100 = 4_102_444_800_000


def topology(
    *stores: str, schema: str = "v STRING", retention: int | None = None, keep: str | None = None
) -> Topology:
    """Return stores of tumbling windows of 10 ms that collect all values."""
    builder = StreamsBuilder()
    for name in stores:
        stream = builder.stream("t", schema)
        if keep is not None:
            stream = stream.filter(keep)
        windowed = stream.group_by_key().windowed_by(TimeWindows.of_size_and_grace(10, 5))
        columns: dict[str, Any] = {"n": count()}
        if schema == "v STRING":
            columns["all"] = collect_list("v")
        windowed.aggregate(**columns).materialize(name, retention)
    return builder.build()


def record(time: int, key: str = "k") -> tuple[str, int, dict[str, Any]]:
    """Return a record whose value has its time."""
    return key, time, {"v": str(time)}


@pytest.mark.parametrize(
    ("schema", "keep", "small_batch_bytes"),
    [
        ("v STRING", None, 2**26),
        ("v STRING", None, 0),
        # These steps need Spark jobs, however small a batch is.
        ("v STRING", "soundex(v) is not null", 2**26),
        ("v STRING COMMENT 'text'", None, 2**26),
    ],
    ids=["by Arrow here", "by Arrow as a job", "steps by Spark", "decoded by Spark"],
)
def test_a_record_from_the_future_is_a_dead_letter_whoever_decodes_it(
    runs: ClockRuns, schema: str, keep: str | None, small_batch_bytes: int
) -> None:
    """A record from the future is dead-lettered once for all stores, whatever decodes it.

    It does not advance the stream time, and the counters balance.
    """
    runs.wall_clock_limits = WallClockLimits(max_ahead_ms=100)
    runs.append({0: [record(990), record(YEAR_9999), record(1100), record(1101)]})
    what = topology("one", "two", schema=schema, keep=keep)
    runs.run(what, small_batch_bytes=small_batch_bytes)
    for store in ("one", "two"):
        assert runs.counters(store) == {
            "input": 4, "applied": 2, "late": 0, "dead_lettered": 2, "filtered": 0,
        }  # fmt: skip
        assert max(runs.last[store].record.stream_time_ms["t"].values()) == 1100
        assert [row["n"] for row in runs.rows(store)] == [1, 1]
    dead_letters = runs.dead_letters()
    assert [(reason, store) for reason, _, store in dead_letters] == [("timestamp-ahead", None)] * 2


@pytest.mark.parametrize("mode", ["live", "--once"])
def test_a_live_run_a_run_once_and_a_rebuild_give_the_same_result(
    spark: SparkSession, tmp_path: Path, mode: str
) -> None:
    """A record of the year 2100 is the only dead letter, and the other rows are unchanged."""
    records = [record(time, key) for time in range(0, 400, 7) for key in ("k", "other")]
    undisturbed = Stores(spark, tmp_path / "undisturbed")
    write_topics(undisturbed.directory / "log", {"t": {0: records, 1: records[::3]}})
    undisturbed.run(topology("s"))
    wanted = undisturbed.counters("s")
    wanted["input"] += 1
    wanted["dead_lettered"] += 1

    stores = Stores(spark, tmp_path)
    with_future = [*records[:50], record(YEAR_2100), *records[50:]]
    write_topics(tmp_path / "log", {"t": {0: with_future, 1: records[::3]}})
    arguments = ["t.py", "--event-log", "log", "--data", "data"]
    given = run_parser().parse_args([*arguments, *(["--once"] if mode == "--once" else [])])
    settings = RunSettings(
        tmp_path / "data", "app", None if given.once else given.trigger, tasks=2, key_groups=8,
        wall_clock_limits=stream_time_settings(given),
    )  # fmt: skip
    run = PipelineRun.recover(spark, topology("s"), EventLog(tmp_path / "log", 1000), settings)
    try:
        query = run.start(lambda _batch, last: stores.last.update(last))
        wait_until(lambda: stores.last and stores.counters("s") == wanted, "all records")
        query.stop()
    finally:
        run.close()
    dead_letters = stores.dead_letters()
    assert [(letter[3], letter[4]) for letter in dead_letters] == [(None, "timestamp-ahead")]
    assert stores.newest("s") == undisturbed.newest("s") != []

    log = EventLog(tmp_path / "log")
    PipelineRun.rebuild(spark, topology("s"), log, settings, ["s"])
    rebuilt = DeltaLog(tmp_path / "data" / "tables" / "s").newest_record()
    assert rebuilt is not None
    assert rebuilt.counters == wanted
    assert (stores.newest("s"), stores.dead_letters()) == (undisturbed.newest("s"), dead_letters)


@pytest.mark.parametrize("failing", [1, 2, 3])
def test_a_crash_leaves_no_batch_judged_by_two_wall_clocks(
    runs: ClockRuns, monkeypatch: pytest.MonkeyPatch, failing: int
) -> None:
    """If some stores have prepared a batch, the others judge it with the same wall clock later."""
    runs.wall_clock_limits = WallClockLimits(max_ahead_ms=100)
    what = topology("one", "two", "three")
    runs.append({0: [record(990), record(1500)]})
    saved: list[int] = []
    prepare = StateVersions.prepare

    def failing_once(versions: StateVersions, *arguments: Any) -> PreparedBatch:
        saved.append(1)
        if len(saved) == failing:
            message = "the disk is gone"
            raise OSError(message)
        return prepare(versions, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(StateVersions, "prepare", failing_once)
        with pytest.raises(FilesFailed, match="disk is gone"):
            runs.run(what)
    runs.now_ms = 10**9
    runs.wall_clock_limits = WallClockLimits(max_ahead_ms=None)
    runs.run(what)
    # Before any store had prepared the batch, it was not judged.
    dead = 0 if failing == 1 else 1
    for store in ("one", "two", "three"):
        counters = runs.counters(store)
        assert (counters["applied"], counters["dead_lettered"]) == (2 - dead, dead)
    assert len(runs.dead_letters()) == dead


def test_silence_is_counted_from_when_the_run_began(runs: ClockRuns) -> None:
    """Idle time starts with the run, so a pipeline waits for all partitions after a long stop."""
    runs.wall_clock_limits = WallClockLimits(idle_after_ms=100)
    runs.append({0: [record(5)], 1: [record(5)]})
    runs.run(topology("s"))
    runs.now_ms += 10_000
    runs.append({0: [record(50)]})
    runs.run(topology("s"))
    assert runs.last["s"].clock_notes.idle == {}
    assert runs.last["s"].clock_notes.held_by == ("t", 1)
    assert [row for row in runs.rows("s") if row["final"]] == []


# `oriel clock`.


def index(data: Path, store: str) -> dict[str, list[int]]:
    """Return the starts of each key's windows in the index, after it has followed the table."""
    directory = IndexDirectory(data / "index" / store)
    tailer = StoreTailer(DeltaLog(data / "tables" / store), directory)
    for _ in range(50):
        check_health_next(tailer)
        if not tailer.step():
            break
    tailer.close()
    reader = IndexReader(directory)
    with reader.snapshot() as snapshot:
        found = {key: starts(snapshot, key) for key in snapshot.keys("", 100).keys}
    reader.close()
    return found


def starts(snapshot: Any, key: str) -> list[int]:
    """Return the starts of a key's windows, the oldest first."""
    page = snapshot.fetch(WindowRange(key, limit=100))
    return [orjson.loads(window)["window_start_ms"] for window in page.windows]


def test_an_early_stream_time_is_set_back_and_reads_succeed_again(
    runs: ClockRuns, capsys: pytest.CaptureFixture[str]
) -> None:
    """A record of the year 9999 hides all windows, and a lower stream time shows them again.

    Only the windows that the record closed stay closed.
    """
    what = topology("s", "other", retention=1000)
    runs.append({0: [record(100), record(112), record(YEAR_9999, "bad"), record(113)]})
    runs.run(what)
    bad = YEAR_9999 // 10 * 10
    assert index(runs.data, "s") == {"bad": [bad]}
    runs.append({0: [record(121), record(122)]})
    runs.run(what)
    assert runs.counters("s")["late"] == 3

    arguments = ["--data", str(runs.data)]
    assert clock.main(arguments) == 0
    shown = capsys.readouterr().out
    assert "9999-12-31T23:59:59.999Z" in shown
    assert "ahead" in shown
    assert clock.main([*arguments, "s", "--set", "t", "0", "113"]) == 0
    assert "set back from 9999-12-31T23:59:59.999Z to 1970-01-01" in capsys.readouterr().out

    runs.append({0: [record(115), record(124), record(160)]})
    runs.run(what)
    # [110, 120) is still final, so 115 is late. [120, 130) did not exist.
    counters = runs.counters("s")
    assert (counters["applied"], counters["late"]) == (5, 4)
    found = {
        (row["key"], row["window_start"]): (row["all"], row["final"]) for row in runs.rows("s")
    }
    assert found == {
        ("k", 100): (["100"], True),
        ("k", 110): (["112"], True),
        ("k", 120): (["124"], True),
        ("k", 160): (["160"], False),
        ("bad", bad): ([str(YEAR_9999)], False),
    }
    assert index(runs.data, "s") == {"bad": [bad], "k": [100, 110, 120, 160]}
    # The command did not name the other store.
    assert runs.counters("other")["late"] == 6
    assert clock.main(arguments) == 0
    shown = capsys.readouterr().out
    assert "s: t 0 set back from 9999" in shown
    assert "keeps windows from becoming final" in shown


def joined(store: str) -> StreamsBuilder:
    """Return a builder with a store of a stream-stream join."""
    builder = StreamsBuilder()
    left, right = builder.stream("t", "v STRING"), builder.stream("u", "w STRING")
    results = left.join(right, JoinWindows.of_time_difference_and_grace(10, 5))
    results.group_by_key().count().materialize(store)
    return builder


@pytest.mark.parametrize("what", ["row", "state"])
def test_a_clock_is_not_set_back_by_a_damaged_file(
    runs: ClockRuns, capsys: pytest.CaptureFixture[str], what: str
) -> None:
    """A stream time is not set if the files for the check are damaged.

    The files contain the greatest final window and the kind of a join.
    """
    runs.append({0: [record(100), record(YEAR_9999, "bad")]})
    runs.append({0: [("k", 100, {"w": "x"})]}, "u")
    runs.run(topology("s") if what == "row" else joined("s").build())
    (prepared,) = runs.last.values()
    directory = runs.data / "tables/s"
    names = [file.path for file in prepared.files]
    if what == "state":
        directory = runs.data / "checkpoints/app/state/s"
        names = list(prepared.state_files)
    assert names
    for name in names:
        flip_bit(directory / name)
    capsys.readouterr()
    assert clock.main(["--data", str(runs.data), "--set", "t", "0", "113"]) == 1
    captured = capsys.readouterr().err
    assert [name for name in names if str(directory / name) in captured]
    assert "not what" in captured
    assert "`oriel rebuild s`" in captured


def test_compaction_leaves_what_a_wrong_clock_hides(runs: ClockRuns) -> None:
    """If the table was compacted with the wrong stream time, a lower one still shows all rows."""
    runs.maintenance = MaintenanceSettings(limits=Limits(small_files=2))
    runs.now_ms = time.time_ns() // 1_000_000 // 10 * 10
    # After the last final time and in the last hour, no row has expired.
    what = topology("s", retention=3_600_000)
    times = [runs.now_ms - 4000 + 1000 * batch for batch in range(4)]
    for at in times:
        runs.append({0: [record(at)]})
        runs.run(what)
    bad = YEAR_9999 // 10 * 10
    for late in (record(YEAR_9999, "bad"), record(times[0]), record(times[1])):
        runs.append({0: [late]})
        runs.run(what)
    assert index(runs.data, "s") == {"bad": [bad]}
    files = DeltaTable(runs.data / "tables" / "s").file_uris()
    assert len(files) == 1
    assert "compact-" in files[0]
    assert clock.main(["--data", str(runs.data), "--set", "t", "0", str(runs.now_ms)]) == 0
    runs.append({0: [record(runs.now_ms)]})
    runs.run(what)
    assert index(runs.data, "s") == {"bad": [bad], "k": [*times, runs.now_ms]}


def test_every_kind_of_windows_resumes_after_its_final_windows(runs: ClockRuns) -> None:
    """For every kind of windows, no final row is written twice, and later windows are right."""
    builder = StreamsBuilder()
    kinds = {
        "tumbling": TimeWindows.of_size_and_grace(10, 5),
        "hopping": TimeWindows.of_size_and_grace(10, 5).advance_by(3),
        "sliding": SlidingWindows.of_time_difference_and_grace(10, 5),
        "session": SessionWindows.of_inactivity_gap_and_grace(10, 5),
    }
    for name, windows in kinds.items():
        windowed = builder.stream("t", "v STRING").group_by_key().windowed_by(windows)
        windowed.aggregate(n=count(), all=collect_list("v")).materialize(name, 1000)
    what = builder.build()
    runs.append({0: [record(100), record(104), record(117), record(YEAR_9999, "bad")]})
    runs.run(what)
    assert clock.main(["--data", str(runs.data), "--set", "t", "0", "117"]) == 0
    later = [record(118), record(119), record(150), record(155), record(190)]
    for one in later:
        runs.append({0: [one]})
        runs.run(what)
    for name in kinds:
        assert runs.counters(name)["input"] == 9
        found = [row for row in runs.rows(name) if "150" in row["all"]]
        assert {tuple(row["all"]) for row in found} >= {("150", "155")}, name
        assert [row for row in found if not row["final"]] == [], name


@pytest.mark.parametrize("prepared", [0, 1])
def test_a_clock_is_mended_where_a_crash_left_the_batch(
    runs: ClockRuns,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    prepared: int,
) -> None:
    """The override starts with the next batch after the table has the batch of the bad record."""
    runs.append({0: [record(100), record(YEAR_9999, "bad")]})
    method = "commit_dead_letters" if prepared else "commit"
    with monkeypatch.context() as patch:
        patch.setattr(f"oriel.pipeline.commit.StoreTables.{method}", _fail)
        with pytest.raises(FilesFailed, match="disk is gone"):
            runs.run(topology("s"))
    arguments = ["--data", str(runs.data), "--set", "t", "0", "100"]
    code, captured = clock.main(arguments), capsys.readouterr()
    assert code == 1 - prepared, captured.err
    if not prepared:
        assert (
            "no Delta table" in captured.err or "is prepared, but not in the table" in captured.err
        )
        assert captured.err.count("\n") == 1
    # After [100, 110), which the wrong stream time closed.
    runs.append({0: [record(110)]})
    runs.run(topology("s"))
    assert runs.counters("s")["late"] == 1 - prepared


def _fail(*_arguments: object) -> None:
    message = "the disk is gone"
    raise OSError(message)


def test_what_cannot_be_set_is_one_line(
    runs: ClockRuns,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A running pipeline, a stream time that is not ahead, and unknown names are errors."""
    builder = joined("joined")
    builder.stream("t", "v STRING").group_by_key().count().materialize("s")
    runs.append({0: [record(100), record(YEAR_9999)]})
    runs.append({0: [("k", 100, {"w": "x"})]}, topic="u")
    runs.run(builder.build())
    data = ["--data", str(runs.data)]
    refused = [
        (["--data", str(tmp_path / "none")], "has no checkpoint. Checkpoints: none"),
        ([*data, "--name", "x"], "has no checkpoint 'x'. Checkpoints: app"),
        ([*data, "x"], "has no store 'x'. Its stores: joined, s"),
        ([*data, "s", "--set", "t", "0", "soon"], "'soon' is not a time"),
        ([*data, "s", "--set", "t", "0", "1969-12-31T23:59"], "is not a time of a record"),
        ([*data, "s", "--set", "t", "0", str(YEAR_9999 + 1)], "is not a time of a record"),
        ([*data, "s", "--set", "t", "7", "100"], "it does not exist in s"),
        ([*data, "s", "--set", "t", "0", "9999-12-31T23:59:59.999"], "it is not later in s"),
        ([*data, "--set", "t", "0", "100"], "store 'joined' joins streams"),
    ]
    for arguments, said in refused:
        assert clock.main(arguments) == 1
        captured = capsys.readouterr()
        assert said in captured.err
        assert captured.err.count("\n") == 1
        assert captured.out == ""
    # Otherwise, the second process waits for five seconds.
    defaults = Checkpoint.__init__.__kwdefaults__
    assert defaults is not None
    monkeypatch.setitem(defaults, "lock_wait_s", 0.1)
    with Checkpoint(runs.data / "checkpoints" / "app", sync=False):
        assert clock.main([*data, "s", "--set", "t", "0", "100"]) == 1
        assert "Stop it first" in capsys.readouterr().err
        # Showing the stream times does not need the lock.
        assert clock.main(data) == 0
    assert clock.main([*data, "s", "--set", "t", "0", "1970-01-01T00:00:00.100"]) == 0
