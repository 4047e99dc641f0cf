"""End to end: disorder, random cuts, SIGKILL at every step; tables and HTTP equal the model."""

import itertools
import math
import os
import subprocess
import sys
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import quote

import httpx
import orjson
import pytest
from deltalake import DeltaTable

from demo.serving import serving
from tests.e2e.killed_run import STEPS
from tests.slow_model import Outcome, Record, expected

ROOT = Path(__file__).resolve().parents[2]
DIFFERENCE, GRACE = 50, 120
KEYS = ("plain", "with/slash", "space and ?&#%2F", "ünïcödé 🛩", "a..b", "")
BAD_LINES = (b"rubbish", b'{"key": "a"}', b'{"key": null, "value": {}, "timestamp_ms": 1}', b"")

TOPOLOGY = f"""
from pipeline import SlidingWindows, StreamsBuilder, avg, collect_list, count, max, min, sum

builder = StreamsBuilder()
(
    builder.stream("events", "v DOUBLE")
    .group_by_key()
    .windowed_by(SlidingWindows.of_time_difference_and_grace({DIFFERENCE}, {GRACE}))
    .aggregate(n=count(), total=sum("v"), mean=avg("v"), least=min("v"), most=max("v"),
               all=collect_list("v"))
    .materialize("windows")
)
topology = builder.build()
"""


@pytest.mark.e2e
def test_killed_at_every_step_the_result_is_that_of_an_undisturbed_run(tmp_path: Path) -> None:
    """Four kills at four steps, four batch sizes: rows, counters and answers equal the model."""
    seed = int.from_bytes(os.urandom(4))
    random = Random(seed)
    told = f"seed {seed}"
    (tmp_path / "windows.py").write_text(TOPOLOGY)
    logs = {p: random_log(random) for p in range(2)}
    bad = write_event_log(tmp_path / "log" / "events", logs, random)
    batches = itertools.count(1, 2)
    for step in STEPS:
        arguments = (step, str(next(batches)), *pipeline_arguments(tmp_path, random))
        killed = start("tests.e2e.killed_run", *arguments)
        assert killed.returncode == -9, f"{told}, {step}: it was not killed: {killed.stderr}"
    finished = start("pipeline", *pipeline_arguments(tmp_path, random))
    assert finished.returncode == 0, f"{told}: {finished.stderr[-3000:]}"
    outcome = expected(logs, DIFFERENCE, GRACE)
    check_table(tmp_path / "data" / "tables" / "windows", outcome, told)
    check_dead_letters(tmp_path / "data" / "tables" / "_dead_letters", bad, told)
    with serving(tmp_path / "data") as client:
        check_answers(client, outcome, told)
        check_counters(client, outcome, logs, bad)


def start(module: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run a module of ours in a process group of its own, to its end."""
    return subprocess.run(
        [sys.executable, "-m", module, *arguments],
        cwd=ROOT,
        start_new_session=True,
        capture_output=True,
        text=True,
        check=False,
    )


def pipeline_arguments(folder: Path, random: Random) -> list[str]:
    """Read everything, in batches of another random size each time."""
    size = random.choice((3_000, 5_000, 8_000))
    log, data = str(folder / "log"), str(folder / "data")
    paths = [str(folder / "windows.py"), "--event-log", log, "--data", data]
    return [*paths, "--once", "--max-batch-bytes", str(size)]


def random_log(random: Random) -> list[Record]:
    """Make a partition's records: rising times with disorder beyond the grace, odd keys."""
    log: list[Record] = []
    for i in range(700):
        time = max(0, i * 2 + random.choice((0, 0, random.randint(-200, 10))))
        value = random.choice((None, round(random.uniform(-5, 5), 2), 1e15, 0.1))
        log.append((random.choice(KEYS), time, value))
    return log


def write_event_log(
    folder: Path, logs: dict[int, list[Record]], random: Random
) -> list[tuple[int, int, bytes]]:
    """Write the logs with bad lines in between; return where those are."""
    folder.mkdir(parents=True)
    bad = []
    for partition, log in logs.items():
        with (folder / f"{partition}.jsonl").open("wb") as file:
            for key, time, value in log:
                if random.random() < 0.02:
                    line = random.choice(BAD_LINES)
                    bad.append((partition, file.tell(), line))
                    file.write(line + b"\n")
                record = {"key": key, "value": {"v": value}, "timestamp_ms": time}
                file.write(orjson.dumps(record) + b"\n")
    return bad


def window_json(key: str, start_ms: int, outcome: Outcome) -> dict[str, Any]:
    """Return what the API has to answer for one window of the model."""
    window = outcome.windows[key, start_ms]
    values = window.values
    total = math.fsum(values) if values else None
    return {
        "key": key,
        "window_start_ms": window.start,
        "window_end_ms": window.end,
        "n": len(window.members),
        "total": total,
        "mean": None if total is None else total / len(values),
        "least": min(values, default=None),
        "most": max(values, default=None),
        "all": values,
        "timestamp_ms": window.timestamp,
        "final": window.final,
    }


def check_table(table: Path, outcome: Outcome, told: str) -> None:
    """The newest row of each window is the model's; a final row comes once and last."""
    newest: dict[tuple[str, int], dict[str, Any]] = {}
    for row in DeltaTable(table).to_pyarrow_table().sort_by("revision").to_pylist():
        place = row["key"], round(row["window_start"].timestamp() * 1000)
        before = newest.get(place)
        assert before is None or not before["final"], f"{told}: told again after final: {place}"
        assert before is None or before["revision"] < row["revision"], f"{told}: twice in a batch"
        newest[place] = row
    assert sorted(newest) == sorted(outcome.windows), told
    for place, row in newest.items():
        wanted = window_json(*place, outcome)
        for name in ("key", "n", "total", "mean", "least", "most", "all", "final"):
            assert row[name] == wanted[name], f"{told}: {place} {name}"


def check_dead_letters(table: Path, bad: list[tuple[int, int, bytes]], told: str) -> None:
    """Each bad line is there once, with partition, offset and its bytes."""
    rows = DeltaTable(table).to_pyarrow_table().to_pylist()
    found = sorted((row["partition"], row["offset"], row["raw"]) for row in rows)
    assert found == sorted(bad), told
    assert all(row["reason"] and row["detail"] for row in rows)


def check_answers(client: httpx.Client, outcome: Outcome, told: str) -> None:
    """Fetch in pages, backwards, the latest and single windows: all as in the model."""
    for key in KEYS:
        wanted = [window_json(k, s, outcome) for k, s in sorted(outcome.windows) if k == key]
        path = quote(key, safe="")
        assert fetch_all(client, f"/v1/stores/windows/fetch/{path}") == wanted, told
        backward = fetch_all(client, f"/v1/stores/windows/backwardFetch/{path}")
        assert backward == wanted[::-1], told
        latest = client.get(f"/v1/stores/windows/latest/{path}").json()
        assert latest["windows"] == wanted[-1:], told
        some = wanted[len(wanted) // 2]
        one = client.get(f"/v1/stores/windows/window/{some['window_start_ms']}/{path}").json()
        assert one["windows"] == [some], told
        bounds = {"from_ms": 300, "to_ms": some["window_start_ms"]}
        answer = client.get(f"/v1/stores/windows/fetch/{path}", params={**bounds, "limit": 10_000})
        inside = [w for w in wanted if 300 <= w["window_start_ms"] <= some["window_start_ms"]]
        assert answer.json()["windows"] == inside, told


def fetch_all(client: httpx.Client, path: str) -> list[dict[str, Any]]:
    """Follow the cursors of a fetch to its end."""
    windows: list[dict[str, Any]] = []
    parameters: dict[str, Any] = {"limit": 97}
    while True:
        response = client.get(path, params=parameters)
        assert response.status_code == httpx.codes.OK, response.text
        answer = response.json()
        windows += answer["windows"]
        if answer["next_cursor"] is None:
            return windows
        parameters["cursor"] = answer["next_cursor"]


def check_counters(
    client: httpx.Client,
    outcome: Outcome,
    logs: dict[int, list[Record]],
    bad: list[tuple[int, int, bytes]],
) -> None:
    """Input = applied + late + dead-lettered, exactly, and the position is the log's end."""
    counters = client.get("/v1/stores/windows").json()["counters"]
    assert counters == {
        "input": sum(map(len, logs.values())) + len(bad),
        "applied": outcome.applied,
        "late": outcome.late,
        "dead_lettered": len(bad),
        "filtered": 0,
    }
