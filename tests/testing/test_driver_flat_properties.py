"""Flattened records equal consecutive records, by the slow models, in the test driver."""

from dataclasses import replace
from random import Random
from typing import Any

import pytest

from oriel import StreamsBuilder
from oriel.pipeline.windows import NoWindows, Windows
from oriel.testing import Counters, TopologyTestDriver
from tests.campaigns import cases
from tests.models.tables import Logs
from tests.testing.driver_runs import driver_of
from tests.testing.test_driver_properties import (
    FIRST_SEED,
    SCHEMA,
    Call,
    Case,
    check_content,
    check_function_rows,
    cut,
    everything,
    finite,
    folds,
    random_topology,
)
from tests.testing.test_driver_streams import every_aggregate
from tests.windows.engine_runs import valued_logs
from tests.windows.test_function_properties import KINDS as FUNCTION_KINDS

COLUMNS = [column.split()[0] for column in SCHEMA.split(", ")]
FIELDS = ", ".join(column.replace(" ", ": ") for column in SCHEMA.split(", "))
NO_ELEMENTS: tuple[Any, ...] = ([], None)


def packed(logs: Logs, random: Random) -> tuple[Logs, Logs]:
    """Return flattened records, and the records that contain up to four each.

    The flattened records have the time of their record. A null value becomes columns of null.
    """
    nothing = dict.fromkeys(COLUMNS)
    elements: dict[int, list[Any]] = {}
    holders: dict[int, list[Any]] = {}
    for p, log in logs.items():
        elements[p], holders[p] = [], []
        rest = list(log)
        while rest:
            number = random.choice((0, 1, 1, 2, 4))
            run, rest, time = rest[:number], rest[number:], rest[0][1]
            held = [(key, time, value or nothing) for key, _, value in run]
            elements[p] += held
            within: Any = [{"k": key, **value} for key, _, value in held]
            # A record without flattened records is in no window, whatever its key and time.
            record_time = time if held else 10_000
            holders[p].append(("all", record_time, {"es": within or random.choice(NO_ELEMENTS)}))
    return elements, holders


def flat(windows: Windows, aggregate: Any, place: str = "alone") -> TopologyTestDriver:
    """Return a driver of a store ``s`` over flattened records.

    Args:
        windows: The windows of the store, or None.
        aggregate: The aggregation.
        place: Where the stream joins a table: ``before`` or ``behind`` the flattening. ``again``
            flattens arrays in an array, and ``around`` also joins between both.
    """
    is_nested = place in {"again", "around"}

    def define(builder: StreamsBuilder) -> None:
        within = f"ARRAY<STRUCT<k: STRING, {FIELDS}>>"
        records = builder.stream("t", f"es ARRAY<{within}>" if is_nested else f"es {within}")
        users = builder.table("u", "name STRING")
        if is_nested:
            records = records.flat_map_values(es="es")
        if place in {"behind", "around"}:
            records = records.left_join(users)
        elements = records.flat_map("e.k", e="es")
        if place == "before":
            elements = elements.left_join(users)
        keyed = elements.map_values(**{name: f"e.{name}" for name in COLUMNS}).group_by_key()
        aggregate(
            keyed if isinstance(windows, NoWindows) else keyed.windowed_by(windows)
        ).materialize("s")

    return driver_of(define)


def content_of_elements(
    driver: TopologyTestDriver, calls: list[Call]
) -> tuple[list[str], Counters, list[str]]:
    """Return the content after all calls, the counters, and the dead letters.

    The function checks that the counters add up.
    """
    for topic, partition, records in calls:
        driver.pipe_input(topic, records, partition)
    counters = driver.counters("s")
    assert counters.input == counters.applied + counters.filtered + counters.dropped
    assert counters.elements == (
        counters.elements_applied + counters.elements_late
        + counters.elements_dropped + counters.elements_filtered
    )  # fmt: skip
    dead_letters = sorted(repr(letter) for letter in driver.dead_letters("s"))
    return [repr(found) for found in everything(driver)], counters, dead_letters


@pytest.mark.slow
@cases(1, 4)
@pytest.mark.parametrize("place", ["alone", "before", "behind"])
@pytest.mark.parametrize("kind", ["time", "sliding", "session", "none"])
def test_elements_are_as_records_that_follow_each_other(kind: str, place: str, number: int) -> None:
    """Any batching matches the slow model, also with a table join before or after flattening."""
    for seed in range(FIRST_SEED, FIRST_SEED + number):
        random = Random(seed + 7)
        elements, records = packed(finite(valued_logs(seed)), random)
        counters = check_elements(random_topology(kind, seed, elements), records, place, random)
        assert counters.elements == sum(map(len, elements.values()))
        holders = [value["es"] for log in records.values() for _, _, value in log if value]
        assert (counters.input, counters.applied) == (len(holders), sum(map(bool, holders)))


def check_elements(case: Case, records: Logs, place: str, random: Random) -> Counters:
    """Check that two random batchings match the slow model, and return the counters.

    Raises:
        AssertionError: The results differ.
    """
    drivers = [flat(case.windows, every_aggregate, place) for _ in range(2)]
    results = [content_of_elements(driver, cut(records, random)) for driver in drivers]
    assert results[0] == results[1], f"{case}: another cut gave another result"
    counters = results[0][1]
    wanted = case.outcome.applied, case.outcome.late
    assert (counters.elements_applied, counters.elements_late) == wanted
    check_content(everything(drivers[0]), case.outcome, closed=False)
    return counters


def nested(records: Logs, random: Random) -> tuple[Logs, int]:
    """Return the records with nested arrays, and the number of empty inner arrays."""
    empty = 0
    of_partitions: dict[int, list[Any]] = {}
    for partition, log in records.items():
        of_partitions[partition] = []
        for key, time, value in log:
            rest = list((value or {}).get("es") or ())
            arrays = []
            while rest:
                number = random.choice((0, 1, 2, 4))
                arrays.append(rest[:number] or random.choice(NO_ELEMENTS))
                rest = rest[number:]
                empty += not number
            of_partitions[partition].append((key, time, {"es": arrays}))
    return of_partitions, empty


@pytest.mark.slow
@cases(1, 4)
@pytest.mark.parametrize("place", ["again", "around"])
@pytest.mark.parametrize("kind", ["time", "sliding", "session"])
def test_elements_of_elements_follow_each_other(kind: str, place: str, number: int) -> None:
    """Nested arrays keep the order of both levels. An empty inner array counts as filtered."""
    for seed in range(FIRST_SEED, FIRST_SEED + number):
        random = Random(seed + 7)
        elements, holders = packed(finite(valued_logs(seed)), random)
        records, empty = nested(holders, random)
        counters = check_elements(random_topology(kind, seed, elements), records, place, random)
        assert counters.elements_filtered == empty
        assert counters.elements == sum(map(len, elements.values())) + empty


@pytest.mark.slow
@cases(1, 8)
@pytest.mark.parametrize("windows", ["time", "sliding", "session", "table"])
def test_functions_see_elements_in_their_order(windows: str, number: int) -> None:
    """Functions receive flattened records in order. If one raises, the others still count."""
    functions = FUNCTION_KINDS["aggregate"].functions

    def aggregate(stream: Any) -> Any:
        return stream.aggregate(
            functions.initializer, functions.aggregators[0], functions.merger, "text STRING"
        )

    for seed, case in folds("aggregate", windows, number):
        random = Random(seed + 7)
        elements, records = packed(case.logs, random)
        outcome = replace(case, logs=elements).expected()
        drivers = [flat(case.windows, aggregate) for _ in range(2)]
        results = [content_of_elements(driver, cut(records, random)) for driver in drivers]
        assert results[0] == results[1], f"{windows}, seed {seed}: the cut matters"
        counters = results[0][1]
        wanted = outcome.applied, outcome.late, len(outcome.rejected)
        assert (
            counters.elements_applied, counters.elements_late, counters.elements_dropped,
        ) == wanted  # fmt: skip
        check_function_rows(everything(drivers[0]), outcome, closed=False)
