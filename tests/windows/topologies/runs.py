"""A tree's rows as our language computes them: by the test driver, and by the pipeline's stages."""

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
from oriel.pipeline.language import arrow_schema
from oriel.pipeline.plan import BatchPlan, PreparedBatch, StorePlans
from oriel.pipeline.tasks import FolderFiles, LocalRunner, StoreWork, run_stages
from oriel.pipeline.testing.records import decoded
from oriel.pipeline.testing.rows import FIXED_COLUMNS, StoreRows
from oriel.pipeline.testing.steps import steps_for
from oriel.storage import Offsets
from oriel.storage.delta import AddedFile
from oriel.testing import KeyValue, Record, TopologyTestDriver, WindowedValue
from tests.windows.topologies.operations import STORE
from tests.windows.topologies.random_trees import Case, Entry

KEY_GROUPS = 8
TASKS = 3


class Place(NamedTuple):
    """Where a row stands in a store; without windows both ends are 0."""

    key: str
    start: int
    end: int


#: Time and value of each row. Columns that are null, 0 records and empty lists are left out,
#: as an aggregate of ours has them where the peer's has no column.
Rows = dict[Place, tuple[int, dict[str, Any]]]


def told(value: Mapping[str, Any]) -> dict[str, Any]:
    """A row's columns without those that say nothing, lists in order."""
    return {
        name: sorted(item) if isinstance(item, list) else item
        for name, item in value.items()
        if item is not None and item != [] and not (item == 0 and name.startswith("n"))
    }


def driver_rows(topology: Topology, case: Case) -> Rows:
    """By the test driver, which is given the log as it is, a batch each time the topic changes."""
    driver = TopologyTestDriver(topology)
    for topic in case.topics:
        driver.pipe_input(topic, [])
    driver.pipe_inputs([(topic, record_of(entry)) for topic, *entry in case.log])
    content: Sequence[WindowedValue | KeyValue]
    kind = topology.stores[0].windows.kind
    if kind == "none":
        content = driver.key_value_store(STORE).all()
    elif kind == "session":
        content = driver.session_store(STORE).all()
    else:
        content = driver.window_store(STORE).all()
    return {_place(row): (row.timestamp_ms, told(row.value)) for row in content}


def record_of(entry: Sequence[Any]) -> Record:
    """A record of a log, without its topic."""
    key, value, time = entry
    return Record(key, value, time)


def stages_rows(topology: Topology, case: Case) -> Rows:
    """By the pipeline's stages and several tasks with state in files, from random batches.

    Where interleaving makes no difference, batches have records of several topics, and each topic
    goes at its own pace.
    """
    with tempfile.TemporaryDirectory(prefix="topologies-") as folder:
        run = StagesRun(topology, Path(folder))
        for batch in _batches(case, Random(case.seed + case.number)):
            run.take({topic: {0: records} for topic, records in batch.items()})
        return run.rows


def _place(row: WindowedValue | KeyValue) -> Place:
    if isinstance(row, KeyValue):
        return Place(row.key, 0, 0)
    return Place(row.key, row.window_start_ms, row.window_end_ms)


def _batches(case: Case, random: Random) -> list[dict[str, list[Record]]]:
    logs = {topic: [r for r in case.log if r[0] == topic] for topic in case.topics}
    batches: list[dict[str, list[Record]]] = [{topic: [] for topic in case.topics}]
    if not case.is_interleaving_free:
        for entry in case.log:
            if entry[0] not in batches[-1] or len(batches) == 1 or random.random() < 0.3:
                batches.append({entry[0]: []})
            batches[-1][entry[0]].append(_record(entry))
        return batches
    while any(logs.values()):
        batch = {}
        for topic, log in logs.items():
            number = random.choice((0, 1, 4, 50))
            batch[topic] = [_record(entry) for entry in log[:number]]
            logs[topic] = log[number:]
        batches.append(batch)
    return batches


def _record(entry: Entry) -> Record:
    return record_of(entry[1:])


@dataclass(frozen=True)
class _NotingFiles(FolderFiles):
    """Files of states only: changed rows are noted."""

    changes: list[dict[str, Any]] = field(default_factory=list)

    def write_changes(self, _plan: BatchPlan, _task: int, changes: pa.Table) -> list[AddedFile]:
        """Note them."""
        self.changes.extend(changes.to_pylist())
        return []

    def write_dead_letters(self, _plan: BatchPlan, _letters: Sequence[pa.Table]) -> list[AddedFile]:
        """Dead letters are not looked at here."""
        return []


class StagesRun:
    """A topology's store, batch by batch, each as if the process began anew."""

    def __init__(self, topology: Topology, folder: Path) -> None:
        """Plan the store; states are below ``folder``."""
        (self._store,) = topology.stores
        (folder / "state").mkdir()
        self._folder = folder
        reasons = dict.fromkeys(self._store.sources, SourceReasons.FOR_ALL)
        steps = partial(steps_for, store=self._store.name)
        self._plans = StorePlans(self._store, steps, reasons)
        self._plans.select_columns(KEY_GROUPS)
        self._content = StoreRows()
        self._previous: PreparedBatch | None = None
        self._offsets: dict[str, dict[int, int]] = {topic: {0: 0} for topic in self._store.topics}
        self._batch = 0

    def take(self, batch: Mapping[str, Mapping[int, Sequence[Record]]], tasks: int = TASKS) -> None:
        """Let one batch take effect: records by topic and partition."""
        read = {}
        for source in self._store.sources:
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
        files = _NotingFiles(
            self._folder / "table", self._folder / "state", self._folder / "dead", sync=False
        )
        plan, joins = self._plans.plan(self._batch, files, tasks, self._previous, ends)
        reports = run_stages(LocalRunner(read), [StoreWork(self._plans, plan, joins)])
        prepared = prepared_batch(plan, joins, reports[self._store.name], self._previous, ends)
        self._previous = PreparedBatch.from_json(prepared.to_json())
        self._batch += 1
        self._content.apply(files.changes)

    @property
    def rows(self) -> Rows:
        """What the store holds now."""
        is_plain = self._store.windows.kind == "none"
        rows: Rows = {}
        for key in self._content.sorted_keys():
            for row in self._content.of_key(key):
                bounds = (0, 0) if is_plain else (row.window_start_ms, row.window_end_ms)
                value = {n: v for n, v in row.value.items() if n not in FIXED_COLUMNS}
                rows[Place(key, *bounds)] = (row.timestamp_ms, told(value))
        return rows
