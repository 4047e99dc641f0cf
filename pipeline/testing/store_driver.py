"""One store of the test driver: the batches of the pipeline in this process and in memory.

Planning, stages and commits are the same as in the pipeline. Only the files are in memory.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import partial
from typing import Any

import pyarrow as pa

from oriel.pipeline.commit import prepared_batch
from oriel.pipeline.dead_letters import Reason, SourceReasons
from oriel.pipeline.errors import FunctionRaised
from oriel.pipeline.language import Source
from oriel.pipeline.lowered import Store
from oriel.pipeline.plan import (
    BatchPlan,
    PreparedBatch,
    StoredOperator,
    StorePlans,
    WallClock,
    final_records,
)
from oriel.pipeline.state import Version
from oriel.pipeline.tasks import LocalRunner, StoreWork, run_stages
from oriel.pipeline.testing.rows import Row, StoreRows
from oriel.pipeline.testing.steps import steps_for
from oriel.pipeline.windows import PARTIALS, IllegalArgument, Result, Times
from oriel.storage import Offsets
from oriel.storage.delta import AddedFile

#: Decoded records of this batch, by source.
Piped = Mapping[Source, pa.Table]


@dataclass(frozen=True)
class Counters:
    """Counts the records of a store or an output topic by what happened to them.

    ``input`` is the sum of ``applied``, ``late``, ``dropped`` and ``filtered``. If records are
    flattened, ``elements`` is the sum of ``elements_applied``, ``elements_late``,
    ``elements_dropped`` and ``elements_filtered``.

    Attributes:
        input: All records.
        applied: Records that count in the store or are in the output topic. A record that is
            flattened counts as applied if it has an element.
        late: Records that arrived after all their windows had closed.
        dropped: Dead letters, for example records without a key. If a function raises for some
            sliding windows of a record only, the record has a dead letter and counts as
            ``applied``.
        filtered: Records that a step dropped.
        late_results: Late join results, which are not records.
        dropped_results: Join results that are dead letters.
        elements: Flattened records.
        elements_applied: Flattened records that count in the store or are in the output topic.
        elements_late: Flattened records that are late.
        elements_dropped: Flattened records that are dead letters.
        elements_filtered: Flattened records that a step dropped.

    Example:
        >>> counts = flights.group_by_key().count().materialize("flights_by_airport")
        >>> driver = TopologyTestDriver(builder.build())
        >>> records = [Record("EWR", {"delay": 7}, 0), Record(None, {"delay": 7}, 1)]
        >>> driver.pipe_input("flights", records)
        >>> counters = driver.counters("flights_by_airport")
        >>> (counters.input, counters.applied, counters.dropped)
        (2, 1, 1)
    """

    input: int
    applied: int
    late: int
    dropped: int
    filtered: int
    late_results: int = 0
    dropped_results: int = 0
    elements: int = 0
    elements_applied: int = 0
    elements_late: int = 0
    elements_dropped: int = 0
    elements_filtered: int = 0


@dataclass
class MemoryFiles:
    """``TaskFiles`` of one task in memory: states by name, and what the batch wrote so far.

    A state is one table with all rows. A batch never changes the states that it reads. If a batch
    fails, the next batch reads the same states.
    """

    states: dict[str, pa.Table] = field(default_factory=dict)
    changes: list[pa.Table] = field(default_factory=list)
    dead_letters: list[dict[str, Any]] = field(default_factory=list)

    def run_operator(
        self,
        plan: BatchPlan,
        stored: StoredOperator[Result],
        tasks: Sequence[int],
        batch: pa.Table,
        times: Times,
    ) -> tuple[Result, list[Version]]:
        names = stored.segments.get(tasks[0])
        operator = stored.operator
        state = self.states[names[0]] if names else operator.empty_state()
        result = operator.apply(state, batch, times)
        name = f"{plan.batch}{stored.suffix}"
        self.states[name] = result.state
        return result, [Version([name], len(result.state))]

    def write_changes(self, _plan: BatchPlan, _task: int, changes: pa.Table) -> list[AddedFile]:
        """Keep the changed rows in memory."""
        # Reads of the driver do not merge windows.
        kept = [name for name in changes.column_names if name != PARTIALS.name]
        self.changes.append(changes.select(kept))
        return []

    def write_dead_letters(
        self, _plan: BatchPlan, dead_letters: Sequence[pa.Table]
    ) -> list[AddedFile]:
        """See ``TaskFiles``. The driver writes no file."""
        for table in dead_letters:
            self.dead_letters += table.drop_columns(["revision"]).to_pylist()
        return []


#: Kind of windows -> the method of the driver that reads the store.
_READ_BY = {
    "tumbling": "window_store",
    "hopping": "window_store",
    "sliding": "window_store",
    "session": "session_store",
    "none": "key_value_store",
    "versioned": "versioned_store",
}


class StoreDriver:
    """Processes micro-batches of one store."""

    def __init__(self, store: Store, upstream: "Mapping[str, StoreDriver] | None" = None) -> None:
        """Check the store's steps and aggregation.

        ``upstream`` has the stores whose rows the store can read.

        Raises:
            InvalidTopology: a step is invalid. The message names the step.
        """
        self.store = store
        # In the driver, each store has its own dead letters.
        reasons = dict.fromkeys(store.sources, SourceReasons.FOR_ALL)
        steps_of = partial(steps_for, store=store.name)
        plans = {name: driver.plans for name, driver in (upstream or {}).items()}
        self.plans: StorePlans = StorePlans(store, steps_of, reasons, plans)
        self.plans.select_columns(key_groups=1)
        self._batch = 0
        self._previous: PreparedBatch | None = None
        self._states: dict[str, pa.Table] = {}
        self._ends: Offsets = {}
        self.content = StoreRows(store.retention_ms, store.key_type)
        #: Rows of the last call of the driver. ``written`` has the rows of all calls.
        self.output: list[Row] = []
        #: Changed rows of the last batch.
        self.changes: list[pa.Table] = []
        self.written: list[Row] = []
        self.dead_letters: list[dict[str, Any]] = []

    def final_records(self, first_offset: int) -> pa.Table:
        """Return the final rows of the last batch as records. Offsets start at ``first_offset``."""
        return final_records(self.changes, self.plans.columns, first_offset)

    def read_by(self, method: str) -> StoreRows:
        """Return the rows for a method of the driver that reads the store.

        Raises:
            IllegalArgument: the method does not read stores with these windows.
        """
        name, kind = self.store.name, self.store.windows.kind
        fitting = _READ_BY[kind]
        if fitting != method:
            windows = {"none": "no windows", "versioned": "versions"}.get(kind, f"{kind} windows")
            message = f"store {name!r} has {windows}: read it with {fitting}({name!r})"
            raise IllegalArgument(message)
        return self.content

    @property
    def counters(self) -> Counters:
        """Running totals."""
        totals = dict(self._previous.record.counters) if self._previous else {}
        other_names = {
            "dropped": "dead_lettered", "dropped_results": "rejected_results",
            "elements_dropped": "elements_dead_lettered",
        }  # fmt: skip
        names = (field.name for field in fields(Counters))
        return Counters(**{name: totals.get(other_names.get(name, name), 0) for name in names})

    def process(self, piped: Piped, partition: int, wall_clock: WallClock) -> None:
        """Process one batch of one partition at a wall-clock time.

        Rows of other stores are in partition 0.

        Raises:
            InvalidTopology: the number of the partition is too large for a join of streams.
        """
        ends = {topic: dict(partitions) for topic, partitions in self._ends.items()}
        for source in piped:
            # Only the partition numbers matter, because the driver reads nothing by offset.
            number = 0 if source.store_name else partition
            ends.setdefault(source.topic, {})[str(number)] = 0
        files = MemoryFiles(dict(self._states))
        plan, joins = self.plans.plan(self._batch, files, 1, self._previous, ends, wall_clock)
        runner = LocalRunner({source: [records] for source, records in piped.items()})
        reports = run_stages(runner, [StoreWork(self.plans, plan, joins)])[self.store.name]
        prepared = prepared_batch(plan, joins, reports, self._previous, ends)
        # Nothing fails after this line, so the batch is applied as a whole.
        self._previous, self._ends = prepared, ends
        self._batch += 1
        self._states = {name: files.states[name] for name in prepared.state_files}
        self._keep(files)
        self.content.observed_ms = prepared.record.observed_ms

    def _keep(self, files: MemoryFiles) -> None:
        """Keep the results of a batch."""
        self.dead_letters += files.dead_letters
        self.changes = files.changes
        changed = self.content.apply(row for table in files.changes for row in table.to_pylist())
        self.output += changed
        self.written += changed


def raise_function_error(dead_letters: Iterable[dict[str, Any]]) -> None:
    """Check that no dead letter is from a function.

    Raises:
        FunctionRaised: one is. The message names the record.
    """
    raised = [
        dead_letter
        for dead_letter in dead_letters
        if dead_letter["reason"] == Reason.FUNCTION_RAISED
    ]
    if not raised:
        return
    first = raised[0]
    others = f" ({len(raised):,} dead letters in this batch)" if len(raised) > 1 else ""
    message = (
        f"topic {first['topic']!r}, partition {first['partition']}, offset {first['offset']}: "
        f"{first['detail']}{others}. To collect such errors as dead letters, create the driver "
        "with collect_function_errors=True"
    )
    raise FunctionRaised(message)
