"""Tests of all stores after random changes of table and index.

By default, there are a few examples per kind. ``ORIEL_STORE_LIVES=1000`` runs more.
"""

import os

import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from oriel.storage import WindowSpec
from tests.storage.followed import check_in_this_process
from tests.storage.store_machine import StoreMachine
from tests.storage.store_tables import NONE, SESSION, SLIDING

_LIVES = int(os.environ.get("ORIEL_STORE_LIVES", "2"))


@pytest.mark.slow
@pytest.mark.parametrize("window", [SLIDING, SESSION, NONE], ids=lambda window: window.kind)
def test_every_store_reads_like_a_list_of_rows(window: WindowSpec) -> None:
    """Index, table, earlier versions and a copy from changes have the windows of a list of rows."""

    class Machine(StoreMachine):
        """The state machine of this kind."""

    Machine.window = window
    with check_in_this_process():
        run_state_machine_as_test(
            Machine, settings=settings(max_examples=_LIVES, stateful_step_count=15, deadline=None)
        )
