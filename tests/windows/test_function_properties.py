"""Property tests of user-defined aggregators: they are called as the slow models call them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oriel import SessionWindows, SlidingWindows, TimeWindows
from oriel.pipeline.windows import (
    EngineResult,
    NoWindows,
    Times,
    UserFunctions,
    WindowEngine,
    Windows,
)
from oriel.pipeline.windows.definitions.errors import said
from tests.campaigns import cases
from tests.models.sessions import aggregated_sessions
from tests.models.sliding_functions import LeftOut, SlidingOutcome, aggregated_sliding
from tests.models.tables import FunctionOutcome, Functions, Logs, Record, aggregated_table
from tests.models.time_windows import Hopping, aggregated_windows
from tests.windows.engine_runs import (
    Cut,
    Setup,
    check_functions_against_model,
    random_cuts,
    run_engine,
    valued_logs,
    whole,
)
from tests.windows.function_checks import check_deleted, check_only_changed_rows
from tests.windows.random_logs import marks_reached, random_case

#: Each record is a call of a Python function, which is slow.
pytestmark = pytest.mark.slow

CASES = 30
FIRST_SEED = 3_000_000
VALUES = pa.schema([("s", pa.string())])
STEP = "store 's', aggregate"


class Refused(ArithmeticError):
    """The error that the functions raise."""


def joined(key: str, value: Any, old: str) -> str | None:
    """Concatenate strings in the order of the calls.

    The result of "-" is null. "!" raises an error. "?" and "^" raise it only in some windows, which
    then must not contain the record.
    """
    text = "" if value is None else value["s"]
    if text == "!" or (text == "?" and len(old) % 2) or (text == "^" and not len(old) % 3):
        raise Refused(key)
    return None if text == "-" else f"{old}+{text}"


def merged(key: str, left: str, right: str) -> str:
    """Return a string that shows both arguments, so each order of calls has another result."""
    return f"({key}:{left}|{right})"


def counted(key: str, value: Any, old: dict[str, Any]) -> dict[str, Any] | None:
    """Return two columns: the string, and the number of its records."""
    text = joined(key, value, old["text"])
    return None if text is None else {"text": text, "n": old["n"] + 1}


def added(key: str, left: dict[str, Any], right: dict[str, Any]) -> dict[str, Any]:
    """Merge both columns."""
    return {"text": merged(key, left["text"], right["text"]), "n": left["n"] + right["n"]}


def starred(key: str, value: Any, old: str) -> str | None:
    """Append a star: the aggregator of the second stream of a cogroup."""
    text = joined(key, value, old)
    return None if text is None else f"{text}*"


@dataclass(frozen=True)
class Kind:
    """Functions of one kind, and the columns of their aggregate."""

    functions: Functions
    types: dict[str, pa.DataType]

    def fold(self) -> UserFunctions:
        """Return the functions for the engine."""
        f = self.functions
        return UserFunctions(f.initializer, f.aggregators, f.merger, types=self.types, step=STEP)


TEXT = {"text": pa.string()}
KINDS = {
    "aggregate": Kind(Functions(lambda: "0", (joined,), merged), TEXT),
    "two columns": Kind(
        Functions(lambda: {"text": "", "n": 0}, (counted,), added), {**TEXT, "n": pa.int64()}
    ),
    "cogroup": Kind(Functions(lambda: "", (joined, starred), merged), TEXT),
    "reduce": Kind(Functions(None, (joined,), merged), {"s": pa.string()}),
}


@dataclass(frozen=True)
class FunctionCase:
    """One random case, named by its seed."""

    seed: int
    windows: Windows
    kind: str
    logs: Logs
    model: Callable[[Logs, Functions], FunctionOutcome]

    def expected(self) -> FunctionOutcome:
        """Return the result of the model."""
        return self.model(self.logs, KINDS[self.kind].functions)

    @property
    def setup(self) -> Setup:
        """Return the functions for the engine."""
        return Setup(self.windows, KINDS[self.kind].fold(), VALUES)


def time_case(seed: int, kind: str) -> FunctionCase:
    """Return a case of tumbling or hopping windows."""
    case, random = random_case(seed), Random(seed + 5)
    size = random.choice((1, 3, 5, 12))
    hopping = Hopping(size, random.randint(1, size), case.grace)
    windows = TimeWindows.of_size_and_grace(size, case.grace).advance_by(hopping.advance)
    logs = with_texts(valued_logs(seed), seed)
    return FunctionCase(
        seed, windows, kind, logs, lambda logs, f: aggregated_windows(logs, hopping, f)
    )


def session_case(seed: int, kind: str) -> FunctionCase:
    """Return a case of sessions."""
    case = random_case(seed)
    gap, grace = case.difference, case.grace
    windows = SessionWindows.of_inactivity_gap_and_grace(gap, grace)
    logs = with_texts(valued_logs(seed), seed)
    return FunctionCase(
        seed, windows, kind, logs, lambda logs, f: aggregated_sessions(logs, gap, grace, f)
    )


def sliding_case(seed: int, kind: str) -> FunctionCase:
    """Return a case of sliding windows. An earlier step rejects null values."""
    case = random_case(seed)
    difference, grace = case.difference, case.grace
    windows = SlidingWindows.of_time_difference_and_grace(difference, grace)
    logs = with_values(with_texts(valued_logs(seed), seed))
    return FunctionCase(
        seed, windows, kind, logs, lambda logs, f: aggregated_sliding(logs, difference, grace, f)
    )


def table_case(seed: int, kind: str) -> FunctionCase:
    """Return a case without windows. An earlier step rejects null values."""
    logs = with_values(with_texts(valued_logs(seed), seed))
    return FunctionCase(seed, NoWindows(), kind, logs, aggregated_table)


def with_texts(
    logs: Mapping[int, Sequence[tuple[str, int, object]]], seed: int
) -> dict[int, list[Record]]:
    """Return the logs with a unique string per record. Some strings are special."""
    random = Random(seed + 9)
    records: dict[int, list[Record]] = {}
    for p, log in logs.items():
        records[p] = []
        for place, (key, time, _) in enumerate(log):
            chance = random.random()
            text = f"{p}.{place}"
            if chance < 0.2:
                text = "!" if chance < 0.03 else "?" if chance < 0.07 else "-"
                text = "^" if chance > 0.16 else text
            records[p].append((key, time, None if chance > 0.95 else {"s": text}))
    return records


def with_values(logs: Logs) -> Logs:
    """Return the logs without records with a null value."""
    return {p: [record for record in log if record[2] is not None] for p, log in logs.items()}


MAKERS = {
    "time": time_case,
    "sliding": sliding_case,
    "session": session_case,
    "table": table_case,
}


@dataclass(frozen=True)
class Noting(Setup):
    """A setup whose engines collect the records that windows leave out."""

    left_out: list[dict[str, Any]] = field(default_factory=list)

    def engine(self) -> WindowEngine:
        """Return a new engine that collects the dead letters of its results."""
        engine = super().engine()
        apply = engine.apply

        def noted(state: pa.Table, batch: pa.Table, times: Times) -> EngineResult:
            result = apply(state, batch, times)
            self.left_out.extend(result.left_out.to_pylist())
            return result

        engine.apply = noted  # type: ignore[method-assign]
        return engine


def error_text(key: str) -> str:
    """Return the text of an error of a function in a dead letter."""
    return said(Refused(key))


def left_out_of(outcome: FunctionOutcome) -> list[LeftOut]:
    """Return the records that the model leaves out of windows. Only sliding windows do this."""
    return outcome.left_out if isinstance(outcome, SlidingOutcome) else []


def check_left_out(setup: Noting, outcome: FunctionOutcome) -> None:
    """Check that a record has one dead letter per window without it, with the carried columns."""
    wanted = sorted(
        (
            one.record.partition,
            one.record.offset,
            f"of {one.record.key}",
            f"left out of the window {[one.start, one.end]}: {STEP}: {error_text(one.record.key)}",
        )
        for one in left_out_of(outcome)
        if one.final or not setup.emit_final_only
    )
    found = sorted(
        (row["partition"], row["offset"], row["group"], row["detail"]) for row in setup.left_out
    )
    assert found == wanted, "other records are left out of windows"


def check_case(case: FunctionCase) -> set[str]:
    """Compare a case with the model: one batch, cut, and only final rows. Return its branches."""
    outcome = case.expected()
    names = list(KINDS[case.kind].types)
    noting = Noting(**vars(case.setup))
    once = run_engine(noting, case.logs, whole(case.logs))
    check_functions_against_model(once, outcome, case.setup, names)
    check_left_out(noting, outcome)
    noting.left_out.clear()
    cuts = random_cuts(case.logs, Random(case.seed + 1))
    cut = run_engine(noting, case.logs, cuts, restart=True, seed=case.seed)
    check_deleted(cut, outcome, cuts, case.windows.kind)
    if case.windows.kind == "session":
        check_only_changed_rows(cut)
    assert cut.result() == once.result(), "another cut has another result"
    check_left_out(noting, outcome)
    closed = replace(noting, emit_final_only=True, left_out=[])
    last = run_engine(closed, case.logs, cuts, restart=True)
    check_functions_against_model(last, outcome, closed, names)
    check_left_out(closed, outcome)
    marks = {"rejected"} if outcome.rejected else set()
    marks |= {"left out"} if left_out_of(outcome) else set()
    marks |= {"late"} if outcome.late else set()
    marks |= {"deleted"} if cut.deleted else set()
    marks |= {"final"} if any(row.final for row in outcome.rows.values()) else set()
    texts = [row.value if isinstance(row.value, str) else row.value["text"]
             for row in outcome.rows.values()]  # fmt: skip
    return marks | ({"merged"} if any("|" in text for text in texts) else set())


def check_any_kind(maker: Callable[[int, str], FunctionCase], seed: int) -> set[str]:
    """Check the case of ``seed`` with one kind of functions."""
    return check_case(maker(seed, list(KINDS)[seed % len(KINDS)]))


#: Without windows, no record is late, and no row is final.
ALL_MARKS = {"rejected", "deleted", "merged"}
WINDOW_MARKS = ALL_MARKS | {"late", "final"}


@cases(8, 30)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("windows", MAKERS)
def test_functions_are_called_as_the_model_calls_them(windows: str, kind: str, number: int) -> None:
    """For random logs, rows and the order of calls equal the model, for any cut and restart."""
    reached = marks_reached(
        range(FIRST_SEED, FIRST_SEED + number), lambda seed: check_case(MAKERS[windows](seed, kind))
    )
    marks = ALL_MARKS if windows == "table" else WINDOW_MARKS
    if windows == "sliding":
        marks = marks | {"left out"}
        # A reducer is not called for the first value, so it does not raise an error.
        marks -= {"rejected"} if kind == "reduce" else set()
    assert reached == marks, "the random logs no longer reach every rare branch"


#: A record: partition, key, time and string.
RECORD = st.tuples(
    st.integers(0, 2),
    st.sampled_from("kkkl"),
    st.integers(0, 25),
    st.sampled_from(["a", "bb", "ccc", "?", "^", "?", "^", "-", "!"]),
)
#: A batch: the number of records of each partition.
STEP_OF_CUT = st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 3))


@given(
    st.lists(RECORD, max_size=14),
    st.integers(1, 3),
    st.tuples(st.integers(1, 8), st.integers(0, 8)),
    st.lists(STEP_OF_CUT, max_size=12),
    st.sampled_from(sorted(KINDS)),
    st.booleans(),
)
@settings(max_examples=settings().max_examples * 4)
def test_each_record_left_out_of_a_window_has_one_dead_letter(
    records: list[tuple[int, str, int, str]],
    partitions: int,
    length: tuple[int, int],
    steps: list[tuple[int, int, int]],
    kind: str,
    closed: bool,
) -> None:
    """For any cut, restart and emission, the dead letters equal the model."""
    logs: dict[int, list[Record]] = {p: [] for p in range(partitions)}
    for partition, key, time, text in records:
        logs[partition % partitions].append((key, time, {"s": text}))
    windows = SlidingWindows.of_time_difference_and_grace(*length)
    outcome = aggregated_sliding(logs, *length, KINDS[kind].functions)
    setup = Noting(windows, KINDS[kind].fold(), VALUES, emit_final_only=closed)
    run = run_engine(setup, logs, cuts_of(logs, steps), restart=True)
    check_functions_against_model(run, outcome, setup, list(KINDS[kind].types))
    check_left_out(setup, outcome)


def cuts_of(logs: Logs, steps: Sequence[tuple[int, int, int]]) -> list[Cut]:
    """Return one batch per step, and a batch with the remaining records."""
    left = {p: len(log) for p, log in logs.items()}
    cuts = []
    for step in steps:
        cut = {p: min(step[p], n) for p, n in left.items()}
        left = {p: n - cut[p] for p, n in left.items()}
        cuts.append(cut)
    return [*cuts, left]


def test_a_wrong_order_of_calls_is_noticed() -> None:
    """The comparison fails for a model that swaps the arguments of the merger."""
    wrong = Functions(lambda: "0", (joined,), lambda key, left, right: merged(key, right, left))
    for seed in range(FIRST_SEED, FIRST_SEED + CASES):
        case = table_case(seed, "aggregate")
        run = run_engine(case.setup, case.logs, whole(case.logs))
        try:
            check_functions_against_model(run, case.model(case.logs, wrong), case.setup, ["text"])
        except AssertionError:
            return
    pytest.fail("no case fails with a merger that swaps its arguments")


def test_a_rejected_record_says_which_step_failed_and_why() -> None:
    """The detail names the step, the error and its message."""
    log: list[Record] = [("k", 1, {"s": "a"}), ("k", 2, {"s": "!"}), ("k", 3, {"s": "b"})]
    setup = Setup(NoWindows(), KINDS["aggregate"].fold(), VALUES)
    run = run_engine(setup, {0: log}, whole({0: log}))
    (place, detail), *rest = run.rejected.items()
    assert (place, rest) == ((0, 1), [])
    assert STEP in detail
    assert "Refused" in detail
    (row,) = run.rows.values()
    assert row["text"] == "0+a+b"


@pytest.mark.parametrize("windows", MAKERS)
def test_records_that_share_an_offset_are_called_in_their_order(windows: str) -> None:
    """The results of a join share the offset of a record, and have an order."""
    for seed in range(FIRST_SEED, FIRST_SEED + 10):
        case = MAKERS[windows](seed, "aggregate")
        # No record is rejected, because the offset identifies a rejected record.
        logs = {
            p: [r for r in log if r[2] is None or r[2]["s"] not in {"!", "?", "^"}]
            for p, log in case.logs.items()
        }
        once = run_engine(case.setup, logs, whole(logs))
        shared = replace(case.setup, shared_offsets=True)
        cuts = random_cuts(logs, Random(seed))
        cut = run_engine(shared, logs, cuts, restart=True, seed=seed)
        assert cut.result() == once.result(), f"seed {seed}"
