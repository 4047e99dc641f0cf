"""The state of each pipeline of a data directory, and what to do if it does not run."""

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from oriel.storage.layout import DataLayout
from oriel.storage.monitoring.partitions import (
    LOG_END_SECONDS_MAX,
    PartitionOverview,
    Reported,
    partition_overviews,
    total_lag,
)
from oriel.storage.monitoring.run_status import RunStatus, run_status_files
from oriel.storage.monitoring.texts import duration_text, time_text

#: A pipeline is stuck if it commits nothing for this long although records wait.
STUCK_SECONDS = 300

PipelineState = Literal["running", "starting", "stopped", "stuck", "retired"]


@dataclass(frozen=True)
class PipelineOverview:
    """The state of one pipeline.

    Attributes:
        pipeline: The name of the pipeline.
        state: ``running``, ``starting`` (no batch yet), ``stopped``, ``stuck`` (no batch for
            ``STUCK_SECONDS`` although records wait or the log does not respond), or ``retired``
            (stopped, and not expected to run).
        problem: What is wrong and what to do, None without a problem.
        seen_ms: The time of the last status.
        batch_ms: The end of the last batch since the start, None before the first batch.
        batches: The number of batches since the start.
        records_per_second: The rate of records, None unless the pipeline runs.
        log_end_ms: When the pipeline last read the end of the log, None if it never did.
        lag: The unread part of the log in ``lag_unit``, None if it is not known now. A partition
            that several stores read counts once.
        lag_unit: ``records`` (Kafka) or ``bytes`` (event log).
        lag_ms: The greatest lag in time, None if it is not known now.
        stores: The names of the stores.
    """

    pipeline: str
    state: PipelineState
    problem: str | None
    seen_ms: int
    batch_ms: int | None
    batches: int
    records_per_second: float | None
    log_end_ms: int | None
    lag: int | None
    lag_unit: str
    lag_ms: int | None
    stores: tuple[str, ...]

    @property
    def since_ms(self) -> int | None:
        """Return since when the pipeline writes no new data, None unless it has a problem."""
        if self.problem is None:
            return None
        last_ms = {"stopped": self.seen_ms, "stuck": self.batch_ms}
        return last_ms.get(self.state, self.log_end_ms)


def pipeline_overview(
    name: str,
    reported: Reported,
    seen_ms: int,
    partitions: Iterable[PartitionOverview],
    now_ms: int,
) -> PipelineOverview:
    """Assess a pipeline by its last status and by the partitions of its stores."""
    run, _ = reported
    by_partition: dict[tuple[str, str], PartitionOverview] = {}
    for one in sorted(partitions, key=_least_lag_first):
        by_partition[one.topic, one.partition] = one
    lag, lag_ms = total_lag(by_partition.values())
    last_lag = sum(one.last_lag or 0 for one in by_partition.values())
    state = _state(reported, lag, last_lag, now_ms)
    return PipelineOverview(
        pipeline=name,
        state=state,
        problem=_problem(name, run, state, seen_ms, last_lag, now_ms),
        seen_ms=seen_ms,
        batch_ms=run.batch_ms if run.batches else None,
        batches=run.batches,
        records_per_second=run.records_per_second if state == "running" else None,
        log_end_ms=run.log_ends_ms or None,
        lag=lag,
        lag_unit=run.offset_unit,
        lag_ms=lag_ms,
        stores=tuple(sorted(run.stores)),
    )


def pipeline_overviews(layout: DataLayout) -> Iterator[PipelineOverview]:
    """Yield each pipeline of a data directory, from its status file only."""
    for name, file in run_status_files(layout).items():
        if (reported := file.read()) is not None:
            yield _of_status(name, reported, file.seen_ms(), time.time_ns() // 1_000_000)


def run_problem(name: str, run: RunStatus, now_ms: int) -> str | None:
    """Return the ``problem`` of a pipeline that runs now, from its own status."""
    return _of_status(name, (run, True), now_ms, now_ms).problem


def _of_status(name: str, reported: Reported, seen_ms: int, now_ms: int) -> PipelineOverview:
    partitions = (
        one
        for store, of_store in reported[0].stores.items()
        for one in partition_overviews(store, of_store.record, reported, now_ms)
    )
    return pipeline_overview(name, reported, seen_ms, partitions, now_ms)


def stopped_text(name: str, seen_ms: int) -> str:
    """Say that a pipeline does not run, and what to do."""
    since = time_text(seen_ms)
    return f"Pipeline {name} has not run since {since} UTC. Start it with the same --data."


def retired_text(name: str, retired_ms: int) -> str:
    """Say that a pipeline is retired, and how to activate it again."""
    since = time_text(retired_ms)
    return f"Pipeline {name} is retired since {since} UTC. To make it active again, start it."


def _least_lag_first(one: PartitionOverview) -> tuple[bool, int, int]:
    """Order by lag, an unknown lag after all others."""
    return one.lag is None, one.lag or 0, one.last_lag or 0


def _state(reported: Reported, lag: int | None, last_lag: int, now_ms: int) -> PipelineState:
    run, is_alive = reported
    if not is_alive:
        return "retired" if run.retired_ms else "stopped"
    is_idle = now_ms - run.batch_ms > 1000 * STUCK_SECONDS
    # A status of an older version has no time of the log's end.
    is_unread = 0 < run.log_ends_ms < now_ms - 1000 * STUCK_SECONDS
    if is_idle and (last_lag or is_unread):
        return "stuck"
    # Without records, no batch is committed. So a pipeline that has read its whole log is running.
    return "starting" if not (run.batches or is_idle or lag == 0) else "running"


def _problem(
    name: str, run: RunStatus, state: PipelineState, seen_ms: int, last_lag: int, now_ms: int
) -> str | None:
    if state == "stopped":
        return stopped_text(name, seen_ms)
    if state in {"starting", "retired"}:
        return None
    read_ms = max(run.log_ends_ms, run.started_ms)
    if now_ms - read_ms > 1000 * LOG_END_SECONDS_MAX:
        return (
            f"Pipeline {name} has not reported the end of its log since {time_text(read_ms)} UTC. "
            "Check that it can read its log."
        )
    if state == "running":
        return None
    return (
        f"Pipeline {name} has committed no batch for {duration_text(now_ms - run.batch_ms)} "
        f"although {last_lag:,} {run.offset_unit} of its log are unread. Read its messages on "
        "stderr, then restart it."
    )
