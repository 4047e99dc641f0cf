"""The store that reports records which are invalid for every reader."""

from oriel import StreamsBuilder
from oriel.pipeline.dead_letters import SourceReasons
from oriel.pipeline.lowered import lower
from oriel.pipeline.plan import reasons_by_store
from oriel.testing import Record, TopologyTestDriver


def test_the_first_store_of_a_topic_reports_for_all() -> None:
    """A broken line is one dead letter, although several stores read the topic."""
    builder = StreamsBuilder()
    for name in ("one", "two"):
        builder.stream("t", "v INT").group_by_key().count().materialize(name)
    builder.stream("other", "v INT").group_by_key().count().materialize("three")
    by_store = reasons_by_store(lower(builder.build()))
    assert {name: list(reasons.values()) for name, reasons in by_store.items()} == {
        "one": [SourceReasons.FOR_ALL],
        "two": [SourceReasons.NOT_REPORTED],
        "three": [SourceReasons.FOR_ALL],
    }


def test_with_several_schemas_each_store_reports_for_itself() -> None:
    """A record of a wrong type for one schema can be valid for another schema."""
    builder = StreamsBuilder()
    for name, kind in (("one", "INT"), ("two", "STRING"), ("three", "INT")):
        builder.stream("t", f"v {kind}").group_by_key().count().materialize(name)
    assert {
        tuple(reasons.values()) for reasons in reasons_by_store(lower(builder.build())).values()
    } == {(SourceReasons.FOR_ITSELF,)}


def test_every_reading_of_a_topic_reports_what_is_bad_for_it() -> None:
    """A store that reads a topic with two schemas reports the invalid records of both."""
    builder = StreamsBuilder()
    numbers = builder.stream("t", "v INT").group_by_key()
    flags = builder.stream("t", "v BOOLEAN").group_by_key()

    def add(_: str, __: object, old: int) -> int:
        return old + 1

    together = numbers.cogroup(add).cogroup(flags, add)
    together.aggregate(lambda: 0, lambda _, a, b: a + b, schema="n INT").materialize("s")
    driver = TopologyTestDriver(builder.build())
    values = (1, True, "x", None)
    driver.pipe_input("t", [Record("k", {"v": value}, 1) for value in values])
    dead_letters = [(letter["offset"], letter["reason"]) for letter in driver.dead_letters("s")]
    assert sorted(dead_letters) == [(0, "wrong-type"), (1, "wrong-type"), (2, "wrong-type"),
                            (2, "wrong-type")]  # fmt: skip


def test_a_second_reading_with_the_same_schema_reports_nothing_new() -> None:
    """The second input would report the same invalid records again."""
    builder = StreamsBuilder()
    one, other = (builder.stream("t", "v INT").group_by_key() for _ in range(2))

    def add(_: str, __: object, old: int) -> int:
        return old + 1

    together = one.cogroup(add).cogroup(other, add)
    together.aggregate(lambda: 0, lambda _, a, b: a + b, schema="n INT").materialize("s")
    driver = TopologyTestDriver(builder.build())
    driver.pipe_input("t", [Record("k", {"v": "x"}, 1)])
    assert [letter["offset"] for letter in driver.dead_letters("s")] == [0]
    assert driver.counters("s").dropped == 2
