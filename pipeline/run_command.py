"""The commands ``oriel run TOPOLOGY.py ...`` and ``oriel rebuild STORE ... TOPOLOGY.py ...``.

Java needs as long to start as Python to import the pipeline. So this module imports little, starts
Java, and imports the rest meanwhile (decision 0093).
"""

import argparse
import re
import shutil
import sys
import time
from collections.abc import Sequence
from contextlib import suppress

from pyspark.errors import PySparkException

from oriel.pipeline.arguments import check_kafka_arguments, rebuild_parser, run_parser
from oriel.pipeline.disk_errors import find_disk_error, user_error
from oriel.pipeline.errors import InvalidTopology, PipelineError
from oriel.pipeline.late_pandas import without_pandas
from oriel.pipeline.spark import (
    LogFile,
    SparkStart,
    error_kind,
    first_line,
    log_directory,
    session_conf,
)
from oriel.pipeline.windows import IllegalArgument
from oriel.storage import (
    InvalidDefinition,
    StorageError,
    check_store_name,
    is_object,
    say,
    set_up_console,
)

_ORIEL_ERROR = re.compile(r"\boriel\.(?:pipeline|storage)\.\S*errors\.\w+: (.+)")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a topology until it is done or stopped by a signal.

    Returns:
        The exit code. 0: done or stopped. 1: an error, in one line on stderr. The trace of an
        unexpected error is in the log of the run. 3: all records that a run with ``--once`` has
        read are dead letters.
    """
    return _main(run_parser(), arguments)


def rebuild(arguments: Sequence[str] | None = None) -> int:
    """Compute stores of a topology again, and return the exit code as ``main`` does."""
    return _main(rebuild_parser(), arguments)


def _main(parser: argparse.ArgumentParser, arguments: Sequence[str] | None) -> int:
    started = time.monotonic()
    options = _parsed(parser, arguments)
    application = options.name or options.topology.stem
    set_up_console(options.log_format, application=application)
    is_new = not is_object(options.data) and not options.data.exists()
    start: SparkStart | None = None
    try:
        if options.explain:
            from oriel.pipeline.run import load_topology  # noqa: PLC0415 - see above

            sys.stdout.write(f"{load_topology(options.topology).explain()}\n")
            return 0
        # Spark needs seconds to start, so mistakes are reported first.
        name = _checked_name(options)
        if options.kafka_reader != "spark":
            start = SparkStart(
                cores=options.cores,
                extra=session_conf(options.data, options.master, dict(options.conf)),
                is_short_run=options.once,
                log=_log_file(options),
            )
        with without_pandas():
            from oriel.pipeline.run import run_topology  # noqa: PLC0415 - see above

        return run_topology(options, name, start, _log_file(options), started)
    except (PipelineError, StorageError, IllegalArgument, OSError) as error:
        if start is not None:
            start.cancel()
        # Remove a new data directory that has only the logs of a run that was rejected.
        logs = log_directory(options.data)
        if is_new and options.data.is_dir() and {*options.data.iterdir()} <= {logs}:
            shutil.rmtree(options.data)
        line = str(error)
        # Invalid options raise an OSError without a number.
        if isinstance(error, OSError) and (error.errno is not None or "\n" in line):
            line = str(user_error(error))
    except KeyboardInterrupt:
        line = "interrupted before the first batch"
    except Exception as error:  # noqa: BLE001 - each becomes one line and a trace in the log
        line = _error_line(error, _log_file(options))
    say("error", f"{parser.prog}: {line}", level="error")
    return 1


def _parsed(parser: argparse.ArgumentParser, arguments: Sequence[str] | None) -> argparse.Namespace:
    options = check_kafka_arguments(parser, parser.parse_args(arguments))
    if options.stores:
        options.once = not options.live
        if options.hold and not options.live:
            parser.error("--hold waits with the replacement of --live, so add --live")
    if options.standby and (options.once or options.explain):
        parser.error("--standby waits for a run without an end, so omit --once and --explain")
    return options


def _error_line(error: Exception, log_file: LogFile) -> str:
    """Return one line for an error whose class is not a class of Oriel."""
    from deltalake.exceptions import DeltaError  # noqa: PLC0415 - see above

    is_spark = isinstance(error, PySparkException)
    # The message of Spark's error contains an error that Oriel raised in a worker.
    oriel_error = _ORIEL_ERROR.search(str(error)) if is_spark else None
    if oriel_error is not None:
        return oriel_error[1]
    can_be_disk_error = is_spark or isinstance(error, DeltaError)
    if can_be_disk_error and (disk_error := find_disk_error(error)) is not None:
        return str(disk_error)
    if is_spark and error_kind(error) == "JAVA_GATEWAY_EXITED":
        output = log_file.first_output_lines() or "it printed nothing"
        return f"Java did not start: {output} (see its output in {log_file.outputs})"
    with suppress(OSError):  # for example, if the disk is full
        log_file.write_trace(error)
    # The store and the step, if they are known.
    where = "".join(f"{note}: " for note in getattr(error, "__notes__", ()))
    return f"{where}{first_line(error)} (see the stack trace in {log_file.log})"


def _checked_name(options: argparse.Namespace) -> str:
    """Check the directories, and return ``--name``, or the name of the topology file.

    Raises:
        InvalidTopology: The name is not a valid name of a pipeline.
        NotADirectoryError: A directory is a file, or the event log does not exist.
    """
    name = options.topology.stem if options.name is None else options.name
    try:
        check_store_name(name)
    except InvalidDefinition as error:
        source = "--name" if options.name is not None else "the name of the topology file"
        message = (
            f"{source} must be a valid name of a pipeline, not {name!r}. Use --name with 1 to 128 "
            "letters, digits, '.', '_' or '-', which begin with a letter or digit"
        )
        raise InvalidTopology(message) from error
    data, event_log = options.data, options.event_log
    if not is_object(data) and data.exists() and not data.is_dir():
        message = f"--data {data} is a file. Name a directory, which is created if it is missing"
        raise NotADirectoryError(message)
    if event_log and not event_log.is_dir():
        # A misspelled directory would look like an empty log.
        message = (
            f"--event-log {event_log} is not a directory. Name the directory that has a "
            "directory per topic, or create it"
        )
        raise NotADirectoryError(message)
    return str(name)


def _log_file(options: argparse.Namespace) -> LogFile:
    """Return the files of the run for its log and the output of Java."""
    logs = options.logs or log_directory(options.data)
    return LogFile(logs, options.name or options.topology.stem)
