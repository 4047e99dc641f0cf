"""Property tests of tumbling and hopping windows: the engine against the slow model."""

from dataclasses import dataclass, replace
from random import Random

import pytest

from oriel import TimeWindows
from tests.campaigns import cases
from tests.models.tables import Logs, Outcome, arrivals
from tests.models.time_windows import Hopping, expected_windows
from tests.windows.engine_runs import (
    Setup,
    check_against_model,
    random_cuts,
    run_engine,
    ties_against_offsets,
    valued_logs,
    whole,
)
from tests.windows.random_logs import marks_reached, random_case

FIRST_SEED = 6_000_000


@dataclass(frozen=True)
class TimeCase:
    """One random case, named by its seed."""

    seed: int
    windows: Hopping
    logs: Logs

    @property
    def setup(self) -> Setup:
        """Return the setup of the engine."""
        size, advance, grace = self.windows.size, self.windows.advance, self.windows.grace
        return Setup(TimeWindows.of_size_and_grace(size, grace).advance_by(advance))


def time_case(seed: int) -> TimeCase:
    """Return the case of ``seed``. One of three cases is tumbling."""
    case, random = random_case(seed), Random(seed + 5)
    size = random.choice((1, 2, 3, 5, 10, 12))
    advance = random.choice((size, max(1, size // 2), random.randint(1, size)))
    return TimeCase(seed, Hopping(size, advance, case.grace), valued_logs(seed))


def check_case(case: TimeCase) -> set[str]:
    """Compare a case with the model: one batch, cut, and only final rows. Return its branches."""
    outcome = expected_windows(case.logs, case.windows)
    once = run_engine(case.setup, case.logs, whole(case.logs))
    check_against_model(once, outcome, case.setup)
    cuts = random_cuts(case.logs, Random(case.seed + 1))
    cut = run_engine(case.setup, case.logs, cuts, restart=True, seed=case.seed)
    assert cut.result() == once.result(), "another cut has another result"
    closed = replace(case.setup, emit_final_only=True, shared_offsets=True)
    check_against_model(run_engine(closed, case.logs, cuts, restart=True), outcome, closed)
    return _marks(case, outcome)


def _marks(case: TimeCase, outcome: Outcome) -> set[str]:
    """Return the rare branches that a case reaches."""
    marks = {"late"} if outcome.late else set()
    for window in outcome.windows.values():
        if len({m.partition for m in window.members}) > 1:
            marks.add("window with records of several partitions")
        if ties_against_offsets(window):
            marks.add("equal times in an order that is not that of offsets")
        if any(m.value is None for m in window.members):
            marks.add("null value")
        marks.add("final" if window.final else "not final")
    for record in arrivals(case.logs, case.windows.grace):
        starts = case.windows.starts(record.time)
        opened = case.windows.open_starts(record)
        if 0 < len(opened) < len(starts):
            marks.add("partly late")
        if record.time < case.windows.size - case.windows.advance:
            marks.add("fewer windows near zero")
        if len({start for start in starts if start % case.windows.size}) > 1:
            marks.add("starts that are not multiples of the size")
    return marks


ALL_MARKS = {
    "late",
    "window with records of several partitions",
    "equal times in an order that is not that of offsets",
    "null value",
    "final",
    "not final",
    "partly late",
    "fewer windows near zero",
    "starts that are not multiples of the size",
}


@pytest.mark.slow
@cases(10, 25)
def test_engine_equals_the_model_under_any_cut_restart_and_emission(number: int) -> None:
    """For random logs and any cut, the windows equal the model, bit for bit."""
    reached = marks_reached(
        range(FIRST_SEED, FIRST_SEED + number), lambda seed: check_case(time_case(seed))
    )
    assert reached == ALL_MARKS, "the random logs no longer reach every rare branch"


def test_a_wrong_model_is_noticed() -> None:
    """The comparison fails for a model with another grace."""
    for seed in range(FIRST_SEED, FIRST_SEED + 50):
        case = time_case(seed)
        wrong = replace(case.windows, grace=case.windows.grace + 1)
        run = run_engine(case.setup, case.logs, whole(case.logs))
        try:
            check_against_model(run, expected_windows(case.logs, wrong), case.setup)
        except AssertionError:
            return
    pytest.fail("fifty cases did not notice a wrong grace")


@pytest.mark.slow
def test_the_state_drops_final_windows() -> None:
    """Once all partitions are past a window, the state has no rows of it."""
    for seed in range(FIRST_SEED, FIRST_SEED + 8):
        case = time_case(seed)
        logs = {p: [*log, ("later", 10_000, None)] for p, log in case.logs.items()}
        run = run_engine(case.setup, logs, random_cuts(logs, Random(seed)))
        latest = sum(place[0] == "later" for place in run.rows)
        assert run.state_rows <= latest * len(logs), f"seed {seed}"
