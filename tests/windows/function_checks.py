"""What every run of a fold must keep about the rows that its batches tell."""

from collections.abc import Mapping, Sequence
from typing import Any

from tests.models.tables import FoldOutcome, Place, Removal
from tests.windows.engine_runs import Cut, Run


def check_deleted(run: Run, outcome: FoldOutcome, cuts: Sequence[Cut], kind: str) -> None:
    """Each deleted row has the time that it would have had (semantics.md#9).

    Of several partitions it is the greatest of those that removed their part in the batch;
    over sliding windows, which are made of all their members anew, that of all partitions.
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
    """The greatest time of the partitions' last removals among offsets ``[first, end)``."""
    last: dict[int, int] = {}
    for removal in removals:
        record, p = removal.record, removal.record.partition
        if (record.key, removal.start) == place and first.get(p, 0) <= record.offset < end[p]:
            last[p] = removal.timestamp
    return max(last.values())


def check_told_for_a_reason(run: Run) -> None:
    """No row is told again as it was: each record has a text of its own, which changes it."""
    rows: dict[Place, dict[str, Any]] = {}
    for batch in run.batches:
        for row in batch:
            place = row["key"], row["window_start_ms"], row["window_end_ms"]
            assert rows.get(place) != row, f"told again as it was: {row}"
            rows[place] = row
