"""Create the archive of Spark's classes for Java while the first run on a machine is running.

The archive has the classes that a small run loads (class data sharing). A process with the lowest
priority executes this run. It uses about 20 s of processor time, once per version of Java and of
Spark.
"""

import os
import sys
import tempfile
from pathlib import Path

import orjson
from filelock import lock_descriptor
from pyspark import SparkContext

from oriel.pipeline import run_command
from oriel.pipeline.spark import (
    archive_directory,
    archive_prefix,
    delete_unused,
    find_archive,
    write_archive,
)

_TOPOLOGY = """
from oriel import StreamsBuilder, TimeWindows

windows = TimeWindows.of_size_with_no_grace(1000)
builder = StreamsBuilder()
builder.stream("t", "v INT").group_by_key().windowed_by(windows).count().materialize("s")
topology = builder.build()
"""
#: The driver computes the first batch. With this many records, a second batch runs in Spark's
#: tasks.
_RECORDS = 60_000


def main() -> int:
    """Create the archive for the installed versions of Java and Spark.

    Returns:
        The exit code: 0 if the archive exists or another process creates it, otherwise 1.
    """
    directory, prefix = archive_directory(), archive_prefix()
    if directory is None or prefix is None:
        return 1
    directory.mkdir(parents=True, exist_ok=True)
    os.nice(19)
    with (directory / f"{prefix}.lock").open("w") as lock:
        if not lock_descriptor(lock.fileno(), blocking=False):
            return 0
        if find_archive() is not None:
            return 0
        delete_unused(directory)
        with tempfile.TemporaryDirectory(prefix="making-", dir=directory) as name:
            archive = Path(name) / "spark.jsa"
            _run(Path(name), archive)
            if archive.is_file():
                archive.replace(directory / f"{prefix}-{archive.stat().st_size}.jsa")
                return 0
        # Because of this file, the next run does not try again.
        (directory / f"{prefix}.failed").touch()
    return 1


def _run(directory: Path, archive: Path) -> None:
    """Run a small topology in Java, which writes the archive when it ends."""
    (directory / "topology.py").write_text(_TOPOLOGY)
    (directory / "log" / "t").mkdir(parents=True)
    records = (
        orjson.dumps({"key": f"k{number % 100}", "value": {"v": 1}, "timestamp_ms": number})
        for number in range(_RECORDS)
    )
    (directory / "log" / "t" / "0.jsonl").write_bytes(b"\n".join([*records, b""]))
    os.environ["ORIEL_CLASS_ARCHIVES"] = ""
    given = os.environ.get("SPARK_SUBMIT_OPTS", "")
    os.environ["SPARK_SUBMIT_OPTS"] = " ".join([given, *write_archive(archive)])
    source, target = str(directory / "log"), str(directory / "data")
    run_command.main(
        [str(directory / "topology.py"), "--event-log", source, "--data", target, "--once"]
    )
    gateway = SparkContext._gateway  # noqa: SLF001 - Spark has no other way
    if gateway is not None:
        # Java ends when its input ends.
        gateway.proc.stdin.close()
        gateway.proc.wait()


if __name__ == "__main__":
    sys.exit(main())
