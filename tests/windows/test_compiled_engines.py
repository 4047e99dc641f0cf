"""Engines with compiled functions emit, reject and keep what they do with the same functions."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oriel import SessionWindows, SlidingWindows, TimeWindows
from oriel.pipeline.windows import IllegalArgument, NoWindows, UserFunctions, Windows
from tests.models.tables import Record
from tests.windows.engine_runs import Setup, run_engine, whole
from tests.windows.random_functions import (
    TYPES,
    VALUES,
    module_of,
    records,
    sources,
    uncompiled,
)
from tests.windows.test_function_properties import Noting, cuts_of

WINDOWS: Mapping[str, Windows] = {
    "tumbling": TimeWindows.of_size_and_grace(5, 3),
    "hopping": TimeWindows.of_size_and_grace(6, 3).advance_by(2),
    "none": NoWindows(),
    "sliding": SlidingWindows.of_time_difference_and_grace(4, 3),
    "session": SessionWindows.of_inactivity_gap_and_grace(3, 4),
}
_MERGER = (
    "def merger(key, left, right):\n"
    "    return {**right, 'n': (left['n'] or 0) ^ (right['n'] or 0), 't': left['t']}\n"
    "def initializer():\n    return {'n': 0, 'x': -0.0, 't': '', 'f': None}\n"
)
#: Partition, key, time and value of each record.
_logs = st.lists(
    st.tuples(st.integers(0, 1), st.sampled_from("kkkl"), st.integers(0, 25), st.none() | records),
    max_size=16,
)
_steps = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=8)


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the directory for the modules of the functions."""
    return tmp_path_factory.mktemp("functions")


def outcome(setup: Setup, logs: Any, cuts: Any) -> Any:
    """Everything that a run emits and counts, or its error."""
    noting = Noting(**vars(setup))
    try:
        run = run_engine(noting, logs, cuts, restart=True)
    except IllegalArgument as error:
        return str(error)
    return repr(run.batches), run.result(), run.state_rows, noting.left_out


@pytest.mark.parametrize("kind", WINDOWS)
@given(source=sources, entries=_logs, steps=_steps, is_final_only=st.booleans())
def test_compiled_functions_change_no_row(
    directory: Path, kind: str, source: str, entries: list[Any], steps: Any, is_final_only: bool
) -> None:
    """Rows, times, dead letters and counts are equal, and do not depend on the cut."""
    module = module_of(source + _MERGER, directory)
    logs: dict[int, list[Record]] = {0: [], 1: []}
    for partition, key, time, value in entries:
        # Sliding windows and tables have no records without a value.
        if value is not None or kind not in {"none", "sliding"}:
            logs[partition].append((key, time, value))
    fold = UserFunctions(module.initializer, (module.aggregator,), module.merger, TYPES, "step")
    compiled = Setup(WINDOWS[kind], fold, VALUES, emit_final_only=is_final_only and kind != "none")
    called = replace(
        compiled, aggregates=replace(fold, aggregators=(uncompiled(module.aggregator),))
    )
    cuts = cuts_of(logs, [(*step, 0) for step in steps])
    assert outcome(compiled, logs, cuts) == outcome(called, logs, cuts)
    assert outcome(compiled, logs, whole(logs)) == outcome(called, logs, whole(logs))
