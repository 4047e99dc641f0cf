"""Streams that join a global table by any key, in the test driver, and keep their own key."""

from typing import Literal

import pytest
from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812

from oriel import InvalidTopology, JoinWindows, StreamsBuilder, collect_list, count
from oriel.pipeline.lowered import NO_ROW_KEY
from oriel.testing import Counters, Record, TopologyTestDriver, spark_session
from tests.testing.driver_runs import driver_of, tumbling
from tests.testing.test_driver_streams import values

FLIGHTS = "carrier STRING, delay INT"


def looked_up(
    how: Literal["join", "left_join"], key: str | Column = "upper(carrier)"
) -> TopologyTestDriver:
    """Return a driver of flights by departure airport, joined with the names of their carriers."""

    def define(builder: StreamsBuilder) -> None:
        carriers = builder.global_table("carriers", "name STRING")
        named = getattr(builder.stream("flights", FLIGHTS), how)(carriers, key=key)
        named = named.map_values(seen="concat(coalesce(name, '-'), delay)")
        named.group_by_key().aggregate(n=count(), seen=collect_list("seen")).materialize("s")

    return driver_of(define)


def flight(origin: str | None, carrier: str | None, delay: int) -> Record:
    """Return a flight with its delay."""
    return Record(origin, {"carrier": carrier, "delay": delay}, delay)


CARRIERS = [Record("AA", {"name": "American"}, 1), Record("UA", {"name": "United"}, 1)]
FLOWN = [flight("EWR", "aa", 1), flight("JFK", "UA", 2), flight("EWR", "XX", 3),
         flight("JFK", None, 4), flight(None, "AA", 5)]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("whole", [True, False], ids=["one batch", "one by one"])
def test_records_that_find_a_row_keep_their_own_key(whole: bool) -> None:
    """Records without a match, or with a null join key, are filtered out.

    A record without its own key is dead-lettered.
    """
    driver = looked_up("join")
    driver.pipe_input("carriers", CARRIERS)
    for batch in [FLOWN] if whole else [[one] for one in FLOWN]:
        driver.pipe_input("flights", batch)
    assert values(driver) == {
        "EWR": {"n": 1, "seen": ["American1"]},
        "JFK": {"n": 1, "seen": ["United2"]},
    }
    assert driver.counters("s") == Counters(input=7, applied=4, late=0, dropped=1, filtered=2)
    (letter,) = driver.dead_letters("s")
    assert (letter["topic"], letter["offset"], letter["reason"]) == ("flights", 4, "null-key")


@pytest.mark.java
def test_a_left_join_keeps_all_also_without_a_key_to_ask_by() -> None:
    """A left join keeps all records. A null join key matches no row (Kafka 3.7, KIP-962)."""
    driver = looked_up("left_join")
    driver.pipe_input("carriers", [*CARRIERS, Record(NO_ROW_KEY, {"name": "nobody"}, 1)])
    driver.pipe_input("flights", FLOWN)
    driver.pipe_input("carriers", Record("AA", None, 2))
    driver.pipe_input("flights", flight("EWR", "aa", 6))
    assert values(driver) == {
        "EWR": {"n": 3, "seen": ["American1", "-3", "-6"]},
        "JFK": {"n": 2, "seen": ["United2", "-4"]},
    }
    assert driver.counters("s") == Counters(input=10, applied=9, late=0, dropped=1, filtered=0)


@pytest.mark.java
def test_a_column_makes_the_key_too() -> None:
    """A Spark column can compute the join key, like any expression."""
    spark_session()
    driver = looked_up("join", F.concat(F.substring("carrier", 1, 1), F.lit("A")))
    driver.pipe_input("carriers", CARRIERS)
    driver.pipe_input("flights", [flight("EWR", "A?", 1), flight("EWR", None, 2)])
    assert values(driver) == {"EWR": {"n": 1, "seen": ["American1"]}}


@pytest.mark.java
def test_downstream_windows_have_the_stream_time_and_other_keys() -> None:
    """A selected key stays, flattened records join one by one, and late ones count."""

    def define(builder: StreamsBuilder) -> None:
        names = builder.global_table("names", "name STRING")
        lines = builder.stream("t", "user STRING, line STRING").select_key("user")
        words = lines.flat_map_values(word="split(line, ' ')").join(names, key="word")
        windowed = words.map_values("*").group_by_key().windowed_by(tumbling(10, 0))
        windowed.aggregate(names=collect_list("name")).materialize("s")

    driver = driver_of(define)
    driver.pipe_input("names", [Record(word, {"name": word.upper()}, 1) for word in "ab"])
    driver.pipe_input("t", [Record("k", {"user": "u", "line": "b ? a b"}, 20)])
    driver.pipe_input("t", [Record("k", {"user": "v", "line": "a"}, 5)])
    found = [(w.key, w.window_start_ms, w.value["names"]) for w in driver.window_store("s").all()]
    assert found == [("u", 20, ["B", "A", "B"])]
    assert driver.counters("s") == Counters(
        input=4, applied=4, late=0, dropped=0, filtered=0,
        elements=5, elements_applied=3, elements_late=1, elements_filtered=1,
    )  # fmt: skip


@pytest.mark.java
def test_what_is_missing_or_too_much_is_refused() -> None:
    """The errors about missing or superfluous arguments name the fix."""
    builder = StreamsBuilder()
    stream, table = builder.stream("t", "a INT"), builder.table("u", "b INT")
    everywhere = builder.global_table("g", "c INT")
    with pytest.raises(InvalidTopology, match="left_join: a join with a global table needs key="):
        stream.left_join(everywhere)
    with pytest.raises(InvalidTopology, match="only a global table accepts key="):
        stream.join(table, key="a")
    with pytest.raises(InvalidTopology, match="Use join or left_join without windows"):
        stream.join(everywhere, JoinWindows.of_time_difference_and_grace(1, 0), key="a")
    with pytest.raises(
        InvalidTopology, match="join: an expression must be SQL text or a Spark Column"
    ):
        stream.join(everywhere, key=lambda value: value)  # type: ignore[arg-type]
    stream.join(everywhere, key="nothing").group_by_key().count().materialize("s")
    with pytest.raises(InvalidTopology, match=r"store 's', step join\(key=nothing"):
        TopologyTestDriver(builder.build())
