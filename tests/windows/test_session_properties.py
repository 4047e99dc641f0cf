"""Property tests of sessions: the engine against the slow model of decision 0009."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from random import Random

import numpy as np
import pytest

from oriel import SessionWindows
from oriel.pipeline.windows.engines.sessions.merging import overlapping
from tests.campaigns import cases
from tests.models.sessions import PartSession, components, expected_sessions, part_sessions
from tests.models.tables import Logs, Outcome
from tests.windows.engine_runs import (
    Run,
    Setup,
    check_against_model,
    random_cuts,
    run_engine,
    ties_against_offsets,
    valued_logs,
    whole,
)
from tests.windows.random_logs import marks_reached, random_case

#: Thirty cases with these seeds reach every rare branch, unlike most other seeds.
FIRST_SEED = 7_002_552


@dataclass(frozen=True)
class SessionCase:
    """One random case, named by its seed."""

    seed: int
    gap: int
    grace: int
    logs: Logs

    @property
    def setup(self) -> Setup:
        """Return the setup of the engine."""
        return Setup(SessionWindows.of_inactivity_gap_and_grace(self.gap, self.grace))


def session_case(seed: int) -> SessionCase:
    """Return the case of ``seed``."""
    case = random_case(seed)
    return SessionCase(seed, case.difference, case.grace, valued_logs(seed))


def check_case(case: SessionCase) -> set[str]:
    """Compare a case with the model: one batch, cut, and only final rows. Return its branches."""
    outcome = expected_sessions(case.logs, case.gap, case.grace)
    once = run_engine(case.setup, case.logs, whole(case.logs))
    check_against_model(once, outcome, case.setup)
    cuts = random_cuts(case.logs, Random(case.seed + 1))
    cut = run_engine(case.setup, case.logs, cuts, restart=True, seed=case.seed)
    assert cut.result() == once.result(), "another cut has another result"
    closed = replace(case.setup, emit_final_only=True, shared_offsets=True)
    check_against_model(run_engine(closed, case.logs, cuts, restart=True), outcome, closed)
    return _marks(case, outcome, cut)


def _marks(case: SessionCase, outcome: Outcome, run: Run) -> set[str]:
    """Return the rare branches that a case reaches."""
    marks = {"late"} if outcome.late else set()
    marks |= {"a session vanished"} if run.deleted else set()
    for window in outcome.windows.values():
        marks.add("final" if window.final else "not final")
        if ties_against_offsets(window):
            marks.add("equal times in an order that is not that of offsets")
        if any(m.value is None for m in window.members):
            marks.add("null value")
        if any(m.time < m.close for m in window.members):
            marks.add("record older than the grace that extends an open session")
    parts = part_sessions(case.logs, case.gap, case.grace)
    for component in components(parts, case.gap):
        if len({session.partition for session in component}) < len(component) > 2:
            marks.add("two sessions of one partition merged by another partition")
        if len({session.partition for session in component}) > 2:
            marks.add("session of three partitions")
    return marks | _pair_marks(parts, case.gap)


def _pair_marks(parts: Sequence[PartSession], gap: int) -> set[str]:
    """Return the rare relations of two partition sessions of one key."""
    marks = set()
    component_of = {id(s): i for i, c in enumerate(components(parts, gap)) for s in c}
    for left, right in combinations(parts, 2):
        within_gap = left.start - gap <= right.end and right.start - gap <= left.end
        if left.records[0].key != right.records[0].key or not within_gap:
            continue
        same_partition = left.partition == right.partition
        if component_of[id(left)] == component_of[id(right)]:
            marks |= set() if same_partition else {"sessions of two partitions merged"}
        elif same_partition:
            marks.add("frozen session near an open one of its partition")
        elif left.start <= right.end and right.start <= left.end:
            marks.add("overlap of sessions of two partitions that are not merged")
        else:
            marks.add("sessions of two partitions within the gap that are not merged")
    return marks


ALL_MARKS = {
    "late",
    "a session vanished",
    "final",
    "not final",
    "equal times in an order that is not that of offsets",
    "null value",
    "record older than the grace that extends an open session",
    "two sessions of one partition merged by another partition",
    "session of three partitions",
    "sessions of two partitions merged",
    "frozen session near an open one of its partition",
    "overlap of sessions of two partitions that are not merged",
    "sessions of two partitions within the gap that are not merged",
}


@pytest.mark.slow
@cases(12, 30)
def test_engine_equals_the_model_under_any_cut_restart_and_emission(number: int) -> None:
    """For random logs and any cut, the sessions equal the model, bit for bit."""
    reached = marks_reached(
        range(FIRST_SEED, FIRST_SEED + number), lambda seed: check_case(session_case(seed))
    )
    assert reached == ALL_MARKS, "the random logs no longer reach every rare branch"


def test_a_wrong_model_is_noticed() -> None:
    """The comparison fails for a model with another gap."""
    for seed in range(FIRST_SEED, FIRST_SEED + 50):
        case = session_case(seed)
        run = run_engine(case.setup, case.logs, whole(case.logs))
        wrong = expected_sessions(case.logs, case.gap + 1, max(case.grace - 1, 0))
        try:
            check_against_model(run, wrong, case.setup)
        except AssertionError:
            return
    pytest.fail("fifty cases did not notice a wrong gap")


@pytest.mark.slow
def test_the_state_drops_final_sessions() -> None:
    """Once all partitions are past a session, the state has no rows of it."""
    for seed in range(FIRST_SEED, FIRST_SEED + 8):
        case = session_case(seed)
        logs = {p: [*log, ("later", 10_000, None)] for p, log in case.logs.items()}
        run = run_engine(case.setup, logs, random_cuts(logs, Random(seed)))
        assert run.state_rows <= len(logs), f"seed {seed}"


def test_a_final_session_never_changes_whatever_comes_later() -> None:
    """A row that is final after a prefix of the logs is the same after the whole logs."""
    for seed in range(FIRST_SEED, FIRST_SEED + 60):
        case, random = session_case(seed), Random(seed)
        prefix = {p: log[: random.randint(0, len(log))] for p, log in case.logs.items()}
        before = expected_sessions(prefix, case.gap, case.grace).windows
        after = expected_sessions(case.logs, case.gap, case.grace).windows
        for place, window in before.items():
            if window.final:
                emitted, later = ([m.order for m in w.members] for w in (window, after[place]))
                assert emitted == later, f"seed {seed}"


@pytest.mark.parametrize("scale", [1, 2**57], ids=["near", "spread over all of 64 bits"])
def test_overlapping_intervals_are_grouped_through_others(scale: int) -> None:
    """The groups are the connected components of overlapping intervals of one key."""
    random = Random(scale)
    for case in range(200):
        lows = [random.randint(0, 30) for _ in range(random.randint(0, 12))]
        intervals = [(random.randint(0, 2), low, low + random.randint(0, 6)) for low in lows]
        columns = np.array(intervals, dtype=np.int64).reshape(-1, 3).T
        order, groups = overlapping(columns[0], columns[1] * scale, columns[2] * scale)
        grouped = [sorted(order[low:high].tolist()) for low, high in groups.pairs()]
        assert sorted(grouped) == sorted(_components(intervals)), f"case {case}: {intervals}"


def _components(intervals: Sequence[tuple[int, int, int]]) -> list[list[int]]:
    """Return the groups of overlapping intervals, by merging groups with each new interval."""
    groups: list[list[int]] = []
    for i, (code, low, high) in enumerate(intervals):
        apart, joined = [], [i]
        for group in groups:
            touches = any(
                intervals[j][0] == code and intervals[j][1] <= high and low <= intervals[j][2]
                for j in group
            )
            if touches:
                joined += group
            else:
                apart.append(group)
        groups = [*apart, sorted(joined)]
    return groups
