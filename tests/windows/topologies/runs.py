"""The rows of a tree in Oriel, computed by the test driver and by the stages of the pipeline."""

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pyarrow as pa

from oriel import Topology
from oriel.pipeline.commit import prepared_batch
from oriel.pipeline.dead_letters import SourceReasons
from oriel.pipeline.language import Source, StoreSource, arrow_schema
from oriel.pipeline.lowered import Store, lower
from oriel.pipeline.plan import (
    BatchPlan,
    PreparedBatch,
    StorePlans,
    final_records,
    input_sources,
    record_sources,
)
from oriel.pipeline.state import open_segment, segments
from oriel.pipeline.tasks import DirectoryFiles, LocalRunner, SinkFiles, StoreWork, run_stages
from oriel.pipeline.testing.records import decoded
from oriel.pipeline.testing.rows import FIXED_COLUMNS, StoreRows
from oriel.pipeline.testing.steps import steps_for
from oriel.storage import Offsets, is_sink_name
from oriel.storage.delta import AddedFile
from oriel.testing import KeyValue, Record, TopologyTestDriver, WindowedValue
from tests.windows.topologies.operations import OUT, STORE
from tests.windows.topologies.random_logs import Entry
from tests.windows.topologies.random_trees import Case
from tests.windows.topologies.tree_facts import follows_pairs

KEY_GROUPS = 8
TASKS = 3
#: Possible numbers of records of a topic in a batch: small, large, or all records.
_CUTS = ((0, 1, 4, 50), (0, 20, 50), (1000,))
#: The probability that a batch ends although it could contain the next record.
_CUT_OFTEN = (0.3, 0.05, 0.0)


class Written(NamedTuple):
    """A record of a topic. Its value has no null columns."""

    key: str | None
    time: int
    value: tuple[tuple[str, Any], ...] | None

    @classmethod
    def of(cls, key: str | None, time: int, value: Mapping[str, Any] | None) -> "Written":
        """Return a record with its columns in the order of their names."""
        named = None if value is None else sorted(value.items())
        present = None if named is None else tuple(item for item in named if item[1] is not None)
        return cls(key, time, present)


class Place(NamedTuple):
    """The key and window of a row. Without windows, both bounds are 0."""

    key: str
    start: int
    end: int


#: Time and value of each row, without null columns, counts of 0 and empty lists: the peer program
#: does not have these columns.
Rows = dict[Place, tuple[int, dict[str, Any]]]


def normalized(value: Mapping[str, Any]) -> dict[str, Any]:
    """Return the columns of a row with sorted lists, without null, 0 records and empty lists."""
    return {
        name: sorted(item) if isinstance(item, list) else item
        for name, item in value.items()
        if item is not None and item != [] and not (item == 0 and name.startswith("n"))
    }


def _driven(topology: Topology, case: Case) -> TopologyTestDriver:
    """Return a driver that has processed the log, with a new batch when the topic changes."""
    driver = TopologyTestDriver(topology, collect_function_errors=True)
    for topic in case.topics:
        driver.pipe_input(topic, [])
    if follows_pairs(case.tree):
        for topic, *entry in case.log:
            driver.pipe_input(topic, record_of(entry))
    else:
        driver.pipe_inputs([(topic, record_of(entry)) for topic, *entry in case.log])
    return driver


def driver_rows(topology: Topology, case: Case) -> Rows:
    """Return the rows of the test driver."""
    driver = _driven(topology, case)
    content: Sequence[WindowedValue | KeyValue]
    kind = topology.stores[-1].windows.kind
    if kind == "none":
        content = driver.key_value_store(STORE).all()
    elif kind == "session":
        content = driver.session_store(STORE).all()
    else:
        content = driver.window_store(STORE).all()
    return {_place(row): (row.timestamp_ms, normalized(row.value)) for row in content}


def driver_records(topology: Topology, case: Case) -> list[Written]:
    """Return the records that the test driver writes to the output topic."""
    driver = _driven(topology, case)
    records = driver.create_output_topic(OUT).read_records()
    return [Written.of(one.key, one.timestamp_ms, one.value) for one in records]


def stages_records(topology: Topology, case: Case) -> list[Written]:
    """Return the records that the stages write to the output topic, by batch and task."""
    with tempfile.TemporaryDirectory(prefix="topologies-") as directory:
        return list(_staged(topology, case, Path(directory)).written)


def record_of(entry: Sequence[Any]) -> Record:
    """Return a record of a log, without its topic."""
    key, value, time = entry
    return Record(key, value, time)


def stages_rows(topology: Topology, case: Case) -> Rows:
    """Return the rows of the stages, with several tasks, state in files, and random batches.

    If the interleaving of topics does not matter, batches have random numbers of records per topic.
    """
    with tempfile.TemporaryDirectory(prefix="topologies-") as directory:
        return _staged(topology, case, Path(directory)).rows


def _staged(topology: Topology, case: Case, directory: Path) -> "StagesRun":
    """Return a run that has processed the log in random batches with one to three tasks."""
    random = Random(case.seed + case.number)
    run, tasks = StagesRun(topology, directory), random.randint(1, TASKS)
    for batch in _batches(case, random):
        run.take({topic: {0: records} for topic, records in batch.items()}, tasks)
    return run


def _place(row: WindowedValue | KeyValue) -> Place:
    if isinstance(row, KeyValue):
        return Place(row.key, 0, 0)
    return Place(row.key, row.window_start_ms, row.window_end_ms)


def _batches(case: Case, random: Random) -> list[dict[str, list[Record]]]:
    logs = {topic: [r for r in case.log if r[0] == topic] for topic in case.topics}
    batches: list[dict[str, list[Record]]] = [{topic: [] for topic in case.topics}]
    cut = random.randrange(len(_CUTS))
    if not case.is_interleaving_free:
        for entry in case.log:
            continues = entry[0] in batches[-1] and not follows_pairs(case.tree)
            if not continues or len(batches) == 1 or random.random() < _CUT_OFTEN[cut]:
                batches.append({entry[0]: []})
            batches[-1][entry[0]].append(_record(entry))
        return batches
    while any(logs.values()):
        batch = {}
        for topic, log in logs.items():
            number = random.choice(_CUTS[cut])
            batch[topic] = [_record(entry) for entry in log[:number]]
            logs[topic] = log[number:]
        batches.append(batch)
    return batches


def _record(entry: Entry) -> Record:
    return record_of(entry[1:])


@dataclass(frozen=True)
class _CollectingFiles(DirectoryFiles):
    """Files of states. Changed rows are collected in memory."""

    changes: list[pa.Table] = field(default_factory=list)

    def write_changes(self, _plan: BatchPlan, _task: int, changes: pa.Table) -> list[AddedFile]:
        """Collect the changes."""
        self.changes.append(changes)
        return []

    def write_dead_letters(
        self, _plan: BatchPlan, _dead_letters: Sequence[pa.Table]
    ) -> list[AddedFile]:
        """Ignore the dead letters."""
        return []


@dataclass(frozen=True)
class _SinkFiles(SinkFiles):
    """Files of a sink, without its dead letters."""

    def write_dead_letters(
        self, _plan: BatchPlan, _dead_letters: Sequence[pa.Table]
    ) -> list[AddedFile]:
        """Ignore the dead letters."""
        return []


class StagesRun:
    """A run of all stores of a topology, or of its output topic, in batches."""

    def __init__(
        self, topology: Topology, directory: Path, plans: dict[str, StorePlans] | None = None
    ) -> None:
        """Plan the stores, unless ``plans`` has them. The states are in ``directory``.

        The directory of a unit is its number, because the name of a sink is not a directory name.
        """
        self._batches = 0
        lowered = lower(topology)
        self._stores: list[_StoreRun] = []
        self.plans: dict[str, StorePlans] = plans or {}
        for number, store in enumerate(lowered.units):
            own = directory / str(number)
            (own / "state").mkdir(parents=True)
            planned = self.plans.get(store.name)
            self._stores.append(_StoreRun(store, own, self.plans, planned))
            self.plans[store.name] = self._stores[-1].plans
        self._offsets: dict[str, dict[int, int]] = {topic: {0: 0} for topic in topology.topics}

    def take(self, batch: Mapping[str, Mapping[int, Sequence[Record]]], tasks: int = TASKS) -> None:
        """Process a batch: records by topic and partition.

        Every second batch opens its state from the files, as in a new process. The other batches
        have small segments in memory.
        """
        self._batches += 1
        if self._batches % 2:
            segments._kept._segments.clear()
        read: dict[Source, list[pa.Table]] = {}
        for store in self._stores:
            for source in store.store.sources:
                if isinstance(source, StoreSource):
                    continue
                schema = arrow_schema(source.schema, str(source))
                offsets = self._offsets[source.topic]
                read[source] = [
                    decoded(records, schema, partition, offsets.get(partition, 0))
                    for partition, records in batch.get(source.topic, {}).items()
                ]
        for topic, partitions in batch.items():
            offsets = self._offsets[topic]
            for partition, records in partitions.items():
                offsets[partition] = offsets.get(partition, 0) + len(records)
        ends: Offsets = {
            topic: {str(partition): offset for partition, offset in offsets.items()}
            for topic, offsets in self._offsets.items()
        }
        for store in self._stores:
            source = StoreSource.of(store.store.name)
            read[source] = [store.take(read, ends, tasks)]
            ends[source.topic] = {"0": 0}

    @property
    def rows(self) -> Rows:
        """Return the rows of the last store."""
        return next(run for run in reversed(self._stores) if not is_sink_name(run.store.name)).rows

    @property
    def written(self) -> Sequence[Written]:
        """Return the records of the output topic."""
        return self._stores[-1].written

    @property
    def written_sources(self) -> Sequence[str]:
        """Return the source of each record of the output topic."""
        return self._stores[-1].written_sources

    @property
    def counters(self) -> Mapping[str, int]:
        """Return the counters of the first store."""
        return self._stores[0].counters


class _StoreRun:
    """One store of a run."""

    def __init__(
        self,
        store: Store,
        directory: Path,
        upstream: Mapping[str, StorePlans],
        plans: StorePlans | None = None,
    ) -> None:
        self.store = store
        self._directory = directory
        reasons = dict.fromkeys(store.sources, SourceReasons.FOR_ALL)
        steps = partial(steps_for, store=store.name)
        self.plans = plans or StorePlans(store, steps, reasons, upstream)
        if plans is None:
            self.plans.select_columns(KEY_GROUPS)
        self._content = StoreRows()
        self._previous: PreparedBatch | None = None
        self.written: list[Written] = []
        self.written_sources: list[str] = []
        self._batch = 0
        self._final_rows = 0

    def take(
        self, read: Mapping[Source, Sequence[pa.Table]], ends: Offsets, tasks: int
    ) -> pa.Table:
        """Process a batch. Return its final rows as records for downstream stores."""
        of_unit = _SinkFiles if is_sink_name(self.store.name) else _CollectingFiles
        files = of_unit(
            self._directory / "table",
            self._directory / "state",
            self._directory / "dead",
            sync=False,
        )
        plan, joins = self.plans.plan(self._batch, files, tasks, self._previous, ends)
        runner = LocalRunner({source: read[source] for source in self.store.sources})
        reports = run_stages(runner, [StoreWork(self.plans, plan, joins)])
        prepared = prepared_batch(plan, joins, reports[self.store.name], self._previous, ends)
        self._previous = PreparedBatch.from_json(prepared.to_json())
        self._batch += 1
        if not isinstance(files, _CollectingFiles):
            self._note_written(self._previous)
            return final_records([], self.plans.columns, 0)
        self._content.apply(row for table in files.changes for row in table.to_pylist())
        final_rows = final_records(files.changes, self.plans.columns, self._final_rows)
        self._final_rows += len(final_rows)
        return final_rows

    def _note_written(self, batch: PreparedBatch) -> None:
        # A batch without a record has no task, and keeps the files of the previous batch.
        segments = batch.segments if batch.changed else {}
        for name in (name for names in segments.values() for name in names):
            records = open_segment(self._directory / "state", name)
            self.written_sources += record_sources(records, input_sources(self.plans)).to_pylist()
            for row in records.to_pylist():
                columns = self.plans.inputs[0].stream.columns
                value = None if row["null_value"] else {name: row[name] for name in columns}
                self.written.append(Written.of(row["key"], row["timestamp_ms"], value))

    @property
    def counters(self) -> Mapping[str, int]:
        """Return the counters so far."""
        assert self._previous is not None
        return self._previous.record.counters

    @property
    def rows(self) -> Rows:
        """Return the rows of the store."""
        is_plain = self.store.windows.kind == "none"
        rows: Rows = {}
        for key in self._content.sorted_keys():
            for row in self._content.of_key(key):
                bounds = (0, 0) if is_plain else (row.window_start_ms, row.window_end_ms)
                value = {n: v for n, v in row.value.items() if n not in FIXED_COLUMNS}
                rows[Place(key, *bounds)] = (row.timestamp_ms, normalized(value))
        return rows
