"""The event log: offsets, half-written lines, admission control, and broken rules."""

import tempfile
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes

from oriel import InvalidTopology
from oriel.pipeline import event_log
from oriel.pipeline.errors import EventLogError
from oriel.pipeline.event_log import (
    EventLogReader,
    EventLogSource,
    next_ends,
    partition_files,
    slice_lines,
)
from oriel.pipeline.sources.event_log_source import EventLog, ensure_topic_directory


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Return an empty topic directory."""
    topic = tmp_path / "t"
    topic.mkdir()
    return topic


def reader(directory: Path, max_bytes: int = 1000) -> EventLogReader:
    """Return a reader of the topic `t`."""
    return EventLogReader(directory, "t", max_bytes)


def latest(reader: EventLogReader, start: dict[str, int], max_bytes: int = 1000) -> dict[str, int]:
    """Return the end of the next batch."""
    ends: dict[str, int] = reader.latestOffset({"t": start}, ReadMaxBytes(max_bytes))["t"]
    return ends


def read(reader: EventLogReader, start: dict[str, int], end: dict[str, int]) -> list[Any]:
    """Return (partition, offset, raw) of all lines between two offsets."""
    rows: list[Any] = []
    for part in reader.partitions({"t": start}, {"t": end}):
        for topic, batch in slice_lines(reader.read(part)):
            assert topic == "t"
            columns = pa.table(batch).to_pydict()
            rows += zip(columns["partition"], columns["offset"], columns["raw"], strict=True)
    return rows


def test_a_half_written_last_line_waits(directory: Path) -> None:
    """A line counts once its newline exists. An empty file is a partition with offset 0."""
    (directory / "0.jsonl").write_bytes(b'{"a":1}\n{"b"')
    (directory / "1.jsonl").touch()
    assert latest(reader(directory), {}) == {"0": 8, "1": 0}
    with (directory / "0.jsonl").open("ab") as file:
        file.write(b":2}\n")
    assert latest(reader(directory), {"0": 8, "1": 0}) == {"0": 16, "1": 0}
    assert read(reader(directory), {"0": 8}, {"0": 16, "1": 0}) == [(0, 8, b'{"b":2}')]


def test_a_batch_takes_a_share_of_whole_lines_from_each_partition(directory: Path) -> None:
    """Admission control shares the limit among the partitions that have unread lines."""
    for partition in (0, 1):
        (directory / f"{partition}.jsonl").write_bytes(b"1234\n" * 10)
    assert latest(reader(directory), {}, 24) == {"0": 10, "1": 10}
    assert latest(reader(directory), {"0": 50}, 24) == {"0": 50, "1": 20}
    everything = reader(directory).latestOffset({"t": {}}, ReadAllAvailable())
    assert everything == {"t": {"0": 50, "1": 50}}


def test_a_line_longer_than_the_limit_is_taken_whole(directory: Path) -> None:
    """A long line never stops the stream."""
    (directory / "0.jsonl").write_bytes(b"x" * 200_000 + b"\nshort\n")
    assert latest(reader(directory), {}, 10) == {"0": 200_001}
    assert latest(reader(directory), {"0": 200_001}, 10) == {"0": 200_007}


def test_once_stops_at_what_was_there_when_it_began(directory: Path) -> None:
    """With `availableNow`, later lines and later partitions stay for the next run."""
    (directory / "0.jsonl").write_bytes(b"a\n")
    once = reader(directory)
    once.prepareForTriggerAvailableNow()
    with (directory / "0.jsonl").open("ab") as file:
        file.write(b"b\n")
    (directory / "1.jsonl").write_bytes(b"c\n")
    assert latest(once, {}) == {"0": 2, "1": 0}


def test_partitions_are_in_order_of_number(directory: Path) -> None:
    """Partition 10 follows partition 2."""
    for partition in (10, 2, 0):
        (directory / f"{partition}.jsonl").touch()
    assert list(partition_files(directory)) == ["0", "2", "10"]


def test_broken_promises_are_loud(directory: Path) -> None:
    """A shrunk or lost file, an odd name and a missing directory are errors with a solution."""
    (directory / "0.jsonl").write_bytes(b"a\n")
    with pytest.raises(EventLogError, match="shrank: 10 bytes were read, but it has 2"):
        latest(reader(directory), {"0": 10})
    with pytest.raises(EventLogError, match=r"partitions \['3'\] are missing"):
        latest(reader(directory), {"3": 10})
    with pytest.raises(EventLogError, match="ends before byte"):
        read(reader(directory), {}, {"0": 9})
    (directory / "01.jsonl").touch()
    with pytest.raises(EventLogError, match="must be named by its partition number"):
        partition_files(directory)
    with pytest.raises(EventLogError, match="no event log at"):
        partition_files(directory / "missing")


def test_a_changed_block_is_found(tmp_path: Path) -> None:
    """The last 64 KiB before the end of a batch are compared, and later bytes are not."""
    for partition, lines in {"0": 1, "1": 50_000, "2": 1}.items():
        path = ensure_topic_directory(tmp_path, "t") / f"{partition}.jsonl"
        path.write_bytes(b"1234\n" * lines)
    log, path = EventLog(tmp_path), tmp_path / "t" / "1.jsonl"
    blocks = log.read_blocks({"t": {"2": 5}}, {"t": {"0": 5, "1": 200_000, "2": 5}})
    # Partitions without new bytes are not read again.
    assert {name: end for name, (end, _) in blocks["t"].items()} == {"0": 5, "1": 200_000}
    whole = path.read_bytes()
    # Bytes before the block and after the batch are not compared.
    for unseen in (200_000 - 65_537, 200_000):
        path.write_bytes(_changed(whole, unseen))
        log.refuse_changed("s", blocks)
    for seen in (200_000 - 65_536, 199_999):
        path.write_bytes(_changed(whole, seen))
        with pytest.raises(EventLogError, match="bytes 134464 to 200000 are not the") as raised:
            log.refuse_changed("a store", blocks)
        assert str(raised.value).startswith(f"event log {path}: ")
        assert "restore the file from a backup" in str(raised.value)
        assert str(raised.value).endswith("`oriel rebuild 'a store'`")
    # A reader has its own errors for these files.
    path.write_bytes(whole[:100])
    (tmp_path / "t" / "0.jsonl").unlink()
    log.refuse_changed("s", blocks)


def _changed(content: bytes, position: int) -> bytes:
    """Return the content with one byte changed."""
    return content[:position] + b"X" + content[position + 1 :]


def test_a_part_of_the_log_is_read_in_batches_up_to_its_end(directory: Path) -> None:
    """Each batch has whole lines and an equal share of each partition with unread lines."""
    (directory / "0.jsonl").write_bytes(b"aa\nbb\ncc\ndd\n")
    (directory / "1.jsonl").write_bytes(b"e\nf\n")
    (directory / "2.jsonl").touch()
    ends = {"0": 9, "1": 4, "2": 0}
    batches = [{"0": 0, "1": 0, "2": 0}]
    while batches[-1] != ends:
        batches.append(next_ends(directory, batches[-1], ends, 7))
    assert batches[1:] == [{"0": 3, "1": 2, "2": 0}, {"0": 6, "1": 4, "2": 0}, ends]
    (directory / "1.jsonl").unlink()
    with pytest.raises(EventLogError, match=r"partitions \['1'\] of .* are missing"):
        next_ends(directory, batches[0], ends, 7)


@given(st.lists(st.binary(max_size=12).map(lambda b: b.replace(b"\n", b"")), max_size=30))
def test_every_line_comes_out_with_its_byte_position(lines: list[bytes]) -> None:
    """Lines and offsets equal a plain split, for any size of the blocks that are read."""
    with tempfile.TemporaryDirectory() as root, pytest.MonkeyPatch.context() as patch:
        patch.setattr(event_log, "_READ_BYTES", 7)
        path = Path(root) / "0.jsonl"
        path.write_bytes(b"".join(line + b"\n" for line in lines))
        size = path.stat().st_size
        offset, wanted = 0, []
        for line in lines:
            wanted.append((0, offset, line))
            offset += len(line) + 1
        assert read(reader(Path(root)), {}, {"0": size}) == wanted


@pytest.mark.parametrize("topic", ["", ".", "..", "a/b", "../up", "/etc", "a b", "ü", "x" * 250])
def test_a_name_that_is_no_topics_is_refused(tmp_path: Path, topic: str) -> None:
    """Kafka's rule for names keeps the directory below the root. Nothing is created before."""
    root = tmp_path / "root"
    with pytest.raises(InvalidTopology, match="use 1 to 249 characters"):
        ensure_topic_directory(root, topic)
    with pytest.raises(InvalidTopology, match="Kafka's topic rule"):
        EventLogSource({"root": str(root), "topic": topic})
    assert not root.exists()


def test_a_file_instead_of_a_directory_is_an_error(tmp_path: Path) -> None:
    """Neither the root nor the topic can be a file."""
    (tmp_path / "file").touch()
    for root, topic in ((tmp_path, "file"), (tmp_path / "file", "t")):
        with pytest.raises(EventLogError, match="it is a file and not a directory"):
            ensure_topic_directory(root, topic)


def test_offsets_of_another_topic_are_refused(directory: Path) -> None:
    """A topic that replaced another one is not read again from its beginning."""
    (directory / "0.jsonl").write_bytes(b"a\n")
    with pytest.raises(EventLogError, match="no offsets of topic t, only of other"):
        reader(directory).latestOffset({"other": {"0": 2}}, ReadMaxBytes(10))


def test_a_file_that_a_machine_does_not_have_is_an_error(directory: Path) -> None:
    """On a cluster, a machine without the shared mount does not have the file."""
    missing = event_log.Slice("t", str(directory / "0.jsonl"), 0, 0, 10)
    with pytest.raises(EventLogError, match=r"has no event log .*0\.jsonl\. Restore the file"):
        list(event_log.read_lines(missing))


def test_the_error_for_an_empty_topic_lists_other_topics(
    directory: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The topic can be misspelled. A topic with a file, or in an empty log, is normal."""
    no_spark = cast("SparkSession", None)
    log = EventLog(tmp_path)
    log.open(no_spark, ["t"], {}, tmp_path)
    (directory / "0.jsonl").touch()
    log.open(no_spark, ["t"], {}, tmp_path)
    assert capsys.readouterr().err == ""
    log.open(no_spark, ["tt"], {}, tmp_path)
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"topic 'tt' has no records: {tmp_path / 'tt'} has no file.")
    assert "does not read: t." in line
