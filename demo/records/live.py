"""The replay: the rest of the flights, appended a few a second while the dashboard is watched."""

import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa

from oriel.demo.records.event_log import append_lines

_STEP_SECONDS = 0.2


def replay(
    root: Path,
    partition: np.ndarray,
    lines: pa.Array,
    per_second: float,
    check: Callable[[], None],
) -> None:
    """Append ``lines`` in their order, ``per_second`` of them a second, until all are in.

    ``check`` is called between the steps and may raise to end the replay.
    """
    started, appended = time.monotonic(), 0
    while appended < len(lines):
        check()
        time.sleep(_STEP_SECONDS)
        # By the clock, not by steps: a slow step is caught up with.
        due = min(len(lines), int((time.monotonic() - started) * per_second))
        if due > appended:
            append_lines(root, partition[appended:due], lines[appended:due])
            appended = due
