"""Tests of the status of pipelines and tailer, as an overview and as metrics."""

import os
import re
import time
from dataclasses import replace
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from oriel.storage import DataLayout
from oriel.storage.monitoring import (
    STUCK_SECONDS,
    Overview,
    RunStatus,
    RunStatusFile,
    StoreRun,
    duration_text,
    metrics_text,
    overview,
    time_text,
    total_lag,
)
from oriel.storage.monitoring.partitions import LOG_END_SECONDS_MAX
from oriel.storage.monitoring.run_status import HEARTBEAT_SECONDS_MAX
from oriel.storage.shards import Shard
from oriel.storage.tailer import StatusFile, StoreStatus, versions_in_use
from tests.storage.store_tables import StoreTable, make_definition, make_record
from tests.tidy.project import ROOT

_MONITORING = ROOT / "monitoring"
NOW_MS = time.time_ns() // 1_000_000

RECORD = make_record(
    3,
    offsets={"events": {"0": 40, "1": 10}},
    stream_time_ms={"events": {"0": 9_000, "1": 7_000}},
    close_ms=6_995,
    counters={
        "input": 50, "applied": 44, "late": 3, "dead_lettered": 2, "filtered": 1, "late_results": 5,
    },
)  # fmt: skip


def _status(**changes: object) -> RunStatus:
    status = RunStatus(
        application="flights",
        process=os.getpid(),
        host="here",
        started_ms=1_000,
        batch_ms=2_000,
        batches=4,
        phase_seconds={"plan": 0.001, "compute": 0.03, "commit": 0.01},
        total_phase_seconds={"plan": 0.1, "compute": 3.0, "commit": 1.0},
        offset_unit="bytes",
        log_ends={"events": {"0": 100, "1": 10}},
        stores={"store": StoreRun(RECORD, 7, 2, ("events#2", 1), {"events": [0]}, 4)},
        maintenance_failures=6,
        lost={"events": 8},
        log_ends_ms=NOW_MS,
        records_per_second=2.5,
    )
    return replace(status, **changes)  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def _now(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stop the wall clock at the import time of this module."""
    monkeypatch.setattr(time, "time_ns", lambda: NOW_MS * 1_000_000)


@pytest.fixture(name="data")
def _data(tmp_path: Path) -> Path:
    """Return a data directory with one table, its pipeline's status and a following tailer."""
    table = StoreTable(tmp_path, make_definition())
    table.commit([{"key": "a", "start": 0}])
    layout = DataLayout(tmp_path)
    state = layout.checkpoint("flights") / "state" / "store"
    state.mkdir(parents=True)
    (state / "segment.arrow").write_bytes(bytes(1234))
    RunStatusFile(layout.checkpoint("flights")).write(_status())
    StatusFile(layout).write({"store": StoreStatus("following", 1, damaged=2)})
    return tmp_path


def test_a_status_reads_back_as_it_was_written(data: Path) -> None:
    """A status is equal after a round trip, including the commit records of its stores."""
    file = RunStatusFile(DataLayout(data).checkpoint("flights"))
    assert file.read() == (_status(), True)


def test_a_pipeline_without_a_heartbeat_does_not_run(data: Path) -> None:
    """A pipeline counts as stopped after its end, or if its status file is old."""
    file = RunStatusFile(DataLayout(data).checkpoint("flights"))
    long_ago = time.time() - HEARTBEAT_SECONDS_MAX - 1
    os.utime(DataLayout(data).checkpoint("flights") / "status.json", (long_ago, long_ago))
    assert file.read() == (_status(), False)
    file.write(_status())
    assert file.read() == (_status(), True)
    ended = replace(_status(), has_ended=True)
    file.write(ended)
    assert file.read() == (ended, False)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"application": "x"}'])
def test_a_status_that_cannot_be_read_is_none(tmp_path: Path, content: bytes) -> None:
    """An invalid status file, for example after a power loss, is ignored."""
    layout = DataLayout(tmp_path)
    directory = layout.checkpoint("flights")
    directory.mkdir(parents=True)
    (directory / "status.json").write_bytes(content)
    assert RunStatusFile(directory).read() is None
    assert overview(tmp_path).runs == {}


@pytest.mark.parametrize("bit", range(8))
def test_a_flipped_bit_changes_no_status(data: Path, bit: int) -> None:
    """A status file with a flipped bit is read unchanged or rejected."""
    layout = DataLayout(data)
    path = layout.checkpoint("flights") / "status.json"
    content = path.read_bytes()
    for at in range(len(content)):
        path.write_bytes(_flipped(content, at, bit))
        assert RunStatusFile(path.parent).read() in [None, (_status(), True)], at
    path = layout.indexes / "_tailer.json"
    content, stores = path.read_bytes(), {"store": StoreStatus("following", 1, damaged=2)}
    for at in range(len(content)):
        path.write_bytes(_flipped(content, at, bit))
        read = StatusFile(layout).read()
        assert (read.stores, read.pid) == (stores, os.getpid()) or not read.alive, at


def _flipped(content: bytes, at: int, bit: int) -> bytes:
    return content[:at] + bytes([content[at] ^ 1 << bit]) + content[at + 1 :]


def test_a_directory_in_the_place_of_a_status_is_none(data: Path) -> None:
    """If a directory replaces a status file, the problem says how to fix it."""
    layout = DataLayout(data)
    for path in (layout.checkpoint("flights") / "status.json", layout.indexes / "_tailer.json"):
        path.unlink()
        path.mkdir()
    assert overview(data).runs == {}
    problem = str(StatusFile(layout).read().silence)
    assert "_tailer.json: it is not a file" in problem
    assert "delete the directory" in problem


def test_a_tailer_repairs_its_status_file(tmp_path: Path) -> None:
    """A tailer writes a damaged status file again, even if its status is unchanged."""
    layout, stores = DataLayout(tmp_path), {"store": StoreStatus("following", 1)}
    file = StatusFile(layout)
    file.write(stores)
    path = layout.indexes / "_tailer.json"
    whole = path.read_bytes()
    for at in range(len(whole)):
        path.write_bytes(_flipped(whole, at, at % 8))
        assert file.read().stores in ({}, stores)
        file.write(stores)
        assert (path.read_bytes(), file.read().stores) == (whole, stores)


def test_maintenance_finds_the_versions_that_tailers_read(tmp_path: Path) -> None:
    """The oldest version of a store counts, of all shards, also during a build."""
    layout = DataLayout(tmp_path)
    assert versions_in_use(layout) == {}
    StatusFile(layout).write({
        "following": StoreStatus("following", 7),
        "building": StoreStatus("building", None, builds=5),
        "built again": StoreStatus("building", 3, builds=9),
        "opening": StoreStatus(),
    })  # fmt: skip
    shard = StatusFile(DataLayout(tmp_path, shard=Shard(1, 2)))
    shard.write({"following": StoreStatus("following", 6)})
    assert versions_in_use(layout) == {"following": 6, "building": 5, "built again": 3}
    # A service that was stopped for longer builds its indexes again.
    for age_seconds, found in ((590, 6), (610, 7)):
        heartbeat = time.time() - age_seconds
        os.utime(DataLayout(tmp_path, shard=Shard(1, 2)).indexes / "_tailer.json", (heartbeat,) * 2)
        assert versions_in_use(layout)["following"] == found
    (layout.indexes / "_tailer.json").write_bytes(b"{")
    assert versions_in_use(layout) == {}


def test_the_overview_puts_all_of_a_store_together(data: Path) -> None:
    """A store's overview has its commit, state, index, and partitions with lag."""
    seen = overview(data)
    (store,) = seen.stores
    assert (store.name, store.application, store.record) == ("store", "flights", RECORD)
    assert (store.open_records, store.changed, store.state_bytes) == (7, 2, 1234)
    table = [file for file in DataLayout(data).table("store").rglob("*") if file.is_file()]
    # One state segment, and the files of the table and its log.
    assert store.files == len(table) + 1
    assert store.table_bytes == sum(file.stat().st_size for file in table)
    assert store.index == StoreStatus("following", 1, damaged=2)
    facts = [(p.partition, p.offset, p.lag, p.holds_windows_open) for p in store.partitions]
    assert facts == [("0", 40, 60, False), ("1", 10, 0, True)]
    assert [p.is_idle for p in store.partitions] == [True, False]


def test_the_lag_in_time_is_that_of_records_that_are_to_come(data: Path) -> None:
    """A fully read partition has the time lag 0, and an unknown log end an unknown lag."""
    file = RunStatusFile(DataLayout(data).checkpoint("flights"))
    file.write(_status(log_ends={"events": {"0": 100}}))
    seen = overview(data)
    first, second = seen.stores[0].partitions
    assert (first.lag, first.lag_ms) == (60, seen.time_ms - 9_000)
    assert (second.lag, second.lag_ms) == (None, None)
    file.write(_status())
    assert overview(data).stores[0].partitions[1].lag_ms == 0


_OUTDATED_MS = NOW_MS - 1000 * LOG_END_SECONDS_MAX - 1


@pytest.mark.parametrize(
    "changes", [{"has_ended": True}, {"log_ends_ms": _OUTDATED_MS}, {"log_ends_ms": 0}]
)
def test_an_outdated_log_end_makes_the_lag_unknown(data: Path, changes: dict[str, object]) -> None:
    """The lag is unknown, never 0, if the pipeline is stopped or does not report the log end."""
    RunStatusFile(DataLayout(data).checkpoint("flights")).write(_status(**changes))
    seen = overview(data)
    partitions = seen.stores[0].partitions
    assert [(p.lag, p.lag_ms) for p in partitions] == [(None, None)] * 2
    assert [p.last_lag for p in partitions] == [60, 0]
    (pipeline,) = seen.pipelines
    assert (pipeline.lag, pipeline.lag_ms) == (None, None)
    samples = _samples(seen)
    assert not {"oriel_partition_lag", "oriel_partition_lag_seconds"} & {one[0] for one in samples}
    read_ms = changes.get("log_ends_ms", NOW_MS)
    name = "oriel_pipeline_log_end_time_seconds"
    assert samples.get((name, "flights"), 0) * 1000 == read_ms


def test_the_lag_of_a_pipeline_counts_each_partition_once(data: Path) -> None:
    """If several stores read a partition, the lag of the slowest store counts."""
    layout = DataLayout(data)
    StoreTable(data, make_definition("other")).commit([{"key": "a", "start": 0}])
    ahead = replace(RECORD, offsets={"events": {"0": 90, "1": 10}})
    stores = {"store": StoreRun(RECORD, 7, 2), "other": StoreRun(ahead, 7, 2)}
    RunStatusFile(layout.checkpoint("flights")).write(_status(stores=stores))
    seen = overview(data)
    assert {store.name: total_lag(store.partitions)[0] for store in seen.stores} == {
        "other": 10, "store": 60,
    }  # fmt: skip
    (pipeline,) = seen.pipelines
    assert (pipeline.lag, pipeline.lag_unit) == (60, "bytes")
    assert pipeline.lag_ms == NOW_MS - 9_000
    assert pipeline.stores == ("other", "store")


_STARTED_MS = NOW_MS - 2000
_LONG_AGO_MS = NOW_MS - 1000 * STUCK_SECONDS - 1
_READ = {"events": {"0": 40, "1": 10}}


@pytest.mark.parametrize(
    ("changes", "state", "problem"),
    [
        ({"batch_ms": NOW_MS}, "running", ""),
        ({"batch_ms": _STARTED_MS, "batches": 0}, "starting", ""),
        ({"batch_ms": _STARTED_MS, "batches": 0, "stores": {}}, "starting", ""),
        ({"batch_ms": _STARTED_MS, "batches": 0, "log_ends": _READ}, "running", ""),
        ({"batch_ms": _LONG_AGO_MS, "log_ends": _READ}, "running", ""),
        ({"batch_ms": _LONG_AGO_MS, "batches": 0, "stores": {}}, "running", ""),
        ({"batch_ms": _LONG_AGO_MS}, "stuck", "committed no batch for 5.0 min although 60 bytes"),
        (
            {"batch_ms": _LONG_AGO_MS, "log_ends": _READ, "log_ends_ms": _LONG_AGO_MS},
            "stuck", "not reported the end of its log since",
        ),
        (
            {"batch_ms": NOW_MS, "log_ends_ms": _OUTDATED_MS},
            "running", "not reported the end of its log since",
        ),
        ({"batch_ms": NOW_MS, "has_ended": True}, "stopped", "Start it with the same --data"),
    ],
)  # fmt: skip
def test_the_state_of_a_pipeline_follows_from_its_last_status(
    data: Path, changes: dict[str, object], state: str, problem: str
) -> None:
    """A pipeline is running, starting, stopped or stuck, and each problem has a solution."""
    file = RunStatusFile(DataLayout(data).checkpoint("flights"))
    started_ms = _STARTED_MS if changes["batch_ms"] == _STARTED_MS else 1_000
    file.write(_status(started_ms=started_ms, **changes))
    (pipeline,) = overview(data).pipelines
    assert pipeline.state == state
    assert problem in (pipeline.problem or "")
    assert (pipeline.problem is None) == (problem == "")
    assert pipeline.seen_ms == file.seen_ms()
    assert (pipeline.batch_ms is None) == (pipeline.batches == 0)
    assert pipeline.records_per_second == (2.5 if state == "running" else None)


@pytest.mark.parametrize(
    ("time_ms", "text"),
    [(-1, "-"), (0, "1970-01-01 00:00:00"), (253402300799999, "9999-12-31 23:59:59")],
)
def test_times_are_utc(time_ms: int, text: str) -> None:
    """Every time that a record can have is formatted in UTC."""
    assert time_text(time_ms) == text


@pytest.mark.parametrize(
    ("span_ms", "text"),
    [(500, "0.5 s"), (90_000, "1.5 min"), (-7_200_000, "-2.0 h"), (129_600_000, "1.5 d")],
)
def test_durations_have_their_largest_unit(span_ms: int, text: str) -> None:
    """A duration is formatted in one unit, and can be negative."""
    assert duration_text(span_ms) == text


def test_a_clock_ahead_of_wall_clock_time_has_no_lag_in_time(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If stream time is ahead of wall-clock time, the time lag is unknown instead of 0."""
    file = RunStatusFile(DataLayout(data).checkpoint("flights"))
    file.write(_status(log_ends={"events": {"0": 100}}))
    for now_ms, lag_ms in ((9_001, 1), (9_000, 0), (8_999, None)):
        monkeypatch.setattr(time, "time_ns", lambda now_ms=now_ms: now_ms * 1_000_000)
        partition = overview(data).stores[0].partitions[0]
        assert (partition.lag, partition.lag_ms) == (60, lag_ms)


def test_the_state_is_that_of_the_newest_generation(data: Path) -> None:
    """The state size is the size of the newest generation, which has its own directory."""
    states = DataLayout(data).checkpoint("flights") / "state"
    for name, size in (("store@9", 5), ("store@10", 7), ("store2@11", 9)):
        (states / name).mkdir()
        (states / name / "segment.arrow").write_bytes(bytes(size))
    assert overview(data).stores[0].state_bytes == 7


def test_a_store_whose_pipeline_says_nothing_is_read_from_its_log(data: Path) -> None:
    """Without a pipeline status, the position of a store is read from its newest commit."""
    (DataLayout(data).checkpoint("flights") / "status.json").unlink()
    (store,) = overview(data).stores
    assert store.record == make_record(0)
    assert (store.application, store.open_records, store.state_bytes) == (None, None, 0)
    assert [(p.partition, p.offset, p.lag) for p in store.partitions] == [("0", 100, None)]


def test_a_topic_that_is_read_twice_is_as_late_as_its_slower_reading(data: Path) -> None:
    """If a topic is read twice, its partition has the lower of the two stream times."""
    record = replace(
        RECORD, stream_time_ms={"events": {"0": 9, "1": 8}, "events#2": {"0": 5, "1": 8}}
    )
    file = RunStatusFile(DataLayout(data).checkpoint("flights"))
    file.write(_status(stores={"store": StoreRun(record, 0, 0)}))
    (store,) = overview(data).stores
    assert [p.stream_time_ms for p in store.partitions] == [5, 8]


def _samples(seen: Overview) -> dict[tuple[str, ...], float]:
    """Return the value of each sample by its name and label values."""
    families = text_string_to_metric_families(metrics_text(seen).decode())
    return {
        (sample.name, *(value for _, value in sorted(sample.labels.items()))): sample.value
        for family in families
        for sample in family.samples
    }


def test_the_metrics_say_what_the_overview_says(data: Path) -> None:
    """Each kind of metric has the value of the overview."""
    samples = _samples(overview(data))
    assert samples["oriel_pipeline_up", "flights"] == 1
    assert samples["oriel_pipeline_batches_total", "flights"] == 4
    assert samples["oriel_pipeline_phase_seconds_total", "flights", "compute"] == 3
    assert samples["oriel_store_records_total", "late", "store"] == 3
    assert samples["oriel_store_events_total", "late_results", "store"] == 5
    assert samples["oriel_store_open_records", "store"] == 7
    assert samples["oriel_store_state_bytes", "store"] == 1234
    (store,) = overview(data).stores
    assert store.table_bytes is not None
    assert samples["oriel_store_table_bytes", "store"] == store.table_bytes > 0
    assert samples["oriel_store_files", "store"] == store.files
    assert samples["oriel_store_close_time_seconds", "store"] == 6.995
    assert samples["oriel_partition_log_end_offset", "0", "store", "events"] == 100
    assert samples["oriel_partition_holds_windows_open", "1", "store", "events"] == 1
    assert samples["oriel_partition_idle", "0", "store", "events"] == 1
    assert samples["oriel_partition_lag_seconds", "1", "store", "events"] == 0
    assert samples["oriel_pipeline_maintenance_failures_total", "flights"] == 6
    assert samples["oriel_pipeline_lost_offsets_total", "flights", "events"] == 8
    assert samples["oriel_store_partitions_left_out_total", "store"] == 4
    assert samples["oriel_tailer_up",] == 1
    assert samples["oriel_index_state", "following", "store"] == 1
    assert samples["oriel_index_state", "failed", "store"] == 0
    assert samples["oriel_index_damaged_total", "store"] == 2


def test_the_outcomes_of_records_sum_up_to_the_input(data: Path) -> None:
    """The outcomes of records add up to the input counter (guarantees.md#3)."""
    samples = _samples(overview(data))
    outcomes = [
        value for place, value in samples.items() if place[0] == "oriel_store_records_total"
    ]
    assert sum(outcomes) == RECORD.counters["input"]


@pytest.mark.parametrize("name", ["grafana/oriel.json", "prometheus/alerts.yml"])
def test_dashboard_and_alerts_name_metrics_that_there_are(data: Path, name: str) -> None:
    """Dashboard and alerts only use metrics that the service exports."""
    path = _MONITORING / name
    served = {place[0] for place in _samples(overview(data))}
    named = set(
        re.findall(r"\boriel_(?:pipeline|store|partition|tailer|index)_\w+", path.read_text())
    )
    assert named
    assert named <= served
