"""The Spark session of a streaming run, with every setting and its reason in one place.

While Spark runs, it writes files (shuffles, spills, native libraries) to a directory of the
process. The JVM deletes these files when it ends, but not when it is killed. So a small second
process deletes the directory after this process has ended for any reason. If the second process is
also killed, the next process that starts finds the directory without its lock and deletes it.
"""

import logging
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache, partial
from pathlib import Path
from typing import Any

from filelock import lock_descriptor
from py4j.protocol import Py4JError, Py4JJavaError  # type: ignore[import-untyped]
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

import oriel
from oriel.pipeline.errors import ClusterUnavailable, JavaMissing
from oriel.pipeline.spark.class_archive import delete_archive, find_archive, use_archive
from oriel.pipeline.spark.cluster import (
    MASTER,
    STACK_OPTION,
    check_master_listens,
    cluster_settings,
    is_cluster,
    with_conf,
    worker_python,
)
from oriel.pipeline.spark.errors import error_kind, first_line
from oriel.pipeline.spark.java_process import JavaProcess
from oriel.pipeline.spark.log_file import LogFile
from oriel.pipeline.spark.memory import driver_memory
from oriel.pipeline.spark.packages import remember_packages, with_resolved_packages
from oriel.pipeline.spark.python import local_python

_PREFIX = "oriel-spark-"
_LOCK = "lock"


@cache
def scratch_directory() -> Path:
    """Return the temporary directory of this process, which is in ``TMPDIR``.

    Directories of dead processes are deleted.
    """
    base = Path(tempfile.gettempdir())
    for directory in base.glob(f"{_PREFIX}*"):
        _delete_if_abandoned(directory)
    directory = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=base))
    # Never closed: the lock ends with the process, for any reason. Child processes do not inherit
    # it.
    lock_descriptor(os.open(directory / _LOCK, os.O_CREAT | os.O_RDWR, 0o600))
    # Deletes the directory when this process ends. It has its own session, so signals to this
    # process group do not end it.
    deleter = subprocess.Popen(  # noqa: S603 - our own text
        ["/bin/sh", "-c", _DELETE_SCRIPT, "sh", str(directory)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    # Kept in a list, so that its input stays open.
    _deleters.append(deleter)
    return directory


#: Waits for the end of its input, when the process that holds the other end has ended. The JVM can
#: need a moment longer, and creates files until then.
_DELETE_SCRIPT = 'read _; for pause in 0 1 4; do sleep "$pause"; rm -rf -- "$1"; done'
_deleters: list["subprocess.Popen[bytes]"] = []


def _delete_if_abandoned(directory: Path) -> None:
    """Delete a directory whose process has ended."""
    try:
        # O_NOFOLLOW: all users can write to the parent directory, so a link could lead anywhere.
        lock = os.open(directory / _LOCK, os.O_RDWR | os.O_NOFOLLOW)
    except OSError:
        # Either it belongs to another user, or its process has not created the lock file yet.
        return
    try:
        if lock_descriptor(lock, blocking=False):
            shutil.rmtree(directory, ignore_errors=True)
    finally:
        os.close(lock)


#: The directory that contains the package ``oriel``: ``src`` of a checkout, or ``site-packages``.
_IMPORT_ROOT = Path(oriel.__file__).parent.parent
#: A URI, because the name of the directory can contain spaces.
_LOGGING = Path(__file__).resolve().with_name("log4j2.properties").as_uri()

_JAVA_OPTIONS = (STACK_OPTION, f"-Dlog4j2.configurationFile={_LOGGING}")

#: For a run of a few minutes: the JVM compiles quickly, not well, and collects garbage without
#: extra threads. The first 600,000 records from Kafka need 10 s of its processor time instead of 19
#: s, and each further million needs 4 s instead of 2 s (docs/decisions/0026).
_SHORT_RUN_OPTIONS = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")

#: For a run of months: the JVM uses its optimizing compiler for a method after ten times as many
#: calls as by default. Otherwise, this compiler uses 3 s of processor time before the first commit
#: (decision 0090).
_LONG_RUN_OPTIONS = (
    "-XX:Tier4InvocationThreshold=50000",
    "-XX:Tier4MinInvocationThreshold=6000",
    "-XX:Tier4CompileThreshold=150000",
    "-XX:Tier4BackEdgeThreshold=400000",
)

_CODE_GENERATION = "spark.sql.codegen.wholeStage"

_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # A run lasts for months, so Spark keeps only a short history.
    "spark.ui.retainedJobs": "20",
    "spark.ui.retainedStages": "20",
    "spark.ui.retainedTasks": "200",
    "spark.sql.ui.retainedExecutions": "20",
    "spark.sql.session.timeZone": "UTC",
    # The plan of a batch is fixed. A new plan costs time and changes partitions.
    "spark.sql.adaptive.enabled": "false",
    # A value that does not fit becomes null or wraps. It does not stop the query.
    "spark.sql.ansi.enabled": "false",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # The stream-time assigner and the engine are vectorized, so fewer and larger Arrow batches cost
    # less.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "100000",
    "spark.sql.catalogImplementation": "in-memory",
    # Spark writes two small log files per batch of a run that ends. By default, it also writes a
    # checksum file for each (decisions 0025 and 0094).
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing."
        "FileSystemBasedCheckpointFileManager"
    ),
    "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
    "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",
    # Each batch lists these logs. A restart needs the last two entries.
    "spark.sql.streaming.minBatchesToRetain": "10",
    "spark.sql.streaming.numRecentProgressUpdates": "20",
    # Options of Kafka's client can be secrets, and the plans of failed queries show options.
    "spark.sql.redaction.options.regex": r"(?i)url|^kafka\.",
    # If this is enabled, Python calls Java some ten times for each column, to name the line of code
    # in errors. These calls need half of the start time of a topology. Oriel's errors name the
    # step.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    # Nobody reads the plans of jobs, so Spark does not format them in detail.
    "spark.sql.ui.explainMode": "simple",
}

#: Further settings if all tasks run in the driver's own process.
_LOCAL_SETTINGS = {
    # Nothing outside this machine can reach the driver, and no host name is resolved.
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    # The shuffle stays on this machine, so compression only costs time.
    "spark.shuffle.compress": "false",
}

#: Environment variables of Spark's Python workers. The engines allocate and drop arrays of
#: megabytes in each batch. By default, glibc returns the pages each time, and clearing new pages
#: costs up to a quarter of the time (docs/decisions/0017).
WORKER_ENVIRONMENT = {"MALLOC_MMAP_THRESHOLD_": str(2**30), "MALLOC_TRIM_THRESHOLD_": str(2**31)}


class SparkStart:
    """A start of Spark: Java starts at once, and ``session`` waits for it.

    A process has only one session. Settings of Java (memory, packages, Java options) apply from its
    first start.
    """

    def __init__(
        self,
        *,
        cores: int | None = None,
        packages: Sequence[str] = (),
        extra: Mapping[str, str] | None = None,
        is_short_run: bool = False,
        log: LogFile | None = None,
    ) -> None:
        """Start Java 17 or 21 of ``JAVA_HOME`` or the ``PATH``, unless this process has one.

        Args:
            cores: The number of threads for tasks and of shuffle partitions. None: all cores of
                this machine, and on a cluster all cores that it assigns.
            packages: Maven coordinates (``group:artifact:version``) that Spark downloads with their
                dependencies into its Ivy cache.
            extra: Spark settings that override the settings of this module, and extend its lists.
                With ``spark.master``, the session runs on a cluster.
            is_short_run: True if Java should start quickly rather than run fast for hours.
            log: The files for the output of Java and the log of Spark. None: stderr.

        Raises:
            JavaMissing: Neither ``JAVA_HOME`` nor the ``PATH`` has Java.
            ClusterUnavailable: No master listens.
        """
        java_home = os.environ.get("JAVA_HOME")
        if shutil.which(f"{java_home}/bin/java" if java_home else "java") is None:
            raise JavaMissing(java_home)
        self._restart = partial(
            SparkStart, cores=cores, packages=packages, extra=extra, is_short_run=is_short_run,
            log=log,
        )  # fmt: skip
        threads = cores or os.cpu_count() or 1
        self._master = (extra or {}).get(MASTER, f"local[{threads}]")
        is_remote = is_cluster(self._master)
        if is_remote:
            check_master_listens(self._master)
        self._scratch = scratch_directory()
        python = local_python(self._scratch)
        _prepare_children(python, worker_python(extra or {}) if is_remote else python)
        if not is_remote:
            # Otherwise Spark resolves the name of this host, which fails without a network.
            os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        _disable_duplicate_error_logs()
        self._archive = find_archive()
        settings = {
            MASTER: self._master,
            "spark.driver.memory": driver_memory(),
            **_SETTINGS,
            **(cluster_settings(cores) if is_remote else _LOCAL_SETTINGS),
            "spark.driver.extraJavaOptions": " ".join(
                [
                    *_JAVA_OPTIONS,
                    f'"-Djava.io.tmpdir={self._scratch}"',
                    *(_SHORT_RUN_OPTIONS if is_short_run else _LONG_RUN_OPTIONS),
                    *(log.java_options(_LOGGING) if log else ()),
                    *use_archive(self._archive),
                ]
            ),
            "spark.sql.shuffle.partitions": str(threads),
            # By default, Spark creates it in the current directory.
            "spark.sql.warehouse.dir": str(self._scratch / "warehouse"),
            # Set here, because the home directory of Java does not depend on HOME.
            "spark.jars.ivy": str(Path.home() / ".ivy2.5.2"),
            **{f"spark.executorEnv.{name}": value for name, value in WORKER_ENVIRONMENT.items()},
            **({"spark.jars.packages": ",".join(packages)} if packages else {}),
        }
        self._settings = with_conf(settings, extra or {})
        self._resolved = with_resolved_packages(self._settings)
        self._log = log
        #: The paths that the output of this start creates.
        self._new_paths = [] if log is None else log.missing_paths()
        self._java = self._started()

    def _started(self) -> JavaProcess | None:
        is_running = SparkContext._gateway is not None  # noqa: SLF001 - pyspark has no other way
        # The variable is set if spark-submit has started this process.
        if is_running or "PYSPARK_GATEWAY_PORT" in os.environ:
            return None
        output = None if self._log is None else self._log.open_outputs()
        try:
            return JavaProcess(self._resolved, self._scratch, output)
        finally:
            if output is not None:
                os.close(output)

    def session(self, application: str) -> SparkSession:
        """Return the session for ``application``, its name in Spark's logs, or the running one.

        Raises:
            ClusterUnavailable: The cluster does not provide a session.
        """
        is_first = SparkSession.getActiveSession() is None
        try:
            if self._java is not None:
                self._java.connect()
                self._java = None
            spark = (
                SparkSession.builder.appName(application)
                .config(map={**self._resolved})
                .getOrCreate()
            )
        except (Py4JJavaError, PySparkException) as error:
            if error_kind(error) == "JAVA_GATEWAY_EXITED" and delete_archive(self._archive):
                return self._restart().session(application)
            if not is_cluster(self._master):
                raise
            # This is Spark's message if a master listens and does not register the application.
            is_unregistered = "stopped SparkContext" in str(error)
            reason = "no master registered the application"
            message = (
                f"no session on the cluster {self._master}: "
                f"{reason if is_unregistered else first_line(error)}. Check --master, that a Spark "
                "master of this version listens there, and that this machine and the workers reach "
                "each other"
            )
            raise ClusterUnavailable(message) from error
        if is_first and self._resolved == self._settings:
            # spark-submit writes all jars to this setting. ``spark.jars`` only has the requested
            # ones.
            jars = spark.sparkContext.getConf().get("spark.repl.local.jars", "")
            remember_packages(self._settings, jars)
        _without_lookup_of_data_sources(spark)
        # If Java ends first, the thread of this server would print a stack trace. The operation
        # that needs Java reports the failure.
        server = spark.sparkContext._accumulatorServer  # noqa: SLF001 - Spark has no other way
        server.handle_error = lambda *_: None  # type: ignore[method-assign]
        return spark

    def cancel(self) -> None:
        """End Java if it has no session, and delete the files that it has created for its log."""
        if self._java is not None:
            self._java.end()
            for path in self._new_paths:
                with suppress(OSError):  # for example, if another run has written to the directory
                    path.rmdir() if path.is_dir() else path.unlink()


def build_session(
    application: str,
    *,
    cores: int | None = None,
    packages: Sequence[str] = (),
    extra: Mapping[str, str] | None = None,
) -> SparkSession:
    """Start Spark and return the session for ``application``, or return the running session.

    The other arguments are the same as for ``SparkStart``.
    """
    return SparkStart(cores=cores, packages=packages, extra=extra).session(application)


def _without_lookup_of_data_sources(spark: SparkSession) -> None:
    """Prevent a search for data sources in Python packages, because Oriel registers its own.

    For the search, Spark starts two Python processes before the first query, which use 1 s of
    processor time. Spark has no setting for it. If another version of Spark keeps the result
    elsewhere, it searches for data sources.
    """
    jvm: Any = spark._jvm  # noqa: SLF001 - pyspark has no other way to Java
    with suppress(Py4JError, TypeError):
        manager = getattr(jvm.org.apache.spark.sql.execution.datasources, "DataSourceManager$")
        no_sources = getattr(getattr(jvm.scala.collection.immutable, "Map$"), "MODULE$").empty()
        getattr(getattr(manager, "MODULE$"), "dataSourceBuilders_$eq")(jvm.scala.Some(no_sources))


def _disable_duplicate_error_logs() -> None:
    """Turn off logs of pyspark and py4j that repeat an error which they also raise."""
    for name in ("DataFrameQueryContextLogger", "SQLQueryContextLogger"):
        PySparkLogger.getLogger(name).disabled = True
    # The run reports a failed batch. Java receives the error as the result of its call.
    logging.getLogger("py4j").disabled = True
    logging.getLogger("py4j.clientserver").disabled = True
    logging.getLogger().addFilter(_is_not_from_py4j)


def _is_not_from_py4j(record: logging.LogRecord) -> bool:
    """Return False for a record of the root logger that py4j writes when Java has ended."""
    return record.module != "java_gateway"


def _prepare_children(driver_python: str, workers_python: str) -> None:
    """Set the Python of Spark's processes next to the driver, and the Python of workers.

    The JVM passes its environment to these processes, so this must run before the JVM starts.
    Processes next to the driver can import ``oriel``. Workers on other machines receive the package
    (``send_package``).

    Args:
        driver_python: The Python of processes on this machine.
        workers_python: The Python of workers.
    """
    # The JVM that computes the command line of the other JVM runs for half a second.
    os.environ.setdefault("SPARK_LAUNCHER_OPTS", " ".join(_SHORT_RUN_OPTIONS))
    os.environ["PYSPARK_PYTHON"] = workers_python
    os.environ["PYSPARK_DRIVER_PYTHON"] = driver_python
    directories = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if str(_IMPORT_ROOT) not in directories:
        os.environ["PYTHONPATH"] = os.pathsep.join([str(_IMPORT_ROOT), *filter(None, directories)])


@contextmanager
def generated_code(spark: SparkSession, *, wanted: bool) -> Iterator[None]:
    """Turn generated code on or off for the queries that start in this block.

    A query copies the setting when it starts.
    """
    before = spark.conf.get(_CODE_GENERATION)
    spark.conf.set(_CODE_GENERATION, str(wanted).lower())
    try:
        yield
    finally:
        spark.conf.set(_CODE_GENERATION, str(before))


def is_stopped(spark: SparkSession) -> bool:
    """Return whether Java has ended or is ending.

    A signal to Java ends it without a call from Python.
    """
    context = spark.sparkContext._jsc  # noqa: SLF001 - Spark has no other way
    try:
        return context is None or bool(context.sc().isStopped())
    except (Py4JError, OSError):
        return True


def stop_session(spark: SparkSession) -> None:
    """Stop a session. If its Java has already ended, ignore the errors of the stop."""
    try:
        spark.stop()
    except (Py4JError, OSError):
        if not is_stopped(spark):
            raise
