"""Aggregates that users define in numpy: results, merging in any steps, clear errors."""

import math
import re
from random import Random
from typing import Any

import numpy as np
import pytest

from oriel import (
    IllegalArgument,
    InvalidTopology,
    SessionWindows,
    SlidingWindows,
    StreamsBuilder,
    TimeWindows,
    Topology,
    collect_list,
    count,
    mergeable,
)
from oriel.testing import Record, TopologyTestDriver
from tests.campaigns import seeds

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
    """Return a store of each kind with both aggregates, and lists of their inputs."""
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
        size = len(records) if random is None else random.randint(1, 4)
        driver.pipe_input("t", records[:size])
        records = records[size:]
    stores: dict[str, list[Any]] = {"none": list(driver.key_value_store("none").all())}
    for kind in ("tumbling", "hopping", "sliding"):
        stores[kind] = list(driver.window_store(kind).all())
    stores["session"] = list(driver.session_store("session").all())
    return stores


@pytest.mark.slow
@seeds(1, 4)
def test_the_result_is_that_of_the_values_whatever_the_cut(seed: int) -> None:
    """Every window's spread and bits are those of its values, and no cut changes them."""
    random = Random(seed)
    records = [
        Record(
            random.choice("ab"),
            {"v": random.choice((None, 1.5, -2.0, 9.25)), "i": random.choice((None, 3, 17, 50))},
            max(0, index + random.randint(-4, 4)),
        )
        for index in range(60)
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
    """The functions are called with two values, so an error is raised before a run."""
    builder = StreamsBuilder()
    wrong = mergeable("wrong", "v", lift=lambda v: v, merge=lambda a, _: a[:0], result=lambda s: s)
    builder.stream("t", "v DOUBLE").group_by_key().aggregate(w=wrong).materialize("s")
    with pytest.raises(InvalidTopology, match=r"store 's', aggregate: wrong\(v\): merge must ret"):
        TopologyTestDriver(builder.build())


def test_an_error_names_the_column_that_the_user_wrote() -> None:
    """This includes a cogroup, whose streams have other column names internally."""
    wrong = mergeable(
        "m", "v", lift=lambda v: v, merge=np.maximum, result=lambda s: s + 0.5, returns="BIGINT"
    )
    builder = StreamsBuilder()
    left, right = (builder.stream(topic, "v DOUBLE").group_by_key() for topic in ("a", "b"))
    left.cogroup(n=wrong).cogroup(right, k=count()).aggregate().materialize("s")
    driver = TopologyTestDriver(builder.build())
    with pytest.raises(
        IllegalArgument, match=r"^m\(v\): result returned 1\.5, which is not BIGINT"
    ):
        driver.pipe_input("a", Record("k", {"v": 1.0}, 1))


def test_a_lifted_number_that_does_not_fit_is_an_error() -> None:
    """A state has whole numbers of 64 bits with a sign. A larger number would become negative."""
    large = mergeable(
        "m", "v", lift=lambda v: v.astype(np.uint64) << np.uint64(62), merge=np.maximum,
        result=lambda states: states.astype(np.float64),
    )  # fmt: skip
    builder = StreamsBuilder()
    builder.stream("t", "v BIGINT").group_by_key().aggregate(m=large).materialize("s")
    driver = TopologyTestDriver(builder.build())
    driver.pipe_input("t", Record("k", {"v": 1}, 1))
    (row,) = driver.key_value_store("s").all()
    assert row.value == {"m": 2.0**62}
    with pytest.raises(IllegalArgument, match=rf"^m\(v\): lift returned {2**63}, and a whole"):
        driver.pipe_input("t", Record("k", {"v": 2}, 2))


def driver_giving(result: Any, returns: str, windows: Any = None) -> TopologyTestDriver:
    """Return a driver with the aggregate ``result`` of the values ``v``."""
    aggregate = mergeable(
        "m", "v", lift=lambda v: v, merge=np.maximum, result=result, returns=returns
    )
    builder = StreamsBuilder()
    grouped: Any = builder.stream("t", "v DOUBLE").group_by_key()
    if windows is not None:
        grouped = grouped.windowed_by(windows)
    grouped.aggregate(m=aggregate).materialize("s")
    return TopologyTestDriver(builder.build())


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("windows", [None, *WINDOWS.values()], ids=["none", *WINDOWS])
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 2.0**63, -1e300, 2.5])
def test_a_result_that_is_no_long_is_an_error(value: float, windows: Any) -> None:
    """The store is not changed. The error names the aggregate and the result."""
    driver = driver_giving(lambda states: np.full(len(states), value), "BIGINT", windows)
    message = re.escape(f"m(v): result returned {value}, which is not BIGINT")
    with pytest.raises(IllegalArgument, match=message):
        driver.pipe_input("t", Record("k", {"v": 1.0}, 1))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("result", "returns", "expected"),
    [
        (lambda v: v, "BIGINT", 3),
        (lambda v: v.astype(np.float32), "BIGINT", 3),
        (lambda v: v.astype(np.uint64) + np.uint64(2**63 - 4), "BIGINT", 2**63 - 1),
        (lambda v: -(v - 2) * 2.0**63, "BIGINT", -(2**63)),
        (lambda v: v > 2, "BIGINT", 1),
        (lambda v: v > 2, "BOOLEAN", True),
        (lambda v: v - 3, "BOOLEAN", False),
        (lambda v: v > 2, "DOUBLE", 1.0),
        (lambda v: v.astype(np.int8), "DOUBLE", 3.0),
    ],
)
def test_a_result_can_have_any_numpy_type_that_fits(
    result: Any, returns: str, expected: float
) -> None:
    """Only the value of the number matters."""
    driver = driver_giving(result, returns)
    driver.pipe_input("t", Record("k", {"v": 3.0}, 1))
    (row,) = driver.read_output("s")
    assert (row["m"], type(row["m"])) == (expected, type(expected))


@pytest.mark.parametrize(
    ("result", "returns", "message"),
    [
        (lambda v: v.astype(np.uint64) + np.uint64(2**63), "BIGINT", "which is not BIGINT"),
        (lambda v: v, "BOOLEAN", r"result returned 3\.0, which is not BOOLEAN"),
        (lambda v: v * np.nan, "BOOLEAN", "result returned nan, which is not BOOLEAN"),
    ],
)
def test_a_result_of_another_type_is_an_error(result: Any, returns: str, message: str) -> None:
    """This includes unsigned integers and booleans."""
    with pytest.raises(IllegalArgument, match=message):
        driver_giving(result, returns).pipe_input("t", Record("k", {"v": 3.0}, 1))


@pytest.mark.parametrize("role", ["lift", "merge", "result"])
def test_a_function_that_raises_is_named(role: str) -> None:
    """The error has the aggregate, the function and the exception."""

    def broken(*_arrays: Any) -> Any:
        message = "no such value"
        raise KeyError(message)

    functions: dict[str, Any] = {"lift": abs, "merge": np.maximum, "result": abs, role: broken}
    builder = StreamsBuilder()
    grouped = builder.stream("t", "v DOUBLE").group_by_key()
    grouped.aggregate(m=mergeable("m", "v", **functions)).materialize("s")
    with pytest.raises(InvalidTopology, match=rf"m\(v\): {role} raised KeyError.*no such value"):
        TopologyTestDriver(builder.build())


def test_a_result_is_one_number_per_row() -> None:
    """Several numbers per row are rejected before a run."""
    with pytest.raises(InvalidTopology, match=r"m\(v\): result must return one number per row"):
        driver_giving(lambda states: np.stack([states, states], axis=1), "DOUBLE")


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"returns": "STRING"}, "returns must be one of"),
        ({"merge": 3}, "merge must be a function of arrays"),
    ],
)
def test_wrong_arguments_are_rejected(changed: dict[str, Any], message: str) -> None:
    """A type that a store does not support and a value that is not a function are rejected."""
    arguments: dict[str, Any] = {"lift": abs, "merge": np.maximum, "result": abs, **changed}
    with pytest.raises(IllegalArgument, match=message):
        mergeable("m", "v", **arguments)


@pytest.mark.parametrize("name", ["sum", "count", "t1, t2: min", "max(a) + f"])
def test_a_built_in_name_is_rejected(name: str) -> None:
    """Reads merge windows by the texts of aggregates, so no own aggregate has a built-in one."""
    with pytest.raises(IllegalArgument, match="is the name of a built-in aggregate"):
        mergeable(name, "v", lift=abs, merge=np.maximum, result=abs)
    mergeable("summary", "v", lift=abs, merge=np.maximum, result=abs)
