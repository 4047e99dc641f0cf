"""End to end: backups of a running pipeline are restored and continue to the model's rows."""

import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from random import Random

import orjson
import pytest

from oriel.pipeline.operations.backups import backup, restore
from oriel.storage.monitoring import RunStatus, overview
from tests.e2e.event_logs import random_logs, write_lines
from tests.e2e.runs_in_one_process import ROOT, Runs
from tests.storage.waiting import wait_until
from tests.system.kills import kinds_topology
from tests.system.kills.expected_rows import bad_for_all, expected_stores
from tests.system.kills.table_checks import check_rows, emitted_rows, read_dead_letters

pytestmark = pytest.mark.e2e

#: A log has about 60 kB, so there are many batches, and compaction merges their files.
_SMALL, _LARGE = "600", "30000"
#: The numbers of batches after which a backup is created.
_BACKUP_AFTER = (4, 16)


def _arguments(directory: Path, data: Path, *options: str) -> list[str]:
    log = str(directory / "log")
    paths = [str(kinds_topology.__file__), "--event-log", log, "--data", str(data)]
    return ["run", *paths, "--compact-files", "4", "--max-batch-bytes", *options]


def _has_run(batches: int, runs: Mapping[str, tuple[RunStatus, bool]]) -> bool:
    """Return whether the running pipeline has committed this many batches."""
    return any(is_alive and run.batches >= batches for run, is_alive in runs.values())


@contextmanager
def _running(directory: Path, data: Path) -> Iterator["subprocess.Popen[bytes]"]:
    command = [
        sys.executable,
        "-m",
        "oriel",
        *_arguments(directory, data, _SMALL, "--trigger", "1ms"),
    ]
    with (directory / "stderr").open("wb") as error_file, subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=error_file
    ) as run:  # fmt: skip
        try:
            yield run
        finally:
            run.kill()


def test_backups_of_a_running_pipeline_go_on_to_the_same_rows(tmp_path: Path, runs: Runs) -> None:
    """Each backup is of one batch of all stores, and the restored pipeline continues after it."""
    lines = random_logs(Random(10))
    write_lines(tmp_path / "log" / kinds_topology.TOPIC, lines)
    data = tmp_path / "data"
    with _running(tmp_path, data) as run:
        for number in _BACKUP_AFTER:
            wait_until(
                lambda: overview(data).runs, f"{number} batches", partial(_has_run, number),
                process=run,
            )  # fmt: skip
            target = str(tmp_path / f"backup-{number}")
            assert backup.main(["--data", str(data), "--to", target]) == 0
        assert run.poll() is None, (tmp_path / "stderr").read_text()
        run.send_signal(signal.SIGTERM)
        assert run.wait() == 0, (tmp_path / "stderr").read_text()

    expected = expected_stores(lines)
    dead_letters = bad_for_all(lines) | {
        letter for store in expected.values() for letter in store.dead_letters
    }
    batches = []
    for number in _BACKUP_AFTER:
        restored = tmp_path / f"restored-{number}"
        manifest = orjson.loads((tmp_path / f"backup-{number}" / "backup.json").read_bytes())
        batches += manifest["batches"].values()
        source = str(tmp_path / f"backup-{number}")
        assert restore.main(["--from", source, "--data", str(restored)]) == 0
        ended = runs.oriel(*_arguments(tmp_path, restored, _LARGE, "--once"))
        assert ended.code == 0, ended.errors
        assert ended.summary["batches"] > 1
        for name, store in expected.items():
            check_rows(emitted_rows(restored / "tables" / name), store)
        found = read_dead_letters(restored / "tables" / "_dead_letters")
        assert sorted(found, key=repr) == sorted(dead_letters, key=repr)
    assert batches[0] < batches[1]
