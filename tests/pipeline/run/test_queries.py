"""One query after another: which failures a run survives, and what it says of them."""

import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar, cast

import pytest
from pyspark.sql import SparkSession

from oriel import StreamsBuilder
from oriel.pipeline.errors import KafkaUnavailable
from oriel.pipeline.run import RunSettings, queries
from oriel.pipeline.run.progress import Progress
from oriel.pipeline.run.queries import Queries
from oriel.pipeline.sources import Kafka
from tests.e2e.runs_in_one_process import after_start


class _Query:
    """A query that has ended, well or by an error."""

    isActive = False  # noqa: N815 - pyspark's name

    def __init__(self, failure: Exception | None) -> None:
        self._failure = failure

    def stop(self) -> None:
        """Nothing is to be stopped."""

    def awaitTermination(self) -> None:  # noqa: N802 - pyspark's name
        """Raise what ended it."""
        if self._failure is not None:
            raise self._failure


class _Log(Kafka):
    """Kafka whose answers a test has written down."""

    answers: Iterator[str | None] = iter(())

    def ends(self, *_: Any) -> dict[str, dict[str, int]]:
        """Report no topic, without Spark."""
        return {}

    def no_answer(self, *_: Any) -> str | None:
        """The next answer; None when there are no more."""
        return next(self.answers, None)


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """Run queries that end as told, over a log that answers as told."""

    def run(
        failures: list[Exception | None], answers: tuple[str | None, ...] = (), *,
        once: bool = False, most_seconds: float = 60,
    ) -> None:  # fmt: skip
        ends = iter(failures)

        class Run:
            failure = None
            maintenance_failures = 0
            counters: ClassVar[dict[str, dict[str, int]]] = {}
            computation = SimpleNamespace(functions={})

            def __init__(self, *_: Any) -> None:
                """Take what a run takes."""

            def start(self, _: Any) -> _Query:
                """Begin the next query."""
                return _Query(next(ends))

            def close(self) -> None:
                """Nothing is open."""

        monkeypatch.setattr(queries, "PipelineRun", Run)
        monkeypatch.setattr(queries, "_ASK_AGAIN_SECONDS", 0)
        log = _Log("host:1")
        log.answers = iter(answers)
        builder = StreamsBuilder()
        builder.stream("t", "v INT").group_by_key().count().materialize("s")
        settings = RunSettings(tmp_path, "x", None if once else 1, 1)
        progress = Progress(0, log, tmp_path)
        no_spark = cast("SparkSession", None)
        Queries(no_spark, builder.build(), log, settings).run(
            progress, threading.Event(), most_seconds
        )
        assert next(ends, "no more") == "no more"

    return run


TIMEOUT = RuntimeError("org.apache.kafka.common.errors.TimeoutException: no answer")


def test_a_run_waits_for_a_log_and_says_so_once(
    run: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """However long it takes once it has begun; at the start every wait is told."""
    run([TIMEOUT, None], ("down", "down", None, "gone", "gone", "gone", None))
    assert after_start(capsys.readouterr().err) == [
        "waiting: down",
        "waiting: down",
        "Kafka responds again",
        "waiting: gone",
        "Kafka responds again",
    ]


def test_a_wait_at_the_start_is_bounded(run: Any) -> None:
    """The last reason is the error; so it is later with ``--once``."""
    with pytest.raises(KafkaUnavailable, match="still down"):
        run([], ("still down",), most_seconds=0)
    with pytest.raises(KafkaUnavailable, match="gone"):
        run([TIMEOUT], (None, "gone"), most_seconds=0, once=True)


def test_queries_that_fail_though_the_log_answers_end_a_run(
    run: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """Three times another is begun, and the reason told; then the error is the run's."""
    run([TIMEOUT, TIMEOUT, TIMEOUT, None])
    told = after_start(capsys.readouterr().err)
    assert told == [f"pipeline resumed after: {TIMEOUT}"] * 3
    with pytest.raises(RuntimeError, match="no answer"):
        run([TIMEOUT] * 4)


def test_other_failures_end_a_run_at_once(run: Any) -> None:
    """Another query would fail in the same way."""
    with pytest.raises(ZeroDivisionError):
        run([ZeroDivisionError()])
