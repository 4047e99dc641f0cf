"""Checks of the machine: Python, packages, Java, memory, open files, system time."""

import ctypes
import os
import re
import resource
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import ClassVar

import oriel
from oriel.doctor.results import Check, Result, Subject, ok, problem, warning

_PYTHON_MIN = (3, 11)
#: Spark 4 runs on these (https://spark.apache.org/docs/latest/).
_JAVA_VERSIONS = (17, 21)
#: What a part is for, by its extra.
_PARTS = {"pipeline": "oriel run", "app": "oriel serve"}
#: A requirement such as `pyspark==4.2.0; extra == "pipeline"`.
_REQUIREMENT = re.compile(
    r"(?P<package>[\w.-]+)(?:\[.*?\])?(?P<range>[^;]*);.*extra == ['\"](?P<extra>\w+)['\"]"
)
#: Spark's driver and the Python of the pipeline, with memory for a batch.
_MEMORY_BYTES = 3 << 30
#: Each connection and each open index or data file needs one.
_OPEN_FILES = 4_096
#: The result of adjtimex(2) if the system time is not synchronized, and the size of its structure.
_TIME_ERROR, _TIMEX_BYTES = 5, 256


class Python(Check):
    """The version of Python."""

    name: ClassVar[str] = "Python"

    def results(self, _subject: Subject) -> Iterator[Result]:
        found = f"Oriel {oriel.__version__} on Python {sys.version.split()[0]}"
        if sys.version_info < _PYTHON_MIN:
            yield problem(found, "Install Python 3.11 or newer")
        else:
            yield ok(found)


class Packages(Check):
    """The packages of each part, as the extras of the distribution list them."""

    name: ClassVar[str] = "packages"

    def results(self, _subject: Subject) -> Iterator[Result]:
        try:
            requirements = requires("oriel") or []
        except PackageNotFoundError:
            # `./oriel` compares what is installed with its lock files before each command.
            yield ok("The script ./oriel of this checkout installs them")
            return
        matches = list(filter(None, map(_REQUIREMENT.match, requirements)))
        for part, command in _PARTS.items():
            wanted = {one["package"]: one["range"] for one in matches if one["extra"] == part}
            yield _of_part(part, command, wanted)


def _of_part(part: str, command: str, wanted: dict[str, str]) -> Result:
    """Compare what is installed with the packages of a part and their exact versions, if any."""
    installed = {name: _version(name) for name in wanted}
    missing = sorted(name for name, found in installed.items() if found is None)
    install = f"pip install 'oriel[{part}]'"
    if len(missing) == len(wanted):
        return warning(f"`{command}` is not installed", f"If you need it here: {install}")
    if missing:
        return problem(f"`{command}` needs {', '.join(missing)}, which is not installed", install)
    for name, text in wanted.items():
        pinned = text.strip().removeprefix("==")
        if text.strip().startswith("==") and installed[name] != pinned:
            found = f"{name} is {installed[name]}, and Oriel is tested with {pinned} only"
            return problem(found, install)
    return ok(f"All {len(wanted)} packages of `{command}` are installed")


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


class Java(Check):
    """The Java that Spark starts, if the pipeline is installed."""

    name: ClassVar[str] = "Java"

    def results(self, _subject: Subject) -> Iterator[Result]:
        if _version("pyspark") is None:
            return
        home = os.environ.get("JAVA_HOME")
        path = shutil.which(f"{home}/bin/java" if home else "java")
        install = "Install one (Debian: apt-get install openjdk-17-jre-headless) or set JAVA_HOME"
        if path is None:
            where = (
                f"JAVA_HOME is {home}, which has no bin/java" if home else ("The PATH has no Java")
            )
            yield problem(where, install)
            return
        output = subprocess.run(  # noqa: S603 - the Java that Spark would start
            [path, "-version"], capture_output=True, text=True, check=False, timeout=60
        ).stderr
        match = re.search(r'version "(\d+)([^"]*)"', output)
        if match is None:
            yield problem(
                f"{path} does not print its version. It prints {output.strip()[:80]!r}", install
            )
        elif int(match[1]) not in _JAVA_VERSIONS:
            yield problem(f"{path} is Java {match[1]}, and Spark needs Java 17 or 21", install)
        else:
            yield ok(f"{path} is Java {match[1]}{match[2]}")


class Memory(Check):
    """The memory that is free for this process, within the limit of its container."""

    name: ClassVar[str] = "memory"

    def results(self, _subject: Subject) -> Iterator[Result]:
        available = _available_bytes()
        if available is None:
            return
        found = f"{available / 1e9:.1f} GB are available"
        if _version("pyspark") is not None and available < _MEMORY_BYTES:
            action = "A pipeline needs about 3 GB. Free memory, or raise the container's limit"
            yield warning(found, action)
        else:
            yield ok(found)


def _available_bytes() -> int | None:
    """Return the free memory of the machine or its control group, None if neither is known."""
    found = []
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        fields = next(line.split() for line in lines if line.startswith("MemAvailable:"))
        found.append(int(fields[1]) * 1024)
        group = Path("/sys/fs/cgroup")
        most = (group / "memory.max").read_text().strip()
        if most != "max":
            found.append(int(most) - int((group / "memory.current").read_text()))
    except (OSError, ValueError, StopIteration):
        # Not Linux, or no control group of its own.
        pass
    return min(found, default=None)


class OpenFiles(Check):
    """How many files a process can have open."""

    name: ClassVar[str] = "open files"

    def results(self, _subject: Subject) -> Iterator[Result]:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        found = f"A process can have {soft:,} files open"
        if soft == resource.RLIM_INFINITY:
            yield ok("A process can have any number of files open")
        elif soft < _OPEN_FILES:
            limit = "" if hard == resource.RLIM_INFINITY else f" (at most {hard:,})"
            action = f"For many clients, raise the limit with `ulimit -n {_OPEN_FILES}`{limit}, "
            yield warning(found, action + "or LimitNOFILE= of systemd")
        else:
            yield ok(found)


class Clock(Check):
    """Whether the system time is synchronized, because lags and certificates depend on it."""

    name: ClassVar[str] = "clock"

    def results(self, _subject: Subject) -> Iterator[Result]:
        adjtimex = getattr(ctypes.CDLL(None), "adjtimex", None)
        if adjtimex is None:
            return
        # All bytes 0: read, and change nothing.
        if adjtimex(ctypes.create_string_buffer(_TIMEX_BYTES)) == _TIME_ERROR:
            action = "Start a time service on this machine or its host (chrony, systemd-timesyncd)"
            yield warning("The system reports that its time is not synchronized", action)
        else:
            yield ok("The system reports that its time is synchronized")
