"""The replay: append the other flights, a few per second, while the user watches."""

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
    """Append all ``lines`` in their order, ``per_second`` lines per second.

    ``check`` is called between the steps. If it raises, the replay ends.
    """
    started, appended = time.monotonic(), 0
    while appended < len(lines):
        check()
        time.sleep(_STEP_SECONDS)
        # Use wall-clock time, so that the speed is correct after a slow step.
        due = min(len(lines), int((time.monotonic() - started) * per_second))
        if due > appended:
            append_lines(root, partition[appended:due], lines[appended:due])
            appended = due
