"""The command line of the pipeline: ``oriel run TOPOLOGY.py ...``."""

import argparse
import importlib.util
import os
import re
import signal
import sys
import threading
import time
from collections.abc import Sequence
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import FrameType

import orjson
from pyspark.cloudpickle import register_pickle_by_value
from pyspark.errors import PySparkException

from oriel.pipeline.errors import InvalidTopology, PipelineError
from oriel.pipeline.language import Topology, check_topic
from oriel.pipeline.plan import PreparedBatch
from oriel.pipeline.run.query import PipelineRun, RunSettings
from oriel.pipeline.sources import EventLog, Kafka, Log, kafka_settings
from oriel.pipeline.spark import build_session
from oriel.pipeline.windows import IllegalArgument
from oriel.storage import InvalidDefinition, StorageError, check_store_name

#: How often the query is asked whether it still runs.
_POLL_SECONDS = 0.1

_OUR_ERROR = re.compile(r"\boriel\.(?:pipeline|storage)\.\S*errors\.\w+: (.+)")

_UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a topology until it is done or told to stop; return the process's exit code."""
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
    how = parser.add_mutually_exclusive_group()
    how.add_argument(
        "--trigger", type=_duration_ms, default=200, metavar="TIME",
        help="least time between two batches, like 200ms or 1s (default 200ms)",
    )  # fmt: skip
    how.add_argument("--once", action="store_true", help="process all that is there, then stop")
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
    cores = options.cores or os.cpu_count() or 1
    extra = kafka_settings() if options.kafka else {}
    name = _checkpoint_name(options)
    data = _data_folder(options.data)
    if options.event_log:
        _check_event_log(options.event_log)
    topology = None
    if not _uses_spark(options.topology):
        # Mistakes are told before Spark is started.
        topology = load_topology(options.topology)
    spark = build_session(f"oriel {name}", cores=cores, extra=extra)
    topology = topology or load_topology(options.topology)
    log: Log = (
        Kafka(options.kafka)
        if options.kafka
        else EventLog(options.event_log, options.max_batch_bytes)
    )
    settings = RunSettings(
        data=data,
        application=name,
        trigger_ms=None if options.once else options.trigger,
        tasks=cores,
        key_groups=options.key_groups,
        sync=not options.no_sync,
    )
    run = PipelineRun(spark, topology, log, settings)
    progress = _Progress(started)
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
    progress.summary()
    spark.stop()
    return 0


def _checkpoint_name(options: argparse.Namespace) -> str:
    """``--name``, or the name of the topology's file."""
    name = options.topology.stem if options.name is None else options.name
    try:
        return check_store_name(name)
    except InvalidDefinition as error:
        told = "--name" if options.name is not None else "the topology's file, without --name,"
        message = (
            f"{told} names the checkpoint, and {name!r} can't be its name: give --name with 1 to "
            "128 letters, digits, '.', '_' or '-', beginning with a letter or digit"
        )
        raise InvalidTopology(message) from error


def _data_folder(path: Path) -> Path:
    """``--data`` as an absolute path; it need not be there yet."""
    if path.exists() and not path.is_dir():
        message = f"--data {path} is a file: name a folder, which is made if it is not there"
        raise NotADirectoryError(message)
    return path.resolve()


def _check_event_log(root: Path) -> None:
    """Refuse a folder that is not there: a slip of the pen would look like an empty log."""
    if not root.is_dir():
        message = (
            f"--event-log {root} is no folder: name the one that has a folder for each topic, and "
            "make it if it is still to be filled"
        )
        raise NotADirectoryError(message)


def _uses_spark(path: Path) -> bool:
    """Whether a topology builds Spark columns itself, for which a session has to be there."""
    return path.is_file() and b"pyspark" in path.read_bytes()


def load_topology(path: Path) -> Topology:
    """Import a topology file and return its ``topology``.

    Raises:
        InvalidTopology: there is no such file, or it does not define ``topology``.
    """
    if not path.is_file():
        message = f"there is no topology file {path}"
        raise InvalidTopology(message)
    name = f"topology_{path.stem}"
    loader = SourceFileLoader(name, str(path))
    spec = importlib.util.spec_from_loader(name, loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    # Dataclasses look their module up there.
    sys.modules[name] = module
    # Spark's workers can't import the file: its functions travel as they are.
    register_pickle_by_value(module)  # type: ignore[no-untyped-call]
    loader.exec_module(module)
    topology = getattr(module, "topology", None)
    if not isinstance(topology, Topology):
        message = f"{path} must define `topology = builder.build()`"
        raise InvalidTopology(message)
    for source in topology.sources:
        check_topic(source.topic)
    return topology


def _stop_on_signal() -> threading.Event:
    """Return an event that SIGINT and SIGTERM set."""
    stop = threading.Event()

    def handle(_signal: int, _frame: FrameType | None) -> None:
        stop.set()

    signal.signal(signal.SIGINT, handle)
    signal.signal(signal.SIGTERM, handle)
    return stop


class _Progress:
    """Tells of batches on stderr, at most once a second, and sums up on stdout."""

    def __init__(self, started: float) -> None:
        self._started = started
        self._told = 0.0
        self._windows: dict[str, int] = {}
        self._last: dict[str, PreparedBatch] = {}
        self._batches = 0

    def on_batch(self, batch: int, stores: dict[str, PreparedBatch]) -> None:
        """Take note of a committed batch."""
        self._last = stores
        self._batches += 1
        for name, prepared in stores.items():
            self._windows[name] = self._windows.get(name, 0) + prepared.changed
        now = time.monotonic()
        if now - self._told >= 1:
            self._told = now
            print(f"batch {batch}: {self._told_stores()}", file=sys.stderr, flush=True)

    def _told_stores(self) -> str:
        parts = []
        for name, prepared in self._last.items():
            counters = prepared.record.counters
            parts.append(
                f"{name} {counters['input']:,} records, {counters['late']:,} late, "
                f"{counters['dead_lettered']:,} dead-lettered, {prepared.open_records:,} open"
            )
        return "; ".join(parts)

    def summary(self) -> None:
        """Print one JSON line: counters of each store and the seconds it took."""
        stores = {
            name: {**prepared.record.counters, "changed_windows": self._windows[name]}
            for name, prepared in self._last.items()
        }
        seconds = round(time.monotonic() - self._started, 3)
        text = orjson.dumps({"batches": self._batches, "stores": stores, "seconds": seconds})
        print(text.decode(), flush=True)
