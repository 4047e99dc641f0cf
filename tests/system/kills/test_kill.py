"""End to end: with disorder, random batches and SIGKILL at any step, all data equals the model."""

import pytest

from tests.system.kills.expected_rows import STORES, bad_for_all, expected_stores
from tests.system.kills.killed_runs import Survivor
from tests.system.kills.kinds_topology import FINAL_TABLES, GRACE_MS, LAYERS, TEXTS
from tests.system.kills.table_checks import (
    check_final_rows,
    check_rows,
    emitted_rows,
    read_dead_letters,
)

pytestmark = pytest.mark.e2e

#: The reasons of the random logs' dead letters.
REASONS = {
    "not-json", "missing-timestamp", "negative-timestamp", "wrong-type", "null-key", "null-value",
    "function-raised",
}  # fmt: skip


@pytest.mark.parametrize("store", STORES)
def test_killed_at_any_step_a_table_is_that_of_an_undisturbed_run(
    survivor: Survivor, store: str
) -> None:
    """Each window's newest row is the model's, and final rows are written once and last."""
    check_rows(emitted_rows(survivor.table(store)), survivor.stores[store])


@pytest.mark.parametrize("store", FINAL_TABLES)
def test_a_final_table_has_each_final_row_once(survivor: Survivor, store: str) -> None:
    """After all kills, a table of final rows has the model's final rows, and only ever grew."""
    check_final_rows(survivor.data / "final" / store, survivor.stores[store])


def test_dead_letters_are_there_once(survivor: Survivor) -> None:
    """Each dead letter exists once with its bytes: invalid lines once, others once per store."""
    wanted = bad_for_all(survivor.lines)
    wanted |= {letter for store in survivor.stores.values() for letter in store.dead_letters}
    found = read_dead_letters(survivor.table("_dead_letters"))
    assert sorted(found, key=repr) == sorted(wanted, key=repr)


def test_the_logs_reach_what_they_are_for(survivor: Survivor) -> None:
    """The logs cause late records, final and open windows, merged sessions and all dead letters."""
    for store in survivor.stores.values():
        if store.is_windowed:
            # The windows over another store's rows have no late records.
            assert store.counters["late"] or store.name == LAYERS, store.name
            finals = [place for place, row in store.rows.items() if row["final"]]
            assert finals, store.name
            is_open = len(finals) < len(store.rows)
            assert is_open != store.has_final_only, store.name
    sessions = emitted_rows(survivor.table("session_update"))
    deleted = [row for rows in sessions.values() for row in rows if row["deleted"]]
    assert deleted, f"no session was merged into another: {sorted(sessions)}"
    starts = [place[:2] for place in survivor.stores["session_close"].rows]
    assert len(set(starts)) < len(starts), "no two sessions of a key begin together"
    assert survivor.stores[TEXTS].counters["filtered"]
    dead_letters = read_dead_letters(survivor.table("_dead_letters"))
    assert {reason for _, _, _, reason, _ in dead_letters} == REASONS


def test_a_wrong_model_is_noticed(survivor: Survivor) -> None:
    """With another grace, the model has other windows, and the check of each store detects it."""
    for store, wrong in expected_stores(survivor.lines, grace_ms=GRACE_MS - 30).items():
        if wrong.is_windowed:
            emitted = emitted_rows(survivor.table(store))
            with pytest.raises(AssertionError):
                check_rows(emitted, wrong)
            # With either grace, the first store can have equally many final windows, but different
            # ones.
            if store != LAYERS:
                assert wrong.counters != survivor.stores[store].counters
