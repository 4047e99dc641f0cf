"""Kafka's topics in a checkpoint, and records that were deleted before they were read."""

from pathlib import Path

import pytest

from oriel.pipeline.errors import CheckpointError, RecordsLost
from oriel.pipeline.sources.brokers import TopicLog
from oriel.pipeline.sources.losses import (
    Gap,
    KafkaCheckpoint,
    gaps,
    reject_another_log,
)


def test_what_is_before_the_first_offset_is_missing() -> None:
    """Gaps are in partitions that were read, and in new ones from 0, but not in new topics."""
    read = {"t": {"0": 3, "1": 5}, "u": {"0": 1}}
    firsts = {"t": {"0": 8, "1": 5, "2": 2}, "u": {"0": 0}, "new": {"0": 9}}
    assert gaps(read, firsts) == [Gap("t", "0", 3, 8), Gap("t", "2", 0, 2)]
    assert gaps({}, firsts) == []
    assert gaps({"t": {"0": 3}}, {"t": {"0": 4}}) == [Gap("t", "0", 3, 4)]


def test_gaps_are_refused_in_one_line(tmp_path: Path) -> None:
    """The error names topic, partition, offsets and the option."""
    record = KafkaCheckpoint.opened(tmp_path / "kafka.json", "earliest", {})
    record.refuse([])
    with pytest.raises(RecordsLost) as refused:
        record.refuse([Gap("t", str(number), 3, 8) for number in range(5)])
    message = str(refused.value)
    assert "topic 't', partition 0: 5 offsets, 3 to 7, were deleted from Kafka" in message
    assert "(and 2 more)" in message
    assert "--on-data-loss continue" in message
    assert "\n" not in message


def test_gaps_are_counted_once(tmp_path: Path) -> None:
    """A batch that runs again finds its gap already noted. Adjacent gaps are merged."""
    path = tmp_path / "kafka.json"
    record = KafkaCheckpoint.opened(path, "latest", {})
    record.record_topic_ids({"t": "id"})
    first, second, other = Gap("t", "0", 3, 8), Gap("t", "0", 8, 10), Gap("t", "1", 0, 1)
    assert record.record_gaps([first, other]) == [first, other]
    assert record.record_gaps([first]) == []
    again = KafkaCheckpoint.opened(path, "earliest", {})
    assert (again.start, again.topic_ids) == ("latest", {"t": "id"})
    assert again.record_gaps([first, second]) == [second]
    assert again.lost_records() == {"t": 8}
    assert again.lost == {"t": {"0": [(3, 10)], "1": [[0, 1]]}}


@pytest.mark.parametrize("text", ["", "{", "[]", '{"start": "earliest"}'])
def test_a_damaged_record_is_an_error(tmp_path: Path, text: str) -> None:
    """A damaged file is never read as the file of a new checkpoint."""
    path = tmp_path / "kafka.json"
    path.write_text(text)
    with pytest.raises(CheckpointError, match="is damaged"):
        KafkaCheckpoint.opened(path, "earliest", {})


@pytest.mark.parametrize(
    ("log", "known", "said"),
    [
        (TopicLog("b", {"0": 0}, {"0": 9}), "a", "was deleted and created again"),
        (TopicLog("a", {"0": 0}, {"0": 2}), "a", "read up to offset 3, but it ends at 2 now"),
        (TopicLog("a", {"1": 0}, {"1": 9}), "a", "but it is missing now"),
        ({"0": 2}, None, "ends at 2 now"),
    ],
)
def test_another_log_under_the_same_name_is_refused(
    log: TopicLog | dict[str, int], known: str | None, said: str
) -> None:
    """Its offsets belong to other records, so a run can neither continue nor skip them."""
    with pytest.raises(RecordsLost, match=said):
        reject_another_log("t", log, {"0": 3}, known)


def test_the_same_log_is_accepted() -> None:
    """The topic id can be known, unknown, or missing in the brokers."""
    log = TopicLog("a", {"0": 1}, {"0": 3, "1": 0})
    for known in ("a", None, "AAAAAAAAAAAAAAAAAAAAAA"):
        reject_another_log("t", log, {"0": 3}, known)
    reject_another_log("t", TopicLog("AAAAAAAAAAAAAAAAAAAAAA", {}, {"0": 3}), {"0": 3}, "a")
    reject_another_log("t", {"0": 3}, {"0": 3})
