"""Grouped tables in the test driver: random logs and batches against the slow models."""

import math
from collections.abc import Callable, Sequence
from random import Random
from statistics import stdev as sample_deviation
from typing import Any

import pytest

from oriel import StreamsBuilder, avg, count, stddev, sum
from oriel.testing import Record, TopologyTestDriver
from tests.campaigns import cases, full
from tests.models.table_groups import Functions, Logs, folded, members
from tests.testing.driver_runs import driver_of
from tests.testing.test_driver_table_groups import (
    SCHEMA,
    deletion,
    grouped,
    held,
    put,
    put_together,
    started,
)

pytestmark = pytest.mark.slow

#: A group expression that Arrow runs, and an expression that only Spark runs.
EXPRESSIONS = ["g", "reverse(reverse(g))"]
CASES = [
    (EXPRESSIONS[0], 16),
    (EXPRESSIONS[1], 2),
    *full(EXPRESSIONS[0], 60),
]


def random_logs(random: Random, groups: str = "xyz") -> Logs:
    """Return logs with few keys, disorder, tombstones, and null groups and numbers."""
    logs: dict[int, list[Any]] = {}
    for partition in range(random.choice((1, 1, 2, 3))):
        logs[partition] = []
        for _ in range(random.choice((0, 3, 10, 25))):
            group = random.choice([None, *groups]) if random.random() < 0.9 else "w"
            number = random.choice((None, *range(-3, 9)))
            row = None if random.random() < 0.25 else (group, number)
            logs[partition].append((random.choice("abcd"), random.randint(0, 40), row))
    return logs


def pipe_cut(driver: TopologyTestDriver, logs: Logs, random: Random) -> None:
    """Pipe the logs in random batches and interleaving."""
    position = dict.fromkeys(logs, 0)
    while left := [p for p, log in logs.items() if position[p] < len(log)]:
        partition = random.choice(left)
        end = position[partition] + random.randint(1, 6)
        batch = logs[partition][position[partition] : end]
        position[partition] = end
        driver.pipe_input("t", [_record(*entry) for entry in batch], partition)


def _record(key: str, time_ms: int, row: Any) -> Record:
    return deletion(key, time_ms) if row is None else put(key, row[0], row[1], time_ms)


def declarative(by: str) -> Callable[[StreamsBuilder], None]:
    """Return a definition with all aggregates that a table can have."""

    def define(builder: StreamsBuilder) -> None:
        grouped(builder, by).aggregate(
            rows=count(), numbers=count("n"), n=sum("n"), mean=avg("n"), d=sum("d"), mid=avg("d"),
            dev=stddev("d"),
        ).materialize("s")  # fmt: skip

    return define


def of_members(numbers: Sequence[float | None]) -> dict[str, Any]:
    """Return the aggregates of a group's rows."""
    n = [int(number) for number in numbers if number is not None]
    exact = math.fsum(number / 10 for number in n)
    return {
        "rows": len(numbers), "numbers": len(n),
        "n": math.fsum(n) if n else None, "mean": math.fsum(n) / len(n) if n else None,
        "d": exact if n else None, "mid": exact / len(n) if n else None,
        "dev": pytest.approx(sample_deviation(number / 10 for number in n), rel=1e-15, abs=0)
        if len(n) > 1 else None,
    }  # fmt: skip


@pytest.mark.parametrize(("by", "number"), CASES)
def test_any_cut_gives_the_aggregates_of_the_rows_that_are_there(by: str, number: int) -> None:
    """Aggregates equal those of the current rows to the last bit, in Arrow and in Spark."""
    for seed in range(number):
        random = Random(seed)
        logs = random_logs(random)
        driver = driver_of(declarative(by))
        pipe_cut(driver, logs, random)
        expected = {g: (of_members(one.numbers), one.time) for g, one in members(logs).items()}
        assert held(driver) == expected, f"seed {seed}"


#: Functions that record their calls. The adder and the subtractor remove some aggregates.
FUNCTIONS = Functions(
    started,
    lambda number, text: None if number == 8 else f"{text}+{_shown(number)}",
    lambda number, text: None if number == 0 else f"{text}-{_shown(number)}",
    lambda left, right: f"({left})({right})",
)


def _shown(number: float | None) -> str:
    return "None" if number is None else str(int(number))


def random_functions(builder: StreamsBuilder) -> None:
    """Define the same functions as a user writes them."""

    def adder(_key: str, value: dict[str, Any], text: str) -> str | None:
        return FUNCTIONS.adder(value["n"], text)

    def subtractor(_key: str, value: dict[str, Any], text: str) -> str | None:
        return FUNCTIONS.subtractor(value["n"], text)

    grouped(builder).aggregate(started, adder, subtractor, put_together, "text STRING").materialize(
        "s"
    )


@cases(6, 80)
def test_any_cut_calls_functions_as_kafka_does_in_each_partition(number: int) -> None:
    """Functions are called in offset order in each partition, in any batching and interleaving."""
    for seed in range(number):
        random = Random(seed)
        logs = random_logs(random)
        driver = driver_of(random_functions)
        pipe_cut(driver, logs, random)
        assert held(driver) == folded(logs, FUNCTIONS), f"seed {seed}"


def _subtractor_first(logs: Logs) -> Any:
    calls = Functions(
        FUNCTIONS.initializer, FUNCTIONS.subtractor, FUNCTIONS.adder, FUNCTIONS.merger
    )
    return folded(logs, calls)


def _forgets_the_old_row(logs: Logs) -> Any:
    return folded({p: [(f"{n}", t, row) for n, (_, t, row) in enumerate(log)]
                   for p, log in logs.items()}, FUNCTIONS)  # fmt: skip


@pytest.mark.parametrize("wrong", [_subtractor_first, _forgets_the_old_row])
def test_a_wrong_model_is_noticed(wrong: Callable[[Logs], Any]) -> None:
    """A model with another rule disagrees, which shows that the comparison works."""
    for seed in range(20):
        random = Random(seed)
        logs = random_logs(random)
        driver = driver_of(random_functions)
        pipe_cut(driver, logs, random)
        if held(driver) != wrong(logs):
            return
    pytest.fail("twenty logs did not notice a wrong model")


def joined(how: str, groups: str) -> Callable[[StreamsBuilder], None]:
    """Return a definition of two joined tables, grouped by a column of either."""

    def define(builder: StreamsBuilder) -> None:
        left, right = builder.table("t", SCHEMA), builder.table("u", "h STRING, m BIGINT")
        kinds = {"inner": left.join, "left": left.left_join, "outer": left.outer_join}
        kinds[how](right).group_by(groups).aggregate(
            rows=count(), n=sum("n"), m=sum("m")
        ).materialize("s")

    return define


def test_joined_rows_change_groups_with_either_side() -> None:
    """A right row moves a left-joined row to another group, with the greater time of both."""
    driver = driver_of(joined("left", "coalesce(h, 'none')"))
    driver.pipe_input("t", put("A", "x", 1, 10))
    assert held(driver) == {"none": ({"rows": 1, "n": 1, "m": None}, 10)}
    driver.pipe_input("u", Record("A", {"h": "p", "m": 5}, 3))
    assert held(driver) == {
        "none": ({"rows": 0, "n": None, "m": None}, 10), "p": ({"rows": 1, "n": 1, "m": 5}, 10),
    }  # fmt: skip
    driver.pipe_input("u", Record("A", {"h": "q", "m": 6}, 20))
    driver.pipe_input("t", deletion("A", 15))
    assert held(driver)["p"] == ({"rows": 0, "n": None, "m": None}, 20)
    assert held(driver)["q"] == ({"rows": 0, "n": None, "m": None}, 20)


@cases(2, 20)
@pytest.mark.parametrize("how", ["inner", "left", "outer"])
def test_joined_rows_are_counted_as_they_are_in_the_end(how: str, number: int) -> None:
    """The groups of joined tables count the final rows, in any batching and order of inputs.

    Each key is in one partition.
    """
    for seed in range(number):
        random = Random(seed)
        driver = driver_of(joined(how, "coalesce(g, '?')"))
        tables: tuple[dict[str, Any], dict[str, Any]] = {}, {}
        for _ in range(random.randint(1, 8)):
            side, batch = random.choice((0, 1)), []
            for _ in range(random.randint(1, 6)):
                key, time_ms, n = random.choice("abc"), random.randint(0, 30), random.randint(0, 9)
                row: Any = {"g": random.choice("xy"), "n": n, "d": 0.0}
                row = row if side == 0 else {"h": "h", "m": n}
                row = row if random.random() < 0.7 else None
                tables[side].pop(key, None)
                tables[side].update({} if row is None else {key: row})
                batch.append(Record(key, row, time_ms))
            driver.pipe_input("tu"[side], batch)
        groups: dict[str, list[Any]] = {}
        left, right = tables
        keys = {"inner": left.keys() & right.keys(), "left": left.keys()}
        for key in keys.get(how, left.keys() | right.keys()):
            group = left[key]["g"] if key in left else "?"
            groups.setdefault(group, []).append((left.get(key), right.get(key)))
        expected = {
            group: {
                "rows": len(rows),
                "n": sum_or_none([one["n"] for one, _ in rows if one]),
                "m": sum_or_none([other["m"] for _, other in rows if other]),
            }
            for group, rows in groups.items()
        }
        found = {group: row for group, (row, _) in held(driver).items() if row["rows"]}
        assert found == expected, f"seed {seed}"


def sum_or_none(numbers: Sequence[int]) -> int | None:
    """Return the sum, or None without numbers."""
    total = 0
    for number in numbers:
        total += number
    return total if numbers else None
