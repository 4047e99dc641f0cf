"""The costs of tests: time of each phase, processor time and the number of Java processes.

``oriel test --costs FILE`` writes one JSON line per test to FILE. The processor time contains the
processes that a test starts and that are alive or reaped when the test ends, including shared ones
such as Spark's Java. So compare sums over many tests, not single tests of a shared process.
"""

import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
#: Tests replace some functions of ``os`` and ``time`` while they run.
_OWN_PID, _monotonic, _listdir = os.getpid(), time.monotonic, os.listdir
#: A ``java`` that records the test that starts it.
_JAVA = """\
#!/bin/sh
printf '%s\\n' "$PYTEST_CURRENT_TEST" >>"{starts}"
exec "{java}" "$@"
"""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option ``--costs FILE``."""
    parser.addoption("--costs", metavar="FILE", type=Path, help="write the cost of each test")


def pytest_configure(config: pytest.Config) -> None:
    """Start to record if the option names a file."""
    file: Path | None = config.getoption("--costs")
    if file is None:
        return
    is_worker = hasattr(config, "workerinput")
    if not is_worker:
        file = file.resolve()
        file.unlink(missing_ok=True)
        starts = Path(f"{file}.java")
        starts.write_text("")
        os.environ["JAVA_HOME"] = str(_recording_java(starts))
    config.pluginmanager.register(_Costs(file.resolve()))


def _recording_java(starts: Path) -> Path:
    """Create a Java home whose ``java`` appends a line to ``starts`` at each start."""
    real = shutil.which("java", path=f"{os.environ.get('JAVA_HOME', '')}/bin")
    real = real or shutil.which("java")
    assert real is not None, "there is no Java whose starts could be counted"
    home = Path(real).resolve().parents[1]
    made = Path(tempfile.mkdtemp(prefix="oriel-java-"))
    (made / "bin").mkdir()
    for entry in [*home.iterdir(), *(home / "bin").iterdir()]:
        if entry.name not in ("bin", "java"):
            (made / entry.relative_to(home)).symlink_to(entry)
    java = made / "bin" / "java"
    java.write_text(_JAVA.format(starts=starts, java=home / "bin" / "java"))
    java.chmod(0o755)
    return made


class _Costs:
    """Writes what each test costs when its last phase ends.

    Reading the processor time of all processes costs milliseconds, so it is read once per test.
    """

    def __init__(self, file: Path) -> None:
        """Append to this file, to which other processes also append."""
        self._file = file
        self._walls: dict[str, float] = {}
        self._used = _processor_seconds()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_setup(self) -> Iterator[None]:
        """Measure the setup."""
        yield from self._phase("setup")

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_call(self) -> Iterator[None]:
        """Measure the test itself."""
        yield from self._phase("call")

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_teardown(self) -> Iterator[None]:
        """Measure the teardown."""
        yield from self._phase("teardown")

    def _phase(self, name: str) -> Iterator[None]:
        began = _monotonic()
        try:
            yield
        finally:
            self._walls[name] = round(_monotonic() - began, 4)

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        """Write the line of a test."""
        if not self._walls:
            return  # Another process ran it.
        used = _processor_seconds()
        worker = os.environ.get("PYTEST_XDIST_WORKER")
        line = {"test": nodeid, "worker": worker, "cpu": round(used - self._used, 2), **self._walls}
        with self._file.open("ab") as file:
            file.write(orjson.dumps(line) + b"\n")
        self._walls, self._used = {}, used


def _processor_seconds() -> float:
    """Return the processor time of this process and its descendants, including reaped children."""
    used: dict[int, int] = {}
    parents: dict[int, int] = {}
    for entry in _listdir("/proc"):
        if not entry.isdecimal():
            continue
        try:
            with open(f"/proc/{entry}/stat") as file:  # noqa: PTH123 - often
                fields = file.read().rpartition(")")[2].split()
        except OSError:
            continue  # It ended.
        parents[int(entry)] = int(fields[1])
        used[int(entry)] = sum(map(int, fields[11:15]))
    ticks = 0
    for process, of_process in used.items():
        ancestor = process
        while ancestor not in (_OWN_PID, 0, 1) and ancestor in parents:
            ancestor = parents[ancestor]
        if ancestor == _OWN_PID:
            ticks += of_process
    return ticks / _TICKS_PER_SECOND


def _main(file: Path) -> None:
    """Print the costs by test file."""
    sums: dict[str, list[float]] = {}
    for line in file.read_bytes().splitlines():
        cost = orjson.loads(line)
        entry = sums.setdefault(cost["test"].partition("::")[0], [0, 0, 0, 0])
        entry[0] += 1
        entry[1] += sum(cost.get(phase, 0) for phase in ("setup", "call", "teardown"))
        entry[2] += cost["cpu"]
    for started in Path(f"{file}.java").read_text().splitlines():
        sums.setdefault(started.partition("::")[0] or "(none)", [0, 0, 0, 0])[3] += 1
    print(f"{'tests':>6} {'wall s':>8} {'cpu s':>8} {'Java':>5}  file")  # noqa: T201 - a program
    rows = sorted(sums.items(), key=lambda row: -row[1][2])
    for name, (tests, wall, processor, java) in [*rows, ("all", _total(sums))]:
        print(f"{tests:6.0f} {wall:8.1f} {processor:8.1f} {java:5.0f}  {name}")  # noqa: T201


def _total(sums: dict[str, list[float]]) -> list[float]:
    return [sum(column) for column in zip(*sums.values(), strict=True)]


if __name__ == "__main__":
    _main(Path(sys.argv[1]))
