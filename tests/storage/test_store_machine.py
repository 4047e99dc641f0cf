"""Whatever happens to table and index, all stores answer alike.

A few lives of each kind; ``ORIEL_STORE_LIVES=1000`` tries more.
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
def test_every_store_answers_as_a_list_of_rows(window: WindowSpec) -> None:
    """Index, table, its earlier versions and a copy that is kept by the changes."""

    class Machine(StoreMachine):
        """The life of a store of this kind."""

    Machine.window = window
    with check_in_this_process():
        run_state_machine_as_test(
            Machine, settings=settings(max_examples=_LIVES, stateful_step_count=15, deadline=None)
        )
