"""End to end over S3: killed runs, simultaneous runs, the service, the commands."""

import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from random import Random

import psutil  # type: ignore[import-untyped]
import pytest

from oriel.__main__ import main
from oriel.storage import DataLayout, current_files, uri
from oriel.storage.delta import DeltaLog, open_delta
from tests.app.serving import Serving
from tests.e2e.runs_in_one_process import Runs
from tests.object_store import ObjectStore
from tests.storage.waiting import wait_until
from tests.system.cluster.cluster_runs import digests_of, run_here
from tests.system.operations.live_run import LiveRun, newest_windows

pytestmark = pytest.mark.e2e

_TOPOLOGY = """
from oriel import SessionWindows, StreamsBuilder, TimeWindows, avg, count

builder = StreamsBuilder()
events = builder.stream("events", "v DOUBLE").group_by_key()
tumbling = TimeWindows.of_size_and_grace(100, 50)
sessions = SessionWindows.of_inactivity_gap_and_grace(30, 50)
events.windowed_by(tumbling).aggregate(n=count(), mean=avg("v")).materialize("tumbling")
events.windowed_by(sessions).aggregate(n=count()).materialize("sessions")
topology = builder.build()
"""
_BATCH_BYTES = 20_000
_LAST = "the last key"


class Finished:
    """The data and the output of runs over S3."""

    def __init__(self, directory: Path, store: ObjectStore, runs: Runs) -> None:
        """Kill a run, start another and fence it by a third. ``runs`` executes one without S3."""
        self.data = store.data("runs")
        self.log = directory / "log"
        topology, log = directory / "topology.py", self.log / "events"
        topology.write_text(_TOPOLOGY)
        log.mkdir(parents=True)
        (log / "0.jsonl").write_text("".join(_lines(Random(39))))
        options = ["--event-log", str(self.log), "--max-batch-bytes", str(_BATCH_BYTES)]
        options += ["--cores", "2"]
        self.options = [str(topology), *options]
        self.local = run_here(topology, directory / "local", options, runs)
        over_s3 = [*self.options, "--data", uri(self.data)]
        killed = LiveRun(directory / "killed.err", *over_s3)
        killed.wait_for("batch committed: batch=0,")
        killed.kill()
        second = LiveRun(directory / "second.err", *over_s3)
        self._wait_for_batch(second, self.local.batches - 1)
        children = psutil.Process(second.process.pid).children()
        self.children_of_second = [" ".join(child.cmdline()) for child in children]
        self.digests = digests_of(self.data)
        third = LiveRun(directory / "third.err", *over_s3)
        epoch = self.data / "checkpoints" / "topology" / "epochs" / f"{3:012d}.json"
        wait_until(partial(current_files().exists, epoch), "epoch 3", process=third.process)
        with (log / "0.jsonl").open("a") as file:
            file.write(_line(_LAST, 1.0, 100_000))
        self._wait_for_batch(third, self.local.batches)
        self.code_of_second = second.process.wait()
        self.second_stderr = second.stderr()
        third.process.send_signal(signal.SIGTERM)
        self.code_of_third = third.process.wait()

    def _wait_for_batch(self, run: LiveRun, batch: int) -> None:
        """Wait until both tables have a batch of ``run``."""

        def least() -> int:
            stores = [DeltaLog(self.data / "tables" / name) for name in ("tumbling", "sessions")]
            found = [log.newest_record() for log in stores]
            return min(-1 if record is None else record.batch for record in found)

        wait_until(least, f"batch {batch}", lambda seen: seen >= batch, process=run.process)


def _line(key: str, value: float, time_ms: int) -> str:
    record = {"key": key, "value": {"v": value}, "timestamp_ms": time_ms}
    return json.dumps(record) + "\n"


def _lines(random: Random) -> Iterator[str]:
    yield "rubbish\n"
    for number in range(1000):
        yield _line(
            f"key {random.randrange(9)}", random.random(), 2 * number + random.randrange(90)
        )


@pytest.fixture(scope="module")
def finished(
    tmp_path_factory: pytest.TempPathFactory, object_store: ObjectStore, runs: Runs
) -> Finished:
    """Return the results of the runs, which run once."""
    return Finished(tmp_path_factory.mktemp("objects"), object_store, runs)


def test_a_killed_run_resumes_with_the_rows_of_a_local_run(finished: Finished) -> None:
    """All rows of all tables are equal, including revisions and dead letters."""
    assert finished.local.batches > 2
    assert finished.digests == finished.local.digests


def test_a_run_has_a_fork_server(finished: Finished) -> None:
    """The fork server starts before the store's client, because the client has threads."""
    children = finished.children_of_second
    servers = [child for child in children if "server of Spark's Python processes" in child]
    assert len(servers) == 1, children


def test_of_two_runs_the_later_one_writes(finished: Finished) -> None:
    """The earlier run ends with one line, and the new record exists once."""
    assert (finished.code_of_second, finished.code_of_third) == (1, 0)
    assert re.search(r"took over this pipeline at .*\(epoch 3\)", finished.second_stderr)
    rows = open_delta(finished.data / "tables" / "tumbling").to_pyarrow_table().to_pylist()
    assert [row["n"] for row in rows if row["key"] == _LAST] == [1]


def test_a_uri_is_not_a_local_directory(finished: Finished) -> None:
    """No code uses the name of an object as a local path."""
    assert finished.data.parts[0] == "s3:"
    assert not Path("s3:").exists()


def test_the_service_reads_from_objects(finished: Finished, tmp_path: Path) -> None:
    """The index is on this machine, and without a directory for it the service reports an error."""
    data = uri(finished.data)
    command = [sys.executable, "-m", "oriel", "serve", "--data", data]
    refused = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (refused.returncode, refused.stderr.count("\n")) == (1, 1)
    assert f"{data}: an object store cannot contain the indexes." in refused.stderr
    serving = Serving(tmp_path / "served", "--data", data, "--index", str(tmp_path / "index"))
    try:
        windows = "/v1/stores/tumbling/fetch/the%20last%20key?from_ms=0&to_ms=200000"
        serving.wait_for_status(windows, 200)
        (window,) = serving.get(windows).json["windows"]
        assert (window["n"], window["window_start_ms"]) == (1, 100_000)
    finally:
        serving.end()


def test_commands_work_on_objects(
    finished: Finished, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """The commands for status, stream times, dead letters, tables and backups work on objects."""

    def printed(*arguments: str, data: Path = finished.data) -> str:
        assert main([*arguments, "--data", uri(data)]) == 0, capfd.readouterr().err
        return capfd.readouterr().out

    tumbling, sessions = json.loads(printed("status", "--json"))["stores"][::-1]
    assert [tumbling["name"], sessions["name"]] == ["tumbling", "sessions"]
    assert tumbling["state_bytes"] > 0
    # Each status would list all objects of a table.
    assert tumbling["table_bytes"] is tumbling["files"] is None
    assert "tumbling" in printed("clock")
    assert "not-json" in printed("dead-letters", "list")
    again = ["dead-letters", "replay", "--event-log", str(finished.log)]
    assert printed(*again) != printed(*again)
    notes = current_files().names(finished.data / "replayed" / "_dead_letters")
    assert sorted(notes) == [f"{0:012d}.jsonl", f"{0:012d}.sent.jsonl"]
    rows = newest_windows(finished.data)
    printed("compact", "tumbling", "--all")
    assert len(open_delta(finished.data / "tables" / "tumbling").file_uris()) == 1
    printed("backup", "--to", str(tmp_path / "backup"))
    restored = finished.data.with_name("restored")
    printed("restore", "--from", str(tmp_path / "backup"), data=restored)
    assert newest_windows(restored) == newest_windows(finished.data) == rows
    assert main(["restore", "--from", str(tmp_path / "backup"), "--data", uri(restored)]) == 1
    assert "already exists" in capfd.readouterr().err
    assert main(["backup", "--to", "s3://bucket/backup", "--data", uri(finished.data)]) == 1
    assert "Copy the backup into a directory" in capfd.readouterr().err


def test_a_rescaled_store_is_recomputed(finished: Finished) -> None:
    """Both commands replace the state by another generation with the same windows."""
    rows = newest_windows(finished.data)
    assert main(["rescale", "tumbling", "16", "--data", uri(finished.data)]) == 0
    assert newest_windows(finished.data) == rows
    options = ["tumbling", *finished.options, "--data", uri(finished.data)]
    command = [sys.executable, "-m", "oriel", "rebuild", *options]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr
    assert newest_windows(finished.data) == rows
    names = current_files().names(finished.data / "checkpoints" / "topology" / "state")
    assert sorted(names) == ["sessions", "tumbling@2"]
    assert not current_files().is_directory(DataLayout(finished.data).rebuild("tumbling"))
