"""Inputs of the test driver in one list, and its output, read row by row."""

import pytest

from oriel import IllegalArgument, InvalidTopology, SlidingWindows, StreamsBuilder, collect_list
from oriel.testing import Record, TopologyTestDriver
from tests.testing.driver_runs import driver_of, tumbling


def words(builder: StreamsBuilder) -> None:
    """Add a store of words by key, and a store of words by window."""
    grouped = builder.stream("a", "s STRING").merge(builder.stream("b", "s STRING")).group_by_key()
    grouped.aggregate(all=collect_list("s")).materialize("words")
    grouped.windowed_by(tumbling(10, 0)).aggregate(all=collect_list("s")).materialize("windows")


def word(key: str, text: str, time_ms: int) -> Record:
    """Return a record with one word."""
    return Record(key, {"s": text}, time_ms)


@pytest.mark.java
def test_a_reader_reads_each_row_once_in_the_order_of_batches() -> None:
    """A reader returns each row once, over all batches.

    Readers are independent, and rows are copies.
    """
    driver = driver_of(words)
    driver.pipe_input("a", word("k", "x", 1))
    first, second = (driver.create_output_reader("words") for _ in range(2))
    driver.pipe_input("b", [word("k", "y", 2), word("l", "z", 3)])
    assert first.queue_size == 3
    row = first.read_row()
    assert row == {"key": "k", "all": ["x"], "timestamp_ms": 1, "deleted": False}
    row["all"].append("changed")
    assert [row["all"] for row in second.read_rows()] == [["x"], ["x", "y"], ["z"]]
    assert [row["key"] for row in first.read_rows()] == ["k", "l"]
    assert first.is_empty
    assert first.read_rows() == []
    with pytest.raises(IllegalArgument, match="store 'words' has no further row"):
        first.read_row()
    driver.pipe_input("a", word("l", "v", 4))
    assert first.read_row()["all"] == ["z", "v"]
    with pytest.raises(IllegalArgument, match="store 'none' does not exist"):
        driver.create_output_reader("none")


def test_inputs_of_topics_and_partitions_come_in_the_order_of_the_list() -> None:
    """Consecutive records of one partition are one batch.

    ``read_output`` returns all batches' rows.
    """
    driver = driver_of(words)
    driver.pipe_inputs([
        ("a", word("k", "1", 1)),
        ("a", word("k", "2", 2)),
        ("b", word("k", "3", 3), 1),
        ("a", word("k", "4", 4)),
    ])  # fmt: skip
    rows = [row["all"] for row in driver.read_output("words")]
    assert rows == [["1", "2"], ["1", "2", "3"], ["1", "2", "3", "4"]]
    dead_letters = [("a", None, {"s": "x"}), ("b", None, None)]
    driver.pipe_inputs((topic, Record(key, value, 5)) for topic, key, value in dead_letters)
    assert driver.read_output("words") == []
    places = [(x["topic"], x["partition"], x["offset"]) for x in driver.dead_letters("words")]
    assert places == [("a", 0, 3), ("b", 0, 0)]


def test_nothing_of_a_list_with_a_wrong_topic_is_processed() -> None:
    """A list with a wrong topic or partition is rejected before any record is processed."""
    driver = driver_of(words)
    for wrong in (("c", word("k", "2", 2)), ("a", word("k", "2", 2), -1)):
        with pytest.raises(IllegalArgument):
            driver.pipe_inputs([("a", word("k", "1", 1)), wrong])
    assert driver.counters("words").input == 0


def test_what_was_never_written_is_not_deleted() -> None:
    """A window whose functions return null from the first record on has no row and no deletion."""

    def define(builder: StreamsBuilder) -> None:
        windows = SlidingWindows.of_time_difference_and_grace(10, 0)
        stream = builder.stream("t", "v INT").group_by_key().windowed_by(windows)
        stream.aggregate(int, lambda _, v, __: v["v"], schema="x INT").materialize("s")

    driver = driver_of(define)
    driver.pipe_input("t", Record("k", {"v": None}, 10))
    assert driver.read_output("s") == []
    driver.pipe_input("t", Record("k", {"v": 1}, 11))
    assert [(row["window_end_ms"], row["deleted"]) for row in driver.read_output("s")] == [
        (11, False),
        (21, False),
    ]


def test_all_wrong_arguments_have_one_base() -> None:
    """All errors about arguments derive from ``IllegalArgument``.

    Wrong types are also TypeErrors.
    """
    builder = StreamsBuilder()
    words(builder)
    driver = TopologyTestDriver(builder.build())
    with pytest.raises(IllegalArgument):
        builder.stream("t", "")
    with pytest.raises(IllegalArgument):
        driver.pipe_input("a", "no record")  # type: ignore[arg-type]
    with pytest.raises(IllegalArgument):
        driver.key_value_store("words").get(None)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        driver.key_value_store("words").get(None)  # type: ignore[arg-type]
    assert issubclass(InvalidTopology, IllegalArgument)


def test_the_error_for_a_wrong_type_has_field_value_and_schema() -> None:
    """The detail has field, value and schema, also if the value is not an object."""
    driver = driver_of(lambda b: b.stream("t", "v INT").group_by_key().count().materialize("s"))
    values = ["x", {"v": "y"}]
    driver.pipe_input("t", [Record("k", value, 1) for value in values])  # type: ignore[arg-type]
    assert [letter["detail"] for letter in driver.dead_letters("s")] == [
        'value: STRUCT<v: INT> expected, not "x"',
        'value.v: INT expected, not "y"',
    ]
