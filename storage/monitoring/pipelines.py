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
    """One pipeline.

    ``state`` is ``running``, ``starting`` (no batch yet), ``stopped``, ``stuck`` (no batch for
    ``STUCK_SECONDS`` although records wait or the log does not respond), or ``retired`` (stopped,
    and not expected to run). ``problem`` says what is
    wrong and what to do, None if nothing is wrong. ``seen_ms`` is the time of the last status.
    ``batch_ms`` is the end of the last of ``batches`` since the start, None before the first one.
    ``log_end_ms`` is when the pipeline last read the log's end, None if it never did. ``lag`` is
    how much of the log the pipeline's stores have not read, in ``lag_unit``. A partition that
    several stores read counts once. ``lag`` and ``lag_ms`` are None unless they are known now.
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
        """Since when the pipeline writes no new data, None unless it has a problem."""
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
    by_place: dict[tuple[str, str], PartitionOverview] = {}
    for one in sorted(partitions, key=_least_lag_first):
        by_place[one.topic, one.partition] = one
    lag, lag_ms = total_lag(by_place.values())
    last_lag = sum(one.last_lag or 0 for one in by_place.values())
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
    """Yield each pipeline of a data directory, from nothing but its status file."""
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
    """Say that a pipeline is retired, and how to make it active again."""
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
    # Without records there is no batch, so a pipeline that has read all of its log runs.
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
