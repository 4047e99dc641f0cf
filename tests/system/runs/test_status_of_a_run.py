"""The status file of a process that runs a pipeline, and its output lines for programs."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import orjson
import pytest

from oriel.storage.monitoring import (
    Overview,
    overview,
)
from tests.storage.waiting import wait_until

pytestmark = pytest.mark.slow


ROOT = Path(__file__).resolve().parents[3]


TOPOLOGY = """
from oriel import SlidingWindows, StreamsBuilder

builder = StreamsBuilder()
windows = SlidingWindows.of_time_difference_with_no_grace(10)
builder.stream("t", "v INT").group_by_key().windowed_by(windows).count().materialize("s")
topology = builder.build()
"""


def _append(log: Path, partition: int, *times_ms: int) -> None:
    """Append a record at each time, and an invalid line."""
    with (log / "t" / f"{partition}.jsonl").open("ab") as file:
        for time_ms in times_ms:
            record = {"key": "k", "value": {"v": 1}, "timestamp_ms": time_ms}
            file.write(orjson.dumps(record) + b"\n")
        file.write(b"rubbish\n")


@contextmanager
def _running(directory: Path, *options: str) -> Iterator["subprocess.Popen[str]"]:
    """Run ``oriel run`` over the log in ``directory``."""
    topology = directory / "flights.py"
    topology.write_text(TOPOLOGY)
    command = [sys.executable, "-P", "-m", "oriel", "run", str(topology)]
    command += ["--event-log", str(directory / "log"), "--data", str(directory / "data"), *options]
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
    ) as run:  # fmt: skip
        try:
            yield run
        finally:
            run.kill()


def _input(seen: Overview) -> int:
    """Return how many records the store has read."""
    records = [store.record for store in seen.stores]
    return records[0].counters["input"] if records and records[0] else 0


@pytest.fixture(scope="module", name="said")
def _said(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[Overview], list[dict[str, Any]]]:
    """Return overviews after two pieces of the log and at the end, and the lines on stderr."""
    directory = tmp_path_factory.mktemp("run")
    log, data = directory / "log", directory / "data"
    (log / "t").mkdir(parents=True)
    _append(log, 0, 100, 200, 90)
    _append(log, 1, 50)
    seen: list[Overview] = []

    def has_read(records: int, now: Overview) -> bool:
        # The run can have read the end of the log before the offset, and then the end is smaller.
        return _input(now) >= records and {
            (p.offset == p.log_end, p.lag) for p in now.stores[0].partitions
        } == {(True, 0)}

    def wait_for_input(records: int) -> None:
        seen.append(
            wait_until(
                partial(overview, data), f"{records} records and the end of the log",
                partial(has_read, records), process=run,
            )
        )  # fmt: skip

    with _running(directory, "--log-format", "json", "--trigger", "50ms") as run:
        wait_for_input(6)
        _append(log, 1, 300)
        wait_for_input(8)
        # The signal is sent to Python and Java, as from systemd.
        os.killpg(run.pid, signal.SIGTERM)
        summary, lines = run.communicate()
    assert run.returncode == 0, lines
    assert orjson.loads(summary)["stores"]["s"]["input"] == 8
    seen.append(overview(data))
    return seen, [orjson.loads(line) for line in lines.splitlines()]


Said = tuple[list[Overview], list[dict[str, Any]]]


def test_a_run_says_that_it_lives_until_it_ends(said: Said) -> None:
    """The status of a run has its batches and their durations, and says when the run ended."""
    first, second, ended = ((*seen.runs["flights"], seen) for seen in said[0])
    assert [alive for _, alive, _ in (first, second, ended)] == [True, True, False]
    assert set(first[0].phase_seconds) == {"plan", "compute", "commit"}
    assert first[0].batches < second[0].batches == ended[0].batches
    assert first[0].offset_unit == "bytes"
    assert first[0].maintenance_failures == 0


def test_partitions_know_the_end_of_the_log_and_who_holds_windows_open(said: Said) -> None:
    """The status names the log's end and the partition that keeps windows from becoming final."""
    (first, *_), (second, *_) = (seen.stores for seen in said[0][:2])
    assert [p.holds_windows_open for p in first.partitions] == [False, True]
    assert [p.holds_windows_open for p in second.partitions] == [True, False]
    assert [p for p in second.partitions if not p.log_end == p.offset > 0] == []
    assert second.state_bytes > 0
    assert second.record is not None
    assert second.record.counters["dead_lettered"] == 3


def test_each_line_is_json_for_programs(said: Said) -> None:
    """Each line has time, level, event and pipeline.

    A batch line has the counters of its stores.
    """
    lines = said[1]
    assert lines[0]["message"] == "starting Spark"
    fields = {"time", "level", "event", "message"}
    assert [line for line in lines if not fields <= line.keys()] == []
    assert {line["application"] for line in lines} == {"flights"}
    batch = next(line for line in lines if line["event"] == "batch")
    assert batch["stores"]["s"]["input"] >= 6
    assert batch["message"].startswith(f"batch committed: batch={batch['batch']}, store=s ")
