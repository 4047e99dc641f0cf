"""Kills with compaction: a pipeline of every kind of store is killed repeatedly.

The test calls ``killed_in_maintenance_runs`` for a few kills. For any number of kills, run
``python -P -m tests.system.kills.kill_campaign --kills 200``. With ``--kafka``, the records are in
a topic of a real broker. With ``--streams``, Spark reads the tables of final rows as streams during
the kills, and its process is killed as well. The exit code is 1 if anything differs.
"""

import argparse
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from random import Random
from typing import Any

import orjson
from deltalake import DeltaTable

from oriel.storage import WindowRange
from oriel.storage.delta import DeltaLog
from oriel.storage.index import (
    IndexDirectory,
    IndexReader,
    KeyValueSnapshot,
    WindowSnapshot,
    build_generation,
)
from tests.e2e.event_logs import random_logs, write_lines
from tests.e2e.kafka_broker import Broker
from tests.e2e.runs_in_one_process import Runs, running_process
from tests.system.kills import kinds_topology
from tests.system.kills.event_topics import produced
from tests.system.kills.expected_rows import STORES, Json, bad_for_all, expected_stores
from tests.system.kills.final_stream import FinalStream
from tests.system.kills.killed_in_maintenance import STEPS
from tests.system.kills.killed_runs import pipeline_arguments, start
from tests.system.kills.table_checks import (
    check_final_rows,
    check_rows,
    emitted_rows,
    read_dead_letters,
)

#: A random moment, in ms after the first batch.
_ANY_MS = 6_000
#: How many of the kills of the pipeline are followed by one of the streams.
_STREAM_KILLS = 0.3
#: Kills over one log. Each run continues from the run before.
_KILLS_OF_A_LOG = 6


def killed_in_maintenance_runs(
    directory: Path, seed: int, steps: Sequence[str], runs: Runs, address: str | None = None, *,
    streams: bool = False,
) -> Counter[str]:  # fmt: skip
    """Run over random logs, killed once per step, then to the end, and check everything.

    Args:
        directory: The directory of the run.
        seed: The seed of the logs and the kills.
        steps: The steps at which a run is killed.
        runs: The process for the last run.
        address: If set, the logs become a topic of this Kafka broker.
        streams: Whether Spark reads the tables of final rows as streams.

    Returns:
        How often the pipeline was killed at each step, and how often a reader read a table during
        the
        runs. A run that reaches the end of its log first is not killed.
    """
    random = Random(seed)
    lines = random_logs(random)
    if address is None:
        write_lines(directory / "log" / kinds_topology.TOPIC, lines)
    else:
        lines = produced(address, lines)
    compacting = ["--compact-files", "2"]
    done: Counter[str] = Counter()
    with (
        _reading(directory / "data", done),
        _streaming(directory) if streams else nullcontext() as stream,
    ):
        for step in steps:
            number = random.randrange(_ANY_MS) if step == "any" else random.randint(1, 8)
            arguments = (
                step,
                str(number),
                *pipeline_arguments(directory, random, address),
                *compacting,
            )
            killed = start("tests.system.kills.killed_in_maintenance", *arguments)
            assert killed.returncode in {0, -9}, (
                f"seed {seed}: {arguments}: {killed.stderr[-3000:]}"
            )
            done[step] += killed.returncode == -9
            if stream is not None and random.random() < _STREAM_KILLS:
                stream.restart()
                done["streams"] += 1
        finished = runs.run(*pipeline_arguments(directory, random, address), *compacting)
    assert finished.code == 0, f"seed {seed}: {finished.errors}"
    stores = expected_stores(lines)
    for name in STORES:
        table = directory / "data" / "tables" / name
        check_rows(emitted_rows(table), stores[name])
        rows = stores[name].rows
        assert _indexed(table, directory / "index") == [rows[place] for place in _in_order(rows)], (
            name
        )
        assert _compacted(table), f"seed {seed}: {name} was not compacted"
    for name in kinds_topology.FINAL_TABLES:
        check_final_rows(directory / "data" / "final" / name, stores[name])
        if streams:
            check_final_rows(directory / "copies" / name, stores[name])
    wanted = bad_for_all(lines) | {each for store in stores.values() for each in store.dead_letters}
    dead_letters = read_dead_letters(directory / "data" / "tables" / "_dead_letters")
    assert sorted(dead_letters, key=repr) == sorted(wanted, key=repr), f"seed {seed}: dead letters"
    return done


@contextmanager
def _streaming(directory: Path) -> Iterator[FinalStream]:
    """Copy the tables of final rows with streams of Spark, to the end of the block."""
    stream = FinalStream(directory / "data", directory / "copies")
    try:
        yield stream
        stream.finish()
    finally:
        stream.kill()


@contextmanager
def _reading(data: Path, done: Counter[str]) -> Iterator[None]:
    """Read tables during the block, to check that each file of the newest version exists."""
    ends = threading.Event()
    errors: list[BaseException] = []

    def read() -> None:
        try:
            while not ends.wait(0.5):
                for name in STORES:
                    log = data / "tables" / name / "_delta_log"
                    if (log / f"{0:020d}.json").exists():
                        DeltaTable(log.parent).to_pyarrow_table()
                        done["reads"] += 1
        except BaseException as error:
            errors.append(error)
            raise

    thread = threading.Thread(target=read)
    thread.start()
    try:
        yield
    finally:
        ends.set()
        thread.join()
    assert not errors, errors[0]


def _in_order(rows: dict[Any, Json]) -> list[Any]:
    return sorted(rows, key=lambda place: (place[0].encode(), *place[1:]))


def _indexed(table: Path, index: Path) -> list[Json]:
    """Return all windows of an index that is built from the table."""
    directory = IndexDirectory(index)
    generation = directory.new_generation()
    build_generation(table, DeltaLog(table).snapshot(), generation)
    directory.publish(generation)
    reader = IndexReader(directory)
    with reader.snapshot() as snapshot:
        keys = snapshot.keys("", 1000).keys
        if isinstance(snapshot, KeyValueSnapshot):
            pages = [page for key in keys if (page := snapshot.get(key)) is not None]
        else:
            assert isinstance(snapshot, WindowSnapshot)
            pages = [
                page for key in keys
                for page in snapshot.fetch(WindowRange(key, limit=100_000)).windows
            ]  # fmt: skip
        windows = [orjson.loads(page) for page in pages]
    reader.close()
    directory.remove()
    return windows


def _compacted(table: Path) -> bool:
    return any("compact-" in uri for uri in DeltaTable(table).file_uris())


@contextmanager
def _broker(options: argparse.Namespace) -> Iterator[str | None]:
    """Yield the address of a broker, or None without ``--kafka``."""
    if not options.kafka:
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="oriel-broker-") as directory:
        broker = Broker(Path(directory))
        try:
            yield broker.address
        finally:
            broker.kill()


def main() -> None:
    """Kill as often as the command line requests, and print the counts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--streams", action="store_true", help="read final rows as streams")
    parser.add_argument("--kafka", action="store_true", help="over topics of a broker")
    options = parser.parse_args()
    random, total = Random(options.seed), Counter[str]()
    with running_process() as runs, _broker(options) as address:
        while sum(total[step] for step in STEPS) < options.kills:
            steps = random.choices(list(STEPS), k=_KILLS_OF_A_LOG)
            seed = random.randrange(1 << 32)
            with tempfile.TemporaryDirectory(prefix="oriel-kills-") as directory:
                total += killed_in_maintenance_runs(
                    Path(directory), seed, steps, runs, address, streams=options.streams
                )
            sys.stderr.write(f"seed {seed}: {dict(total)}\n")


if __name__ == "__main__":
    main()
