"""Runs over an object store that go on, and the rows that they leave."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from oriel.storage.delta import open_delta
from tests.storage.waiting import wait_until


class LiveRun:
    """`oriel run` that continues until it is stopped."""

    def __init__(self, log: Path, *options: str) -> None:
        """Start it; what it says goes to ``log``."""
        self._log = log
        with log.open("wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "oriel", "run", *options],
                stderr=output,
                stdout=subprocess.DEVNULL,
                start_new_session=True,
            )

    def told(self) -> str:
        """All that it said."""
        return self._log.read_text()

    def wait_for(self, words: str) -> None:
        """Wait until it says ``words``."""
        wait_until(self.told, words, lambda told: words in told, process=self.process)

    def kill(self) -> None:
        """End it with its JVM and its workers, as a power cut would."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


def newest_windows(data: Path) -> dict[tuple[object, ...], tuple[object, ...]]:
    """Return the newest row of each window of ``tumbling``, without when it was written."""
    rows = open_delta(data / "tables" / "tumbling").to_pyarrow_table().sort_by("revision")
    return {
        (row["key"], row["window_start"]): (row["n"], row["mean"], row["timestamp"])
        for row in rows.to_pylist()
    }
