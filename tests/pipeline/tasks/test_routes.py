"""Routes: with any carrier of envelopes, stores receive what the local runner passes to them."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from oriel import JoinWindows, SlidingWindows, StreamsBuilder, TimeWindows, Topology, count, sum
from oriel.pipeline.arrow_steps import ArrowSteps, selecting_steps
from oriel.pipeline.commit import prepared_batch
from oriel.pipeline.decoding import BlockDecoder, event_log_decoder
from oriel.pipeline.language import Source
from oriel.pipeline.lowered import AggregatedRows, Input, lower
from oriel.pipeline.plan import StorePlans, reasons_by_store
from oriel.pipeline.tasks import (
    ENVELOPE_SCHEMA,
    LocalRunner,
    Reports,
    RouteRunner,
    StoreWork,
    exchange,
    level_task,
    run_stages,
    source_task,
)
from tests.campaigns import seeds
from tests.pipeline.tasks.task_runs import directory_files, written_dead_letters, written_rows

RAW = pa.schema([("partition", pa.int32()), ("offset", pa.int64()), ("raw", pa.binary())])
#: Topic -> partition -> lines.
Lines = Mapping[str, Sequence[Sequence[bytes]]]


class InProcess(RouteRunner):
    """Carries envelopes from task to task as Spark's shuffle does, in any order."""

    def __init__(
        self, lines: Lines, decoders: Mapping[Source, BlockDecoder], random: Random
    ) -> None:
        """Read `lines`. `random` shuffles what can be in any order."""
        super().__init__()
        self._lines = lines
        self._decoders = decoders
        self._random = random
        self._tasks = 1
        #: The number of lines that tasks have received.
        self.reads = 0

    def by_task(self, rows: Any, tasks: int, *, together: bool = False) -> Any:
        self._tasks = max(self._tasks, tasks)
        return super().by_task(rows, tasks, together=together)

    def envelopes(self) -> pa.Table:
        feeding = source_task(self._opened, self._decoders, self.routes_from(0))
        sent = [batch for part in self._partitions() for batch in feeding(iter(part))]
        level = 1
        while routes := self.routes_from(level):
            rows = pa.Table.from_batches(sent, ENVELOPE_SCHEMA)
            rows = rows.take(pa.array(self._random.sample(range(len(rows)), len(rows)), pa.int64()))
            shares = [rows.filter(pc.equal(rows["task"], task)) for task in range(self._tasks)]
            sent = [
                batch for share in shares for batch in level_task(routes)(iter(share.to_batches()))
            ]
            level += 1
        return pa.Table.from_batches(sent, ENVELOPE_SCHEMA)

    def _partitions(self) -> Iterator[list[pa.RecordBatch]]:
        """Yield the input of each task: a partition of a topic."""
        for topic, partitions in self._lines.items():
            for number in range(len(partitions)):
                yield [pa.record_batch({"topic": [topic], "partition": [number]})]

    def _opened(self, batches: Any) -> Iterator[tuple[str, pa.RecordBatch]]:
        for batch in batches:
            topic, number = batch["topic"][0].as_py(), batch["partition"][0].as_py()
            lines = self._lines[topic][number]
            self.reads += len(lines)
            # Two blocks, because a partition can be larger than a block.
            for low, high in ((0, len(lines) // 2), (len(lines) // 2, len(lines))):
                yield topic, raw_rows(number, lines, low, high)


def raw_rows(partition: int, lines: Sequence[bytes], low: int, high: int) -> pa.RecordBatch:
    """Return some lines of a partition as the event log returns them. Offsets count lines."""
    columns = [[partition] * (high - low), list(range(low, high)), list(lines[low:high])]
    return pa.RecordBatch.from_arrays(
        [pa.array(column, field.type) for column, field in zip(columns, RAW, strict=True)],
        schema=RAW,
    )


def several_stores() -> Topology:
    """Return two stores of one topic, a stream join, and a table join next to a plain stream."""
    builder = StreamsBuilder()
    orders, paid = builder.stream("orders", "v BIGINT"), builder.stream("paid", "w BIGINT")
    names = builder.table("names", "name STRING")
    sliding = SlidingWindows.of_time_difference_and_grace(5, 10)
    tumbling = TimeWindows.of_size_and_grace(4, 9)
    orders.group_by_key().windowed_by(sliding).aggregate(n=count(), v=sum("v")).materialize("a")
    orders.group_by_key().windowed_by(tumbling).aggregate(n=count()).materialize("b")
    within = JoinWindows.of_time_difference_and_grace(3, 6)
    joined = orders.outer_join(paid, within).group_by_key()
    joined.windowed_by(tumbling).aggregate(v=sum("v"), w=sum("w")).materialize("c")
    looked_up = orders.left_join(names).group_by_key().cogroup(n=count(), v=sum("v"))
    both = looked_up.cogroup(paid.group_by_key(), m=count()).windowed_by(tumbling)
    both.aggregate().materialize("d")
    return builder.build()


def random_lines(random: Random) -> Lines:
    """Return two partitions of each topic, with some invalid lines."""

    def lines(field: str, length: int) -> list[bytes]:
        values = [
            {"key": random.choice("abcd"), "value": {field: n}, "timestamp_ms": n // 2 + late}
            for n, late in ((n, random.choice([0, 0, 0, -9])) for n in range(20, 20 + length))
        ]
        return [orjson.dumps(value) if random.random() > 0.1 else b"rubbish" for value in values]

    return {
        topic: [lines(field, random.randrange(40)) for _ in range(2)]
        for topic, field in (("orders", "v"), ("paid", "w"), ("names", "name2"))
    }


def works(directory: Path, topology: Topology, lines: Lines, tasks: int) -> list[StoreWork]:
    """Return the first batch of each store."""
    ends = {t: {str(p): len(rows) for p, rows in enumerate(of)} for t, of in lines.items()}
    lowered = lower(topology)
    reasons = reasons_by_store(lowered)

    def steps_of(origin: Input | AggregatedRows, read: Source | pa.Schema) -> ArrowSteps:
        steps = selecting_steps(origin, read)
        assert steps is not None
        return steps

    stores = []
    for store in lowered.stores:
        plans = StorePlans(store, steps_of, reasons[store.name])
        plans.select_columns(key_groups=8)
        (directory / store.name).mkdir(parents=True)
        for name in ("table", "state", "dead"):
            (directory / store.name / name).mkdir()
        plan, joins = plans.plan(0, directory_files(directory / store.name), tasks, None, ends)
        stores.append(StoreWork(plans, plan, joins))
    return stores


def outcome(
    stores: Sequence[StoreWork], reports: Mapping[str, Reports], lines: Lines
) -> dict[str, Any]:
    """Return sorted rows, counters, stream times and sorted dead letters of each store."""
    made = {}
    for work in stores:
        of_store = reports[work.plan.store]
        prepared = prepared_batch(work.plan, work.joins, of_store, None, {})
        dead_letters = written_dead_letters(work.plan, [*of_store.streams, *of_store.stores])
        made[work.plan.store] = (
            sorted(map(str, written_rows(work.plan, of_store))),
            prepared.record.counters,
            prepared.record.stream_time_ms,
            sorted(map(str, dead_letters)),
        )
    assert lines
    return made


@pytest.mark.slow
@seeds(1, 24)
@pytest.mark.parametrize("tasks", [1, 3])
def test_envelopes_carry_what_the_local_runner_hands_over(
    tmp_path: Path, seed: int, tasks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows, counters, stream times and dead letters are equal. Each line is read once."""
    random = Random(seed)
    if seed % 2:
        # Several envelopes from one task to another.
        monkeypatch.setattr(exchange, "_ENVELOPE_BYTES", 200)
    topology, lines = several_stores(), random_lines(random)
    decoders = {}
    for source in topology.sources:
        decoder = event_log_decoder(source.schema)
        assert decoder is not None
        decoders[source] = decoder

    local = works(tmp_path / "local", topology, lines, tasks)
    decoded = {
        source: [
            decoders[source].decode(raw_rows(number, rows, 0, len(rows)))
            for number, rows in enumerate(lines[source.topic])
            if rows
        ]
        for source in topology.sources
    }
    expected = outcome(local, run_stages(LocalRunner(decoded), local), lines)

    routed = works(tmp_path / "routed", topology, lines, tasks)
    runner = InProcess(lines, decoders, random)
    assert outcome(routed, run_stages(runner, routed), lines) == expected
    assert runner.reads == len([line for of in lines.values() for rows in of for line in rows])
    assert [rows for rows, *_ in expected.values() if rows], f"no store has rows: {expected}"


def test_a_batch_without_rows_has_no_tasks(tmp_path: Path) -> None:
    """Nothing is read, so no task reports, and the stores stay unchanged."""
    topology = several_stores()
    lines: Lines = {topic: [] for topic in topology.topics}
    stores = works(tmp_path, topology, lines, 2)
    reports = run_stages(InProcess(lines, {}, Random(0)), stores)
    assert reports == {store.name: Reports() for store in topology.stores}
