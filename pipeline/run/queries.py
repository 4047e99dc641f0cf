"""Run one query after another until the run is done, because a query fails without its log.

Spark ends a query if the brokers do not respond for half a minute. A run of months has to survive
an outage. So it logs such an error in one line, polls the log until it responds, and starts another
query, which continues after the last batch as after a restart.
"""

import threading
import time
from collections.abc import Sequence
from contextlib import closing, suppress
from math import inf

from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from oriel.pipeline.errors import AlreadyRunning, KafkaUnavailable
from oriel.pipeline.language import Topology
from oriel.pipeline.lowered import lower
from oriel.pipeline.plan import PreparedBatch
from oriel.pipeline.run.batches import warm_up
from oriel.pipeline.run.changes import check_topology
from oriel.pipeline.run.live_rebuild import LiveRebuild
from oriel.pipeline.run.opened import OpenPipeline
from oriel.pipeline.run.query import PipelineRun
from oriel.pipeline.run.reporting import Progress, RunReport
from oriel.pipeline.run.settings import RunSettings
from oriel.pipeline.run.standby import Standby
from oriel.pipeline.sources import Log
from oriel.pipeline.spark import create_in_background, first_line
from oriel.storage import DataLayout, say
from oriel.storage.monitoring import record_topology

#: Seconds between two checks that the query still runs.
_POLL_SECONDS = 0.1
#: Seconds between two polls of a log that does not respond.
_LOG_POLL_SECONDS = 2
#: Failures of queries in a row, without a batch, while the log responds.
_FAILURES_MAX = 3
#: After this time, a failure does not count as a repetition of the previous failure.
_LONG_SECONDS = 300


class Queries:
    """The queries of one run."""

    def __init__(
        self, spark: SparkSession, topology: Topology, log: Log, settings: RunSettings
    ) -> None:
        """Prepare to update the stores of ``topology`` from ``log``."""
        self._spark = spark
        self._topology = topology
        self._log = log
        self._settings = settings
        self._is_warm = False

    def run(
        self,
        progress: Progress,
        stop: threading.Event,
        timeout_seconds: float,
        standby: Standby | None = None,
    ) -> None:
        """Run until the log's end (``--once``), or until ``stop`` is set.

        ``standby`` first waits until this process can run the pipeline.

        At the start, wait ``timeout_seconds`` for a log that does not respond. Later, a run with
        ``--once`` also waits that long, and other runs wait without a limit.

        Raises:
            KafkaUnavailable: the log did not respond in time.
            Exception: a query failed, and another query does not help.
        """
        topics = sorted(self._topology.topics)
        report = RunReport(
            DataLayout(self._settings.data).checkpoint(self._settings.application),
            self._settings.application,
            self._log.offset_unit,
            lambda: self._log.ends(self._spark, topics),
            self._log.lost_records,
        )
        try:
            while standby is not None and standby.wait(stop, self._warm_up):
                # Another standby can be faster. Then this one waits again.
                with suppress(AlreadyRunning):
                    return self._run(progress, report, stop, timeout_seconds)
            if standby is None:
                self._run(progress, report, stop, timeout_seconds)
        finally:
            progress.rejections.report(now=True)
            report.end()

    def _run(
        self, progress: Progress, report: RunReport, stop: threading.Event, timeout_seconds: float
    ) -> None:
        failures = 0
        failure: BaseException | None = None
        while (waited := self._log_responds(stop, timeout_seconds, report)) is not None:
            if waited:
                # The log did not respond, so earlier failures do not count.
                failures, failure = 0, None
            if self._settings.trigger_ms is not None:
                timeout_seconds = inf
            batches, began = progress.batches, time.monotonic()
            run = PipelineRun.recover(
                self._spark, self._topology, self._log, self._settings, report.alive()
            )
            try:
                query = _started(run, progress, report)
                self._record_topology()
                self._warm_up()
                if isinstance(failure, Exception):
                    say(
                        "going-on",
                        f"pipeline resumed after: {first_line(failure)}",
                        level="warning",
                    )
                _wait(run, query, report, progress, stop)
            except Exception as error:
                # The query's own error wraps the error of the batch in a Java stack trace, so
                # prefer the latter.
                failure = run.failure or error
                is_new = progress.batches > batches or time.monotonic() - began > _LONG_SECONDS
                failures = 1 if is_new else failures + 1
                if failures <= _FAILURES_MAX and self._log.may_pass(failure):
                    continue
                if failure is error:
                    raise
                raise failure from None
            else:
                return
            finally:
                run.close()
                report.note_failures(run.maintenance_failures)

    def _record_topology(self) -> None:
        """Write the topology for the service. Nothing else depends on this file."""
        with suppress(OSError):
            layout, drawing = DataLayout(self._settings.data), lower(self._topology).drawing()
            record_topology(layout, self._settings.application, drawing)

    def rebuild(self, stores: Sequence[str], stop: threading.Event, timeout_seconds: float) -> None:
        """Compute ``stores`` again. Wait ``timeout_seconds`` for a log that does not respond.

        Raises:
            KafkaUnavailable: the log did not respond in time.
            PipelineError, StorageError: a store cannot be computed again.
        """
        self._warm_up()
        if self._log_responds(stop, timeout_seconds) is not None:
            PipelineRun.rebuild(self._spark, self._topology, self._log, self._settings, stores)

    def rebuild_live(
        self, stores: Sequence[str], stop: threading.Event, timeout_seconds: float, *, waits: bool
    ) -> bool:
        """Compute ``stores`` again while another process runs the pipeline, and replace both.

        With ``waits``, the user accepts the new rows first. See ``LiveRebuild``.

        Returns:
            Whether this process can run the pipeline. False: ``stop`` was set before.

        Raises:
            KafkaUnavailable: the log did not respond in time.
            PipelineError, StorageError: a store cannot be computed again.
        """
        self._warm_up()
        check_topology(self._topology, self._settings.publish_options, stores)
        if self._log_responds(stop, timeout_seconds) is None:
            return False
        pipeline = OpenPipeline.open(
            self._spark, self._topology, self._log, self._settings, is_held=False
        )
        with closing(pipeline):
            return LiveRebuild(pipeline, stores, waits=waits).run(stop)

    def _warm_up(self) -> None:
        """Prepare later batches and later starts, which the first batch does not wait for."""
        if not self._is_warm:
            self._is_warm = True
            warm_up(self._spark, self._settings.tasks)
            create_in_background()

    def _log_responds(
        self, stop: threading.Event, timeout_seconds: float, report: RunReport | None = None
    ) -> bool | None:
        """Wait until the log responds. Return whether it had to wait, or None after a stop."""
        began = time.monotonic()
        waited = False
        while not stop.is_set():
            reason = self._log.no_response(self._spark, sorted(self._topology.topics))
            if reason is None:
                if waited:
                    say("answers", "Kafka responds again")
                return waited
            if time.monotonic() - began >= timeout_seconds:
                raise KafkaUnavailable(reason)
            if not waited or timeout_seconds < inf:
                say("waiting", f"waiting: {reason}", level="warning")
            waited = True
            if report is not None and report.has_begun:
                # A run that waits is alive.
                report.write_heartbeat()
            stop.wait(_LOG_POLL_SECONDS)
        return None


def _started(run: PipelineRun, progress: Progress, report: RunReport) -> StreamingQuery:
    """Start the query of a run, and report its batches."""

    def on_batch(batch: int, stores: dict[str, PreparedBatch]) -> None:
        report.on_batch(stores, run.phase_seconds)
        progress.on_batch(batch, stores)

    progress.begin(run.counters)
    query = run.start(on_batch)
    progress.on_start(run.functions)
    report.write_heartbeat()
    return query


def _wait(
    run: PipelineRun,
    query: StreamingQuery,
    report: RunReport,
    progress: Progress,
    stop: threading.Event,
) -> None:
    """Wait until a query ends by itself, or end it when ``stop`` is set.

    Raises:
        Fenced: another process runs the pipeline.
    """
    # Spark's gateway can't be called from a signal handler: that only sets a flag.
    while query.isActive and not stop.wait(_POLL_SECONDS):
        run.note_first_offsets()
        if report.is_due:
            # Without new records, no batch finds that another process has taken over.
            run.check_epoch()
        report.write_heartbeat(run.maintenance_failures)
        progress.rejections.report()
    query.stop()
    query.awaitTermination()
