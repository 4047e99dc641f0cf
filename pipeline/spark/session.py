"""The Spark session of a streaming run, with every setting and its reason in one place.

What Spark leaves on disk while it runs (shuffles, spills, native libraries) goes to a folder of the
process. The JVM deletes these files at its end, but not when it is killed. So a small process
beside it deletes the folder when its own has ended, however that was. Where that one is killed as
well, the next process to start finds the folder without its lock and deletes it.
"""

import fcntl
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
    cluster_settings,
    is_cluster,
    refuse_unreachable,
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
def scratch_folder() -> Path:
    """The folder of this process, below ``TMPDIR``; those of dead processes are deleted."""
    base = Path(tempfile.gettempdir())
    for folder in base.glob(f"{_PREFIX}*"):
        _delete_if_left(folder)
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=base))
    # Never closed: the lock ends with the process, however that ends. Children don't get it.
    fcntl.flock(os.open(folder / _LOCK, os.O_CREAT | os.O_RDWR, 0o600), fcntl.LOCK_EX)
    _delete_behind(folder)
    return folder


#: Waits for the end of its input, which comes when the process that holds the other end has ended.
#: The JVM may need a moment longer, and makes files until then.
_DELETING = 'read _; for pause in 0 1 4; do sleep "$pause"; rm -rf -- "$1"; done'
_deleting: list["subprocess.Popen[bytes]"] = []


def _delete_behind(folder: Path) -> None:
    """Have a folder deleted at the end of this process, by one that signals to its group spare."""
    deleting = subprocess.Popen(  # noqa: S603 - our own text
        ["/bin/sh", "-c", _DELETING, "sh", str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    # Kept, so that its input stays open.
    _deleting.append(deleting)


def _delete_if_left(folder: Path) -> None:
    """Delete a folder whose process has ended."""
    try:
        # O_NOFOLLOW: in a folder that all may write to, a link could lead anywhere.
        lock = os.open(folder / _LOCK, os.O_RDWR | os.O_NOFOLLOW)
    except OSError:
        # Another user's, or just being made: the lock's file comes after the folder.
        return
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(folder, ignore_errors=True)
    except BlockingIOError:
        return
    finally:
        os.close(lock)


#: The folder that holds the package ``oriel``: ``src`` of a checkout, or ``site-packages``.
_IMPORT_ROOT = Path(oriel.__file__).parent.parent
#: A URI, because the folder's name may hold spaces.
_LOGGING = Path(__file__).resolve().with_name("log4j2.properties").as_uri()

_JAVA_OPTIONS = (
    STACK_OPTION,
    f"-Dlog4j2.configurationFile={_LOGGING}",
)

#: For a run of a minute or a few: the JVM compiles quickly, not well, and collects its garbage
#: without threads for that. Its first 600,000 records from Kafka cost it 10 s of processor
#: instead of 19, each further million 4 s instead of 2 (docs/decisions/0026).
_SHORT_RUN_OPTIONS = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")

#: For a run of months: the JVM compiles a method well after ten times as many calls as by default.
#: Otherwise the compiler uses 3 s of processor time before the first commit (decision 0090).
_LONG_RUN_OPTIONS = (
    "-XX:Tier4InvocationThreshold=50000",
    "-XX:Tier4MinInvocationThreshold=6000",
    "-XX:Tier4CompileThreshold=150000",
    "-XX:Tier4BackEdgeThreshold=400000",
)

_GENERATES = "spark.sql.codegen.wholeStage"

_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # A run lasts for months: keep little of the past.
    "spark.ui.retainedJobs": "20",
    "spark.ui.retainedStages": "20",
    "spark.ui.retainedTasks": "200",
    "spark.sql.ui.retainedExecutions": "20",
    "spark.sql.session.timeZone": "UTC",
    # Streaming plans are fixed per batch; re-planning costs time and changes partitions.
    "spark.sql.adaptive.enabled": "false",
    # A value that does not fit gives null (and a dead letter), it does not stop the query.
    "spark.sql.ansi.enabled": "false",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # The stamp and the engine are vectorised: fewer, larger Arrow batches cost less.
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
    # Each batch lists these logs; a restart needs the last two entries.
    "spark.sql.streaming.minBatchesToRetain": "10",
    "spark.sql.streaming.numRecentProgressUpdates": "20",
    # Options of Kafka's client may be secrets, and plans of queries that fail tell options.
    "spark.sql.redaction.options.regex": r"(?i)url|^kafka\.",
    # With it Python asks Java some ten times, at each column it makes, what to tell of the line
    # behind an error: half of the time that a topology takes to start. Our errors name the step.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    # Nobody looks at plans, so they needn't be written out at length for every job.
    "spark.sql.ui.explainMode": "simple",
}

#: Beside them, where all tasks run in the driver's own process.
_LOCAL_SETTINGS = {
    # Nothing outside this machine is to reach the driver, and no name is looked up.
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    # The shuffle stays on this machine; compressing it only costs time.
    "spark.shuffle.compress": "false",
}

#: Environment variables of Spark's Python workers. The engines make and drop arrays of
#: megabytes, each batch again; glibc would give their pages back every time, and clearing new
#: ones costs up to a quarter of the time (docs/decisions/0017).
WORKER_ENVIRONMENT = {
    "MALLOC_MMAP_THRESHOLD_": str(2**30),
    "MALLOC_TRIM_THRESHOLD_": str(2**31),
}


class SparkStart:
    """A start of Spark: Java starts at once, and ``session`` waits for it.

    Only one session runs in a process. Settings of Java (memory, packages, Java options) hold from
    its first start.
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
            cores: Threads for tasks, which is also the number of shuffle partitions. None: all of
                the machine's, or all that the cluster gives.
            packages: Maven coordinates (``group:artifact:version``) that Spark fetches with their
                dependencies into its Ivy cache.
            extra: Spark settings that override those made here, and make lists of them longer.
                With ``spark.master`` the session is one of a cluster.
            is_short_run: Java is to start quickly rather than to run fast for hours.
            log: Where the output of Java and the log of Spark go. None: to stderr.

        Raises:
            JavaMissing: Neither ``JAVA_HOME`` nor the ``PATH`` has Java.
            ClusterUnavailable: No master listens.
        """
        _require_java()
        self._again = partial(
            SparkStart, cores=cores, packages=packages, extra=extra, is_short_run=is_short_run,
            log=log,
        )  # fmt: skip
        threads = cores or os.cpu_count() or 1
        self._master = (extra or {}).get(MASTER, f"local[{threads}]")
        is_remote = is_cluster(self._master)
        if is_remote:
            refuse_unreachable(self._master)
        self._scratch = scratch_folder()
        python = local_python(self._scratch)
        _prepare_children(python, worker_python(extra or {}) if is_remote else python)
        if not is_remote:
            # Otherwise Spark resolves the name of this host, which fails without a network.
            os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        _quiet_errors_told_twice()
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
            # Spark would make the folder in the current one.
            "spark.sql.warehouse.dir": str(self._scratch / "warehouse"),
            # Named here, because Java's idea of the home folder does not follow HOME.
            "spark.jars.ivy": str(Path.home() / ".ivy2.5.2"),
            **{f"spark.executorEnv.{name}": value for name, value in WORKER_ENVIRONMENT.items()},
            **({"spark.jars.packages": ",".join(packages)} if packages else {}),
        }
        self._settings = with_conf(settings, extra or {})
        self._resolved = with_resolved_packages(self._settings)
        self._log = log
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
        """Return the session for ``application`` (its name in Spark's logs), or the running one.

        Raises:
            ClusterUnavailable: The cluster gives no session.
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
                return self._again().session(application)
            if not is_cluster(self._master):
                raise
            raise _no_session(self._master, error) from error
        if is_first and self._resolved == self._settings:
            # Where spark-submit notes all jars; ``spark.jars`` has only those that were asked for.
            jars = spark.sparkContext.getConf().get("spark.repl.local.jars", "")
            remember_packages(self._settings, jars)
        _without_lookup_of_data_sources(spark)
        # Its thread would print a trace where Java ends first; what else fails then is told.
        server = spark.sparkContext._accumulatorServer  # noqa: SLF001 - Spark has no other way
        server.handle_error = lambda *_: None  # type: ignore[method-assign]
        return spark

    def cancel(self) -> None:
        """End Java if it has no session."""
        if self._java is not None:
            self._java.end()


def build_session(
    application: str,
    *,
    cores: int | None = None,
    packages: Sequence[str] = (),
    extra: Mapping[str, str] | None = None,
    log: LogFile | None = None,
) -> SparkSession:
    """Start Spark and return the session for ``application``, or return the one that runs.

    The other arguments are those of ``SparkStart``.
    """
    return SparkStart(cores=cores, packages=packages, extra=extra, log=log).session(application)


def _require_java() -> None:
    java_home = os.environ.get("JAVA_HOME")
    if shutil.which(f"{java_home}/bin/java" if java_home else "java") is None:
        raise JavaMissing(java_home)


def _without_lookup_of_data_sources(spark: SparkSession) -> None:
    """Let Spark look for no data sources in Python packages: Oriel registers its own.

    For the lookup, Spark starts two Python processes before the first query, which use 1 s of
    processor time. Spark has no setting for it. If another version of Spark keeps the result
    elsewhere, it looks for data sources.
    """
    jvm: Any = spark._jvm  # noqa: SLF001 - pyspark has no other way to Java
    with suppress(Py4JError, TypeError):
        manager = getattr(jvm.org.apache.spark.sql.execution.datasources, "DataSourceManager$")
        no_sources = getattr(getattr(jvm.scala.collection.immutable, "Map$"), "MODULE$").empty()
        getattr(getattr(manager, "MODULE$"), "dataSourceBuilders_$eq")(jvm.scala.Some(no_sources))


def _no_session(master: str, error: Exception) -> ClusterUnavailable:
    # What Spark says where a master listens and does not register the application.
    is_silent = "stopped SparkContext" in str(error)
    reason = "no master registered the application" if is_silent else first_line(error)
    return ClusterUnavailable(
        f"no session on the cluster {master}: {reason}. Check --master, that a Spark master of "
        "this version listens there, and that this machine and the workers reach each other"
    )


def _quiet_errors_told_twice() -> None:
    """Don't let pyspark and py4j log an error that they raise as well, with all it says."""
    for name in ("DataFrameQueryContextLogger", "SQLQueryContextLogger"):
        PySparkLogger.getLogger(name).disabled = True
    # A batch that fails is told by the run; Java hears of it as an error of the call.
    logging.getLogger("py4j").disabled = True
    logging.getLogger("py4j.clientserver").disabled = True
    logging.getLogger().addFilter(_is_not_of_py4j)


def _is_not_of_py4j(record: logging.LogRecord) -> bool:
    """Whether a record of the root logger is not what py4j writes of a Java that has ended."""
    return record.module != "java_gateway"


def _prepare_children(here: str, of_workers: str) -> None:
    """Name the Python of Spark's processes beside the driver, which find ``oriel``, and of workers.

    The JVM hands its own environment on to them, so this comes before its start. Workers of other
    machines are sent the package (``send_package``).
    """
    # The JVM that works out the command line of the other lives for half a second.
    os.environ.setdefault("SPARK_LAUNCHER_OPTS", " ".join(_SHORT_RUN_OPTIONS))
    os.environ["PYSPARK_PYTHON"] = of_workers
    os.environ["PYSPARK_DRIVER_PYTHON"] = here
    folders = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if str(_IMPORT_ROOT) not in folders:
        os.environ["PYTHONPATH"] = os.pathsep.join([str(_IMPORT_ROOT), *filter(None, folders)])


@contextmanager
def generated_code(spark: SparkSession, *, wanted: bool) -> Iterator[None]:
    """Let queries that start in this block have generated code, or not. They copy the setting."""
    before = spark.conf.get(_GENERATES)
    spark.conf.set(_GENERATES, str(wanted).lower())
    try:
        yield
    finally:
        spark.conf.set(_GENERATES, str(before))


def is_stopped(spark: SparkSession) -> bool:
    """Whether Java has ended or is ending, which a signal to it does without asking Python."""
    context = spark.sparkContext._jsc  # noqa: SLF001 - Spark has no other way
    try:
        return context is None or bool(context.sc().isStopped())
    except (Py4JError, OSError):
        return True


def stop_session(spark: SparkSession) -> None:
    """Stop a session, or let be what is left of one whose Java has ended."""
    try:
        spark.stop()
    except (Py4JError, OSError):
        if not is_stopped(spark):
            raise
