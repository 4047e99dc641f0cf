"""End to end: disorder, random cuts, SIGKILL at any step; all that is kept equals the model."""

import pytest

from tests.system.kills.expected_rows import STORES, bad_for_all, expected_stores
from tests.system.kills.killed_runs import Survivor
from tests.system.kills.kinds_topology import GRACE_MS, LAYERS, TEXTS
from tests.system.kills.table_checks import check_rows, told_letters, told_rows

pytestmark = pytest.mark.e2e

#: Reasons that dead letters of the random logs have.
REASONS = {
    "not-json", "missing-timestamp", "negative-timestamp", "wrong-type", "null-key", "null-value",
    "function-raised",
}  # fmt: skip


@pytest.mark.parametrize("store", STORES)
def test_killed_at_any_step_a_table_is_that_of_an_undisturbed_run(
    survivor: Survivor, store: str
) -> None:
    """Every window of the model is the newest row of it, final rows come once and last."""
    check_rows(told_rows(survivor.table(store)), survivor.stores[store])


def test_dead_letters_are_there_once(survivor: Survivor) -> None:
    """Each with its bytes: bad lines once, what is bad for a store once for that store."""
    wanted = bad_for_all(survivor.lines)
    wanted |= {letter for store in survivor.stores.values() for letter in store.letters}
    found = told_letters(survivor.table("_dead_letters"))
    assert sorted(found, key=repr) == sorted(wanted, key=repr)


def test_the_logs_reach_what_they_are_for(survivor: Survivor) -> None:
    """Late records, windows that are final and others, merged sessions, every dead letter."""
    for store in survivor.stores.values():
        if store.is_windowed:
            # Of windows that hold those in front nothing is late.
            assert store.counters["late"] or store.name == LAYERS, store.name
            finals = [place for place, row in store.rows.items() if row["final"]]
            assert finals, store.name
            is_open = len(finals) < len(store.rows)
            assert is_open != store.has_final_only, store.name
    sessions = told_rows(survivor.table("session_update"))
    deleted = [row for rows in sessions.values() for row in rows if row["deleted"]]
    assert deleted, f"no session was merged into another: {sorted(sessions)}"
    starts = [place[:2] for place in survivor.stores["session_close"].rows]
    assert len(set(starts)) < len(starts), "no two sessions of a key begin together"
    assert survivor.stores[TEXTS].counters["filtered"]
    letters = told_letters(survivor.table("_dead_letters"))
    assert {reason for _, _, _, reason, _ in letters} == REASONS


def test_a_wrong_model_is_noticed(survivor: Survivor) -> None:
    """The canary: another grace gives other windows, and the check of each store says so."""
    for store, wrong in expected_stores(survivor.lines, grace_ms=GRACE_MS - 30).items():
        if wrong.is_windowed:
            told = told_rows(survivor.table(store))
            with pytest.raises(AssertionError):
                check_rows(told, wrong)
            # As many windows in front may be final by either grace, each another one.
            if store != LAYERS:
                assert wrong.counters != survivor.stores[store].counters
