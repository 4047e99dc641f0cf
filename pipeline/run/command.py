"""The command line of the pipeline: ``oriel run TOPOLOGY.py ...``."""

import argparse
import os
import re
import signal
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

import orjson
from pyspark.errors import PySparkException

from oriel.pipeline.errors import InvalidTopology, PipelineError
from oriel.pipeline.plan import PreparedBatch
from oriel.pipeline.run.query import PipelineRun, RunSettings
from oriel.pipeline.run.spark_runner import warm_up
from oriel.pipeline.run.topology_file import load_topology, needs_spark, send_modules
from oriel.pipeline.run.upkeep_options import add_upkeep_options, upkeep_settings
from oriel.pipeline.sources import EventLog, Kafka, Log, kafka_settings
from oriel.pipeline.spark import build_session
from oriel.pipeline.windows import IllegalArgument
from oriel.storage import InvalidDefinition, StorageError, check_store_name

#: How often the query is asked whether it still runs.
_POLL_SECONDS = 0.1

_OUR_ERROR = re.compile(r"\boriel\.(?:pipeline|storage)\.\S*errors\.\w+: (.+)")

_UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a topology until it is done or stopped by a signal; return the process's exit code.

    0: done or stopped, 1: an error that the user can mend, in one line on stderr. Any other error
    is raised.
    """
    options = _parser().parse_args(arguments)
    try:
        return _run(options)
    except (PipelineError, StorageError, IllegalArgument, OSError) as error:
        print(f"oriel run: {error}", file=sys.stderr)
    except PySparkException as error:
        # An error of ours inside one of Spark's workers comes back as text.
        ours = _OUR_ERROR.search(str(error))
        if ours is None:
            raise
        print(f"oriel run: {ours[1]}", file=sys.stderr)
    return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="oriel run", description="Run a topology over an event log or a Kafka topic."
    )
    parser.add_argument("topology", type=Path, help="Python file that defines `topology`")
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument(
        "--event-log", type=Path, metavar="ROOT", help="folder with <topic>/<partition>.jsonl"
    )
    source.add_argument("--kafka", metavar="HOST:PORT", help="bootstrap servers of a Kafka cluster")
    parser.add_argument("--data", type=Path, required=True, help="folder of tables and checkpoints")
    parser.add_argument("--name", help="name of the checkpoint (default: the file's name)")
    pace = parser.add_mutually_exclusive_group()
    pace.add_argument(
        "--trigger", type=_duration_ms, default=200, metavar="TIME",
        help="least time between two batches, like 200ms or 1s (default 200ms)",
    )  # fmt: skip
    pace.add_argument("--once", action="store_true", help="process all that is there, then stop")
    parser.add_argument(
        "--max-batch-bytes", type=_positive, default=64 * 2**20,
        help="how much of an event log one batch reads at most (default 64 MiB)",
    )  # fmt: skip
    parser.add_argument(
        "--key-groups", type=_positive, default=64,
        help="most tasks a store can ever use; fixed when the store is made (default 64)",
    )  # fmt: skip
    parser.add_argument("--cores", type=_positive, help="cores to use (default: all)")
    parser.add_argument(
        "--no-sync", action="store_true",
        help="do not force files to disk before committing: faster, unsafe on power loss",
    )  # fmt: skip
    add_upkeep_options(parser, _duration_ms, _positive)
    return parser


def _duration_ms(text: str) -> int:
    for unit in ("ms", "s", "m"):
        number = text.removesuffix(unit)
        if number != text and number.isdecimal():
            return int(number) * _UNITS_MS[unit]
    message = f"{text!r} is not a time like 200ms, 1s or 1m"
    raise argparse.ArgumentTypeError(message)


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        message = f"{text!r} is not a positive whole number"
        raise argparse.ArgumentTypeError(message)
    return int(text)


def _run(options: argparse.Namespace) -> int:
    started = time.monotonic()
    # Mistakes are reported before Spark, which takes seconds to start.
    name = _checkpoint_name(options)
    data, event_log = options.data, options.event_log
    if data.exists() and not data.is_dir():
        message = f"--data {data} is a file: name a folder, which is made if it is not there"
        raise NotADirectoryError(message)
    if event_log and not event_log.is_dir():
        # A slip of the pen would look like an empty log.
        message = (
            f"--event-log {event_log} is no folder: name the one that has a folder for each topic, "
            "and make it if it is still to be filled"
        )
        raise NotADirectoryError(message)
    topology = None if needs_spark(options.topology) else load_topology(options.topology)

    print("starting Spark", file=sys.stderr, flush=True)
    cores = options.cores or os.cpu_count() or 1
    connector = kafka_settings() if options.kafka else {}
    spark = build_session(f"oriel {name}", cores=cores, extra=connector, is_short_run=options.once)
    warm_up(spark, cores)
    send_modules(spark, options.topology)
    topology = topology or load_topology(options.topology)
    log: Log = (
        Kafka(options.kafka) if options.kafka else EventLog(event_log, options.max_batch_bytes)
    )
    settings = RunSettings(
        data=data.resolve(),
        application=name,
        trigger_ms=None if options.once else options.trigger,
        tasks=cores,
        key_groups=options.key_groups,
        sync=not options.no_sync,
        upkeep=upkeep_settings(options),
    )
    run = PipelineRun(spark, topology, log, settings)
    progress = Progress(started, log)
    stop = _stop_on_signal()
    try:
        query = run.start(progress.on_batch)
        # Spark's gateway can't be called from a signal handler, so the handler only sets a flag.
        while query.isActive and not stop.wait(_POLL_SECONDS):
            pass
        query.stop()
        query.awaitTermination()
    except Exception:
        # The query's own error wraps ours in a Java stack trace: prefer ours.
        if run.failure is not None:
            raise run.failure from None
        raise
    finally:
        run.close()
    progress.print_summary()
    spark.stop()
    return 0


def _checkpoint_name(options: argparse.Namespace) -> str:
    """``--name``, or the name of the topology's file."""
    name = options.topology.stem if options.name is None else options.name
    try:
        return check_store_name(name)
    except InvalidDefinition as error:
        origin = "--name" if options.name is not None else "the topology's file, without --name,"
        message = (
            f"{origin} names the checkpoint, and {name!r} can't be its name: give --name with 1 to "
            "128 letters, digits, '.', '_' or '-', beginning with a letter or digit"
        )
        raise InvalidTopology(message) from error


def _stop_on_signal() -> threading.Event:
    """Return an event that SIGINT and SIGTERM set."""
    stop = threading.Event()

    def handle(_signal: int, _frame: FrameType | None) -> None:
        stop.set()

    signal.signal(signal.SIGINT, handle)
    signal.signal(signal.SIGTERM, handle)
    return stop


#: Least time between two lines about batches.
_LINE_SECONDS = 1


class Progress:
    """Counts committed batches and prints them: lines on stderr, the summary on stdout."""

    def __init__(self, started: float, log: Log) -> None:
        """Begin to count; ``started`` is when the run began, in seconds of ``time.monotonic``."""
        self._started = started
        self._log = log
        self._printed = 0.0
        self._changed_windows: dict[str, int] = {}
        self._last: dict[str, PreparedBatch] = {}
        self._batches = 0
        #: When the first batch of this run was committed, and how far it went.
        self._first: tuple[float, int, float | None] | None = None

    def on_batch(self, batch: int, stores: dict[str, PreparedBatch]) -> None:
        """Count batch number ``batch`` of all stores; print it if the last line is old enough."""
        self._last = stores
        self._batches += 1
        for name, prepared in stores.items():
            self._changed_windows[name] = self._changed_windows.get(name, 0) + prepared.changed
        now = time.monotonic()
        if now - self._printed < _LINE_SECONDS:
            return
        self._printed = now
        parts = []
        for name, prepared in stores.items():
            counters = prepared.record.counters
            parts.append(
                f"{name} {counters['input']:,} records, {counters['late']:,} late, "
                f"{counters['dead_lettered']:,} dead-lettered, {prepared.open_records:,} open"
            )
        line = f"batch {batch}: {'; '.join(parts)}{self._pace(now)}"
        print(line, file=sys.stderr, flush=True)

    def print_summary(self) -> None:
        """Print batches, seconds and each store's counters as one line of JSON."""
        stores = {
            name: {**prepared.record.counters, "changed_windows": self._changed_windows[name]}
            for name, prepared in self._last.items()
        }
        seconds = round(time.monotonic() - self._started, 3)
        text = orjson.dumps({"batches": self._batches, "stores": stores, "seconds": seconds})
        print(text.decode(), flush=True)

    def _pace(self, now: float) -> str:
        """Records a second since the first batch of the run, and how long the log will last."""
        records = max(store.record.counters["input"] for store in self._last.values())
        ends = {
            topic: offsets
            for store in self._last.values()
            for topic, offsets in store.record.offsets.items()
        }
        share = self._log.share_behind(ends)
        if self._first is None:
            self._first = now, records, share
            return "" if share is None else f" ({share:.0%} of the log)"
        first, first_records, first_share = self._first
        rate = f"{(records - first_records) / (now - first):,.0f} records/s"
        if share is None or first_share is None or share <= first_share:
            return f" ({rate})"
        seconds_left = (1 - share) / (share - first_share) * (now - first)
        return f" ({share:.0%} of the log, {rate}, {max(0, seconds_left):.0f} s left)"
