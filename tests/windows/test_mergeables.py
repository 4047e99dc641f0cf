"""Aggregates that users define in numpy: results, merging in any steps, clear errors."""

from random import Random
from typing import Any

import numpy as np
import pytest

from pipeline import (
    IllegalArgument,
    InvalidTopology,
    SessionWindows,
    SlidingWindows,
    StreamsBuilder,
    TimeWindows,
    Topology,
    collect_list,
    mergeable,
)
from pipeline.testing import Record, TopologyTestDriver

SPREAD = mergeable(
    "spread",
    "v",
    lift=lambda values: np.stack([values, -values], axis=1),
    merge=np.maximum,
    result=lambda states: states[:, 0] + states[:, 1],
)
BITS = mergeable(
    "bits",
    "i",
    lift=lambda values: 1 << (values % 60),
    merge=np.bitwise_or,
    result=lambda states: states,
    returns="BIGINT",
)
WINDOWS = {
    "tumbling": TimeWindows.of_size_and_grace(10, 5),
    "hopping": TimeWindows.of_size_and_grace(10, 5).advance_by(3),
    "sliding": SlidingWindows.of_time_difference_and_grace(10, 5),
    "session": SessionWindows.of_inactivity_gap_and_grace(2, 5),
}


def topology() -> Topology:
    """Return a store of each kind with both aggregates and the lists of what they saw."""
    builder = StreamsBuilder()
    grouped = builder.stream("t", "v DOUBLE, i BIGINT").group_by_key()
    aggregates: dict[str, Any] = {
        "spread": SPREAD,
        "bits": BITS,
        "vs": collect_list("v"),
        "is": collect_list("i"),
    }
    for kind, windows in WINDOWS.items():
        grouped.windowed_by(windows).aggregate(**aggregates).materialize(kind)
    grouped.aggregate(**aggregates).materialize("none")
    return builder.build()


def content(records: list[Record], random: Random | None) -> dict[str, list[Any]]:
    """Pipe the records, all at once or cut at random, and read every store."""
    driver = TopologyTestDriver(topology())
    while records:
        taken = len(records) if random is None else random.randint(1, 4)
        driver.pipe_input("t", records[:taken])
        records = records[taken:]
    stores: dict[str, list[Any]] = {"none": list(driver.key_value_store("none").all())}
    for kind in ("tumbling", "hopping", "sliding"):
        stores[kind] = list(driver.window_store(kind).all())
    stores["session"] = list(driver.session_store("session").all())
    return stores


@pytest.mark.parametrize("seed", range(4))
def test_the_result_is_that_of_the_values_whatever_the_cut(seed: int) -> None:
    """Every window's spread and bits are those of its values, and no cut changes them."""
    random = Random(seed)
    records = [
        Record(
            random.choice("ab"),
            {"v": random.choice((None, 1.5, -2.0, 9.25)), "i": random.choice((None, 3, 17, 50))},
            max(0, place + random.randint(-4, 4)),
        )
        for place in range(60)
    ]
    whole = content(records, None)
    assert content(records, random) == whole
    for rows in whole.values():
        assert rows
        for row in rows:
            values, numbers = row.value["vs"], row.value["is"]
            assert row.value["spread"] == (max(values) - min(values) if values else None)
            assert row.value["bits"] == (sum({1 << n for n in numbers}) if numbers else None)


def test_a_function_that_raises_is_named_when_the_topology_is_checked() -> None:
    """The functions are tried on two values: a mistake is told before anything runs."""
    builder = StreamsBuilder()
    wrong = mergeable("wrong", "v", lift=lambda v: v, merge=lambda a, _: a[:0], result=lambda s: s)
    builder.stream("t", "v DOUBLE").group_by_key().aggregate(w=wrong).materialize("s")
    with pytest.raises(InvalidTopology, match=r"store 's', aggregate: wrong\(v\): merge must ret"):
        TopologyTestDriver(builder.build())


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"returns": "STRING"}, "returns must be one of"),
        ({"merge": 3}, "merge must be a function of arrays"),
    ],
)
def test_wrong_arguments_are_refused(changed: dict[str, Any], told: str) -> None:
    """A type that a store can't hold, and what is no function, are told at once."""
    given: dict[str, Any] = {"lift": abs, "merge": np.maximum, "result": abs, **changed}
    with pytest.raises(IllegalArgument, match=told):
        mergeable("m", "v", **given)
