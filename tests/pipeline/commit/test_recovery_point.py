"""Each start writes Spark's log again and removes nothing of a later epoch."""

from pathlib import Path

import orjson

from oriel.pipeline.commit import Checkpoint
from oriel.pipeline.commit.checkpoint.recovery_point import RecoveryPoint

ENDS = {"a": {"0": 12, "1": 0}, "b": {}}


def prepared(directory: Path, recovery_point: RecoveryPoint | None) -> Path:
    """Return Spark's directory after a start has prepared it."""
    with Checkpoint(directory, sync=False) as checkpoint:
        checkpoint.prepare_spark(["a", "b", "new"], recovery_point)
        return checkpoint.spark


def names(directory: Path) -> list[str]:
    """Return the paths of all files below a directory."""
    return sorted(
        path.relative_to(directory).as_posix() for path in directory.rglob("*") if path.is_file()
    )


def test_spark_resumes_after_the_last_prepared_batch(tmp_path: Path) -> None:
    """Spark resumes at the last prepared batch. Its log has a commit only if the batch is done."""
    starts = {"a": {"0": 3}}
    spark = prepared(tmp_path / "open", RecoveryPoint(7, starts, ENDS, is_done=False))
    assert names(spark) == ["metadata", "offsets/6", "offsets/7"]
    entry = (spark / "offsets" / "7").read_text().splitlines()
    assert entry[0] == "v1"
    # The source of the event log writes this format. A new topic has no offsets.
    assert entry[2:] == ['{"a": {"0": 12, "1": 0}}', '{"b": {}}', "-"]
    done = prepared(tmp_path / "done", RecoveryPoint(0, {}, ENDS, is_done=True))
    assert names(done) == ["commits/0", "metadata", "offsets/0"]
    with Checkpoint(tmp_path / "done", sync=False) as checkpoint:
        assert orjson.loads((done / "metadata").read_bytes()) == {"id": checkpoint.application}


def test_the_last_directories_of_spark_stay(tmp_path: Path) -> None:
    """The directories of the last epochs and of a successor stay. Files of no epoch are removed."""
    old = tmp_path / "spark"
    for _ in range(22):
        Checkpoint(tmp_path, sync=False).close()
    for path in (
        "offsets/3",
        "metadata",
        *(f"{epoch:012d}/metadata" for epoch in (12, 13, 14, 99)),
    ):
        (old / path).parent.mkdir(parents=True, exist_ok=True)
        (old / path).write_text("x")
    spark = prepared(tmp_path, None)
    assert names(old) == [f"{epoch:012d}/metadata" for epoch in (14, 23, 99)]
    assert spark == old / f"{23:012d}"


def test_where_sources_began_is_kept_until_a_batch_is_decided(tmp_path: Path) -> None:
    """The first offsets of sources are kept until a batch is prepared. Torn files are removed."""
    first = prepared(tmp_path, None)
    whole = b'\0v1\n{"a":{"0":5}}'
    for source, content in ((0, whole), (1, whole[:9]), (2, b"")):
        (first / "sources" / str(source)).mkdir(parents=True)
        (first / "sources" / str(source) / "0").write_bytes(content)
    second = prepared(tmp_path, None)
    assert names(second) == ["metadata", "sources/0/0"]
    assert (second / "sources" / "0" / "0").read_bytes() == whole
    third = prepared(tmp_path, RecoveryPoint(0, {}, ENDS, is_done=True))
    assert "sources/0/0" not in names(third)
