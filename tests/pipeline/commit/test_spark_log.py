"""What a checkpoint remembers of its log and topics, and how Spark's entries follow the topics."""

from pathlib import Path

import orjson
import pytest

from oriel.pipeline.commit import committed_batch, follow_topics, newest_batch, settle_log
from oriel.pipeline.errors import CheckpointError

HEAD = "v1\n{}\n"


def entry(checkpoint: Path, batch: int, *lines: str) -> Path:
    """Write an entry of Spark's offset log."""
    path = checkpoint / "spark" / "offsets" / str(batch)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(HEAD + "\n".join(lines))
    return path


def test_the_newest_batches_are_told(tmp_path: Path) -> None:
    """Of planned ones and of those that are done; drafts and checksums are none."""
    spark = tmp_path / "spark"
    assert newest_batch(spark) is committed_batch(spark) is None
    for batch in (8, 9, 10):
        entry(tmp_path, batch, '{"t":{"0":1}}')
    (spark / "offsets" / ".11.crc").touch()
    (spark / "commits").mkdir()
    (spark / "commits" / "9").touch()
    assert (newest_batch(spark), committed_batch(spark)) == (10, 9)


def test_entries_follow_the_topics(tmp_path: Path) -> None:
    """In the order of their names; each keeps its offsets; what comes begins at the beginning."""
    follow_topics(tmp_path, ["t", "gone"], sync=False)
    entries = [entry(tmp_path, batch, '{"gone":{"0":1}}', '{"t":{"0":2}}') for batch in (3, 4)]
    before = [path.read_text() for path in entries]
    follow_topics(tmp_path, ["gone", "t"], sync=False)
    assert [path.read_text() for path in entries] == before
    (tmp_path / "spark" / "sources" / "0").mkdir(parents=True)
    follow_topics(tmp_path, ["t", "a", "u"], sync=False)
    followed = HEAD + '{"a":{}}\n{"t":{"0":2}}\n{"u":{}}'
    assert [path.read_text() for path in entries] == [followed, followed]
    assert not (tmp_path / "spark" / "sources").exists()


def test_topics_that_half_followed_are_followed_to_the_end(tmp_path: Path) -> None:
    """A process may die between two entries, or before it remembers the topics."""
    follow_topics(tmp_path, ["t"], sync=False)
    done = entry(tmp_path, 3, '{"a":{}}', '{"t":{"0":1}}')
    path = entry(tmp_path, 4, '{"t":{"0":2}}')
    follow_topics(tmp_path, ["a", "t"], sync=False)
    assert done.read_text() == HEAD + '{"a":{}}\n{"t":{"0":1}}'
    assert path.read_text() == HEAD + '{"a":{}}\n{"t":{"0":2}}'


@pytest.mark.parametrize("lines", [(), ('{"t":{"0":1}}',), ("{",), ("3",)])
def test_an_entry_that_lost_a_part_is_never_taken_for_new_topics(
    tmp_path: Path, lines: tuple[str, ...]
) -> None:
    """A topic would be read from its beginning a second time."""
    follow_topics(tmp_path, ["t", "u"], sync=False)
    path = entry(tmp_path, 4, *lines)
    before = path.read_text()
    with pytest.raises(CheckpointError, match="a part of it is lost"):
        follow_topics(tmp_path, ["t", "u", "v"], sync=False)
    follow_topics(tmp_path, ["t", "u"], sync=False)
    assert path.read_text() == before


@pytest.mark.parametrize("recorded", [None, b"", b"["])
def test_a_checkpoint_that_does_not_say_its_topics_goes_by_its_entries(
    tmp_path: Path, recorded: bytes | None
) -> None:
    """One of an earlier version, or a damaged file."""
    path = entry(tmp_path, 0, '{"t":{"0":1}}')
    if recorded is not None:
        (tmp_path / "topics.json").write_bytes(recorded)
    follow_topics(tmp_path, ["a", "t"], sync=False)
    assert path.read_text() == HEAD + '{"a":{}}\n{"t":{"0":1}}'
    assert orjson.loads((tmp_path / "topics.json").read_bytes()) == ["a", "t"]


def test_another_log_is_refused_once_there_are_offsets(tmp_path: Path) -> None:
    """The kind, the cluster, and a topic that was made anew; a topic may come and go."""
    cluster = {"log": "Kafka cluster 1", "topic t": "id 1"}
    settle_log(tmp_path, {"log": "an event log"}, sync=False)
    settle_log(tmp_path, cluster, sync=False)
    entry(tmp_path, 0, '{"t":{"0":1}}')
    settle_log(tmp_path, cluster | {"topic u": "id 2"}, sync=False)
    for other, part in (
        ({"log": "an event log"}, "log .Kafka cluster 1, this one is an event log"),
        (cluster | {"topic t": "id 3"}, "topic t .id 1, this one is id 3"),
    ):
        with pytest.raises(CheckpointError, match=f"has read another {part}.*empty data folder"):
            settle_log(tmp_path, other, sync=False)
    settle_log(tmp_path, cluster, sync=False)
    (tmp_path / "log.json").write_bytes(b"{")
    with pytest.raises(CheckpointError, match=r"log\.json is damaged"):
        settle_log(tmp_path, cluster, sync=False)
