"""The tasks' reports put together: what a batch will commit, and its state version."""

from collections.abc import Sequence

from oriel.pipeline.plan import (
    COUNTERS,
    LATE_RESULTS,
    REJECTED_RESULTS,
    BatchPlan,
    GroupReport,
    JoinPlan,
    Origin,
    PreparedBatch,
    Reports,
    Segments,
)
from oriel.storage import CommitRecord, Offsets


def prepared_batch(
    plan: BatchPlan,
    joins: Sequence[JoinPlan],
    reports: Sequence[GroupReport],
    previous: PreparedBatch | None,
    ends: Offsets,
) -> PreparedBatch:
    """Put the tasks' reports together; all of them carry the same reports of tasks before."""
    told = reports[0].told if reports else Reports()
    clocks = told.clocks_after(plan.clocks)
    record = CommitRecord(
        batch=plan.batch,
        offsets={clock.topic: ends.get(clock.topic, {}) for clock in plan.delays},
        stream_time_ms={
            name: {str(p): time for p, time in sorted(partitions.items())}
            for name, partitions in clocks.items()
        },
        close_ms=reports[0].close_ms if reports else plan.close_ms,
        counters=_counters(plan.origins, previous, told, reports),
    )
    dead_letters = [file for stamp in told.stamps for file in stamp.dead_letters]
    return PreparedBatch(
        record=record,
        segments={report.task: report.segments for report in reports} or plan.segments,
        join_segments={join.place: _join_segments(join, told) for join in joins},
        files=[file for report in reports for file in report.files],
        dead_letters=[*dead_letters, *(file for r in reports for file in r.dead_letters)],
        changed=sum(report.changed for report in reports),
        open_records=sum(report.open_records for report in reports)
        + sum(join.open_records for join in told.joins),
    )


def _counters(
    origins: Sequence[Origin | None],
    previous: PreparedBatch | None,
    told: Reports,
    reports: Sequence[GroupReport],
) -> dict[str, int]:
    """Running totals; what later tasks found late or bad was applied as far as stamps knew."""
    counters = dict(previous.record.counters) if previous else dict.fromkeys(COUNTERS, 0)
    for stamp in told.stamps:
        for name, number in stamp.counters.items():
            counters[name] = counters.get(name, 0) + number
    late = sum(join.late for join in told.joins)
    filtered = sum(join.filtered for join in told.joins)
    counters["late"] += late
    counters["filtered"] += filtered
    counters["applied"] -= late + filtered
    for report in reports:
        count_found(counters, origins, report.late, report.rejected)
    return counters


def count_found(
    counters: dict[str, int],
    origins: Sequence[Origin | None],
    late: Sequence[int],
    rejected: Sequence[int],
) -> None:
    """Count what the engine found late or bad of each input; records had counted as applied."""
    for origin, too_late, bad in zip(origins, late, rejected, strict=True):
        if origin is None:
            counters["late"] += too_late
            counters["dead_lettered"] += bad
            counters["applied"] -= too_late + bad
        else:
            # A join's results are no records: one record can have many of them, or none.
            counters[LATE_RESULTS] = counters.get(LATE_RESULTS, 0) + too_late
            counters[REJECTED_RESULTS] = counters.get(REJECTED_RESULTS, 0) + bad


def _join_segments(join: JoinPlan, told: Reports) -> Segments:
    found = {one.task: one.segments for one in told.joins if one.place == join.place}
    return found or join.segments
