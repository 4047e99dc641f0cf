"""Tailing an event log: its batches together equal the log, in plain Python and in Spark."""

import tempfile
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the field's name for it
from pyspark.sql.streaming.datasource import ReadMaxBytes

from oriel.pipeline import event_log
from oriel.pipeline.commit import Checkpoint
from oriel.pipeline.errors import EventLogError
from oriel.pipeline.event_log import EventLogReader, complete_lines_end, slice_lines
from oriel.pipeline.sources import EventLog

Line = tuple[int, int, bytes]

#: Pieces that a producer writes: whole lines, blank lines, CRLF, and half lines.
PIECES = st.lists(
    st.sampled_from([b"\n", b"\r\n", b"{}\n", b"half", b"x" * 40, b"\xff\x00\n", b"ab\ncd\n"]),
    max_size=12,
)


def plain_lines(partition: int, content: bytes) -> list[Line]:
    """Split whole lines the simple way: (partition, byte position, line)."""
    lines, position = [], 0
    for line in content.split(b"\n")[:-1]:
        lines.append((partition, position, line))
        position += len(line) + 1
    return lines


def read_batch(
    reader: EventLogReader, start: dict[str, int], limit: int
) -> tuple[dict[str, int], list[Line]]:
    """Plan and read one batch, and return its end and its lines."""
    end: dict[str, int] = reader.latestOffset({"t": start}, ReadMaxBytes(limit))["t"]
    lines: list[Line] = []
    for part in reader.partitions({"t": start}, {"t": end}):
        for _, batch in slice_lines(reader.read(part)):
            columns = pa.table(batch).to_pydict()
            lines += zip(columns["partition"], columns["offset"], columns["raw"], strict=True)
    return end, lines


@given(st.lists(st.tuples(PIECES, PIECES, st.integers(1, 60)), min_size=1, max_size=4))
@settings(max_examples=60)
def test_batches_put_together_are_the_log(
    rounds: list[tuple[list[bytes], list[bytes], int]],
) -> None:
    """Each whole line is read once and in order, for any growth of the files and any limit."""
    with tempfile.TemporaryDirectory() as root, pytest.MonkeyPatch.context() as patch:
        patch.setattr(event_log, "_READ_BYTES", 5)
        reader = EventLogReader(Path(root), "t", 1000)
        contents = {0: b"", 1: b""}
        offsets: dict[str, int] = {}
        seen: list[Line] = []
        for first, second, limit in rounds:
            for partition, pieces in ((0, first), (1, second)):
                contents[partition] += b"".join(pieces)
                (Path(root) / f"{partition}.jsonl").write_bytes(contents[partition])
            while True:
                end, lines = read_batch(reader, offsets, limit)
                if end == offsets:
                    break
                offsets, seen = end, seen + lines
        for partition, content in contents.items():
            mine = [line for line in seen if line[0] == partition]
            assert mine == plain_lines(partition, content)
            assert offsets[str(partition)] == content.rfind(b"\n") + 1


@pytest.mark.parametrize("tail", [0, 1, 65_535, 65_536, 65_537, 200_000])
def test_the_last_newline_is_found_at_any_distance(tmp_path: Path, tail: int) -> None:
    """A long unfinished line after the last newline does not hide it."""
    path = tmp_path / "0.jsonl"
    path.write_bytes(b"ab\n" + b"x" * tail)
    assert complete_lines_end(path, 0, 3 + tail) == 3
    assert complete_lines_end(path, 3, 3 + tail) == 3


def test_a_log_that_was_replaced_is_noticed(tmp_path: Path) -> None:
    """Another file of the same name is not read from the middle of a line."""
    path = tmp_path / "0.jsonl"
    path.write_bytes(b"0123456789\n" * 3)
    reader = EventLogReader(tmp_path, "t", 1000)
    with pytest.raises(EventLogError):
        read_batch(reader, {"0": 8}, 1000)


@pytest.mark.slow
def test_two_runs_of_spark_read_each_line_once(spark: SparkSession, tmp_path: Path) -> None:
    """A growing log is read from the end of the previous run, in batches of whole lines."""
    directory = tmp_path / "log" / "t"
    directory.mkdir(parents=True)
    checkpoint = Checkpoint(tmp_path / "checkpoint", sync=False)
    log = EventLog(tmp_path / "log", max_batch_bytes=16)
    seen: list[Line] = []
    batches: list[int] = []

    def take(rows: DataFrame, batch: int) -> None:
        batches.append(batch)
        ends = checkpoint.end_offsets(batch)["t"]
        for row in log.raw_rows(rows).collect():
            seen.append((row.partition, row.offset, bytes(row.raw)))
            assert row.offset < ends[str(row.partition)]

    def run() -> None:
        writer = log.stream(spark, "t").writeStream.foreachBatch(take)
        writer = writer.option("checkpointLocation", str(checkpoint.spark))
        writer.trigger(availableNow=True).start().awaitTermination()

    with checkpoint:
        (directory / "0.jsonl").write_bytes(b"one\ntwo\nthr")
        (directory / "1.jsonl").write_bytes(b"\n")
        run()
        assert sorted(seen) == [(0, 0, b"one"), (0, 4, b"two"), (1, 0, b"")]
        (directory / "0.jsonl").write_bytes(b"one\ntwo\nthree\n" + b"x" * 50 + b"\nlast\n")
        (directory / "2.jsonl").write_bytes(b"new\r\n")
        run()
        ends = checkpoint.end_offsets(batches[-1])
    expected = plain_lines(0, (directory / "0.jsonl").read_bytes())
    assert [line for line in seen if line[0] == 0] == expected
    assert sorted(line for line in seen if line[0]) == [(1, 0, b""), (2, 0, b"new\r")]
    assert ends == {"t": {"0": 70, "1": 1, "2": 5}}
    assert batches == list(range(len(batches)))
    assert len(batches) > 2


@pytest.mark.slow
def test_one_query_reads_several_topics(spark: SparkSession, tmp_path: Path) -> None:
    """Each topic has its own offsets, also an empty topic, and other topics are rejected."""
    for topic in ("a", "b"):
        (tmp_path / "log" / topic).mkdir(parents=True)
    log = EventLog(tmp_path / "log")
    seen: list[tuple[str, int, bytes]] = []

    def take(rows: DataFrame, _batch: int) -> None:
        for topic in ("a", "b"):
            lines = log.raw_rows(rows.filter(F.col("topic") == topic)).collect()
            seen.extend((topic, row.offset, bytes(row.raw)) for row in lines)

    def run(checkpoint: Checkpoint, *topics: str) -> object:
        first, second = (log.stream(spark, topic) for topic in topics)
        writer = first.unionAll(second).writeStream.foreachBatch(take)
        writer = writer.option("checkpointLocation", str(checkpoint.spark))
        writer.trigger(availableNow=True).start().awaitTermination()
        newest = max(int(path.name) for path in (checkpoint.spark / "offsets").glob("[0-9]*"))
        return checkpoint.end_offsets(newest)

    with Checkpoint(tmp_path / "checkpoint", sync=False) as checkpoint:
        (tmp_path / "log" / "a" / "0.jsonl").write_bytes(b"a0\n")
        assert run(checkpoint, "a", "b") == {"a": {"0": 3}, "b": {}}
        (tmp_path / "log" / "b" / "1.jsonl").write_bytes(b"b1\n")
        assert run(checkpoint, "a", "b") == {"a": {"0": 3}, "b": {"1": 3}}
        assert seen == [("a", 0, b"a0"), ("b", 0, b"b1")]
        with pytest.raises(PySparkException, match="other topics than before"):
            run(checkpoint, "b", "a")
