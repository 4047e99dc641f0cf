"""``to``: which stores can be written to which Kafka topics."""

import pytest

from oriel import InvalidTopology, StreamsBuilder, TimeWindows, count
from oriel.pipeline.language import Publication


def test_a_store_may_go_to_several_topics() -> None:
    """Updates to one, final rows to the other."""
    builder = StreamsBuilder()
    grouped = builder.stream("clicks", "v LONG").group_by_key()
    windowed = grouped.windowed_by(TimeWindows.of_size_with_no_grace(60_000))
    windowed.count().materialize("m").to("all").to("final", final_only=True)
    builder.table("users", "name STRING").materialize("users").to("users-out")
    stores = {store.name: store.publications for store in builder.build().stores}
    assert stores == {
        "m": (Publication("all"), Publication("final", final_only=True)),
        "users": (Publication("users-out"),),
    }


def test_a_store_without_a_name_has_no_rows_to_write() -> None:
    """``to`` comes behind ``materialize``."""
    builder = StreamsBuilder()
    grouped = builder.stream("clicks", "v LONG").group_by_key()
    with pytest.raises(InvalidTopology, match="give it a store first"):
        grouped.aggregate(n=count()).to("out")
    with pytest.raises(InvalidTopology, match="give it a store first"):
        builder.table("users", "name STRING").to("out")


def test_without_windows_nothing_is_final() -> None:
    """A row a key changes for ever."""
    builder = StreamsBuilder()
    table = builder.stream("clicks", "v LONG").group_by_key().aggregate(n=count())
    with pytest.raises(InvalidTopology, match="no final rows"):
        table.materialize("m").to("out", final_only=True)


@pytest.mark.parametrize("topic", ["", ".", "a b", "x" * 250])
def test_a_topic_has_kafkas_names(topic: str) -> None:
    """As for topics that are read."""
    builder = StreamsBuilder()
    table = builder.stream("clicks", "v LONG").group_by_key().aggregate(n=count())
    with pytest.raises(InvalidTopology, match="topic name"):
        table.materialize("m").to(topic)


def test_a_topic_is_written_by_one() -> None:
    """Two stores in one topic could not be told apart by their keys."""
    builder = StreamsBuilder()
    grouped = builder.stream("clicks", "v LONG").group_by_key()
    grouped.aggregate(n=count()).materialize("a").to("out")
    table = grouped.aggregate(n=count()).materialize("b")
    with pytest.raises(InvalidTopology, match="two stores"):
        table.to("out")


def test_a_topology_does_not_read_what_it_writes() -> None:
    """Wherever in the topology the topic is read."""
    builder = StreamsBuilder()
    grouped = builder.stream("clicks", "v LONG").group_by_key()
    grouped.aggregate(n=count()).materialize("a").to("users")
    builder.table("users", "name STRING").materialize("users")
    with pytest.raises(InvalidTopology, match="reads this topic"):
        builder.build()
