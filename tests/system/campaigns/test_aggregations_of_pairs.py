"""Aggregations of join results are tables like a topic's table, for random logs (decision 0071)."""

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from oriel import StreamsBuilder, count
from oriel import max as max_of
from oriel import sum as sum_of
from oriel.pipeline.language import KStream
from oriel.pipeline.language.tables import KTable, SourceTable
from oriel.testing import Record, TopologyTestDriver
from tests.campaigns import seeds
from tests.testing.test_driver_aggregated_tables import counted, near, run

Table = KTable | SourceTable


def flattened(pairs: KStream) -> KStream:
    """Return both values of each join result, one after the other."""
    return pairs.flat_map_values(w="array(v, w)")


def folded(key: str, value: Any, text: str) -> str:
    """Append the number of an added row."""
    return f"{text}+{value['n']}"


def unfolded(key: str, value: Any, text: str) -> str:
    """Append the number of a subtracted row."""
    return f"{text}-{value['n']}"


def merged(key: str, left: str, right: str) -> str:
    """Append the numbers of one partition to the numbers of another."""
    return f"{left};{right}"


def add_readers(builder: StreamsBuilder, table: Table, other: Table) -> None:
    """Add stores that join ``table`` with ``other``, group it, and count its updates."""
    for how in ("join", "left_join", "outer_join"):
        joined = getattr(table, how)(other)
        update_stream = joined.to_stream().group_by_key()
        update_stream.aggregate(updates=count(), n=max_of("n"), m=max_of("m")).materialize(how)
        joined.group_by("m % 2").aggregate(keys=count(), n=sum_of("n")).materialize(f"by_m_{how}")
    grouped = table.group_by("n % 3")
    grouped.aggregate(lambda: "0", folded, unfolded, merged, "text STRING").materialize("folded")
    updates = grouped.count().to_stream().group_by_key()
    updates.aggregate(updates=count(), most=max_of("count")).materialize("regrouped")


def near_log(seed: int) -> list[tuple[str, Record]]:
    """Return records of both topics with many matches, in time order."""
    random, time, log = Random(seed), 0, []
    for place in range(16):
        time += random.randrange(4)
        topic = random.choice("aab")
        value = {"v" if topic == "a" else "w": place}
        log.append((topic, Record(random.choice("xyz"), value, time)))
    return log


def content(driver: TopologyTestDriver) -> dict[str, Any]:
    """Return all rows of the stores of ``add_readers``."""
    hows = ("join", "left_join", "outer_join")
    names = (*hows, *(f"by_m_{how}" for how in hows), "folded", "regrouped")
    return {name: driver.key_value_store(name).all() for name in names}


@pytest.mark.parametrize("stream_of", [near, lambda builder: flattened(near(builder))])
@seeds(1, 30)
def test_an_aggregation_of_pairs_is_a_table_as_its_topic_is(
    stream_of: Callable[[StreamsBuilder], KStream], seed: int
) -> None:
    """Its updates equal a topic's table with the same updates, also after joins and groupings."""
    written, read, direct = StreamsBuilder(), StreamsBuilder(), StreamsBuilder()
    counted(stream_of(written)).to_stream().to("counts")
    add_readers(
        read, read.table("counts", "n BIGINT, total BIGINT"), read.table("others", "m BIGINT")
    )
    add_readers(direct, counted(stream_of(direct)), direct.table("others", "m BIGINT"))
    others = [Record(key, {"m": number}, 0) for number, key in enumerate("xy")]
    first = run(written.build(), ("a", []), ("b", []))
    downstream = run(read.build(), ("counts", []), ("others", others))
    driver = run(direct.build(), ("a", []), ("b", []), ("others", others))
    counts = first.create_output_topic("counts")
    for topic, record in near_log(seed):
        first.pipe_input(topic, [record])
        downstream.pipe_input("counts", counts.read_records())
        driver.pipe_input(topic, [record])
    assert content(driver) == content(downstream)
    assert [store for store, rows in content(driver).items() if not rows] == []


@seeds(1, 30)
def test_no_cut_changes_the_rows_that_are_made_of_pairs(seed: int) -> None:
    """The rows and the number of updates are the same in any batching.

    Only the order of the keys in a batch varies.
    """
    builder = StreamsBuilder()
    add_readers(builder, counted(flattened(near(builder))), builder.table("others", "m BIGINT"))
    topology, random, found = builder.build(), Random(seed), []
    others = [Record(key, {"m": number}, 0) for number, key in enumerate("xy")]
    for goes_on in (0.5, 1.0):
        batches: list[tuple[str, list[Record]]] = [("a", []), ("b", []), ("others", others)]
        for topic, record in near_log(seed):
            if batches[-1][0] != topic or random.random() >= goes_on:
                batches.append((topic, []))
            batches[-1][1].append(record)
        rows = content(run(topology, *batches))
        # A group's intermediate rows and the order of calls depend on the order of keys.
        rows["regrouped"] = [(row.key, row.value["updates"]) for row in rows["regrouped"]]
        found.append(rows | {"folded": None})
    assert found[0] == found[1]
