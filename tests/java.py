"""Java in tests: options for short-lived processes, which halve the cost of their start.

The processes compile quickly instead of well, and read Spark's parsed classes from an archive
(class data sharing). A first run of tests builds the archive in the background. Without an archive
for this Java and Spark, the processes start normally.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

import orjson

_ROOT = Path(__file__).resolve().parents[1]
#: Optimizing code costs more than it saves (a fifth of the processor time), and each process needs
#: only one collector thread. The byte code of published classes is not verified at each start. With
#: the quick compiler, the default for code is 48 MB, which Spark and Delta fill within a minute.
#: Then Java stops compiling, or drops code that it needs again, which costs a fifth of the time of
#: Delta's tests.
QUICK = (
    "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC "
    "-XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
)

_TOPOLOGY = """
from oriel import StreamsBuilder, TimeWindows

windows = TimeWindows.of_size_with_no_grace(10)
builder = StreamsBuilder()
builder.stream("t", "v INT").group_by_key().windowed_by(windows).count().materialize("s")
topology = builder.build()
"""


@cache
def _archive() -> Path | None:
    """Return the path of the archive for this Java and Spark, whether it exists or not."""
    java = shutil.which("java", path=f"{os.environ.get('JAVA_HOME', '')}/bin") or shutil.which(
        "java"
    )
    if java is None:
        return None
    from pyspark import __file__ as pyspark_file  # noqa: PLC0415 - only where there is Java
    from pyspark import __version__  # noqa: PLC0415

    if " " in pyspark_file:
        # Java 17 does not load classes from an archive if the path of the jars has a space.
        return None
    release = Path(java).resolve().parents[1] / "release"
    version = release.read_text() if release.is_file() else java
    key = hashlib.sha256(f"{version}{__version__}{QUICK}".encode()).hexdigest()[:16]
    return _ROOT / ".oriel" / "tests" / f"spark-{key}.jsa"


def options() -> str:
    """Return the options of a Java that runs Spark."""
    archive = _archive()
    if archive is None or not archive.exists():
        return QUICK
    return _with_archive(archive, "SharedArchiveFile")


def _with_archive(archive: Path, option: str) -> str:
    # If an archive does not fit, Java starts without it and logs nothing. Its path can have spaces.
    return f'{QUICK} -Xlog:cds=off -Xlog:cds+dynamic=off "-XX:{option}={archive}"'


def begin_archive() -> "subprocess.Popen[bytes] | None":
    """Start to build the archive in a separate process, unless it exists."""
    archive = _archive()
    if archive is None or archive.exists():
        return None
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "tests.java"],
        cwd=_ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def end() -> None:
    """End the Java that Spark started in this process, if any. It ends when its input ends."""
    from pyspark import SparkContext  # noqa: PLC0415 - as above

    gateway = SparkContext._gateway
    if gateway is not None:
        gateway.proc.stdin.close()
        gateway.proc.wait()


def _make_archive() -> None:
    """Run a small topology, whose Java writes the archive when it ends."""
    from oriel.pipeline import run_command  # noqa: PLC0415

    archive = _archive()
    assert archive is not None
    archive.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="making-", dir=archive.parent) as name:
        directory = Path(name)
        (directory / "topology.py").write_text(_TOPOLOGY)
        (directory / "log" / "t").mkdir(parents=True)
        record = orjson.dumps({"key": "k", "value": {"v": 1}, "timestamp_ms": 1})
        (directory / "log" / "t" / "0.jsonl").write_bytes(record + b"\n")
        made = directory / archive.name
        os.environ["SPARK_SUBMIT_OPTS"] = _with_archive(made, "ArchiveClassesAtExit")
        arguments = [str(directory / "topology.py"), "--event-log", str(directory / "log")]
        assert (
            run_command.main(
                [*arguments, "--data", str(directory / "data"), "--once", "--cores", "1"]
            )
            == 0
        )
        end()
        made.replace(archive)


if __name__ == "__main__":
    _make_archive()
