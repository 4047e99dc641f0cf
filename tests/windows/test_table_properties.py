"""Property tests of aggregations without windows: one row per key."""

from collections.abc import Mapping
from dataclasses import replace
from random import Random

import pyarrow as pa
import pytest

from oriel import SessionWindows, TimeWindows
from oriel.pipeline import windows as w
from oriel.pipeline.windows import MAX_TIMESTAMP_MS, NoWindows, Windows
from tests.campaigns import cases
from tests.models.tables import Logs, Record, table_rows
from tests.windows.engine_runs import (
    Setup,
    check_against_model,
    random_cuts,
    run_engine,
    valued_logs,
    whole,
)
from tests.windows.random_logs import marks_reached

FIRST_SEED = 8_000_016
SETUP = Setup(NoWindows())


def table_logs(seed: int) -> dict[int, list[Record]]:
    """Return the logs of ``seed`` without null values, which are rejected earlier."""
    logs = valued_logs(seed)
    return {p: [(k, t, {} if v is None else v) for k, t, v in log] for p, log in logs.items()}


def check_logs(logs: Logs, seed: int) -> set[str]:
    """Compare with the model, in one batch and cut. Return the reached rare branches."""
    outcome = table_rows(logs)
    once = run_engine(SETUP, logs, whole(logs))
    check_against_model(once, outcome, SETUP)
    cuts = random_cuts(logs, Random(seed + 1))
    cut = run_engine(replace(SETUP, shared_offsets=True), logs, cuts, restart=True, seed=seed)
    assert cut.result() == once.result(), "another cut has another result"
    marks = set()
    for row in outcome.windows.values():
        if len({m.partition for m in row.members}) > 1:
            marks.add("row with records of several partitions")
        if any(m.time < m.close for m in row.members):
            marks.add("record out of order")
        if not row.values("v"):
            marks.add("row with a null value")
    return marks


ALL_MARKS = {
    "row with records of several partitions",
    "record out of order",
    "row with a null value",
}


@pytest.mark.slow
@cases(10, 25)
def test_engine_equals_the_model_under_any_cut_and_restart(number: int) -> None:
    """For random logs and any cut, the rows equal the model, bit for bit."""
    reached = marks_reached(
        range(FIRST_SEED, FIRST_SEED + number), lambda seed: check_logs(table_logs(seed), seed)
    )
    assert reached == ALL_MARKS, "the random logs no longer reach every rare branch"


def test_a_wrong_model_is_noticed() -> None:
    """The comparison fails for a model of logs without their first record."""
    for seed in range(FIRST_SEED, FIRST_SEED + 50):
        logs = table_logs(seed)
        shorter = {p: log[1:] for p, log in logs.items()}
        if shorter == logs:
            continue
        with pytest.raises(AssertionError):
            check_against_model(run_engine(SETUP, logs, whole(logs)), table_rows(shorter), SETUP)
        return
    pytest.fail("fifty cases without a record")


def test_nothing_is_ever_final_or_deleted() -> None:
    """A row without windows never becomes final, so emission on close has no rows."""
    logs: Mapping[int, list[Record]] = {0: [("a", 1, {}), ("b", 10**12, {}), ("a", 2, {})]}
    run = run_engine(SETUP, logs, [{0: 1}, {0: 1}, {0: 1}])
    assert [row["final"] or row["deleted"] for batch in run.batches for row in batch] == [False] * 3
    closed = replace(SETUP, emit_final_only=True)
    assert run_engine(closed, logs, whole(logs)).rows == {}


#: Windows that are large enough for all records of the following tests.
WIDE: dict[str, Windows] = {
    "no window": NoWindows(),
    "tumbling": TimeWindows.of_size_and_grace(10**6, 0),
    "session": SessionWindows.of_inactivity_gap_and_grace(10**6, 0),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", WIDE)
def test_estimates_over_many_values_do_not_depend_on_the_cut(kind: str) -> None:
    """Sketches of thousands of values are equal for any number of saves and merges."""
    random = Random(4)
    logs: dict[int, list[Record]] = {
        p: [
            ("k", random.randrange(10**5), {"x": random.gauss(0, 1), "s": f"{random.random():.4f}"})
            for _ in range(4000)
        ]
        for p in range(2)
    }
    aggregates = {
        "middle": w.approx_quantile("x", 0.5),
        "tail": w.approx_quantile("x", 0.99),
        "different": w.approx_count_distinct("s"),
        "roughly": w.approx_count_distinct("s", 6),
    }
    values = pa.schema([("x", pa.float64()), ("s", pa.string())])
    setup = Setup(WIDE[kind], aggregates, values)
    once = run_engine(setup, logs, whole(logs))
    for size in (37, 1700):
        cuts = [
            {p: min(size, len(log) - place) for p, log in logs.items()}
            for place in range(0, 4000, size)
        ]
        assert run_engine(setup, logs, cuts, restart=True, seed=size).result() == once.result()
    (row,) = once.rows.values()
    different = len({value["s"] for log in logs.values() for _, _, value in log if value})
    assert abs(row["different"] / different - 1) < 0.05
    assert abs(row["middle"]) < 0.05
    assert abs(row["tail"] - 2.326) < 0.15


TYPED: dict[str, tuple[pa.DataType, list[object]]] = {
    "booleans": (pa.bool_(), [True, None, False, True]),
    "bytes": (pa.int8(), [5, -128, None, 127]),
    "longs": (pa.int64(), [2**53 + 1, -(2**63), 2**63 - 1, None]),
    "single floats": (pa.float32(), [0.5, 16777216.0, None, -0.25]),
    "strings": (pa.string(), ["ä", "", None, "z"]),
    "nothing": (pa.float64(), [None, None, None]),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", WIDE)
@pytest.mark.parametrize("name", TYPED)
def test_every_type_survives_being_saved(name: str, kind: str) -> None:
    """Min, max, first, last and list keep all values of each type, with one batch per record."""
    column_type, column = TYPED[name]
    aggregates = {
        "least": w.min("c"),
        "most": w.max("c"),
        "first": w.first("c"),
        "last": w.last("c"),
        "all": w.collect_list("c"),
        "n": w.count(),
        "different": w.approx_count_distinct("c"),
    }
    setup = Setup(WIDE[kind], aggregates, pa.schema([("c", column_type)]))
    # Each record is older than all records before it.
    log: list[Record] = [
        ("k", len(column) - place, {"c": value}) for place, value in enumerate(column)
    ]
    logs = {0: log, 1: log}
    present = [value for value in reversed(column) for _ in range(2) if value is not None]
    expected = {
        "least": min(present, default=None),  # type: ignore[type-var]
        "most": max(present, default=None),  # type: ignore[type-var]
        "first": present[0] if present else None,
        "last": present[-1] if present else None,
        "all": present,
        "n": 2 * len(column),
        "different": len(set(present)),
    }
    for cuts in (whole(logs), [{p: 1} for _ in log for p in logs]):
        (row,) = run_engine(setup, logs, cuts, restart=True).rows.values()
        assert {name: row[name] for name in expected} == expected


@pytest.mark.slow
@pytest.mark.parametrize("kind", WIDE)
def test_many_keys_over_all_of_time(kind: str) -> None:
    """20,000 keys with records that are ten thousand years apart have the right rows."""
    times = (0, MAX_TIMESTAMP_MS)
    log: list[Record] = [(f"{n:05d}", t, None) for t in times for n in range(20_000)]
    setup = Setup(WIDE[kind], {"n": w.count()})
    run = run_engine(setup, {0: log}, [{0: 25_000}, {0: 15_000}], restart=True)
    rows = 1 if kind == "no window" else 2
    assert len(run.rows) == rows * 20_000
    assert {row["n"] for row in run.rows.values()} == {2 // rows}
    assert (run.applied, run.late) == (40_000, 0)
