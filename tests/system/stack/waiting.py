"""Waiting for containers, which are slower than processes."""

from collections.abc import Callable
from typing import TypeVar

from tests.storage.waiting import wait_until

_State = TypeVar("_State")
#: Containers start Java and Spark, and other tests use the machine at the same time.
_WAIT_SECONDS = 600.0
#: A poll starts several Docker clients, and more frequent polls would keep a core busy.
_LONGEST_PAUSE_SECONDS = 1.0


def wait_for(look: Callable[[], _State], is_reached: Callable[[_State], bool], what: str) -> _State:
    """Wait until a state is reached and return it. A failure shows the last state."""
    return wait_until(
        look, what, is_reached,
        seconds=_WAIT_SECONDS, longest_pause_seconds=_LONGEST_PAUSE_SECONDS,
    )  # fmt: skip
