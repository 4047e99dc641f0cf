"""The command line of the demo: ``oriel demo``."""

import argparse
import json
import signal
import time
from collections.abc import Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from urllib.parse import urlencode

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from oriel.demo.check import check_windows
from oriel.demo.directory import DemoDirectory, fresh_directory
from oriel.demo.errors import DemoError
from oriel.demo.expected import Rules
from oriel.demo.processes import HOST, IMPORT_ROOT, Child, choose_port, running
from oriel.demo.progress import Progress, last_commit, say
from oriel.demo.records import (
    TOPIC,
    append_lines,
    create_partitions,
    log_sizes,
    read_flights,
    replay,
    to_lines,
)
from oriel.demo.service import Service
from oriel.storage import DataLayout
from oriel.storage.delta import open_with_files

STORE = "departures_by_origin"
STORES = (STORE, "departures_by_carrier")
KEY = "EWR"
RULES = Rules(difference_ms=30 * 60_000, grace_ms=120 * 60_000)

#: The time at which Python started the command.
_STARTED = time.monotonic()

_PORT = 8080
_AT_ONCE = 0.9
_POLL_SECONDS = 0.1
_READY_SECONDS = 120
# A quarter of the log, so that a few batches show progress.
_BATCH_BYTES = 16 * 2**20


@dataclass(frozen=True)
class Flights:
    """All records, their partitions and their lines, in order of arrival."""

    records: pa.Table
    partition: np.ndarray
    lines: pa.Array


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the demo. Return the exit code of the process."""
    options = _parser().parse_args(arguments)
    for stop in (signal.SIGINT, signal.SIGTERM):
        signal.signal(stop, _interrupt)
    try:
        if options.kafka:
            _send(options.kafka, options.speed)
            return 0
        with fresh_directory(options.folder) as directory:
            if options.exit:
                print(json.dumps(_run_and_check(directory, options.port)), flush=True)
            else:
                _run_live(directory, options.port, options.speed)
    except DemoError as error:
        say(str(error))
        return 1
    except KeyboardInterrupt:
        say("stopped")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="oriel demo",
        description="Stream 336,776 real flights into sliding windows and serve them until Ctrl-C.",
    )
    parser.add_argument(
        "--exit", action="store_true",
        help="process all flights, check every window of one key over HTTP, print a summary as "
        "JSON, and exit",
    )  # fmt: skip
    parser.add_argument(
        "--port", type=int, metavar="N",
        help=f"serve on this port. Default: {_PORT}, or a free port if it is in use",
    )  # fmt: skip
    parser.add_argument(
        "--folder", type=Path, default=default_directory(), metavar="DIR",
        help="write the files into this directory, which each start empties. Default: .oriel/demo",
    )  # fmt: skip
    parser.add_argument(
        "--speed", type=float, default=5.0, metavar="RECORDS",
        help="append this many records per second while the service runs. Default: 5",
    )  # fmt: skip
    parser.add_argument(
        "--kafka", metavar="HOST:PORT",
        help=f"only send the flights to the topic {TOPIC} of this Kafka cluster, at --speed. The "
            "next start continues after the sent flights. Needs the package confluent-kafka",
    )  # fmt: skip
    return parser


def default_directory() -> Path:
    """Return ``.oriel/demo`` in the clone, or in the current directory of an installed package."""
    checkout = IMPORT_ROOT.parent
    is_checkout = IMPORT_ROOT.name == "src" and (checkout / "pyproject.toml").is_file()
    return (checkout if is_checkout else Path()) / ".oriel" / "demo"


def _interrupt(_signal: int, _frame: FrameType | None) -> None:
    # Ignore later signals, so that they do not interrupt the end of the child processes.
    for stop in (signal.SIGINT, signal.SIGTERM):
        signal.signal(stop, signal.SIG_IGN)
    raise KeyboardInterrupt


def _run_and_check(directory: DemoDirectory, port: int | None) -> dict[str, object]:
    """Process all flights, compare the served windows of one key, and return the summary."""
    with ExitStack() as stack:
        service = _start_service(stack, directory, port)
        flights = _read()
        append_lines(directory.event_log, flights.partition, flights.lines)
        started = time.monotonic()
        arguments = [*_pipeline(directory), "--once"]
        pipeline = stack.enter_context(running("pipeline", arguments, directory.logs))
        responded_at = _follow(directory, pipeline, service)
        pipeline.require_success()
        seconds = round(time.monotonic() - started, 1)
        _wait_included(directory, service)
        say(f"comparing every window of {KEY} with a plain recomputation")
        checked = check_windows(service.all_windows(STORE, KEY), flights.records, KEY, RULES)
    stores = {
        store: {"windows": _count_windows(directory, store), **_counters(directory, store)}
        for store in STORES
    }
    return {
        "records": len(flights.lines),
        "windows": sum(store["windows"] for store in stores.values()),
        "late": stores[STORE]["late"],
        "first_answer_seconds": round(responded_at - _STARTED, 1),
        "seconds": seconds,
        "records_per_second": round(len(flights.lines) / seconds),
        "stores": stores,
        "checked": {"store": STORE, "key": KEY, "windows": checked},
    }


def _run_live(directory: DemoDirectory, port: int | None, speed: float) -> None:
    """Process most flights at once, then append the others until Ctrl-C."""
    with ExitStack() as stack:
        # The flights are read while Java starts. A partition without a file would be a later one.
        create_partitions(directory.event_log)
        arguments = [*_pipeline(directory), "--trigger", "200ms"]
        pipeline = stack.enter_context(running("pipeline", arguments, directory.logs))
        service = _start_service(stack, directory, port)
        flights = _read()
        first = int(len(flights.lines) * _AT_ONCE)
        append_lines(directory.event_log, flights.partition[:first], flights.lines[:first])
        _follow(directory, pipeline, service)
        _wait_included(directory, service)

        def check() -> None:
            pipeline.require_running()
            service.require_running()

        _invite(directory, service.url, speed, len(flights.lines) - first)
        rest = flights.partition[first:], flights.lines[first:]
        replay(directory.event_log, *rest, speed, check)
        say("all flights have departed. The service runs until Ctrl-C")
        while True:
            check()
            time.sleep(_POLL_SECONDS)


def _send(bootstrap: str, speed: float) -> None:
    """Only send the flights to Kafka."""
    try:
        from oriel.demo.to_kafka import send_flights  # noqa: PLC0415 - a package of its own
    except ModuleNotFoundError as error:
        message = f"{error.name} is not installed. Run pip install confluent-kafka"
        raise DemoError(message) from error
    flights = _read()
    send_flights(bootstrap, TOPIC, flights.partition, flights.lines, speed)


def _read() -> Flights:
    say("reading the flights of 2013")
    records = read_flights()
    lines = to_lines(records)
    mebibytes = pc.sum(pc.binary_length(lines)).as_py() / 2**20
    say(f"{len(records):,} flights, an event log of {mebibytes:.0f} MiB")
    return Flights(records, np.asarray(records["partition"]), lines)


def _pipeline(directory: DemoDirectory) -> list[str]:
    topology = str(Path(__file__).with_name("flights.py"))
    paths = ["--event-log", str(directory.event_log), "--data", str(directory.data)]
    return ["run", topology, *paths, "--max-batch-bytes", str(_BATCH_BYTES)]


def _start_service(stack: ExitStack, directory: DemoDirectory, port: int | None) -> Service:
    """Start the service. It accepts requests while the pipeline starts."""
    chosen = choose_port(port, _PORT)
    arguments = ["serve", "--data", str(directory.data), "--host", HOST, "--port", str(chosen)]
    child = stack.enter_context(running("service", arguments, directory.logs))
    url = f"http://{HOST}:{chosen}"
    say(f"starting the service at {url}")
    return stack.enter_context(closing(Service(url, child.require_running)))


def _follow(directory: DemoDirectory, pipeline: Child, service: Service) -> float:
    """Report progress until the tables include the whole log.

    Return the time of the first response with windows, in seconds of ``time.monotonic``.
    """
    last_store = DataLayout(directory.data).table(STORES[-1])
    progress = Progress(last_store, TOPIC, log_sizes(directory.event_log), output=pipeline.output)
    responded_at: float | None = None
    is_done = False
    while not is_done or responded_at is None:
        if responded_at is None and service.has_windows(STORE, KEY):
            responded_at = time.monotonic()
            say(f"first windows over HTTP {responded_at - _STARTED:.1f} s after the start")
        is_done = progress.report()
        if not is_done and not pipeline.is_running:
            pipeline.require_success()
        service.require_running()
        time.sleep(_POLL_SECONDS)
    return responded_at


def _wait_included(directory: DemoDirectory, service: Service) -> None:
    """Wait until the responses of the service include the whole log."""
    for store in STORES:
        service.wait_included(store, TOPIC, log_sizes(directory.event_log), _READY_SECONDS)


def dashboard_link(url: str, store: str, key: str) -> str:
    """Return the URL of the dashboard for a key of a store."""
    return f"{url}/#{urlencode({'store': store, 'key': key})}"


def _invite(directory: DemoDirectory, url: str, speed: float, rest: int) -> None:
    print(
        f"""
  Dashboard        {dashboard_link(url, STORE, KEY)}
  API              {url}/docs
  The half hour up to the newest departure of {KEY}:

    curl {url}/v1/stores/{STORE}/current/{KEY}

  {rest:,} more flights arrive, {speed:g} per second. Meanwhile, try:

    oriel get {STORE} {KEY} --watch --url {url}
    oriel status --data {directory.data} --watch
    oriel new NAME        create your own project

  Ctrl-C stops the demo.
""",
        flush=True,
    )


def _counters(directory: DemoDirectory, store: str) -> dict[str, int]:
    commit = last_commit(DataLayout(directory.data).table(store))
    return commit.counters if commit else {}


def _count_windows(directory: DemoDirectory, store: str) -> int:
    """Count the distinct windows of a store's table, which keeps superseded rows for a while."""
    names = ["key", "window_start"]
    table = open_with_files(DataLayout(directory.data).table(store))
    rows = table.to_pyarrow_table(columns=names)
    return len(rows.group_by(names).aggregate([]))
