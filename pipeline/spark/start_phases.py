"""Reports of the phases of a start of Spark, one line when each phase begins."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark import SparkContext

from oriel.pipeline.spark.log_file import LogFile
from oriel.storage import log_line, say

_POLL_SECONDS = 0.1
#: Ivy's output when it begins to resolve packages, once per package, and once per download.
_RESOLVES, _FOUND, _DOWNLOADS = "\n:: resolving dependencies ::", "\n\tfound ", "\ndownloading "


class StartPhases:
    """Prints the phases of one start of Spark, each with the seconds since the run began."""

    def __init__(self, started: float, log: LogFile) -> None:
        """Count from ``started``, in seconds of ``time.monotonic``.

        ``log`` has the output of Java and Ivy.
        """
        self._started = started
        self._log = log

    def begin(self, phase: str) -> None:
        """Print that a phase begins."""
        seconds = round(time.monotonic() - self._started, 1)
        line = log_line("starting Spark", phase=phase, seconds=seconds)
        say("starting", line, phase=phase, seconds=seconds)

    def end(self) -> None:
        """Log the duration of the start."""
        seconds = round(time.monotonic() - self._started, 1)
        say("started", log_line("Spark is ready", seconds=seconds), seconds=seconds)

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Print the phases of the session that is built inside the block.

        Java reports its phases in its output only, so a thread reads the output.
        """
        stop = threading.Event()
        thread = threading.Thread(
            target=self._watch, args=(stop,), name="start-phases", daemon=True
        )
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()

    def _watch(self, stop: threading.Event) -> None:
        """Print each phase until ``stop`` is set, and at least one."""
        last = None
        while True:
            output = self._log.last_start_output()
            if SparkContext._gateway is not None:  # noqa: SLF001 - Spark has no other way
                kind, phase = "session", "creating the session"
            elif _DOWNLOADS in output:
                kind, phase = "download", f"downloading {output.count(_FOUND)} packages"
            elif _RESOLVES in output:
                kind, phase = "resolve", "resolving packages"
            else:
                kind, phase = "java", "starting Java"
            if kind != last:
                last = kind
                self.begin(phase)
            if stop.wait(_POLL_SECONDS):
                return
