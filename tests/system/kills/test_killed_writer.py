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


def _start(folder: Path, delay_ms: int) -> int:
    command = [sys.executable, "-P", "-m", "tests.pipeline.commit.killed_writer"]
    ended = subprocess.run(
        [*command, str(folder), str(delay_ms)], check=False, capture_output=True, text=True
    )
    assert ended.returncode in {0, -9}, ended.stderr[-3000:]
    return ended.returncode


@pytest.mark.slow
def test_killed_at_any_moment_tables_are_those_of_an_undisturbed_run(tmp_path: Path) -> None:
    """Newest rows and dead letters of each log are right, and compaction has removed old rows."""
    random, kills, logs = Random(7), 0, 0
    expected = undisturbed(tmp_path / "undisturbed", BATCHES)["_dead_letters"]
    while kills < int(os.environ.get(KILLS, "3")):
        folder = tmp_path / str(logs)
        logs += 1
        folder.mkdir()
        write_log(folder, BATCHES)
        kills += sum(_start(folder, random.randrange(_DELAY_MS)) == -9 for _ in range(_OF_A_LOG))
        assert _start(folder, -1) == 0
        for name in ("first", "second"):
            assert newest_of(folder, name) == newest_of(tmp_path / "undisturbed", name)
        assert tables_of(folder)["_dead_letters"] == expected
    assert kills > 0
