"""The tasks' reports put together: what a batch will commit, and its state version."""

from collections.abc import Sequence

from oriel.pipeline.plan import BatchPlan, JoinPlan, PreparedBatch, Segments
from oriel.pipeline.tasks import Counters, Reports, WindowsReport, count_batch
from oriel.storage import CommitRecord, Offsets


def prepared_batch(
    plan: BatchPlan,
    joins: Sequence[JoinPlan],
    reports: Sequence[WindowsReport],
    previous: PreparedBatch | None,
    ends: Offsets,
) -> PreparedBatch:
    """Put together what the window engine's tasks report of one batch.

    A batch without any partition has no tasks: it leaves everything as it was.

    Raises:
        RecordsMiscounted: a record was lost or used twice on its way.
    """
    # Each of them was sent all reports of the tasks in front, so all have the same ones.
    upstream = reports[0].upstream if reports else Reports()
    clocks = upstream.clocks_after(plan.clocks)
    counted = count_batch(
        plan.store,
        plan.batch,
        [
            *(report.counters for report in upstream.stamps),
            *(report.counters for report in upstream.joins),
            *(report.counters for report in reports),
        ],
    )
    totals = previous.record.counters if previous else {}
    has_results = any(plan.origins) and bool(reports)
    record = CommitRecord(
        batch=plan.batch,
        offsets={clock.topic: ends.get(clock.topic, {}) for clock in plan.clock_plans},
        stream_time_ms={
            name: {str(p): time_ms for p, time_ms in sorted(partitions.items())}
            for name, partitions in clocks.items()
        },
        close_ms=reports[0].close_ms if reports else plan.close_ms,
        counters=(Counters(**totals) + counted).as_dict(
            with_results=has_results or "late_results" in totals
        ),
    )
    stamp_letters = [file for stamp in upstream.stamps for file in stamp.dead_letters]
    return PreparedBatch(
        record=record,
        segments={report.task: report.segments for report in reports} or plan.segments,
        join_segments={join.input_number: _segments(join, upstream) for join in joins},
        files=[file for report in reports for file in report.files],
        dead_letters=[*stamp_letters, *(file for r in reports for file in r.dead_letters)],
        changed=sum(report.changed for report in reports),
        open_records=sum(report.open_records for report in reports)
        + sum(report.open_records for report in upstream.joins),
    )


def _segments(join: JoinPlan, upstream: Reports) -> Segments:
    """The state files of a join's tasks after the batch."""
    by_task = {
        report.task: report.segments
        for report in upstream.joins
        if report.input_number == join.input_number
    }
    return by_task or join.segments
