"""Property tests: the engine against the slow model, under any cut and any restart."""

from dataclasses import replace
from random import Random

import pytest

from tests.campaigns import cases
from tests.models.sliding import expected
from tests.windows.batches import check_against_model, random_cuts, run_engine, whole
from tests.windows.random_logs import Case, marks_reached, random_case

#: Other seeds than the first ones of the offline campaign, so that both check other cases.
FIRST_SEED = 5_000_000


def check_case(case: Case) -> set[str]:
    """Compare a case with the model, in one batch and cut. Return its rare branches."""
    outcome = expected(case.logs, case.difference, case.grace)
    random = Random(case.seed + 1)
    once = run_engine(case.logs, case.difference, case.grace, whole(case.logs))
    check_against_model(once, outcome)
    cuts = random_cuts(case.logs, random)
    cut = run_engine(case.logs, case.difference, case.grace, cuts, restart=True)
    assert cut.rows == once.rows, "another cut has another result"
    assert (cut.applied, cut.late) == (once.applied, once.late)
    return _marks(case)


def _marks(case: Case) -> set[str]:
    """Return the rare branches that a case reaches."""
    outcome = expected(case.logs, case.difference, case.grace)
    marks = {"late"} if outcome.late else set()
    accepted = {m for w in outcome.windows.values() for m in w.members}
    for (key, _start), window in outcome.windows.items():
        inside = [r for r in accepted if r.key == key and window.start <= r.time <= window.end]
        if len(inside) > len(window.members):
            marks.add("partly late record left out of a closed window")
        if len({m.partition for m in window.members}) > 1:
            marks.add("window with records of several partitions")
        if window.final:
            marks.add("final")
        if any(m.time < case.difference for m in window.members):
            marks.add("early record")
    for record in accepted:
        if (record.key, max(0, record.time - case.difference)) not in outcome.windows:
            marks.add("left window not created because it was closed")
    return marks


ALL_MARKS = {
    "late",
    "partly late record left out of a closed window",
    "window with records of several partitions",
    "final",
    "early record",
    "left window not created because it was closed",
}


@pytest.mark.slow
@cases(80, 400)
def test_engine_equals_the_model_on_random_logs_under_any_cut_and_restart(number: int) -> None:
    """For hundreds of random logs and any cut, the windows equal the model, bit for bit."""
    reached = marks_reached(
        range(FIRST_SEED, FIRST_SEED + number), lambda seed: check_case(random_case(seed))
    )
    assert reached == ALL_MARKS, "the random logs no longer reach every rare branch"


def test_a_wrong_model_is_noticed() -> None:
    """The comparison fails for a model with another grace."""
    for seed in range(FIRST_SEED, FIRST_SEED + 50):
        case = random_case(seed)
        wrong = replace(case, grace=case.grace + 1)
        run = run_engine(case.logs, case.difference, case.grace, whole(case.logs))
        try:
            check_against_model(run, expected(wrong.logs, wrong.difference, wrong.grace))
        except AssertionError:
            return
    pytest.fail("fifty cases did not notice a wrong grace")
