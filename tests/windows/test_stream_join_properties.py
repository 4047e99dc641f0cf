"""The stream-stream join equals its slow model, whatever the cut, interleaving and restarts."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any, get_args

import pyarrow as pa
import pytest

from oriel import JoinWindows
from oriel.pipeline.windows import LEFT, RIGHT, StreamJoinEngine, Times
from oriel.pipeline.windows.joins.inputs import How
from tests.campaigns import cases
from tests.models.joins import Arrived, Joined, Result, Span, clock, joined
from tests.windows.join_batches import (
    Batch,
    Cut,
    Sides,
    batches,
    random_cuts,
    random_logs,
    saved_and_loaded,
    to_table,
    whole,
)
from tests.windows.lineages import values_of
from tests.windows.random_logs import marks_reached

#: (before, after). With a negative bound, the range is only before or only after the record.
REACHES = ((0, 0), (2, 2), (5, 5), (10, 0), (0, 10), (3, 12), (10, -3), (-3, 10), (-4, 4), (4, -4))
LEFT_VALUES = pa.schema([("l", pa.string())])
RIGHT_VALUES = pa.schema([("r", pa.string())])
CARRIED = pa.schema([("key_group", pa.int32())])


@dataclass(frozen=True)
class Case:
    """One random case, named by its seed."""

    seed: int
    how: How
    span: Span
    sides: Sides


def random_case(seed: int) -> Case:
    """Return the case of ``seed``."""
    random = Random(seed)
    before, after = random.choice(REACHES)
    span = Span(before, after, random.choice((0, 0, 1, 3, 10, 40)))
    sides = (random_logs(random, "l", 0.05), random_logs(random, "r", 0.05))
    return Case(seed, random.choice(get_args(How)), span, sides)


def engine_of(how: How, span: Span) -> StreamJoinEngine:
    """Return the engine under test."""
    windows = JoinWindows(span.before, span.after, span.grace)
    return StreamJoinEngine(windows, how, LEFT_VALUES, RIGHT_VALUES, CARRIED)


def run_engine(case: Case, cuts: Sequence[Cut], *, restart: bool = False) -> list[Result]:
    """Process the case in batches, and compare all results with the model after each batch."""
    engine = engine_of(case.how, case.span)
    state = engine.empty_state()
    results: list[Result] = []
    late = 0
    for batch in batches(case.sides, cuts):
        stream_times = (clock(batch.so_far[LEFT]), clock(batch.so_far[RIGHT]))
        result = engine.apply(state, _table(engine, batch), Times.at(stream_times))
        state = saved_and_loaded(result.state) if restart else result.state
        results += [_result(row) for row in result.results.to_pylist()]
        late += sum(result.late)
        left, right = batch.so_far
        model = joined(left, right, case.span)
        assert sorted(results, key=_place) == model.results(case.how)
        assert late == len(model.left_late) + len(model.right_late)
        assert _state_rows(state) == _open(model), (
            "the state does not have exactly the records that can still match"
        )
    return sorted(results, key=_place)


def _table(engine: StreamJoinEngine, batch: Batch) -> pa.Table:
    sides = [
        to_table(engine.record_schema, batch.new[side], column, side=side)
        for side, column in ((RIGHT, "r"), (LEFT, "l"))
    ]
    return pa.concat_tables(sides)


def _result(row: dict[str, Any]) -> Result:
    names = ("key", "timestamp_ms", "partition", "offset", "__lineage", "stream_time_ms", "l", "r")
    assert tuple(row) == names
    result: Result = values_of(row)
    return result


def _place(result: Result) -> tuple[Any, ...]:
    """Return time, partition, offset and lineage, which identify a result."""
    return result[1:5]


def _state_rows(state: pa.Table) -> set[tuple[Any, ...]]:
    names = ("side", "key", "partition", "offset", "matched", "key_group", "l", "r")
    rows = {tuple(row[name] for name in names) for row in state.to_pylist()}
    assert len(rows) == len(state), "the state has a record twice"
    return rows


def _open(model: Joined) -> set[tuple[Any, ...]]:
    def row(side: int, record: Arrived) -> tuple[Any, ...]:
        matched = any(pair[side] == record for pair in model.pairs)
        values = (record.value, None) if side == LEFT else (None, record.value)
        place = (side, record.key, record.partition, record.offset)
        return (*place, matched, len(record.key), *values)

    left = {row(LEFT, record) for record in model.left_open}
    return left | {row(RIGHT, record) for record in model.right_open}


def check_case(case: Case) -> set[str]:
    """Compare a case with the model, in one batch and cut. Return its rare branches."""
    random = Random(case.seed + 1)
    once = run_engine(case, whole(case.sides))
    assert len({result[1:5] for result in once}) == len(once), "two results have the same lineage"
    for restart in (False, True):
        cut = run_engine(case, random_cuts(case.sides, random), restart=restart)
        assert cut == once, "another cut has another result"
    return _marks(case)


def _marks(case: Case) -> set[str]:
    """Return the rare branches that a case reaches."""
    span, model = case.span, joined(*case.sides, case.span)
    marks = {mark for left, right in model.pairs for mark in _pair_marks(left, right, span)}
    right_bound = clock(case.sides[RIGHT]) - span.grace - max(span.before, 0) - span.after
    patient = joined(*case.sides, replace(span, grace=1000))
    reached = {
        "left late": model.left_late,
        "right late": model.right_late,
        "late, although it could have matched": {left for left, _ in patient.pairs}.intersection(
            model.left_late
        ),
        "left alone": model.left_alone,
        "right alone": model.right_alone,
        "left waits in its last ms": [left for left in model.left_open if left.time == right_bound],
        "left does not wait in the next ms": [
            left for left in model.left_alone if left.time == right_bound - 1
        ],
        "silent partition": [log for logs in case.sides for log in logs.values() if not log],
    }
    return marks | {mark for mark, seen in reached.items() if seen}


def _pair_marks(left: Arrived, right: Arrived, span: Span) -> set[str]:
    reached = {
        "match at the lower bound": right.time - left.time == -span.before,
        "match at the upper bound": right.time - left.time == span.after,
        "match of two partitions": left.partition != right.partition,
        "match in a range before the record": span.after < 0,
        "match in a range after the record": span.before < 0,
        "match of two records older than the stream times": left.time < left.stream_time
        and right.time < right.stream_time,
    }
    return {mark for mark, seen in reached.items() if seen}


ALL_MARKS = {
    "left late",
    "right late",
    "late, although it could have matched",
    "left alone",
    "right alone",
    "left waits in its last ms",
    "left does not wait in the next ms",
    "silent partition",
    "match at the lower bound",
    "match at the upper bound",
    "match of two partitions",
    "match in a range before the record",
    "match in a range after the record",
    "match of two records older than the stream times",
}


@pytest.mark.slow
@cases(120, 250)
def test_engine_equals_the_model_on_random_logs_under_any_cut_and_restart(number: int) -> None:
    """After each batch, the results equal the model of the logs so far, for each cut."""
    reached = marks_reached(range(number), lambda seed: check_case(random_case(seed)))
    assert reached == ALL_MARKS, "the random logs no longer reach every rare branch"


@pytest.mark.parametrize(
    "wrong",
    [{"grace": 1}, {"before": 1}, {"after": 1}],
    ids=["grace", "before", "after"],
)
def test_a_wrong_model_is_noticed(wrong: dict[str, int]) -> None:
    """The comparison fails for a model with another bound."""
    for seed in range(100):
        case = random_case(seed)
        results = run_engine(case, whole(case.sides))
        other = Span(**{
            name: getattr(case.span, name) + wrong.get(name, 0)
            for name in ("before", "after", "grace")
        })  # fmt: skip
        if joined(*case.sides, other).results(case.how) != results:
            return
    pytest.fail(f"a hundred cases did not notice {wrong} more")
