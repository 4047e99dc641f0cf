"""Takeovers over S3 during compaction, without Spark, so that many takeovers are fast."""

import threading
from pathlib import Path
from random import Random

import pytest

from oriel.pipeline.commit import Maintenance, maintenance
from oriel.pipeline.errors import Fenced
from oriel.storage.delta import Limits, MaintenanceSettings, TableMaintenance, open_delta
from oriel.storage.files import FilesByPath, use_files
from oriel.testing import HookedFiles
from tests.campaigns import cases
from tests.object_store import ObjectStore
from tests.pipeline.commit.writers import (
    Writer,
    newest_of,
    tables_of,
    undisturbed,
    write_log,
)

# The tests start an object store.
pytestmark = pytest.mark.slow

_SETTINGS = MaintenanceSettings(limits=Limits(small_files=2))
#: Maximum number of operations before a takeover: those of about two batches.
_OPERATIONS_MAX = 100
#: The number of batches in the log for each takeover.
_BATCHES = 5


class Process:
    """A process that runs batches and compacts the tables at the same time."""

    def __init__(self, directory: Path, bucket: Path, number: int) -> None:
        """Become the owner of the pipeline in ``bucket``, whose log is in ``directory``."""
        scratch = directory / f"scratch-{number}"
        self.writer = Writer(directory, data=bucket / "data", scratch=scratch)
        tables = self.writer.data / "tables"
        self.kept = Maintenance(
            {name: [TableMaintenance(tables / name, _SETTINGS)] for name in self.writer.stores},
            TableMaintenance(tables / "_dead_letters", _SETTINGS),
            {name: store.recorded_batch() for name, store in self.writer.stores.items()},
            self.writer.checkpoint.check_epoch,
        )
        self.kept.start()

    def run(self, batches: int | None = None) -> None:
        """Run this many batches, or all up to the end of the log."""
        done = 0
        while done != batches and self.writer.has_more_lines:
            try:
                self.writer.run_batch()
            except Exception:
                # The check reports a successor first, see PipelineRun.failure.
                self.writer.checkpoint.check_epoch()
                raise
            self.kept.batch_committed(
                min(store.recorded_batch() for store in self.writer.stores.values())
            )
            done += 1

    def close(self, *, finish: bool) -> None:
        """End like a process. With ``finish``, run the due compaction first."""
        self.kept.close(finish=finish)
        self.writer.close()


@cases(3, 50)
def test_after_takeovers_newest_rows_are_those_of_a_local_run(
    tmp_path: Path, object_store: ObjectStore, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """Superseded rows can differ, because compaction removes some at random moments."""
    monkeypatch.setattr(maintenance, "_BATCHES_BETWEEN_CHECKS", 1)
    random, batches = Random(number), _BATCHES * (number + 1)
    expected = undisturbed(tmp_path / "local", batches)
    bucket = object_store.data(f"takeovers-{number}")
    write_log(tmp_path, batches)
    process = Process(tmp_path, bucket, 0)
    for takeover in range(1, number + 1):
        successor = _taken_over(process, tmp_path, bucket, takeover, random)
        process.close(finish=False)
        process = successor
    process.run()
    process.close(finish=True)
    for name in ("first", "second"):
        assert newest_of(bucket, name) == newest_of(tmp_path / "local", name)
        files = open_delta(bucket / "data" / "tables" / name).file_uris()
        assert [file for file in files if "compact-" in file]
    assert tables_of(bucket)["_dead_letters"] == expected["_dead_letters"]


def _taken_over(
    process: Process, directory: Path, bucket: Path, number: int, random: Random
) -> Process:
    """Run a process until another one replaces it at a random operation, and return the other one.

    The first process is suspended at this operation, but its compaction continues. Then it resumes.
    """
    left, batches = random.randrange(_OPERATIONS_MAX), random.randrange(3)
    of_pipeline = threading.current_thread()
    successors: list[Process] = []

    def suspend(_operation: str, _path: Path) -> None:
        nonlocal left
        if threading.current_thread() is not of_pipeline:
            return
        left -= 1
        if left == -1:
            with use_files(FilesByPath()):
                successors.append(Process(directory, bucket, number))
                successors[0].run(batches)

    with use_files(HookedFiles(suspend)), pytest.raises(Fenced, match=r"took over.*epoch"):
        process.run()
    (successor,) = successors
    return successor
