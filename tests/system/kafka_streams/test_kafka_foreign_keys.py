"""Foreign-key joins: Oriel's rows equal those of the real Kafka Streams 4.3.1."""

from collections.abc import Sequence
from random import Random

import pytest

from tests.windows.kafka_peer import KafkaPeer, some_logs
from tests.windows.topologies.comparison import kafka_result
from tests.windows.topologies.operations import Node, topology_of
from tests.windows.topologies.random_logs import Entry
from tests.windows.topologies.random_trees import Case
from tests.windows.topologies.runs import Rows, driver_rows, stages_rows

FIRST_SEED = 9_800_000
KEYS, NAMED = ("a", "b", "c", "d"), ("x", "y", "z", "a")


def tree(how: str) -> Node:
    """Return a tree with a table whose column ``s`` references rows of another table."""
    columns = {"w": ["column", "v"], "r": ["column", "s"]}
    right = {"op": "map_values", "columns": columns, "input": {"op": "table", "topic": "right"}}
    left = {"op": "table", "topic": "left"}
    joined = {
        "op": "join_by_foreign_key", "how": how, "key": ["column", "s"],
        "left": left, "right": right,
    }  # fmt: skip
    return {"op": "materialize", "input": joined}


def random_log(random: Random) -> list[Entry]:
    """Return rows with and without references, tombstones, and random disorder."""
    spread, deletions = random.choice((0, 0, 3, 20)), random.choice((0.0, 0.2, 0.4))
    log: list[Entry] = []
    for place in range(random.choice((2, 8, 20, 50))):
        topic = random.choice(("left", "right"))
        named = random.choice((None, "none", *NAMED)) if topic == "left" else f"row {place}"
        value = None if random.random() < deletions else {"v": place + 1, "s": named}
        time = max(0, place + random.randint(-spread, spread))
        log.append((topic, random.choice(KEYS if topic == "left" else NAMED), value, time))
    return log


def case_of(how: str, log: Sequence[Entry], seed: int = 0) -> Case:
    """Return a case with a log for the join."""
    return Case(seed, tree(how), list(log), is_interleaving_free=True)


def kafkas_times(log: Sequence[Entry]) -> dict[str, int]:
    """Return the time that Kafka assigns to each left key's row, from its join rules.

    A left record assigns the greater of its time and the matching right row's time. A right record
    assigns its own time.
    """
    left: dict[str, tuple[str | None, int]] = {}
    right: dict[str, int] = {}
    times: dict[str, int] = {}
    for topic, key, value, time in log:
        assert key is not None
        if topic == "right":
            right.pop(key, None)
            if value is not None:
                right[key] = time
            times |= {one: time for one, (named, _) in left.items() if named == key}
        elif value is not None:
            left[key] = (value["s"], time)
            times[key] = max(time, right.get(value["s"], -1))
        else:
            left.pop(key, None)
    return times


def check(peer: KafkaPeer, case: Case) -> None:
    """Check that Kafka, the driver and the stages return equal rows.

    Times are equal for logs in order without tombstones.
    """
    ours = driver_rows(topology_of(case.tree), case)
    if case.seed % 4 == 0:
        # The stages are slower than the rest of the test.
        assert stages_rows(topology_of(case.tree), case) == ours, f"seed {case.seed}"
    kafkas = kafka_result(peer, case).rows
    values, kafkas_values = (
        {place: value for place, (_, value) in rows.items()} for rows in (ours, kafkas)
    )
    assert values == kafkas_values, f"seed {case.seed}"
    expected = kafkas_times(case.log)
    assert _times(kafkas) == {key: expected[key] for key in _times(kafkas)}, f"seed {case.seed}"
    times = [time for _, _, _, time in case.log]
    deletes = any(topic == "right" and value is None for topic, _, value, _ in case.log)
    if times == sorted(times) and not deletes:
        assert ours == kafkas, f"seed {case.seed}"
    earlier = {key: time for key, time in _times(ours).items() if time < _times(kafkas)[key]}
    assert earlier == {}, f"seed {case.seed}: {kafkas}"


def _times(rows: Rows) -> dict[str, int]:
    return {place.key: time for place, (time, _) in rows.items()}


@pytest.mark.kafka
@pytest.mark.parametrize("how", ["inner", "left"])
@some_logs
def test_joins_by_a_foreign_key_equal_kafka_streams(peer: KafkaPeer, number: int, how: str) -> None:
    """Rows are equal in any batching, and times unless a right row is deleted or out of order."""
    for seed in range(FIRST_SEED, FIRST_SEED + number // 2):
        check(peer, case_of(how, random_log(Random(seed)), seed))


def left(key: str, named: str | None, time: int) -> Entry:
    """Return a left row."""
    return ("left", key, {"v": time, "s": named}, time)


def right(key: str, text: str | None, time: int) -> Entry:
    """Return a right row, or its tombstone."""
    return ("right", key, None if text is None else {"v": time, "s": text}, time)


#: Records in order, and the row after each one, for an inner join and for a left join. The cases
#: are those of KIP-213.
WALKTHROUGH: list[tuple[Entry, str | None, str | None]] = [
    (left("k", "1", 1), None, "1-"),
    (left("k", "2", 2), None, "2-"),
    (left("k", "3", 3), None, "3-"),
    (right("1", "foo", 4), None, "3-"),
    (right("3", "bar", 5), "3-bar", "3-bar"),
    (left("k", "1", 6), "1-foo", "1-foo"),
    (right("3", "baz", 7), "1-foo", "1-foo"),
    (right("1", None, 8), None, "1-"),
    (right("1", "new", 9), "1-new", "1-new"),
    (left("k", None, 10), None, "-"),
    (left("k", "3", 11), "3-baz", "3-baz"),
    (("left", "k", None, 12), None, None),
    (("left", "k", None, 13), None, None),
    (right("3", "late", 14), None, None),
    (left("k", "3", 15), "3-late", "3-late"),
]


@pytest.mark.kafka
@pytest.mark.parametrize("how", ["inner", "left"])
def test_each_step_of_a_rows_life(peer: KafkaPeer, how: str) -> None:
    """A row references different keys, before and after their rows exist, as in Kafka."""
    for number, (_, inner, outer) in enumerate(WALKTHROUGH, start=1):
        case = case_of(how, [entry for entry, _, _ in WALKTHROUGH[:number]])
        expected = inner if how == "inner" else outer
        for rows in (driver_rows(topology_of(case.tree), case), kafka_result(peer, case).rows):
            texts = [f"{value.get('s', '')}-{value.get('r', '')}" for _, value in rows.values()]
            assert texts == ([] if expected is None else [expected]), number
