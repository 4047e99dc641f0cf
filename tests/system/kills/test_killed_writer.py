"""SIGKILL at random moments during compaction, without Spark, so that many kills are fast.

``ORIEL_KILLS`` sets the number of kills. The default is for every run.
"""

import os
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from tests.pipeline.commit.writers import newest_of, tables_of, undisturbed, write_log

#: The total number of kills.
KILLS = "ORIEL_KILLS"
BATCHES = 24
#: Kills over one log, each some ms after a start, which also needs some ms.
_OF_A_LOG = 4
_DELAY_MS = 900


def _start(directory: Path, delay_ms: int) -> int:
    command = [sys.executable, "-P", "-m", "tests.pipeline.commit.killed_writer"]
    ended = subprocess.run(
        [*command, str(directory), str(delay_ms)], check=False, capture_output=True, text=True
    )
    assert ended.returncode in {0, -9}, ended.stderr[-3000:]
    return ended.returncode


@pytest.mark.slow
def test_killed_at_any_moment_tables_are_those_of_an_undisturbed_run(tmp_path: Path) -> None:
    """Newest rows and dead letters of each log are right, and compaction has removed old rows."""
    random, kills, logs = Random(7), 0, 0
    expected = undisturbed(tmp_path / "undisturbed", BATCHES)["_dead_letters"]
    while kills < int(os.environ.get(KILLS, "3")):
        directory = tmp_path / str(logs)
        logs += 1
        directory.mkdir()
        write_log(directory, BATCHES)
        kills += sum(_start(directory, random.randrange(_DELAY_MS)) == -9 for _ in range(_OF_A_LOG))
        assert _start(directory, -1) == 0
        for name in ("first", "second"):
            assert newest_of(directory, name) == newest_of(tmp_path / "undisturbed", name)
        assert tables_of(directory)["_dead_letters"] == expected
    assert kills > 0
