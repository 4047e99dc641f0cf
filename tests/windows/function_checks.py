"""Checks of the rows that each batch with user-defined aggregators emits."""

from collections.abc import Mapping, Sequence
from typing import Any

from tests.models.tables import FunctionOutcome, Place, Removal
from tests.windows.engine_runs import Cut, Run


def check_deleted(run: Run, outcome: FunctionOutcome, cuts: Sequence[Cut], kind: str) -> None:
    """Check that a deleted row has the timestamp of the record that removed it (semantics.md#9).

    With several partitions, this is the greatest time of the partitions that removed their partial
    aggregate in this batch. A sliding window is computed again from all of its members, so its time
    is the greatest of all partitions.
    """
    position: dict[int, int] = {}
    for cut, batch in zip(cuts, run.batches, strict=True):
        first = {} if kind == "sliding" else dict(position)
        for p, n in cut.items():
            position[p] = position.get(p, 0) + n
        for row in batch:
            expected_ms = row["window_end_ms"]
            if kind != "session" and row["deleted"]:
                place = row["key"], row["window_start_ms"]
                expected_ms = removed_at(outcome.removals, place, first, position)
            is_expected = not row["deleted"] or row["timestamp_ms"] == expected_ms
            assert is_expected, f"{row}, not at {expected_ms}"


def removed_at(
    removals: Sequence[Removal],
    place: tuple[str, int],
    first: Mapping[int, int],
    end: Mapping[int, int],
) -> int:
    """Return the greatest time of each partition's last removal in the offsets ``[first, end)``."""
    last: dict[int, int] = {}
    for removal in removals:
        record, p = removal.record, removal.record.partition
        if (record.key, removal.start) == place and first.get(p, 0) <= record.offset < end[p]:
            last[p] = removal.timestamp
    return max(last.values())


def check_only_changed_rows(run: Run) -> None:
    """Check that no unchanged row is emitted: each record has a unique text, so it changes rows."""
    rows: dict[Place, dict[str, Any]] = {}
    for batch in run.batches:
        for row in batch:
            place = row["key"], row["window_start_ms"], row["window_end_ms"]
            assert rows.get(place) != row, f"an unchanged row was emitted: {row}"
            rows[place] = row
