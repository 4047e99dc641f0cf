"""`oriel bench peer` without a broker: its records and its reads of a table."""

import json
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from benchmarks.peer import parsed
from benchmarks.peer_runs.cases import KEYS, KINDS, PARTITIONS, DataSet, topology
from benchmarks.peer_runs.figures import Figures, Totals
from benchmarks.peer_runs.kafka_streams_runs import require_tools
from benchmarks.peer_runs.oriel_runs import Commit, read_commits, read_totals, steady
from benchmarks.peer_runs.plan import CHOSEN_PARTS
from benchmarks.peer_runs.processes import Failed, run_to_end, running
from benchmarks.peer_runs.topics import write_log
from oriel.pipeline.run.topology_file import load_topology
from oriel.storage import (
    COMMIT_INFO_KEY,
    STORE_PROPERTY,
    AggregateSpec,
    CommitRecord,
    StoreDefinition,
    StoreKind,
    WindowSpec,
)
from oriel.storage.delta import TIMESTAMP, open_table, store_schema, write_file


def test_a_quick_run_has_fewer_records() -> None:
    """A quick run has all parts, kinds and systems once, with fewer records.

    Options override these values.
    """
    whole, quick = parsed([]), parsed(["--quick"])
    assert (whole.records, quick.records) == (20_000_000, 100_000)
    assert quick.seconds < whole.seconds
    assert (whole.repeat, quick.repeat) == (3, 1)
    assert (whole.parts, whole.kinds, whole.disorder) == (CHOSEN_PARTS, tuple(KINDS), (0, 5))
    named = parsed(["--quick", "--records", "5", "--seconds", "1", "--kinds", "dense"])
    assert (named.records, named.seconds, named.kinds) == (5, 1.0, ["dense"])


def test_a_kind_that_is_not_there_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """The error about an unknown kind lists the existing kinds."""
    with pytest.raises(SystemExit):
        parsed(["--kinds", "tumbled"])
    assert "tumbling" in capsys.readouterr().err


@pytest.mark.parametrize("name", KINDS)
def test_each_kind_is_a_topology(tmp_path: Path, name: str) -> None:
    """Oriel's topology has the windows that the Kafka Streams program receives."""
    path = tmp_path / "case.py"
    path.write_text(topology({"a": KINDS[name], "b": KINDS[name]}, "readings"))
    stores = load_topology(path).stores
    assert [store.name for store in stores] == ["a", "b"]
    windows = stores[0].windows
    kind, length_ms, advance_ms, grace_ms = KINDS[name].peer_words
    assert (windows.kind, windows.length_ms, windows.grace_ms) == (
        kind, int(length_ms), int(grace_ms),
    )  # fmt: skip
    if kind == "hopping":
        assert getattr(windows, "advance_ms") == int(advance_ms)  # noqa: B009 - not of all kinds


def test_records_are_the_same_each_time_and_late_within_the_disorder() -> None:
    """Each key has one or ten records per second, and records are late by 0 to 5 s."""
    for dense, step_ms in ((False, 1_000), (True, 100)):
        (ordered,) = DataSet(dense, 0, 5 * KEYS).blocks()
        (late,) = DataSet(dense, 5, 5 * KEYS).blocks()
        (again,) = DataSet(dense, 5, 5 * KEYS).blocks()
        assert set(np.diff(ordered.times_ms[ordered.keys == 7]).tolist()) == {step_ms}
        late_ms = ordered.times_ms - late.times_ms
        assert 0 <= late_ms.min() < 100
        assert 4_900 < late_ms.max() <= 5_000
        for column, same in zip(late, again, strict=True):
            np.testing.assert_array_equal(column, same)


def test_an_event_log_has_all_records_by_partition(tmp_path: Path) -> None:
    """A key's records are in one file, in the order of the topic."""
    data = DataSet(dense=False, disorder_s=5, records=2 * KEYS)
    write_log(tmp_path, data)
    (block,) = data.blocks()
    paths = [tmp_path / data.topic / f"{partition}.jsonl" for partition in range(PARTITIONS)]
    for partition, path in enumerate(paths):
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        taken = block.keys % PARTITIONS == partition
        assert [line["timestamp_ms"] for line in lines] == block.times_ms[taken].tolist()
        assert [line["key"] for line in lines] == [f"key-{key}" for key in block.keys[taken]]
        assert [line["value"]["v"] for line in lines] == block.values[taken].tolist()


def test_the_second_half_begins_at_the_commit_that_is_nearest_to_it() -> None:
    """The second half begins at the commit nearest to the middle. One batch has no such half."""
    commits = [Commit(1.0, 1_000), Commit(4.0, 55_000), Commit(5.0, 90_000), Commit(7.0, 100_000)]
    assert steady(commits) == (45_000, 3.0)
    assert steady(commits[:1]) == (0, 0.0)
    assert Figures(9.0, None, *steady(commits), None).steady_per_second == 15_000
    assert Figures(9.0, None, *steady(commits[:1]), None).steady_per_second is None
    # A batch can be committed to advance the wall clock, without a record.
    idle = [Commit(1.0, 1_000), Commit(2.0, 1_000)]
    assert Figures(9.0, None, *steady(idle), None).steady_per_second is None


def test_a_table_is_read_by_its_newest_rows(tmp_path: Path) -> None:
    """A changed window counts once and a deleted one does not. Commits have their record counts."""
    schema = store_schema({"n": pa.int64(), "s": pa.float64()})
    definition = StoreDefinition(
        "peer", "readings", "key", WindowSpec(StoreKind.SESSION, 10_000, 30_000),
        (AggregateSpec("n", "count()", "long"), AggregateSpec("s", "sum(v)", "double")), 8,
    )  # fmt: skip
    table = open_table(tmp_path, schema, {STORE_PROPERTY: definition.to_json()}, sync=False)
    batches = (
        [("a", 0, 1, 1.0, False), ("a", 9, 1, 2.0, False), ("b", 0, 1, 4.0, False)],
        [("a", 0, 2, 3.0, False), ("a", 9, 0, 0.0, True)],
    )
    for batch, rows in enumerate(batches):
        file = write_file(tmp_path, _rows(rows, batch, schema), "part", sync=False)
        record = CommitRecord(batch, {}, {}, 0, {"input": 3 * (batch + 1)})
        table.commit([file], "peer", batch, {COMMIT_INFO_KEY: record.to_json()})
    assert read_totals(tmp_path) == Totals(windows=2, members=3, total=7.0)
    commits = read_commits(tmp_path)
    assert [commit.records for commit in commits] == [3, 6]
    assert commits[0].at_seconds <= commits[1].at_seconds


def _rows(rows: list[tuple[str, int, int, float, bool]], batch: int, schema: pa.Schema) -> pa.Table:
    keys, starts, counts, sums, deleted = (list(column) for column in zip(*rows, strict=True))
    times = pa.array(starts, pa.int64()).cast(TIMESTAMP)
    columns = {
        "key": keys, "window_start": times, "window_end": times, "n": counts, "s": sums,
        "timestamp": times, "final": [False] * len(rows), "deleted": deleted,
        "revision": [batch] * len(rows),
    }  # fmt: skip
    return pa.table([columns[name] for name in schema.names], schema=schema)


def test_a_missing_tool_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Without Maven, the benchmark has neither the broker nor Kafka Streams."""
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Failed, match="mvn not found"):
        require_tools()


def test_a_process_that_fails_has_last_words(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The error of a failed process contains its last output, in both ways to run it."""
    command = [sys.executable, "-c", "import sys; sys.exit('no such topic')"]
    with pytest.raises(Failed, match="no such topic"):
        run_to_end("it", command)
    with running("it", command, tmp_path / "log.txt") as process:
        process.wait()
    assert "it ended with code 1; its last words:\n    no such topic" in capsys.readouterr().err
