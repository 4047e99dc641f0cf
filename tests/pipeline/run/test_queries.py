"""One query after another: which failures a run survives, and what it logs."""

import errno
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar, cast

import pytest
from pyspark.sql import SparkSession

from oriel import StreamsBuilder
from oriel.pipeline.errors import KafkaUnavailable
from oriel.pipeline.run import RunSettings, queries
from oriel.pipeline.run.queries import Queries
from oriel.pipeline.run.reporting.progress import Progress
from oriel.pipeline.sources import Kafka
from oriel.storage import DataLayout
from oriel.storage.files import use_files
from oriel.storage.monitoring import recorded_topologies
from oriel.testing import FailingFiles
from tests.e2e.runs_in_one_process import after_start


class _Query:
    """A query that has ended, with or without an error."""

    isActive = False  # noqa: N815 - pyspark's name

    def __init__(self, failure: Exception | None) -> None:
        self._failure = failure

    def stop(self) -> None:
        """Do nothing, because the query has ended."""

    def awaitTermination(self) -> None:  # noqa: N802 - pyspark's name
        """Raise the error that ended the query."""
        if self._failure is not None:
            raise self._failure


class _Log(Kafka):
    """Kafka with prepared responses."""

    losses: Iterator[str | None] = iter(())

    def ends(self, *_: Any) -> dict[str, dict[str, int]]:
        """Report no topic, without Spark."""
        return {}

    def no_response(self, *_: Any) -> str | None:
        """Return the next response, or None after the last one."""
        return next(self.losses, None)


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """Return a function that runs queries with these failures over a log with these responses."""

    def run(
        failures: list[Exception | None], losses: tuple[str | None, ...] = (), *,
        once: bool = False, timeout_seconds: float = 60,
    ) -> None:  # fmt: skip
        ends = iter(failures)

        class Run:
            failure = None
            maintenance_failures = 0
            counters: ClassVar[dict[str, dict[str, int]]] = {}
            functions: ClassVar[dict[str, str]] = {}

            @classmethod
            def recover(cls, *_: Any) -> "Run":
                """Accept the arguments of a run."""
                return cls()

            def start(self, _: Any) -> _Query:
                """Start the next query."""
                return _Query(next(ends))

            def close(self) -> None:
                """Do nothing."""

        monkeypatch.setattr(queries, "PipelineRun", Run)
        monkeypatch.setattr(queries, "_LOG_POLL_SECONDS", 0)
        log = _Log("host:1")
        log.losses = iter(losses)
        builder = StreamsBuilder()
        builder.stream("t", "v INT").group_by_key().count().materialize("s")
        settings = RunSettings(tmp_path, "x", None if once else 1, 1)
        progress = Progress(0, log, tmp_path)
        no_spark = cast("SparkSession", None)
        Queries(no_spark, builder.build(), log, settings).run(
            progress, threading.Event(), timeout_seconds
        )
        assert next(ends, "no more") == "no more"

    return run


TIMEOUT = RuntimeError("org.apache.kafka.common.errors.TimeoutException: no answer")


def test_a_run_waits_for_a_log_and_says_so_once(
    run: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """After the start, a wait is unbounded and logged once. At the start, every wait is logged."""
    run([TIMEOUT, None], ("down", "down", None, "gone", "gone", "gone", None))
    assert after_start(capsys.readouterr().err) == [
        "waiting: down",
        "waiting: down",
        "Kafka responds again",
        "waiting: gone",
        "Kafka responds again",
    ]


def test_a_wait_at_the_start_is_bounded(run: Any) -> None:
    """The error has the last reason. With `--once`, later waits are also bounded."""
    with pytest.raises(KafkaUnavailable, match="still down"):
        run([], ("still down",), timeout_seconds=0)
    with pytest.raises(KafkaUnavailable, match="gone"):
        run([TIMEOUT], (None, "gone"), timeout_seconds=0, once=True)


def test_a_failing_query_ends_a_run_although_the_log_responds(
    run: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """Three failed queries are restarted, each with a log line. The next failure ends the run."""
    run([TIMEOUT, TIMEOUT, TIMEOUT, None])
    lines = after_start(capsys.readouterr().err)
    assert lines == [f"pipeline resumed after: {TIMEOUT}"] * 3
    with pytest.raises(RuntimeError, match="no answer"):
        run([TIMEOUT] * 4)


def test_other_failures_end_a_run_at_once(run: Any) -> None:
    """Another query would fail in the same way."""
    with pytest.raises(ZeroDivisionError):
        run([ZeroDivisionError()])


def test_a_run_writes_its_topology_for_the_service(run: Any, tmp_path: Path) -> None:
    """Each start replaces the topology of the pipeline, and a full disk does not end the run."""
    layout = DataLayout(tmp_path)
    run([None])
    (first,) = recorded_topologies(layout)
    assert first.application == "x"
    assert [node.name for node in first.drawing.nodes] == ["t", "s"]
    assert first.drawing.to_mermaid().startswith("flowchart LR\n")
    with use_files(FailingFiles(1, errno.ENOSPC)):
        run([None])
    run([None])
    (again,) = recorded_topologies(layout)
    assert again.started_ms >= first.started_ms
    assert again.drawing == first.drawing
