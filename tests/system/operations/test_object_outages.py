"""End to end over S3: the object store is down while a pipeline and a service run."""

import json
import signal
from collections.abc import Iterable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from oriel.storage import uri
from tests.app.serving import Serving
from tests.e2e.runs_in_one_process import Runs
from tests.object_store import ObjectStore
from tests.storage.object_store_gate import gate_to
from tests.storage.waiting import wait_until
from tests.system.cluster.cluster_runs import run_here
from tests.system.operations.live_run import LiveRun, newest_windows

pytestmark = pytest.mark.e2e

_TOPOLOGY = """
from oriel import StreamsBuilder, TimeWindows, avg, count

builder = StreamsBuilder()
events = builder.stream("events", "v DOUBLE").group_by_key()
windows = TimeWindows.of_size_and_grace(100, 50)
events.windowed_by(windows).aggregate(n=count(), mean=avg("v")).materialize("tumbling")
topology = builder.build()
"""
_STORE = "/v1/stores/tumbling"
#: Requests of the pipeline and the service in about half a minute.
_ATTEMPTS = 60


def _append(log: Path, records: Iterable[dict[str, Any]]) -> None:
    with log.open("a") as file:
        file.writelines(json.dumps(record) + "\n" for record in records)


def _record(random: Random, number: int) -> dict[str, Any]:
    time_ms = 2 * number + random.randrange(40)
    value = {"v": random.random()}
    return {"key": f"key {random.randrange(9)}", "value": value, "timestamp_ms": time_ms}


@pytest.mark.parametrize("outage", ["down", "silent"])
def test_a_pipeline_and_a_service_outlive_an_outage(
    object_store: ObjectStore,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    runs: Runs,
    outage: str,
) -> None:
    """No process ends, the pipeline names the object store, and rows equal those of a local run."""
    data, topology = object_store.data(f"outage-{outage}"), tmp_path / "topology.py"
    topology.write_text(_TOPOLOGY)
    log = tmp_path / "log" / "events" / "0.jsonl"
    log.parent.mkdir(parents=True)
    random = Random(16)
    _append(log, (_record(random, number) for number in range(500)))
    options = ["--event-log", str(tmp_path / "log"), "--cores", "2"]
    with gate_to(object_store.environment["AWS_ENDPOINT_URL"]) as gate, monkeypatch.context() as to:
        to.setenv("AWS_ENDPOINT_URL", gate.address)
        run = LiveRun(tmp_path / "run.err", str(topology), *options, "--data", uri(data))
        run.wait_for("batch committed: batch=0,")
        index = ["--index", str(tmp_path / "index")]
        serving = Serving(tmp_path / "served", "--data", uri(data), *index)
        try:
            serving.wait_for_status(f"{_STORE}/fetch/key%201", 200)
            children = serving.children()
            if outage == "down":
                gate.close()
            else:
                gate.stop_responding()
            _append(log, (_record(random, number) for number in range(500, 1000)))
            run.wait_for(f"object store {gate.address}: no response to the request to ")
            if outage == "down":
                wait_until(
                    lambda: gate.attempts, "requests", lambda seen: seen >= _ATTEMPTS,
                    process=run.process,
                )  # fmt: skip
            gate.open()
            run.wait_for(f"object store {gate.address}: responds again after ")
            _append(log, [{"key": "last", "value": {"v": 1.0}, "timestamp_ms": 100_000}])
            wait_until(
                lambda: serving.get(f"{_STORE}/fetch/last").json,
                "the last record",
                lambda page: page.get("windows"),
                process=run.process,
            )
            assert serving.children() == children
        finally:
            serving.end()
        run.process.send_signal(signal.SIGTERM)
        assert run.process.wait() == 0, run.stderr()
    local = run_here(topology, tmp_path / "local", options, runs)
    assert local.counters["tumbling"]["input"] == 1001
    assert newest_windows(data) == newest_windows(tmp_path / "local")
