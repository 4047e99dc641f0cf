"""An archive of the classes that Spark loads: the JVM maps it instead of loading each class.

That is Java's class-data sharing for applications, and shortens the start (decision 0026). An
archive belongs to one Java and one Spark, so each environment makes its own: once, after its
first run, by a small run in a process of its own. It is only ever a help: without one, or with
one of another Java, the JVM starts as usual.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pyspark

from oriel.storage import sync_file, sync_folder

#: Options that spark-submit gives to the JVM. Whoever sets their own decides by themselves.
OPTIONS = "SPARK_SUBMIT_OPTS"
_FAILED = ".failed"
_LOCK = "lock"
_NICENESS = 19
_RECORDS = 100_000
_MAX_BATCH_BYTES = 2 * 2**20
_TRAINING_SECONDS = 600

#: What the small run does: a bit of all that runs load classes for.
_TOPOLOGY = """
from oriel import StreamsBuilder, TimeWindows, avg, count

builder = StreamsBuilder()
(
    builder.stream("events", schema="name STRING, v DOUBLE")
    .filter("v IS NOT NULL AND length(name) > 0")
    .group_by("name")
    .windowed_by(TimeWindows.of_size_and_grace(1000, 0))
    .aggregate(n=count(), mean=avg("v"))
    .materialize("by_name")
)
topology = builder.build()
"""


def archive_folder() -> Path:
    """Where the archive is: in the environment that Spark is installed in."""
    return Path(sys.prefix) / "share" / "oriel"


def archive_options(folder: Path) -> list[str]:
    """The Java options that use the archive in ``folder``, none where there is none."""
    archive = None if os.environ.get(OPTIONS) else _archive(folder)
    if archive is None:
        return []
    # One that doesn't fit any more is passed over; of that nobody needs to be told.
    return [f'"-XX:SharedArchiveFile={archive}"', "-Xlog:cds=off", "-Xlog:cds+dynamic=off"]


def start_archiving(folder: Path) -> bool:
    """Begin to make the archive in ``folder`` where there is none; whether that was begun.

    It is made by a process that outlives this one and gives way to all others. Where the folder
    can't be written to, or where it failed before, there will be none.
    """
    if os.environ.get(OPTIONS) or _archive(folder) or (folder / f"{_key()}{_FAILED}").exists():
        return False
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / _LOCK).touch()
        subprocess.Popen(  # noqa: S603 - our own module
            [sys.executable, "-P", "-m", __name__, str(folder)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except OSError:
        # A help for later starts, which must not make this run fail.
        return False
    return True


def make_archive(folder: Path) -> bool:
    """Make the archive in ``folder`` by a small run of the pipeline; whether it is there now.

    One process at a time; others leave it to that one.
    """
    with (folder / _LOCK).open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        if _archive(folder) is not None:
            return True
        work = folder / "making"
        # Of one that was killed.
        shutil.rmtree(work, ignore_errors=True)
        try:
            draft = _trained(work)
            if draft is None:
                (folder / f"{_key()}{_FAILED}").touch()
                return False
            sync_file(draft)
            made = folder / f"{_key()}-{draft.stat().st_size}.jsa"
            draft.rename(made)
            sync_folder(folder)
            for other in folder.glob("*.jsa"):
                if other != made:
                    other.unlink()
        finally:
            shutil.rmtree(work, ignore_errors=True)
    return True


def _trained(work: Path) -> Path | None:
    """Run the pipeline over a small log below ``work``; the archive that its JVM left."""
    log = work / "log" / "events"
    log.mkdir(parents=True)
    lines = (
        f'{{"key": "k", "value": {{"name": "n{i % 100}", "v": {i}}}, "timestamp_ms": {i}}}\n'
        for i in range(_RECORDS)
    )
    (log / "0.jsonl").write_text("".join(lines))
    topology = work / "training.py"
    topology.write_text(_TOPOLOGY)
    draft = work / "classes.jsa"
    paths = ["--event-log", str(log.parent), "--data", str(work / "data")]
    try:
        # It waits for the end of the output, and so for the JVM, which writes when it ends.
        run = subprocess.run(  # noqa: S603 - our own command
            [
                *(sys.executable, "-P", "-m", "oriel", "run", str(topology), *paths),
                *("--once", "--no-sync", "--max-batch-bytes", str(_MAX_BATCH_BYTES)),
            ],
            env={**os.environ, OPTIONS: f'"-XX:ArchiveClassesAtExit={draft}" -Xlog:cds=off'},
            check=False,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_TRAINING_SECONDS,
        )
    except subprocess.TimeoutExpired:
        return None
    return draft if run.returncode == 0 and draft.is_file() else None


def _archive(folder: Path) -> Path | None:
    """The archive for this Java and Spark; its name says its size in bytes.

    Java checks what an archive says of itself, but dies of one that is cut short.
    """
    with suppress(OSError):  # raised where another process has just put a new one in its place
        for path in folder.glob(f"{_key()}-*.jsa"):
            if path.stem.rpartition("-")[2] == str(path.stat().st_size):
                return path
    return None


def _key() -> str:
    """What an archive must fit: the Java that runs and the Spark whose classes it has."""
    home = os.environ.get("JAVA_HOME")
    java = Path(home, "bin", "java") if home else Path(shutil.which("java") or "java")
    try:
        status = java.resolve().stat()
        changed = f"{java.resolve()} {status.st_size} {status.st_mtime_ns}"
    except OSError:
        # Spark's start will say that there is no Java.
        changed = ""
    words = f"{changed} {pyspark.__file__} {pyspark.__version__}"
    return hashlib.sha256(words.encode()).hexdigest()[:16]


if __name__ == "__main__":
    os.nice(_NICENESS)
    sys.exit(not make_archive(Path(sys.argv[1])))
