"""Measure how fast records become windows: ``oriel bench ingest``.

``cold`` is ``oriel run --once`` over a log of 300,000 records in a new process. The times are from
its start to the first commit and to its end, with sliding windows of 10 s and a grace of 30 s.

Then three measurements run in one warm Spark session. Each is compared with ``floor``, the same
source, parsing and shuffle with an engine task that does nothing, which is the cost of Spark:

- log: Sliding windows of 10 s over 300,000 records of 1,000 keys, one per key and second. The
  figure is the time of the batches of one query, without its start of about one second.
- batch: The median time of one batch: sliding windows of 1 s, 50,000 records of 10,000 keys.
- fresh: The time from the append of a record to its HTTP response, at 1,000 records/s and with a
  trigger of 200 ms.
"""

import argparse
import json
import statistics
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming import StreamingQuery

from benchmarks.peer_runs.cases import KINDS
from benchmarks.peer_runs.oriel_runs import run_once
from oriel import SlidingWindows, StreamsBuilder, Topology, avg, count
from oriel.demo import serving
from oriel.pipeline.arrow_steps import StepsOutput, selecting_steps
from oriel.pipeline.decoding import BlockDecoder
from oriel.pipeline.lowered import lower
from oriel.pipeline.run import PipelineRun, RunSettings
from oriel.pipeline.sources import EventLog
from oriel.pipeline.spark import build_session
from oriel.pipeline.state import key_hashes
from oriel.pipeline.tasks import (
    ENVELOPE_SCHEMA,
    Batches,
    Received,
    Reports,
    Route,
    decoded_rows,
    source_task,
)

CORES = 2
LOG_RECORDS = 300_000
BATCH_RECORDS = 50_000
BATCHES = 18
#: Runs over the log that are not counted, because the JVM still compiles its hot code.
WARM_UPS = 2
FRESH_SECONDS = 20
FRESH_WARM_UP_SECONDS = 15
FRESH_RECORDS_PER_SECOND = 1000

_LINE = '{{"key": "key-{:05d}", "value": {{"v": {:6.2f}}}, "timestamp_ms": {:013d}}}\n'
_EPOCH_MS = 1_700_000_000_000


def topology(time_difference_ms: int) -> Topology:
    """Return one store: count and mean of sliding windows without grace."""
    builder = StreamsBuilder()
    windows = SlidingWindows.of_time_difference_with_no_grace(time_difference_ms)
    grouped = builder.stream("events", "v DOUBLE").group_by_key().windowed_by(windows)
    grouped.aggregate(n=count(), mean=avg("v")).materialize("bench")
    return builder.build()


def write_log(directory: Path, keys: int, records: int, step_ms: int, partitions: int = 2) -> int:
    """Write ``records`` lines, one per key and step. Return the bytes of a line."""
    directory.mkdir(parents=True)
    files = [(directory / f"{p}.jsonl").open("w") for p in range(partitions)]
    for place in range(records):
        step, key = divmod(place, keys)
        value = (key * 7 + step * 13) % 1000 / 10
        files[key % partitions].write(_LINE.format(key, value, _EPOCH_MS + step * step_ms))
    for file in files:
        file.close()
    return len(_LINE.format(0, 0, _EPOCH_MS))


def pipeline_query(
    spark: SparkSession, directory: Path, what: Topology, batch_bytes: int
) -> tuple[StreamingQuery, PipelineRun]:
    """Start the pipeline over the log in ``directory``, up to the end of the log."""
    settings = RunSettings(directory / "data", "bench", trigger_ms=None, tasks=CORES)
    run = PipelineRun.recover(spark, what, EventLog(directory / "log", batch_bytes), settings)
    return run.start(lambda _batch, _stores: None), run


def spark_only_query(
    spark: SparkSession, directory: Path, what: Topology, batch_bytes: int
) -> StreamingQuery:
    """Start the same reading, parsing and shuffling, with Python tasks that do nothing."""
    log = EventLog(directory / "log", batch_bytes)
    (origin,) = lower(what).stores[0].inputs
    decoder = log.decoder(origin.source)
    steps = selecting_steps(origin, origin.source)
    assert isinstance(decoder, BlockDecoder)
    assert steps is not None
    steps.select(StepsOutput(["v"], null_values=False))
    envelopes = from_arrow_schema(ENVELOPE_SCHEMA)
    route = Route(origin.source, (steps, _addressed), to=1, tasks=CORES)
    feeding = source_task(log.row_opener(), {origin.source: decoder}, [route])

    def nothing(rows: DataFrame, _batch: int) -> None:
        sent = rows.mapInArrow(feeding, envelopes).repartitionById(CORES, "task")
        counted = from_arrow_schema(pa.schema([("rows", pa.int64())]))
        sent.mapInArrow(_count_rows, counted).collect()

    stream = log.stream(spark, "events").writeStream.foreachBatch(nothing)
    checkpoint = str(directory / "floor-checkpoint")
    return stream.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()


def _addressed(batches: Batches, _received: Received) -> Generator[pa.RecordBatch, None, Reports]:
    for batch in batches:
        task = pa.array(key_hashes(batch["key"]) % CORES, pa.int32())
        yield batch.append_column("task", task)
    return Reports()


def _count_rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    values = [value for batch in batches for value in batch["rows"].drop_null()]
    rows = decoded_rows(values).num_rows if values else 0
    yield pa.RecordBatch.from_pydict({"rows": [rows]})


def timed_log(spark: SparkSession, directory: Path, *, spark_only: bool) -> list[float]:
    """Return the seconds of each batch of a query over the whole log."""
    write_log(directory / "log" / "events", keys=1000, records=LOG_RECORDS, step_ms=1000)
    return _batch_seconds(spark, directory, topology(10_000), 64 * 2**20, spark_only=spark_only)


def timed_cold(directory: Path) -> dict[str, float]:
    """Return the seconds of the whole command over a log, and the seconds to its first commit."""
    write_log(directory / "log" / "events", keys=1000, records=LOG_RECORDS, step_ms=1000)
    file = directory / "cold.py"
    file.write_text(KINDS["sliding"].topology("events"))
    source = ["--event-log", str(directory / "log"), "--cores", str(CORES)]
    found = run_once(file, source, directory / "data", totals=False)
    assert found.first_seconds is not None
    return {
        "cold_first_commit_seconds": found.first_seconds,
        "cold_whole_seconds": found.cold_seconds,
    }


def timed_batches(spark: SparkSession, directory: Path, *, spark_only: bool) -> list[float]:
    """Return the seconds of each batch of 50,000 records, after the first ten."""
    records = BATCHES * BATCH_RECORDS
    line = write_log(directory / "log" / "events", keys=10_000, records=records, step_ms=1000)
    size = BATCH_RECORDS * line
    return _batch_seconds(spark, directory, topology(1000), size, spark_only=spark_only)[10:]


def _batch_seconds(
    spark: SparkSession, directory: Path, what: Topology, batch_bytes: int, *, spark_only: bool
) -> list[float]:
    if spark_only:
        query = spark_only_query(spark, directory, what, batch_bytes)
        query.awaitTermination()
    else:
        query, run = pipeline_query(spark, directory, what, batch_bytes)
        query.awaitTermination()
        run.close()
    progress = [p for p in query.recentProgress if p["numInputRows"]]
    return [p["durationMs"]["triggerExecution"] / 1000 for p in progress]


def timed_freshness(spark: SparkSession, directory: Path) -> list[float]:
    """Return the seconds from append to HTTP response of many records, at 1,000 records/s."""
    (directory / "log" / "events").mkdir(parents=True)
    settings = RunSettings(directory / "data", "bench", trigger_ms=200, tasks=CORES)
    run = PipelineRun.recover(spark, topology(10_000), EventLog(directory / "log"), settings)
    with _producing(directory / "log" / "events" / "0.jsonl") as append:
        query = run.start(lambda _batch, _stores: None)
        with serving(directory / "data") as client:
            waited = [_seconds_until_found(client, append, i) for i in _paced()]
        query.stop()
    run.close()
    return waited


def _paced() -> Iterator[int]:
    """Yield a count per probe. The counts of the warm-up are negative."""
    end = time.monotonic() + FRESH_WARM_UP_SECONDS + FRESH_SECONDS
    place = 0
    while time.monotonic() < end:
        yield place
        place += 1


@contextmanager
def _producing(path: Path) -> Iterator[Any]:
    """Append 1,000 records/s in the background. Yield a function that appends one more record."""
    lock, done = threading.Lock(), threading.Event()
    file = path.open("a")

    def append(key: str) -> None:
        line = {"key": key, "value": {"v": 1.0}, "timestamp_ms": int(time.time() * 1000)}
        with lock:
            file.write(json.dumps(line) + "\n")
            file.flush()

    def produce() -> None:
        each = FRESH_RECORDS_PER_SECOND // 50
        while not done.wait(1 / 50):
            now = int(time.time() * 1000)
            with lock:
                file.write("".join(_LINE.format(i, 1.0, now) for i in range(each)))
                file.flush()

    thread = threading.Thread(target=produce)
    thread.start()
    try:
        yield append
    finally:
        done.set()
        thread.join()
        file.close()


def _seconds_until_found(client: httpx.Client, append: Any, place: int) -> float:
    key = f"probe-{place}"
    started = time.perf_counter()
    append(key)
    while client.get(f"/v1/stores/bench/latest/{key}").status_code != httpx.codes.OK:
        time.sleep(0.002)
    return time.perf_counter() - started


def measure(spark: SparkSession, root: Path, runs: int) -> dict[str, float]:
    """Warm up, then measure the pipeline and Spark alone in turn."""
    results: dict[str, float] = {}
    seconds: dict[str, list[float]] = defaultdict(list)
    for attempt in range(runs + WARM_UPS):
        for spark_only in (False, True):
            name = f"log-{'floor' if spark_only else 'ours'}"
            took = sum(timed_log(spark, root / f"{name}-{attempt}", spark_only=spark_only))
            print(f"{name}, run {attempt}: {took:.2f} s", flush=True)
            seconds[name].append(took)
    for spark_only in (False, True):
        name = f"batch-{'floor' if spark_only else 'ours'}"
        seconds[name] = timed_batches(spark, root / name, spark_only=spark_only)
    for name, all_seconds in seconds.items():
        counted = all_seconds[WARM_UPS:] if name.startswith("log") else all_seconds
        results[f"{name}_seconds"] = statistics.median(counted)
    results["log_records_per_second"] = LOG_RECORDS / results["log-ours_seconds"]
    waited = timed_freshness(spark, root / "fresh")
    steady = waited[
        len(waited) * FRESH_WARM_UP_SECONDS // (FRESH_SECONDS + FRESH_WARM_UP_SECONDS) :
    ]
    p50, p95 = np.percentile(steady, [50, 95])
    return {**results, "fresh_p50_seconds": p50, "fresh_p95_seconds": p95, "samples": len(steady)}


def main() -> None:
    """Measure, print a small table and one line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=3, help="counted runs of the log. Default: 3")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="oriel-bench-") as directory:
        results = timed_cold(Path(directory) / "cold")
        spark = build_session("oriel-bench", cores=CORES)
        spark.sparkContext.setLogLevel("ERROR")
        results |= measure(spark, Path(directory), options.runs)
        spark.stop()
    rows = (
        ("300,000 records, s", results["log-ours_seconds"], results["log-floor_seconds"]),
        ("batch of 50,000, s", results["batch-ours_seconds"], results["batch-floor_seconds"]),
    )
    print(f"\n{'':24}{'ours':>10}{'floor':>10}")
    for name, ours, alone in rows:
        print(f"{name:24}{ours:10.2f}{alone:10.2f}")
    print(f"{'cold: first commit, s':24}{results['cold_first_commit_seconds']:10.2f}")
    print(f"{'cold: whole command, s':24}{results['cold_whole_seconds']:10.2f}")
    print(f"{'records/s':24}{results['log_records_per_second']:10,.0f}")
    print(f"{'record to HTTP p50, s':24}{results['fresh_p50_seconds']:10.2f}")
    print(json.dumps({name: round(value, 3) for name, value in results.items()}))


if __name__ == "__main__":
    main()
