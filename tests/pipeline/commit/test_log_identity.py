"""A checkpoint remembers the log that its offsets belong to."""

from pathlib import Path

import pytest

from oriel.pipeline.commit import check_log
from oriel.pipeline.errors import CheckpointError


def test_another_log_is_refused_once_there_are_offsets(tmp_path: Path) -> None:
    """Another log or a re-created topic is rejected. Topics can be added and omitted."""
    cluster = {"log": "Kafka cluster 1", "topic t": "id 1"}
    check_log(tmp_path, {"log": "an event log"}, sync=False)
    check_log(tmp_path, cluster, sync=False)
    version = tmp_path / "state" / "store" / "000000000000.json"
    version.parent.mkdir(parents=True)
    version.touch()
    check_log(tmp_path, cluster | {"topic u": "id 2"}, sync=False)
    for other, part in (
        ({"log": "an event log"}, "log .Kafka cluster 1, but this one is an event log"),
        (cluster | {"topic t": "id 3"}, "topic t .id 1, but this one is id 3"),
    ):
        with pytest.raises(CheckpointError, match=f"has read another {part}.*empty data directory"):
            check_log(tmp_path, other, sync=False)
    check_log(tmp_path, cluster, sync=False)
    (tmp_path / "log.json").write_bytes(b"{")
    with pytest.raises(CheckpointError, match=r"log\.json is damaged"):
        check_log(tmp_path, cluster, sync=False)
