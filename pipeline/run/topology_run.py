"""The run of a topology with the options of the command line, from checks to the exit code."""

import argparse
import os

from oriel.pipeline.commit import (
    check_pipeline_exists,
    check_store_owners,
    newest_prepared,
)
from oriel.pipeline.decoding import SchemaRegistry
from oriel.pipeline.errors import JavaExited, PipelineError
from oriel.pipeline.language import Topology
from oriel.pipeline.plan import NO_STREAM_TIME_NOTES, StreamTimeNotes
from oriel.pipeline.run.changes import check_topology
from oriel.pipeline.run.options import (
    kafka_of,
    maintenance_settings,
    publish_options,
    stream_time_settings,
    wait_seconds,
)
from oriel.pipeline.run.queries import Queries
from oriel.pipeline.run.reporting import Progress
from oriel.pipeline.run.settings import RunSettings
from oriel.pipeline.run.standby import standby_of
from oriel.pipeline.run.topology_file import load_topology, needs_spark, send_modules
from oriel.pipeline.sources import EventLog, Kafka, Log, kafka_settings
from oriel.pipeline.spark import (
    LogFile,
    SparkStart,
    StartPhases,
    is_cluster,
    is_stopped,
    scratch_directory,
    send_package,
    session_conf,
    start_fork_server,
    stop_session,
    tasks_at_a_time,
    with_conf,
)
from oriel.storage import (
    DataLayout,
    StorageError,
    absolute,
    current_files,
    is_object,
    is_sink_name,
    say,
    stop_on_signal,
)

#: The exit code of a run with ``--once`` if all records that it read are dead letters.
ALL_REJECTED = 3

#: ``user:password`` of the schema registry. An argument would be visible in the list of processes.
_REGISTRY_USER_INFO = "ORIEL_SCHEMA_REGISTRY_USER_INFO"


def run_topology(
    options: argparse.Namespace,
    name: str,
    start: SparkStart | None,
    log_file: LogFile,
    started: float,
) -> int:
    """Run a topology, or compute some of its stores again, and return the exit code.

    Args:
        options: The options of ``oriel run`` or ``oriel rebuild``.
        name: The name of the checkpoint.
        start: The start of Spark, None if Java has not started.
        log_file: Where the logs of Spark and Java go.
        started: When the command began, in seconds of ``time.monotonic``.

    Raises:
        PipelineError, StorageError, IllegalArgument, OSError: An error for the user.
    """
    # Before the user's modules are imported: a process of Spark imports them itself. Also before
    # the first request to an object store, because its client has threads.
    start_fork_server(scratch_directory())
    current_files().reach(options.data)
    registry = None
    if options.schema_registry is not None:
        user_info = os.environ.get(_REGISTRY_USER_INFO)
        registry = SchemaRegistry.at(options.schema_registry, user_info)
    layout = DataLayout(absolute(options.data))
    topology = None if needs_spark(options.topology) else _load(options, name)
    for store in options.stores:
        check_pipeline_exists(layout, name, store)
    standby = None if options.live else standby_of(options, layout.checkpoint(name))
    log: Log = (
        kafka_of(options, registry)
        if options.kafka
        else EventLog(options.event_log, options.max_batch_bytes)
    )

    say("starting", "starting Spark")
    phases = StartPhases(started, log_file)
    if start is None or (isinstance(log, Kafka) and log.needs_connector):
        start = _start_with_connector(options, start, log_file)
    with phases.watched():
        spark = start.session(f"oriel {name}")
    if is_cluster(spark.sparkContext.master):
        send_package(spark)
    log_file.keep_trimmed()
    send_modules(spark, options.topology)
    phases.end()
    topology = topology or _load(options, name)
    settings = RunSettings(
        data=layout.root,
        application=name,
        trigger_ms=_trigger_ms(options, log),
        tasks=options.cores or tasks_at_a_time(spark),
        key_groups=options.key_groups,
        sync=not options.no_sync,
        publish_options=publish_options(options),
        wall_clock_limits=stream_time_settings(options, _last_time_notes(options, name, topology)),
        on_cluster=is_cluster(spark.sparkContext.master),
        maintenance=maintenance_settings(options),
    )
    progress = Progress(started, log, settings.data)
    stop = stop_on_signal()
    queries = Queries(spark, topology, log, settings)
    if options.stores and not options.live:
        queries.rebuild(options.stores, stop, wait_seconds(options))
    elif not options.live or queries.rebuild_live(
        options.stores, stop, wait_seconds(options), waits=options.hold
    ):
        try:
            queries.run(progress, stop, wait_seconds(options), standby)
        except Exception as error:
            if isinstance(error, PipelineError | StorageError) or not is_stopped(spark):
                raise
            # A service manager can signal all processes of a service, also Java (systemd does).
            if not stop.is_set():
                raise JavaExited from error
        progress.print_summary()
    stop_session(spark)
    return _exit_code(progress) if options.once else 0


def _trigger_ms(options: argparse.Namespace, log: Log) -> int | None:
    """Return the least ms between the starts of two batches, None for a run that ends."""
    if options.once:
        return None
    if options.trigger is not None:
        return int(options.trigger)
    # With Spark's connector, each poll of the brokers costs requests, and with an object store,
    # each batch costs about 25 requests.
    return 0 if log.plans_slices and not is_object(options.data) else 200


def _exit_code(progress: Progress) -> int:
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
    """Load the topology, and check that its stores belong to this pipeline or are new."""
    topology = load_topology(options.topology)
    layout = DataLayout(absolute(options.data))
    stores = [unit.name for unit in topology.units if not is_sink_name(unit.name)]
    check_store_owners(layout, name, stores)
    check_topology(topology, publish_options(options), options.stores)
    return topology


def _last_time_notes(options: argparse.Namespace, name: str, topology: Topology) -> StreamTimeNotes:
    """Return the notes of the pipeline's last batch. A rebuild uses their bound on times."""
    if not options.stores:
        return NO_STREAM_TIME_NOTES
    checkpoint = DataLayout(absolute(options.data)).checkpoint(name)
    last = newest_prepared(checkpoint, [unit.name for unit in topology.units])
    return NO_STREAM_TIME_NOTES if last is None else last.clock_notes


def _start_with_connector(
    options: argparse.Namespace, start: SparkStart | None, log_file: LogFile
) -> SparkStart:
    """Start Java with Spark's Kafka connector, instead of a Java without it."""
    if start is not None:
        start.cancel()
    conf = session_conf(options.data, options.master, dict(options.conf))
    extra = with_conf(kafka_settings(), conf)
    return SparkStart(cores=options.cores, extra=extra, is_short_run=options.once, log=log_file)
