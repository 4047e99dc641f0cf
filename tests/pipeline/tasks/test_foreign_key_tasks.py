"""Tables joined by a foreign key, through all stages and state files, against the slow model.

Batches have records of both topics and of several partitions. Each batch has another number of
tasks, and reads the state files of the previous batch.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest

from oriel import StreamsBuilder, TimeWindows, Topology
from oriel.pipeline.state import hashes as hashing
from oriel.pipeline.state import sorted_runs as state_runs
from oriel.testing import Record
from tests.campaigns import cases
from tests.models.foreign_keys import Row, Updates, foreign_key_of, joined_by_foreign_key
from tests.models.joins import Logs, counting, newest
from tests.pipeline.tasks.test_update_order import no_merger
from tests.windows.join_batches import batches, random_cuts, whole
from tests.windows.topologies.runs import StagesRun, Written

pytestmark = pytest.mark.slow

CASES = 8
LEFT_KEYS, RIGHT_KEYS = ("a", "b", "c", "ä/ \0"), ("x", "y", "a")


def topology_of(how: str) -> Topology:
    """Return orders, joined with the row that they reference."""
    builder = StreamsBuilder()
    left = builder.table("left", "l STRING, f STRING")
    right = builder.table("right", "r STRING")
    step = left.join if how == "inner" else left.left_join
    step(right, foreign_key="f").materialize("store")
    return builder.build()


def random_sides(random: Random) -> tuple[Logs, Logs]:
    """Return few keys, disorder, deletions, rows without a reference, up to three partitions."""
    spread = random.choice((0, 3, 20))
    return (
        _logs(random, LEFT_KEYS, spread, lambda: random.choice(("", *RIGHT_KEYS, "none"))),
        _logs(random, RIGHT_KEYS, spread, None),
    )


def _logs(random: Random, keys: Sequence[str], spread: int, names: Any) -> Logs:
    logs = {}
    for partition in range(random.choice((1, 1, 2, 3))):
        log = []
        for place in range(random.choice((0, 3, 10, 30))):
            name = f"{partition}.{place}" + (f">{names()}" if names else "")
            value = None if random.random() < 0.2 else name
            log.append(
                (random.choice(keys), max(0, place + random.randint(-spread, spread)), value)
            )
        logs[partition] = log
    return logs


def record_of(side: int, key: str, time: int, value: str | None) -> Record:
    """Return a record of the model as a record of a topic."""
    if value is None:
        return Record(key, None, time)
    if side:
        return Record(key, {"r": value}, time)
    return Record(key, {"l": value, "f": foreign_key_of(value)}, time)


def rows_of(run: StagesRun) -> dict[str, Row]:
    """Return the rows of the store, as the model has them."""
    return {
        place.key: (value["l"], value.get("r"), time) for place, (time, value) in run.rows.items()
    }


def check(directory: Path, seed: int, how: str, *, is_whole: bool = False) -> dict[str, Row]:
    """Compare the rows with the model after each batch, and return the last rows."""
    random = Random(seed)
    sides = random_sides(random)
    run = StagesRun(topology_of(how), directory)
    rows: dict[str, Row] = {}
    position: dict[tuple[int, int], int] = {}
    for batch in batches(sides, whole(sides) if is_whole else random_cuts(sides, random)):
        taken: dict[str, Mapping[int, Sequence[Record]]] = {}
        for side, topic in enumerate(("left", "right")):
            by_partition = {}
            for partition, log in batch.so_far[side].items():
                begin = position.get((side, partition), 0)
                by_partition[partition] = [record_of(side, *one) for one in log[begin:]]
                position[side, partition] = len(log)
            taken[topic] = by_partition
        run.take(taken, tasks=random.choice((1, 2, 3)))
        left, right = batch.so_far
        rows = joined_by_foreign_key(left, right, how)
        assert rows_of(run) == rows, f"seed {seed}"
    return rows


@pytest.mark.parametrize("how", ["inner", "left"])
@cases(CASES, 1500)
def test_rows_equal_the_model_after_each_batch(tmp_path: Path, how: str, number: int) -> None:
    """The rows are equal for any cuts and tasks, also if a key is in several partitions."""
    for seed in range(number):
        for is_whole in (False, True) if number > CASES or seed < 2 else (False,):
            directory = tmp_path / f"{seed}-{is_whole}"
            directory.mkdir()
            check(directory, seed, how, is_whole=is_whole)


def update_topology(how: str) -> Topology:
    """Write the updates to a topic, and aggregate all updates to one string in apply order."""
    builder = StreamsBuilder()
    left = builder.table("left", "l STRING, f STRING")
    right = builder.table("right", "r STRING")
    updates = (left.join if how == "inner" else left.left_join)(right, foreign_key="f").to_stream()
    updates.to("out")
    windowed = (
        updates.select_key("'all'")
        .group_by_key()
        .windowed_by(TimeWindows.of_size_and_grace(10**6, 10**6))
    )
    windowed.aggregate(str, _concatenated, no_merger, "text STRING").materialize("store")
    return builder.build()


def _concatenated(_key: str, row: dict[str, Any] | None, text: str) -> str:
    return text + (";-" if row is None else f";{row['l']},{row['r']}")


@pytest.mark.slow
@pytest.mark.parametrize("how", ["inner", "left"])
@cases(2, 1000)
def test_updates_are_emitted_in_apply_order(tmp_path: Path, how: str, number: int) -> None:
    """A topic has each key's updates in apply order, and a function receives all in this order."""
    compared = 0
    for seed in range(number):
        random = Random(seed)
        sides = random_sides(random)
        run, model, updates = (
            StagesRun(update_topology(how), tmp_path / str(seed)),
            Updates(how),
            [],
        )
        for batch in batches(sides, random_cuts(sides, random)):
            taken: dict[str, dict[int, list[Record]]] = {}
            for side, topic in enumerate(("left", "right")):
                of_topic = taken.setdefault(topic, {partition: [] for partition in sides[side]})
                for one in batch.new[side]:
                    record = record_of(side, one.key, one.time, one.value)
                    of_topic[one.partition].append(record)
            run.take(taken, tasks=random.choice((1, 2, 3)))
            updates += model.process([(s, one) for s, new in enumerate(batch.new) for one in new])
        values = [
            None if one.left is None
            else {"l": one.left, "f": foreign_key_of(one.left), "r": one.right}
            for one in updates
        ]  # fmt: skip
        expected = [Written.of(o.key, o.time, v) for o, v in zip(updates, values, strict=True)]
        for key in LEFT_KEYS:
            of_key = [one for one in run.written if one.key == key]
            assert of_key == [one for one in expected if one.key == key], f"seed {seed}"
        text = "".join(";-" if v is None else f";{v['l']},{v['r']}" for v in values)
        found = [value["text"] for _, value in run.rows.values()]
        assert found == ([text] if updates else []), f"seed {seed}"
        compared += len(updates)
    assert compared > 10 * number


def test_random_logs_reach_the_rare_branches() -> None:
    """The comparison proves little if random logs do not reach these branches."""
    reached = set()
    for seed in range(CASES):
        left, right = random_sides(Random(seed))
        for key, record in counting(left).items():
            others = [one for one in newest(left).values() if one.key == key and one != record]
            named = record.value and foreign_key_of(record.value)
            found = counting(right).get(named or "")
            reached |= {
                mark
                for mark, seen in {
                    "several partitions": others,
                    "deleted": record.value is None,
                    "names nothing": record.value is not None and named is None,
                    "names what never was": named and found is None,
                    "names what is deleted": found is not None and found.value is None,
                    "a right row is newer": found is not None and found.time > record.time,
                    "a right row is older": found is not None and found.time < record.time,
                }.items()
                if seen
            }
    assert len(reached) == 7


@pytest.mark.slow
@cases(1, 100)
def test_hashes_that_collide_and_merges_in_slices_cost_no_row(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, number: int
) -> None:
    """Rows of keys and subscribers that share a hash are read and written together."""
    of_keys = hashing.key_hashes
    monkeypatch.setattr(hashing, "key_hashes", lambda keys: of_keys(keys) % 3 * (2**33 + 1))
    monkeypatch.setattr(state_runs, "SLICE_ROWS", 4)
    for seed in range(number):
        (tmp_path / str(seed)).mkdir()
        check(tmp_path / str(seed), seed, "left")


def test_a_wrong_model_is_noticed(tmp_path: Path) -> None:
    """Without the last records of the right table, some case differs from the model."""
    for seed in range(20):
        (tmp_path / str(seed)).mkdir()
        rows = check(tmp_path / str(seed), seed, "inner", is_whole=True)
        left, right = random_sides(Random(seed))
        wrong = {partition: log[:-1] for partition, log in right.items()}
        if rows != joined_by_foreign_key(left, wrong, "inner"):
            return
    pytest.fail("twenty cases did not notice a wrong right table")
