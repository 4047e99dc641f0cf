"""The stamp: stream time, lateness and dead letters, one task per source partition.

Runs on each partition in offset order, so the clock of a partition is a running max
(semantics 1.1) and lateness is decided once, for good. Accepted rows go on to the task
of their key group; at its end the stamp sends one report row to *every* engine task, so
that each of them knows the clocks of the whole batch without a second pass.
"""

from collections.abc import Callable, Iterator

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.decoding import REASONS
from pipeline.plan import COUNTERS, DEAD_LETTER_SCHEMA, BatchPlan, StampReport
from pipeline.windows import StreamClock
from storage.table import AddedFile, write_file

Batches = Iterator[pa.RecordBatch]


def stamp_with(plan: BatchPlan) -> Callable[[Batches], Batches]:
    """Return the function for Spark's ``mapInArrow``."""

    def stamp(batches: Batches) -> Batches:
        stamper = _Stamper(plan)
        for batch in batches:
            if batch.num_rows:
                yield stamper.stamped(pa.table(batch))
        yield stamper.reports()

    return stamp


class _Stamper:
    """One stamp task's clocks, counts and dead letters."""

    def __init__(self, plan: BatchPlan) -> None:
        self._plan = plan
        self._clock = StreamClock(plan.stream_time_ms)
        self._seen: set[int] = set()
        self._counters = dict.fromkeys(COUNTERS, 0)
        self._dead: list[pa.Table] = []

    def stamped(self, rows: pa.Table) -> pa.RecordBatch:
        """Stamp one Arrow batch: the accepted rows with their close time and task."""
        self._counters["input"] += len(rows)
        bad = pc.is_valid(rows["reason"])
        self._bury(rows.filter(bad))
        kept = pc.and_(pc.invert(bad), rows["keep"])
        good = rows.filter(kept)
        self._counters["filtered"] += len(rows) - len(good) - pc.sum(bad).as_py()
        partition = np.asarray(good["partition"])
        time = np.asarray(good["timestamp_ms"])
        close = self._clock.advance(partition, time) - self._plan.grace_ms
        self._seen.update(np.unique(partition).tolist())
        late = self._plan.engine.is_late(time, close)
        self._counters["late"] += int(late.sum())
        self._counters["applied"] += int((~late).sum())
        good = good.append_column("close_ms", pa.array(close))
        task = np.asarray(good["key_group"]) % self._plan.tasks
        good = good.append_column("task", pa.array(task, pa.int32()))
        good = good.append_column("report", pa.nulls(len(good), pa.string()))
        accepted = good.filter(pa.array(~late)).select(self._plan.stamped_schema.names)
        return _as_batch(accepted.cast(self._plan.stamped_schema))

    def reports(self) -> pa.RecordBatch:
        """One report row for every engine task."""
        report = StampReport(
            {p: self._clock.stream_time_ms[p] for p in self._seen},
            self._counters,
            self._write_dead(),
        )
        text = orjson.dumps(report, option=orjson.OPT_NON_STR_KEYS).decode()
        tasks = self._plan.tasks
        columns = [pa.array(range(tasks), pa.int32()), pa.array([text] * tasks)]
        columns += [pa.nulls(tasks, field.type) for field in self._plan.stamped_schema][2:]
        return pa.RecordBatch.from_arrays(columns, schema=self._plan.stamped_schema)

    def _bury(self, rows: pa.Table) -> None:
        """Keep bad rows for the dead-letter table; each store counts them all."""
        self._counters["dead_lettered"] += len(rows)
        for_this_store = pc.is_in(rows["reason"], pa.array(["null-key", "null-value"]))
        if not self._plan.tells_source_reasons:
            rows, for_this_store = (
                rows.filter(for_this_store),
                for_this_store.filter(for_this_store),
            )
        if not len(rows):
            return
        names = pa.scalar(self._plan.store)
        columns = {
            "topic": pa.repeat(self._plan.topic, len(rows)),
            "partition": rows["partition"],
            "offset": rows["offset"],
            "store": pc.if_else(for_this_store, names, pa.scalar(None, pa.string())),
            "reason": rows["reason"],
            "detail": pa.array([REASONS[reason] for reason in rows["reason"].to_pylist()]),
            "raw": rows["raw"],
            "revision": pa.repeat(pa.scalar(self._plan.batch, pa.int64()), len(rows)),
        }
        self._dead.append(pa.table(columns, schema=DEAD_LETTER_SCHEMA))

    def _write_dead(self) -> list[AddedFile]:
        if not self._dead:
            return []
        plan = self._plan
        name = f"dead-{plan.store}-{plan.batch:012d}"
        rows = pa.concat_tables(self._dead)
        return [write_file(plan.dead_letters, rows, name, sync=plan.sync)]


def _as_batch(rows: pa.Table) -> pa.RecordBatch:
    """One record batch of a table's rows."""
    columns = [column.combine_chunks() for column in rows.columns]
    return pa.RecordBatch.from_arrays(columns, schema=rows.schema)
