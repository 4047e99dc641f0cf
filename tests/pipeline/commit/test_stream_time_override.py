"""The partition that keeps windows open after `oriel clock --set` has changed stream times."""

import pytest

from oriel.pipeline.commit import StreamTimeOverride
from oriel.pipeline.plan import PreparedBatch, StreamTimeNotes
from oriel.storage import CommitRecord


@pytest.mark.parametrize(
    ("stream_times", "idle", "holder"),
    [
        ({"0": 5, "1": 9}, [], 0),
        ({"0": 5, "1": 3}, [], 1),
        ({"0": 5, "1": 3}, [1], 0),
        ({"0": 2, "1": 3}, [], 0),
    ],
    ids=["nothing moved", "behind the holder", "idle", "both moved"],
)
def test_the_slowest_clock_keeps_windows_open(
    stream_times: dict[str, int], idle: list[int], holder: int
) -> None:
    """It is the slowest of the previous one and the changed ones. Idle partitions do not count."""
    record = CommitRecord(3, {"t": {"0": 10, "1": 10}}, {"t": {"0": 5, "1": 9}}, 3, {"input": 1})
    notes = StreamTimeNotes(idle={"t": idle}, held_by=("t", 0))
    batch = PreparedBatch(record, {}, {}, [], [], changed=0, open_records=0, clock_notes=notes)
    overridden = StreamTimeOverride({"t": stream_times}, 1, 1, ["set back"]).applied(batch)
    assert overridden.clock_notes.held_by == ("t", holder)
