"""Streams that are written to topics in the test driver: which records, and in which order."""

from collections import Counter, defaultdict
from random import Random

import pytest

from oriel import IllegalArgument, JoinWindows, StreamsBuilder, Topology
from oriel.testing import Record, TopologyTestDriver
from tests.campaigns import cases

FIRST_SEED = 7_650_100


def record(time_ms: int, key: str | None = "k", **value: int) -> Record:
    """Return a record. Without columns it has a null value."""
    return Record(key, value or None, time_ms)


def copying() -> Topology:
    """Return a topology that copies a topic, without a store."""
    builder = StreamsBuilder()
    builder.stream("a", "v BIGINT").to("copied")
    return builder.build()


def test_records_are_written_as_they_are() -> None:
    """A topic receives records unchanged: late ones, null keys and values, and very long keys."""
    driver = TopologyTestDriver(copying())
    written = driver.create_output_topic("copied")
    records = [
        record(9, v=1), record(1, v=2), record(2, None, v=3), record(3), record(4, "x" * 9000, v=4),
        Record("k", {"v": None}, 5),
    ]  # fmt: skip
    driver.pipe_input("a", records)
    assert written.read_records() == records
    assert written.is_empty
    with pytest.raises(IllegalArgument, match="topic 'copied' has no further record"):
        written.read_record()
    counters = driver.counters("to(copied)")
    assert (counters.input, counters.applied) == (6, 6)


@pytest.mark.java
def test_what_can_not_be_used_is_a_dead_letter_of_the_topic() -> None:
    """Invalid records, and null keys of a table join, are dead letters and count as dropped."""
    builder = StreamsBuilder()
    stream = builder.stream("a", "v BIGINT").filter("v > 1")
    stream.join(builder.table("t", "w BIGINT")).to("joined")
    driver = TopologyTestDriver(builder.build())
    written = driver.create_output_topic("joined")
    driver.pipe_input("t", record(1, w=7))
    others = [record(4, None, v=3), record(5, "o", v=4)]
    driver.pipe_input("a", [record(2, v=1), record(3, v=2), *others])
    driver.pipe_input("a", Record("k", {"v": "text"}, 6))
    assert written.read_records() == [record(3, v=2, w=7)]
    counters = driver.counters("to(joined)")
    assert counters.input == 6 == counters.applied + counters.dropped + counters.filtered
    assert (counters.applied, counters.dropped, counters.filtered) == (2, 2, 2)
    dead_letters = [(each["store"], each["reason"]) for each in driver.dead_letters("to(joined)")]
    assert dead_letters == [("to(joined)", "null-key"), (None, "wrong-type")]
    assert (driver.dropped, driver.late) == (2, 0)


@pytest.mark.java
def test_branches_that_are_merged_again_keep_the_log_s_order() -> None:
    """Merged branches keep the order of the log, as in Kafka Streams."""
    builder = StreamsBuilder()
    stream = builder.stream("a", "v BIGINT")
    branches = stream.split().branch("v % 2 = 0", "even").default_branch("odd")
    even = branches["even"].map_values(v="v * 10")
    even.merge(branches["odd"]).merge(stream.filter("v = 3")).to("merged")
    driver = TopologyTestDriver(builder.build())
    written = driver.create_output_topic("merged")
    driver.pipe_input("a", [record(number, v=number) for number in range(1, 6)])
    values = [one.value["v"] for one in written.read_records() if one.value]
    assert values == [1, 20, 3, 3, 40, 5]


@pytest.mark.java
def test_a_stream_is_written_to_a_topic_and_a_store() -> None:
    """A topic receives the stream as it is at that step, and the stream continues to a store."""
    builder = StreamsBuilder()
    stream = builder.stream("a", "v BIGINT").to("before").map_values(v="v + 1").to("after")
    stream.group_by_key().count().materialize("counted")
    driver = TopologyTestDriver(builder.build())
    before, after = map(driver.create_output_topic, ("before", "after"))
    driver.pipe_input("a", record(1, v=1))
    assert (before.read_record(), after.read_record()) == (record(1, v=1), record(1, v=2))
    row = driver.key_value_store("counted").get("k")
    assert row is not None
    assert row.value == {"count": 1}


def test_other_topics_are_refused_with_those_that_there_are() -> None:
    """The error about an unknown output topic lists the topics and names the store reader."""
    with pytest.raises(IllegalArgument, match=r"'x'\. Output topics are: copied\. Rows of a store"):
        TopologyTestDriver(copying()).create_output_topic("x")
    with pytest.raises(IllegalArgument, match="store 'copied' does not exist"):
        TopologyTestDriver(copying()).counters("copied")


def every_kind() -> Topology:
    """Return topics of steps, flattened records, merged streams and stream joins."""
    builder = StreamsBuilder()
    arrays = builder.stream("a", "v BIGINT, both ARRAY<BIGINT>")
    a, b = arrays.map_values("v"), builder.stream("b", "v BIGINT")
    a.filter("v > 2").select_key("v % 3").to("stepped")
    # The stream has an array column, because computing an array needs one Spark job per batch.
    arrays.flat_map_values("v", e="both").to("elements")
    a.merge(b).merge(a.filter("v % 2 = 0")).to("merged")
    within = JoinWindows.of_time_difference_and_grace(5, 3)
    a.outer_join(b.map_values(w="v"), within).to("pairs")
    return builder.build()


@pytest.mark.java
@cases(1, 30)
def test_any_cut_writes_the_same_records(number: int) -> None:
    """Any batching writes the same records, and in the same order for each partition and key.

    The order of join results can differ.
    """
    topology = every_kind()
    for seed in range(FIRST_SEED, FIRST_SEED + number):
        _compare_cuts(topology, seed)


def _compare_cuts(topology: Topology, seed: int) -> None:
    random = Random(seed)
    # The value is the record's position.
    logs = {
        (topic, partition): [
            _numbered(topic, random.randrange(40), random.choice(("k", "l", None)), v)
            for v in range(100 * partition, 100 * partition + random.randrange(20))
        ]
        for topic in "ab"
        for partition in (0, 1)
    }
    first, second = (_written(topology, logs, Random(random.random())) for _ in range(2))
    for topic in ("stepped", "elements", "merged", "pairs"):
        same = Counter(map(repr, first[topic])) == Counter(map(repr, second[topic]))
        assert same, f"seed {seed}: {topic}: {first[topic]} {second[topic]}"
    for topic, column in (("stepped", "v"), ("elements", "e")):
        ways = [_by_partition(written[topic], column) for written in (first, second)]
        assert ways[0] == ways[1], f"seed {seed}: {topic}"


def _numbered(topic: str, time_ms: int, key: str | None, v: int) -> Record:
    return Record(key, {"v": v} | ({"both": [v, -v]} if topic == "a" else {}), time_ms)


def _by_partition(records: list[Record], column: str) -> dict[tuple[int, str | None], list[Record]]:
    """Return the ordered records of each partition and key."""
    found: dict[tuple[int, str | None], list[Record]] = defaultdict(list)
    for one in records:
        assert one.value is not None
        found[abs(one.value[column]) // 100, one.key].append(one)
    return found


def _written(
    topology: Topology, logs: dict[tuple[str, int], list[Record]], random: Random
) -> dict[str, list[Record]]:
    """Return the records of all topics, with random batches."""
    driver = TopologyTestDriver(topology)
    readers = {
        topic: driver.create_output_topic(topic)
        for topic in ("stepped", "elements", "merged", "pairs")
    }
    for topic, partition in logs:
        driver.pipe_input(topic, [], partition)
    left = {place: list(log) for place, log in logs.items()}
    while any(left.values()):
        place = random.choice([place for place, log in left.items() if log])
        number = random.choice((1, 2, 9))
        driver.pipe_input(place[0], left[place][:number], place[1])
        left[place] = left[place][number:]
    found: dict[str, list[Record]] = defaultdict(list)
    for topic, reader in readers.items():
        found[topic] = reader.read_records()
    return found
