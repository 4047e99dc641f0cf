"""Measure how fast results are committed: ``oriel bench sinks``.

- one: milliseconds from the append of a record to an event log until its batch is committed to the
  table of a store. The next record follows the commit.
- topic: records/s that ``to(topic)`` writes from one Kafka topic to another one, as a
  ``read_committed`` consumer sees them. The measured time starts after a quarter of the records.

Progress is written to stderr. stdout has a table, and JSON in the last line.
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from confluent_kafka import Consumer, TopicPartition

from benchmarks.peer_runs.cases import KINDS, PARTITIONS, STORE, DataSet
from benchmarks.peer_runs.processes import ORIEL_COMMAND, Failed, running
from benchmarks.peer_runs.producing import LogSink
from benchmarks.peer_runs.topics import make_topic, produce
from oriel.storage import COMMIT_INFO_KEY
from tests.e2e.kafka_broker import Broker

_TOPIC, _OUTPUT = "readings", "copied"
_FIRST_SECONDS, _LONGEST_SECONDS = 60.0, 1_800.0
#: Batches of one record that are not measured.
_WARM_UP = 100
_PAUSE_SECONDS = 0.0002
_LOOK_SECONDS = 0.2

_COPY = """from oriel import StreamsBuilder

builder = StreamsBuilder()
builder.stream({topic!r}, schema="v DOUBLE").filter("v >= 0").to({output!r})
topology = builder.build()
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, and print a table and JSON. Returns 1 after an error."""
    parser = argparse.ArgumentParser(prog="oriel bench sinks", description=__doc__)
    parser.add_argument("--parts", nargs="+", choices=_PARTS, default=list(_PARTS))
    parser.add_argument("--commits", type=int, default=1_000, help="batches of one record")
    parser.add_argument("--records", type=int, default=20_000_000, help="records of the topic")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="only test the benchmark")
    options = parser.parse_args(arguments)
    options.warm_up = _WARM_UP
    if options.quick:
        options.commits, options.records, options.repeat, options.warm_up = 20, 100_000, 1, 5
    found: dict[str, list[Any]] = {part: [] for part in options.parts}
    try:
        for run in range(options.repeat):
            for part in options.parts:
                _say(f"{part}, run {run + 1} of {options.repeat}")
                with tempfile.TemporaryDirectory(prefix="oriel-bench-sinks-") as directory:
                    found[part].append(_PARTS[part](options, Path(directory)))
    except (Failed, OSError) as error:
        _say(str(error))
        return 1
    for part, figures in found.items():
        print(f"{part:<12}{'   '.join(map(str, figures))}")
    print(json.dumps(found))
    return 0


def one_record(options: argparse.Namespace, directory: Path) -> dict[str, float]:
    """Return percentiles of the milliseconds from append to commit."""
    log, data = directory / "log", directory / "data"
    sink = LogSink(log / _TOPIC)
    data.mkdir()
    file = directory / "one.py"
    file.write_text(KINDS["sliding"].topology(_TOPIC))
    entries = data / "tables" / STORE / "_delta_log"
    command = [*ORIEL_COMMAND, "run", str(file), "--event-log", str(log), "--data", str(data)]
    milliseconds = []
    with running("oriel run", command, directory / "run.log"):
        version = _commit_after(entries, -1, lambda: sink.send(["k"], _now_ms()))
        for number in range(options.warm_up + options.commits):
            key = f"key-{number % 1000}"
            began = time.perf_counter()
            version = _commit_after(entries, version, lambda key=key: sink.send([key], _now_ms()))
            if number >= options.warm_up:
                milliseconds.append((time.perf_counter() - began) * 1000)
    p50, p99 = np.percentile(milliseconds, [50, 99])
    return {"p50_ms": round(float(p50), 1), "p99_ms": round(float(p99), 1)}


def _commit_after(entries: Path, version: int, send: Any) -> int:
    """Send a record, and return the version that contains its batch.

    Raises:
        Failed: no batch is committed in time.
    """
    send()
    until = time.perf_counter() + _FIRST_SECONDS
    while time.perf_counter() < until:
        entry = entries / f"{version + 1:020d}.json"
        if not entry.exists():
            time.sleep(_PAUSE_SECONDS)
            continue
        version += 1
        # The first version has the definition, and maintenance also adds versions.
        if f'"{COMMIT_INFO_KEY}"' in entry.read_text() and '"add"' in entry.read_text():
            return version
    message = f"no batch was committed within {_FIRST_SECONDS:g} s"
    raise Failed(message)


def topic(options: argparse.Namespace, directory: Path) -> dict[str, int]:
    """Return the records/s that are written to a topic."""
    data_set = DataSet(dense=False, disorder_s=5, records=options.records)
    file, data = directory / "copy.py", directory / "data"
    file.write_text(_COPY.format(topic=data_set.topic, output=_OUTPUT))
    data.mkdir()
    broker = Broker(directory)
    try:
        produce(broker.address, data_set)
        make_topic(broker.address, _OUTPUT)
        command = [
            *ORIEL_COMMAND, "run", str(file), "--kafka", broker.address, "--data", str(data),
        ]  # fmt: skip
        with running("oriel run", command, directory / "run.log"):
            return {"records_per_second": _rate(broker.address, options.records)}
    finally:
        broker.kill()


def _rate(servers: str, records: int) -> int:
    """Return the rate from at most a quarter of the records to the last one.

    Markers of transactions also have offsets. They are so few that they do not change the rate.

    Raises:
        Failed: the topic does not have all records in time.
    """
    settings = {
        "bootstrap.servers": servers, "group.id": "bench", "isolation.level": "read_committed",
    }  # fmt: skip
    consumer, first = Consumer(settings), (time.perf_counter(), 0)
    until = first[0] + _LONGEST_SECONDS
    try:
        while (now := time.perf_counter()) < until:
            ends = (
                consumer.get_watermark_offsets(TopicPartition(_OUTPUT, n), timeout=10)
                for n in range(PARTITIONS)
            )
            written = sum(end[1] for end in ends if end is not None)
            if written <= records // 4:
                first = now, written
            if written >= records:
                return round((written - first[1]) / (now - first[0]))
            time.sleep(_LOOK_SECONDS)
    finally:
        consumer.close()
    message = f"{_OUTPUT} has {written:,} of {records:,} records after {_LONGEST_SECONDS:g} s"
    raise Failed(message)


def _say(text: str) -> None:
    """Print a line of progress on stderr."""
    print(f"sinks: {text}", file=sys.stderr, flush=True)


def _now_ms() -> int:
    return int(time.time() * 1000)


#: Part -> the function that measures it.
_PARTS = {"one": one_record, "topic": topic}

if __name__ == "__main__":
    sys.exit(main())
