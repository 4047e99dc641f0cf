"""The command line of the pipeline: ``oriel run TOPOLOGY.py ...``."""

import argparse
import os
import re
import signal
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import FrameType

from pyspark.errors import PySparkException

from oriel.pipeline.errors import InvalidTopology, PipelineError
from oriel.pipeline.run.kafka_arguments import (
    add_kafka_arguments,
    check_kafka_arguments,
    kafka_of,
    wait_seconds,
)
from oriel.pipeline.run.progress import Progress
from oriel.pipeline.run.queries import Queries
from oriel.pipeline.run.query import RunSettings
from oriel.pipeline.run.spark_runner import warm_up
from oriel.pipeline.run.topology_file import load_topology, needs_spark, send_modules
from oriel.pipeline.sources import EventLog, Log, kafka_settings
from oriel.pipeline.spark import LogFile, build_session, error_kind, first_line
from oriel.pipeline.windows import IllegalArgument
from oriel.storage import InvalidDefinition, StorageError, check_store_name

_OUR_ERROR = re.compile(r"\boriel\.(?:pipeline|storage)\.\S*errors\.\w+: (.+)")

_UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a topology until it is done or stopped by a signal; return the process's exit code.

    0: done or stopped, 1: an error, in one line on stderr. Of one that nobody expected the trace
    is in the run's log.
    """
    parser = _parser()
    options = check_kafka_arguments(parser, parser.parse_args(arguments))
    try:
        return _run(options)
    except (PipelineError, StorageError, IllegalArgument, OSError) as error:
        line = str(error)
    except KeyboardInterrupt:
        line = "interrupted before the first batch"
    except Exception as error:  # noqa: BLE001 - each becomes one line and a trace in the log
        line = _told(error, _log_file(options))
    print(f"oriel run: {line}", file=sys.stderr)
    return 1


def _told(error: Exception, log_file: LogFile) -> str:
    """One line about an error that is not of our own classes."""
    is_spark = isinstance(error, PySparkException)
    # An error of ours inside one of Spark's workers comes back as text.
    ours = _OUR_ERROR.search(str(error)) if is_spark else None
    if ours is not None:
        return ours[1]
    if is_spark and error_kind(error) == "JAVA_GATEWAY_EXITED":
        words = log_file.first_words() or "it said nothing"
        return f"Java did not start: {words} (all that it said is in {log_file.outputs})"
    with suppress(OSError):  # raised where the disk is full, and then the line has to do
        log_file.write_trace(error)
    # The store and the step, where they are known.
    where = "".join(f"{note}: " for note in getattr(error, "__notes__", ()))
    return f"{where}{first_line(error)} (its trace is in {log_file.log})"


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
        help="how much of a topic one batch reads at most (default 64 MiB)",
    )  # fmt: skip
    add_kafka_arguments(parser, _positive, _duration_ms)
    parser.add_argument(
        "--key-groups", type=_positive, default=64,
        help="most tasks a store can ever use; fixed when the store is made (default 64)",
    )  # fmt: skip
    parser.add_argument("--cores", type=_positive, help="cores to use (default: all)")
    parser.add_argument(
        "--no-sync", action="store_true",
        help="do not force files to disk before committing: faster, unsafe on power loss",
    )  # fmt: skip
    parser.add_argument(
        "--logs", type=Path, metavar="FOLDER", help="where Spark's log goes (default: DATA/logs)"
    )
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

    log: Log = kafka_of(options) if options.kafka else EventLog(event_log, options.max_batch_bytes)

    print("starting Spark", file=sys.stderr, flush=True)
    cores = options.cores or os.cpu_count() or 1
    log_file = _log_file(options)
    with log_file.outputs_of_children():
        spark = build_session(
            f"oriel {name}",
            cores=cores,
            extra=kafka_settings() if options.kafka else {},
            is_short_run=options.once,
            log=log_file,
        )
    log_file.keep_trimmed()
    warm_up(spark, cores)
    send_modules(spark, options.topology)
    topology = topology or load_topology(options.topology)
    settings = RunSettings(
        data=data.resolve(),
        application=name,
        trigger_ms=None if options.once else options.trigger,
        tasks=cores,
        key_groups=options.key_groups,
        sync=not options.no_sync,
    )
    progress = Progress(started, log)
    stop = _stop_on_signal()
    Queries(spark, topology, log, settings).run(progress, stop, wait_seconds(options))
    progress.print_summary()
    spark.stop()
    return 0


def _log_file(options: argparse.Namespace) -> LogFile:
    """Where the run's noise goes."""
    return LogFile(options.logs or options.data / "logs", options.name or options.topology.stem)


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
