"""Spark's ``readStream`` over tables of final rows, in a process of its own, while they grow.

``python -m tests.system.kills.final_stream DATA COPIES`` copies each table of final rows in a data
directory, from its creation on. It ends when its input ends, after it has copied all rows. If it is
killed, the next process continues from the checkpoints of the queries.
"""

import os
import select
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from oriel.pipeline.spark import build_session
from tests.e2e.runs_in_one_process import ROOT
from tests.spark_packages import DELTA_PACKAGE, DELTA_SETTINGS, fetch
from tests.system.kills import kinds_topology

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StreamingQuery

_LOOK_SECONDS = 0.3


class FinalStream:
    """A process that copies the tables of final rows of one data directory."""

    def __init__(self, data: Path, copies: Path) -> None:
        """Start the process."""
        self._arguments = [str(data), str(copies)]
        self._process = self._start()

    def _start(self) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [sys.executable, "-P", "-m", "tests.system.kills.final_stream", *self._arguments],
            cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, start_new_session=True,
        )  # fmt: skip

    def restart(self) -> None:
        """Kill the process at any moment, and start another one."""
        self.kill()
        self._process = self._start()

    def kill(self) -> None:
        """Kill the process and its Java."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.communicate()

    def finish(self) -> None:
        """Wait until all rows are copied."""
        output, _ = self._process.communicate()
        assert self._process.returncode == 0, output[-3000:]


def main(data: Path, copies: Path) -> None:
    """Start a query for each table that exists, until the input ends."""
    fetch({"spark.jars.packages": DELTA_PACKAGE})
    spark = build_session("final-stream", cores=1, packages=[DELTA_PACKAGE], extra=DELTA_SETTINGS)
    queries: dict[str, StreamingQuery] = {}
    is_last = False
    while not is_last:
        # The end of the input is readable.
        is_last = bool(select.select([sys.stdin], [], [], _LOOK_SECONDS)[0])
        for store in kinds_topology.FINAL_TABLES:
            table = data / "final" / store
            if store not in queries and (table / "_delta_log" / f"{0:020d}.json").exists():
                queries[store] = _copying(spark, table, copies / store)
        for query in queries.values():
            if (error := query.exception()) is not None:
                raise error
    for query in queries.values():
        query.processAllAvailable()
        query.stop()


def _copying(spark: "SparkSession", table: Path, copy: Path) -> "StreamingQuery":
    rows = spark.readStream.format("delta").load(str(table))
    writer = rows.writeStream.format("delta").trigger(processingTime="500 milliseconds")
    checkpoint = str(copy.with_name(f"{copy.name}-checkpoint"))
    return writer.option("checkpointLocation", checkpoint).start(str(copy))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
