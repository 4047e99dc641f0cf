"""Versioned tables and the grace buffer before them equal their slow models under any cut.

The models process one record after the other, as Kafka Streams defines it: KIP-889 for put and get
of a store, KIP-914 for out-of-order records, KIP-923 for the buffer. They do not use the engines.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from oriel.pipeline.state import KeyedState, Layout, OpenRecords
from oriel.pipeline.windows import (
    LEFT,
    RIGHT,
    GraceBufferEngine,
    Times,
    VersionedLookupEngine,
    VersionedRecordsEngine,
)
from oriel.pipeline.windows.joins.stream_tables import StreamTableHow
from tests.campaigns import cases
from tests.models.joins import Arrived, arrivals
from tests.windows.join_batches import (
    Cut,
    Sides,
    batches,
    random_cuts,
    random_logs,
    saved_and_loaded,
    stream_times_of,
    to_table,
    whole,
)
from tests.windows.random_logs import marks_reached

LEFT_VALUES = pa.schema([("l", pa.string())])
RIGHT_VALUES = pa.schema([("r", pa.string())])
CARRIED = pa.schema([("key_group", pa.int32())])


@dataclass(frozen=True)
class Case:
    """One random case, named by its seed."""

    seed: int
    how: StreamTableHow
    history: int
    grace: int
    sides: Sides


def random_case(seed: int) -> Case:
    """Return the case of ``seed``."""
    random = Random(seed)
    how: StreamTableHow = random.choice(("inner", "left"))
    history, grace = random.choice((0, 2, 10, 40)), random.choice((0, 1, 5, 30))
    sides = (random_logs(random, "l", 0.1), random_logs(random, "r", 0.25))
    return Case(seed, how, history, grace, sides)


def cuts_of(sides: Sides, random: Random) -> list[Cut]:
    """Return random batches. The first one has a record of each partition.

    Otherwise, a partition could start after the table has dropped versions that it needs.
    """
    first: Cut = {
        (s, p): min(len(log), 1) for s, logs in enumerate(sides) for p, log in logs.items()
    }
    left, right = ({p: log[1:] for p, log in logs.items()} for logs in sides)
    return [first, *random_cuts((left, right), random)]


class Store:
    """Kafka's versioned store of one table over all partitions, with put and get."""

    def __init__(self, history: int) -> None:
        self._history = history
        self._versions: dict[str, dict[int, Arrived]] = {}

    @property
    def size(self) -> int:
        """The number of versions, including versions that ``get`` cannot find any more."""
        return sum(map(len, self._versions.values()))

    def put(self, record: Arrived) -> bool:
        """Add a record. Return False if it is older than the history of its partition."""
        if record.time < record.stream_time - self._history:
            return False
        versions = self._versions.setdefault(record.key, {})
        had = versions.get(record.time)
        # The last record of a time is its version. Between partitions, any fixed rule is fine.
        if had is None or (had.partition, had.offset) < (record.partition, record.offset):
            versions[record.time] = record
        return True

    def get(self, key: str, time: int, stream_times: Sequence[int]) -> str | None:
        """Return the value as of ``time``. None without a value, or if its history is dropped."""
        versions = self._versions.get(key, {})
        if not versions:
            return None
        newest = versions[max(versions)]
        is_elapsed = time < stream_times[newest.partition] - self._history
        if is_elapsed and newest.time > time:
            return None
        valid = [version for of, version in versions.items() if of <= time]
        return max(valid, key=lambda version: version.time).value if valid else None


def run_lookups(
    case: Case, cuts: Sequence[Cut], *, restart: bool = False, model: Case | None = None
) -> set[str]:
    """Join in batches, and compare with the model's store at the end of each batch."""
    engine = VersionedLookupEngine(
        case.how, LEFT_VALUES, RIGHT_VALUES, CARRIED, history_ms=case.history
    )
    state, store, marks = engine.empty_state(), Store((model or case).history), set[str]()
    for batch in batches(case.sides, cuts):
        sides = [
            to_table(engine.record_schema, batch.new[side], column, side=side)
            for side, column in ((LEFT, "l"), (RIGHT, "r"))
        ]
        stream_times = stream_times_of(case.sides[RIGHT], batch.so_far[RIGHT])
        result = engine.apply(state, pa.concat_tables(sides), Times.at(stream_times))
        state = saved_and_loaded(result.state) if restart else result.state
        late = sum(not store.put(record) for record in batch.new[RIGHT])
        found = [(r, store.get(r.key, r.time, stream_times)) for r in batch.new[LEFT]]
        expected = [
            (r.key, r.time, r.partition, r.offset, r.stream_time, r.value, value)
            for r, value in found
            if case.how == "left" or value is not None
        ]
        names = ("key", "timestamp_ms", "partition", "offset", "stream_time_ms", "l", "r")
        assert [tuple(row[n] for n in names) for row in result.results.to_pylist()] == expected
        assert result.late == (0, late)
        assert sum(result.filtered) == len(found) - len(expected)
        marks |= {"late for the table"} if late else set()
        for record, value in found:
            now = store.get(record.key, 10**9, stream_times)
            marks |= {"older version than the newest"} if value not in {None, now} else set()
            marks |= (
                {"no version found, although a newer one exists"}
                if value is None and now is not None
                else set()
            )
    assert len(state) <= sum(len(v) for v in store._versions.values())
    assert len(state) <= store.size
    return marks | ({"history is dropped"} if len(state) < store.size else set())


def run_records(case: Case, cuts: Sequence[Cut], *, newest_only: bool) -> list[Any]:
    """Return the changes that a versioned table emits, without late or out-of-order records."""
    engine = VersionedRecordsEngine(
        RIGHT_VALUES, CARRIED, history_ms=case.history, newest_only=newest_only
    )
    state, emitted = engine.empty_state(), []
    newest: dict[tuple[str, int], int] = {}
    for batch in batches(case.sides, cuts):
        records = to_table(engine.record_schema, batch.new[RIGHT], "r", side=LEFT)
        stream_times = stream_times_of(case.sides[RIGHT], batch.so_far[RIGHT])
        result = engine.apply(state, records, Times.at(stream_times))
        state = saved_and_loaded(result.state)
        expected = []
        for record in batch.new[RIGHT]:
            in_time = record.time + case.history >= record.stream_time
            had = newest.get((record.key, record.partition), -1)
            if in_time and (record.time >= had or not newest_only):
                expected.append((record.partition, record.offset, record.value))
            if in_time:
                newest[record.key, record.partition] = max(had, record.time)
        rows = result.results.to_pylist()
        assert [(r["partition"], r["offset"], r["r"]) for r in rows] == expected
        assert [row for row in rows if row["null_value"] != (row["r"] is None)] == []
        assert result.late == (len(batch.new[RIGHT]) - len(expected),)
        emitted += expected
    return emitted


def buffered(records: Iterable[Arrived], grace: int) -> list[Arrived]:
    """Return the records in the order in which Kafka's buffer of one partition forwards them."""
    waiting: list[Arrived] = []
    forwarded: list[Arrived] = []
    for record in records:
        if record.time < record.stream_time - grace:
            forwarded.append(record)
        else:
            waiting.append(record)
        # By time, then by offset. Kafka's buffer orders equal times by key.
        waiting.sort(key=lambda one: (one.time, one.offset))
        while waiting and waiting[0].time <= record.stream_time - grace:
            forwarded.append(waiting.pop(0))
    return forwarded


def run_buffer(
    case: Case, cuts: Sequence[Cut], directory: Path | None = None, *, model: Case | None = None
) -> None:
    """Check after each batch that the forwarded records equal Kafka's buffer, in its order.

    With ``directory``, the state is in files, and the engine reads only the rows that it needs.
    """
    engine = GraceBufferEngine(LEFT_VALUES, CARRIED, grace_ms=case.grace)
    state, files, forwarded = engine.empty_state(), {0: list[str]()}, []
    before = stream_times_of(case.sides[LEFT], {p: [] for p in case.sides[LEFT]})
    for number, batch in enumerate(batches(case.sides, cuts)):
        records = to_table(engine.record_schema, batch.new[LEFT], "l", side=LEFT)
        stream_times = stream_times_of(case.sides[LEFT], batch.so_far[LEFT])
        if directory is None:
            result = engine.apply(state, records, Times.at(stream_times))
            state = saved_and_loaded(result.state)
        else:
            kept = OpenRecords.of_task(directory, files, (0, 1), engine.record_schema, marks=False)
            concerned = engine.concerned(
                kept.records, kept.matched, records, (before, stream_times)
            )
            rows = np.flatnonzero(concerned)
            result = engine.apply(kept.state(rows), records, Times.at(stream_times))
            assert result.stayed is not None
            stays = engine.stays(kept.records, stream_times)
            version = kept.replaced(
                rows[result.stayed], result.state, stays, f"{number}", sync=False
            )
            files = {0: version.names}
        before = stream_times
        forwarded += result.results.to_pylist()
        for partition in case.sides[LEFT]:
            arrived = [r for r in arrivals(batch.so_far[LEFT]) if r.partition == partition]
            expected = [
                (r.offset, r.time, r.value) for r in buffered(arrived, (model or case).grace)
            ]
            of_partition = [row for row in forwarded if row["partition"] == partition]
            found = [(row["offset"], row["timestamp_ms"], row["l"]) for row in of_partition]
            assert found == expected, "records are forwarded in another order or at another time"


def check_case(seed: int) -> set[str]:
    """Compare a case with the models, in one batch and cut. Return its rare branches."""
    case, random = random_case(seed), Random(seed + 1)
    marks = run_lookups(case, whole(case.sides))
    emitted = [run_records(case, whole(case.sides), newest_only=one) for one in (False, True)]
    run_buffer(case, whole(case.sides))
    for restart in (False, True):
        cuts = cuts_of(case.sides, random)
        marks |= run_lookups(case, cuts, restart=restart)
        for newest_only in (False, True):
            again = run_records(case, cuts, newest_only=newest_only)
            assert sorted(again) == sorted(emitted[newest_only]), "another cut has other records"
        run_buffer(case, cuts)
    marks |= {"emitted only in order"} if len(emitted[True]) < len(emitted[False]) else set()
    arrived = arrivals(case.sides[LEFT])
    is_late = any(r.time < r.stream_time - case.grace for r in arrived)
    return marks | ({"late for the buffer"} if is_late else set())


ALL_MARKS = {
    "late for the table",
    "older version than the newest",
    "no version found, although a newer one exists",
    "history is dropped",
    "emitted only in order",
    "late for the buffer",
}


@pytest.mark.slow
@cases(20, 300)
def test_engines_equal_the_models_on_random_logs_under_any_cut_and_restart(number: int) -> None:
    """After each batch, results equal the models. Changes and their order do not depend on cuts."""
    assert marks_reached(range(number), check_case) == ALL_MARKS


@cases(6, 100)
def test_a_buffer_reads_only_the_records_that_it_forwards(number: int, tmp_path: Path) -> None:
    """With the state in files, the results of the buffer are unchanged."""
    for seed in range(number):
        case, directory = random_case(seed), tmp_path / str(seed)
        directory.mkdir()
        run_buffer(case, cuts_of(case.sides, Random(seed)), directory)


def run_in_files(case: Case, cuts: Sequence[Cut], directory: Path) -> int:
    """Check that results and state are unchanged if the engine reads only some buckets of files.

    Returns the number of state rows that batches did not read.
    """
    engine = VersionedLookupEngine(
        case.how, LEFT_VALUES, RIGHT_VALUES, CARRIED, history_ms=case.history
    )
    layout = Layout.of(engine)
    whole, files, unseen = engine.empty_state(), {0: list[str]()}, 0
    before = stream_times_of(case.sides[RIGHT], {p: [] for p in case.sides[RIGHT]})
    for number, batch in enumerate(batches(case.sides, cuts)):
        sides = [
            to_table(engine.record_schema, batch.new[side], column, side=side)
            for side, column in ((LEFT, "l"), (RIGHT, "r"))
        ]
        records = pa.concat_tables(sides)
        stream_times = stream_times_of(case.sides[RIGHT], batch.so_far[RIGHT])
        expected = engine.apply(whole, records, Times.at(stream_times))
        state = KeyedState.of_task(directory, files, (0, 1), layout)
        needed = engine.needed_state(state, records, Times(before, stream_times))
        result = engine.apply(needed.rows, records, Times.at(stream_times))
        assert result.results.equals(expected.results)
        assert (result.late, result.filtered) == (expected.late, expected.filtered)
        version = state.replaced(needed, result.state, f"{number}", sync=False)
        files, whole, before = {0: version.names}, expected.state, stream_times
        kept = KeyedState.of_task(directory, files, (0, 1), layout).all_rows()
        assert _rows(kept) == _rows(whole)
        assert version.rows == len(whole)
        unseen += len(whole) - len(needed.rows)
    return unseen


def _rows(state: pa.Table) -> list[tuple[Any, ...]]:
    return sorted(tuple(map(str, row.values())) for row in state.to_pylist())


@pytest.mark.slow
@cases(13, 200)
def test_a_lookup_reads_only_the_versions_that_it_can_find(number: int, tmp_path: Path) -> None:
    """With the state in files, a batch reads the newest versions and some time buckets."""
    unseen = 0
    for seed in range(number):
        case, directory = random_case(seed), tmp_path / str(seed)
        directory.mkdir()
        try:
            unseen += run_in_files(case, cuts_of(case.sides, Random(seed)), directory)
        except AssertionError as error:
            pytest.fail(f"seed {seed}: {error}")
    assert unseen > 10 * number


@pytest.mark.parametrize("run", [run_lookups, run_buffer])
def test_a_wrong_model_is_noticed(run: Callable[..., object]) -> None:
    """The comparison fails if the models have 1 ms more of history or grace."""
    for seed in range(60):
        case = random_case(seed)
        model = replace(case, history=case.history + 1, grace=case.grace + 1)
        try:
            run(case, whole(case.sides), model=model)
        except AssertionError:
            return
    pytest.fail("no case fails with a wrong model")


def test_a_hot_key_keeps_no_more_than_its_history() -> None:
    """After 50 batches of 100 records per 100 ms, the state has only the history."""
    engine = VersionedLookupEngine("inner", LEFT_VALUES, RIGHT_VALUES, CARRIED, history_ms=300)
    state = engine.empty_state()
    for batch in range(50):
        records = [
            Arrived("a", time, 0, time, str(time), time)
            for time in range(100 * batch, 100 * (batch + 1))
        ]
        rows = to_table(engine.record_schema, records, "r", side=RIGHT)
        state = engine.apply(state, rows, Times.at((records[-1].time,))).state
        assert len(state) <= 301
