"""Continuous runs over an object store, and their rows."""

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
        """Start the run, with its output in ``log``."""
        self._log = log
        with log.open("wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "oriel", "run", *options],
                stderr=output,
                stdout=subprocess.DEVNULL,
                start_new_session=True,
            )

    def stderr(self) -> str:
        """Return all output of the run."""
        return self._log.read_text()

    def wait_for(self, words: str) -> None:
        """Wait until the run prints ``words``."""
        wait_until(self.stderr, words, lambda stderr: words in stderr, process=self.process)

    def kill(self) -> None:
        """End the run with its JVM and its workers, like a power cut."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


def newest_windows(data: Path) -> dict[tuple[object, ...], tuple[object, ...]]:
    """Return the newest row of each window of ``tumbling``, without its time of writing."""
    rows = open_delta(data / "tables" / "tumbling").to_pyarrow_table().sort_by("revision")
    return {
        (row["key"], row["window_start"]): (row["n"], row["mean"], row["timestamp"])
        for row in rows.to_pylist()
    }
