"""`to`: which stores can be written to which Kafka topics."""

import pytest

from oriel import InvalidTopology, StreamsBuilder, TimeWindows, count
from oriel.pipeline.language import Publication


def test_a_store_may_go_to_several_topics() -> None:
    """A store can write updates to one topic and final rows to another topic."""
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
    """`to` needs a store, so it must follow `materialize`."""
    builder = StreamsBuilder()
    grouped = builder.stream("clicks", "v LONG").group_by_key()
    with pytest.raises(InvalidTopology, match=r"needs a store, .* Call materialize"):
        grouped.aggregate(n=count()).to("out")
    with pytest.raises(InvalidTopology, match=r"needs a store, .* Call materialize"):
        builder.table("users", "name STRING").to("out")


def test_without_windows_nothing_is_final() -> None:
    """A row per key never becomes final, so `final_only` is rejected."""
    builder = StreamsBuilder()
    table = builder.stream("clicks", "v LONG").group_by_key().aggregate(n=count())
    with pytest.raises(InvalidTopology, match="rows never become final"):
        table.materialize("m").to("out", final_only=True)


@pytest.mark.parametrize("topic", ["", ".", "a b", "x" * 250])
def test_a_topic_has_kafkas_names(topic: str) -> None:
    """An output topic needs a valid Kafka name, as an input topic does."""
    builder = StreamsBuilder()
    table = builder.stream("clicks", "v LONG").group_by_key().aggregate(n=count())
    with pytest.raises(InvalidTopology, match="topic name"):
        table.materialize("m").to(topic)


def test_a_topic_is_written_by_one() -> None:
    """Two stores or streams cannot write to one topic, because their keys can be equal."""
    builder = StreamsBuilder()
    grouped = builder.stream("clicks", "v LONG").group_by_key()
    grouped.aggregate(n=count()).materialize("a").to("out")
    table = grouped.aggregate(n=count()).materialize("b")
    with pytest.raises(InvalidTopology, match="two calls write to it"):
        table.to("out")
    stream = builder.stream("clicks", "v LONG")
    with pytest.raises(InvalidTopology, match="Merge the streams"):
        stream.to("out")
    stream.to("own")
    with pytest.raises(InvalidTopology, match="two calls write to it"):
        table.to("own")


@pytest.mark.parametrize("topic", ["", ".", "a b", "x" * 250])
def test_a_stream_s_topic_has_kafkas_names(topic: str) -> None:
    """The output topic of a stream needs a valid Kafka name."""
    stream = StreamsBuilder().stream("clicks", "v LONG")
    with pytest.raises(InvalidTopology, match="topic name"):
        stream.to(topic)


def test_a_stream_continues_after_its_topic() -> None:
    """Steps can follow `to`. The topic has the stream before them. A topology needs no store."""
    builder = StreamsBuilder()
    stream = builder.stream("clicks", "v LONG").to("all").filter("v > 1").to("large")
    assert not builder.build().stores
    stream.group_by_key().count().materialize("n")
    topology = builder.build()
    assert [store.name for store in topology.stores] == ["n"]
    written = {sink.publications[0].topic: sink for sink in topology.sinks}
    assert {name: len(sink.inputs[0].steps) for name, sink in written.items()} == {
        "all": 0,
        "large": 1,
    }
    assert topology.units == (*topology.stores, *topology.sinks)


def test_sources_of_topics_that_are_written_are_the_topology_s() -> None:
    """The topics of a stream that is only written to a topic are topics of the topology."""
    builder = StreamsBuilder()
    views = builder.stream("views", "v LONG")
    views.join(builder.table("users", "city STRING")).to("out")
    assert builder.build().topics == ("views", "users")


def test_a_topology_does_not_read_what_it_writes() -> None:
    """A topology cannot read a topic that it writes."""
    builder = StreamsBuilder()
    grouped = builder.stream("clicks", "v LONG").group_by_key()
    grouped.aggregate(n=count()).materialize("a").to("users")
    builder.table("users", "name STRING").materialize("users")
    with pytest.raises(InvalidTopology, match="reads this topic"):
        builder.build()
    builder = StreamsBuilder()
    builder.stream("clicks", "v LONG").to("again")
    builder.stream("again", "v LONG").group_by_key().count().materialize("n")
    with pytest.raises(
        InvalidTopology, match=r"reads this topic, .* Continue with the stream that to\(\) returns"
    ):
        builder.build()
