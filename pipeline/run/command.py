"""The commands ``oriel run TOPOLOGY.py ...`` and ``oriel rebuild STORE ... TOPOLOGY.py ...``."""

import argparse
import os
import re
import shutil
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from deltalake.exceptions import DeltaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from oriel.pipeline.commit import (
    decided_up_to,
    refuse_new_pipeline,
    refuse_other_pipelines,
    refuse_running,
)
from oriel.pipeline.decoding import SchemaRegistry
from oriel.pipeline.errors import InvalidTopology, JavaEnded, PipelineError
from oriel.pipeline.language import Topology
from oriel.pipeline.plan import NO_CLOCK_NOTES, ClockNotes
from oriel.pipeline.run.changes import refuse_unfit
from oriel.pipeline.run.disk_errors import disk_error_in, in_words
from oriel.pipeline.run.options import (
    check_kafka_arguments,
    clock_settings,
    kafka_of,
    publish_options,
    rebuild_parser,
    run_parser,
    upkeep_settings,
    wait_seconds,
)
from oriel.pipeline.run.progress import Progress
from oriel.pipeline.run.queries import Queries
from oriel.pipeline.run.query import RunSettings
from oriel.pipeline.run.topology_file import load_topology, needs_spark, send_modules
from oriel.pipeline.sources import EventLog, Kafka, Log, kafka_settings
from oriel.pipeline.spark import (
    MASTER,
    LogFile,
    StartPhases,
    build_session,
    error_kind,
    first_line,
    is_cluster,
    is_stopped,
    log_folder,
    object_settings,
    send_package,
    stop_session,
    tasks_at_a_time,
    with_conf,
)
from oriel.pipeline.windows import IllegalArgument
from oriel.storage import (
    DataLayout,
    InvalidDefinition,
    StorageError,
    absolute,
    check_store_name,
    current_files,
    is_object,
    is_sink_name,
    say,
    set_up_console,
    stop_on_signal,
)

_OUR_ERROR = re.compile(r"\boriel\.(?:pipeline|storage)\.\S*errors\.\w+: (.+)")

#: The exit code of a run with ``--once`` if all records that it read are dead letters.
ALL_REJECTED = 3

#: ``user:password`` of the schema registry: an argument would be seen in the list of processes.
_REGISTRY_USER_INFO = "ORIEL_SCHEMA_REGISTRY_USER_INFO"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a topology until it is done or stopped by a signal; return the process's exit code.

    0: done or stopped, 1: an error, in one line on stderr. Of one that nobody expected the trace
    is in the run's log. 3: see ``ALL_REJECTED``.
    """
    return _main(run_parser(), arguments)


def rebuild(arguments: Sequence[str] | None = None) -> int:
    """Compute stores of a topology again; return the process's exit code, as ``main`` does."""
    return _main(rebuild_parser(), arguments)


def _main(parser: argparse.ArgumentParser, arguments: Sequence[str] | None) -> int:
    options = check_kafka_arguments(parser, parser.parse_args(arguments))
    application = options.name or options.topology.stem
    set_up_console(options.log_format, application=application)
    is_new = not is_object(options.data) and not options.data.exists()
    try:
        return _run(options)
    except (PipelineError, StorageError, IllegalArgument, OSError) as error:
        if is_new:
            _remove_logs(options.data)
        line = str(error)
        # Mistakes in options are OSErrors, too, and without a number.
        if isinstance(error, OSError) and (error.errno is not None or "\n" in line):
            line = str(in_words(error))
    except KeyboardInterrupt:
        line = "interrupted before the first batch"
    except Exception as error:  # noqa: BLE001 - each becomes one line and a trace in the log
        line = _told(error, _log_file(options))
    say("error", f"{parser.prog}: {line}", level="error")
    return 1


def _remove_logs(data: Path) -> None:
    """Remove a new data directory that has only the logs of a run that was rejected."""
    if data.is_dir() and {path.name for path in data.iterdir()} <= {log_folder(data).name}:
        shutil.rmtree(data)


def _told(error: Exception, log_file: LogFile) -> str:
    """One line about an error that is not of our own classes."""
    is_spark = isinstance(error, PySparkException)
    # An error of ours inside one of Spark's workers comes back as text.
    ours = _OUR_ERROR.search(str(error)) if is_spark else None
    if ours is not None:
        return ours[1]
    is_of_file = is_spark or isinstance(error, DeltaError)
    if is_of_file and (of_disk := disk_error_in(error)) is not None:
        return str(of_disk)
    if is_spark and error_kind(error) == "JAVA_GATEWAY_EXITED":
        words = log_file.first_words() or "it printed nothing"
        return f"Java did not start: {words} (see its output in {log_file.outputs})"
    with suppress(OSError):  # raised where the disk is full, and then the line has to do
        log_file.write_trace(error)
    # The store and the step, where they are known.
    where = "".join(f"{note}: " for note in getattr(error, "__notes__", ()))
    return f"{where}{first_line(error)} (see the stack trace in {log_file.log})"


def _run(options: argparse.Namespace) -> int:
    started = time.monotonic()
    # Mistakes are reported before Spark, which takes seconds to start.
    name = _checkpoint_name(options)
    registry = _schema_registry(options)
    _check_folders(options.data, options.event_log)
    layout = DataLayout(absolute(options.data))
    topology = None if needs_spark(options.topology) else _load(options, name)
    for store in options.stores:
        refuse_new_pipeline(layout, name, store)
    refuse_running(layout.checkpoint(name))
    log: Log = (
        kafka_of(options, registry)
        if options.kafka
        else EventLog(options.event_log, options.max_batch_bytes)
    )

    say("starting", "starting Spark")
    phases = StartPhases(started, _log_file(options))
    needs_connector = isinstance(log, Kafka) and log.needs_connector
    spark, tasks = _session(options, name, phases, needs_connector=needs_connector)
    _log_file(options).keep_trimmed()
    send_modules(spark, options.topology)
    phases.end()
    topology = topology or _load(options, name)
    settings = RunSettings(
        data=layout.root,
        application=name,
        trigger_ms=_trigger_ms(options, log),
        tasks=tasks,
        key_groups=options.key_groups,
        sync=not options.no_sync,
        publish_options=publish_options(options),
        clocks=clock_settings(options, _last_notes(options, name, topology)),
        on_cluster=is_cluster(spark.sparkContext.master),
        upkeep=upkeep_settings(options),
    )
    progress = Progress(started, log, settings.data)
    stop = stop_on_signal()
    queries = Queries(spark, topology, log, settings)
    if options.stores:
        queries.rebuild(options.stores, stop, wait_seconds(options))
    else:
        try:
            queries.run(progress, stop, wait_seconds(options))
        except Exception as error:
            if isinstance(error, PipelineError | StorageError) or not is_stopped(spark):
                raise
            # Who stops a service may signal all of its processes, Java too (systemd does).
            if not stop.is_set():
                raise JavaEnded from error
        progress.print_summary()
    stop_session(spark)
    return _refuse_rejected(progress) if options.once else 0


def _trigger_ms(options: argparse.Namespace, log: Log) -> int | None:
    """Return the least ms between the starts of two batches, None for a run that ends."""
    if options.once:
        return None
    if options.trigger is not None:
        return int(options.trigger)
    # With Spark's connector, each poll of the brokers costs requests, and with an object store,
    # each batch costs about 25 requests.
    return 0 if log.plans_slices and not is_object(options.data) else 200


def _check_folders(data: Path, event_log: Path | None) -> None:
    current_files().reach(data)
    if not is_object(data) and data.exists() and not data.is_dir():
        message = f"--data {data} is a file. Name a directory, which is created if it is missing"
        raise NotADirectoryError(message)
    if event_log and not event_log.is_dir():
        # A slip of the pen would look like an empty log.
        message = (
            f"--event-log {event_log} is not a directory. Name the directory that has a "
            "directory per topic, or create it"
        )
        raise NotADirectoryError(message)


def _refuse_rejected(progress: Progress) -> int:
    """Return the exit code of a run that is done, with a message if it has rejected all records."""
    if not progress.has_rejected_all:
        return 0
    line = (
        "oriel run: all records that this run read are dead letters. Show them with "
        "`oriel dead-letters list`"
    )
    say("all-rejected", line, level="error")
    return ALL_REJECTED


def _load(options: argparse.Namespace, name: str) -> Topology:
    """Load the topology, and check that its stores are of this pipeline or new."""
    topology = load_topology(options.topology)
    layout = DataLayout(absolute(options.data))
    stores = [unit.name for unit in topology.units if not is_sink_name(unit.name)]
    refuse_other_pipelines(layout, name, stores)
    refuse_unfit(topology, publish_options(options), options.stores)
    return topology


def _last_notes(options: argparse.Namespace, name: str, topology: Topology) -> ClockNotes:
    """Read the clock notes of the pipeline's last batch, whose bound a rebuild uses."""
    if not options.stores:
        return NO_CLOCK_NOTES
    checkpoint = DataLayout(absolute(options.data)).checkpoint(name)
    last = decided_up_to(checkpoint, [unit.name for unit in topology.units])
    return NO_CLOCK_NOTES if last is None else last.clock_notes


def _session(
    options: argparse.Namespace, name: str, phases: StartPhases, *, needs_connector: bool
) -> tuple[SparkSession, int]:
    """Spark's session, whose workers find this package, and how many tasks a stage has."""
    log_file = _log_file(options)
    conf = dict(options.conf) | ({MASTER: options.master} if options.master else {})
    if is_object(options.data):
        conf = object_settings() | conf
    connector = kafka_settings() if needs_connector else {}
    with log_file.outputs_of_children(), phases.watched():
        spark = build_session(
            f"oriel {name}",
            cores=options.cores,
            extra=with_conf(connector, conf),
            is_short_run=options.once,
            log=log_file,
        )
    if is_cluster(spark.sparkContext.master):
        send_package(spark)
    return spark, options.cores or tasks_at_a_time(spark)


def _log_file(options: argparse.Namespace) -> LogFile:
    """Where the run's noise goes."""
    logs = options.logs or log_folder(options.data)
    return LogFile(logs, options.name or options.topology.stem)


def _schema_registry(options: argparse.Namespace) -> SchemaRegistry | None:
    """The registry of ``--schema-registry``, with the user and password of the environment."""
    if options.schema_registry is None:
        return None
    return SchemaRegistry.at(options.schema_registry, os.environ.get(_REGISTRY_USER_INFO))


def _checkpoint_name(options: argparse.Namespace) -> str:
    """``--name``, or the name of the topology's file."""
    name = options.topology.stem if options.name is None else options.name
    try:
        return check_store_name(name)
    except InvalidDefinition as error:
        origin = "--name" if options.name is not None else "the name of the topology file"
        message = (
            f"{origin} must be a valid name of a pipeline, not {name!r}. Use --name with 1 to 128 "
            "letters, digits, '.', '_' or '-', which begin with a letter or digit"
        )
        raise InvalidTopology(message) from error
