"""Fixtures and settings that all tests share."""

import functools
import logging
import os
import re
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadFileScheduling

from oriel.storage import console
from tests import java
from tests.object_store import ObjectStore, running_object_store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from selenium.webdriver import Chrome

    from tests.e2e.kafka_broker import Broker
    from tests.e2e.runs_in_one_process import Runs
    from tests.windows.kafka_peer import KafkaPeer


# Deadlines measure the machine, not the code. With the blob, a failure in CI can be repeated.
settings.register_profile(
    "dev",
    max_examples=15,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("ci", settings.get_profile("dev"), derandomize=False)
settings.register_profile("long", settings.get_profile("dev"), max_examples=500)
# Processes that tests start find the same modules as pytest (pyproject.toml: pythonpath).
_ROOT = Path(__file__).resolve().parents[1]
# Tests have their own archive, see tests/java.py.
os.environ["ORIEL_CLASS_ARCHIVES"] = ""
os.environ["PYTHONPATH"] = os.pathsep.join([str(_ROOT / "src"), str(_ROOT)])
# Compiled files are available to all processes and to the next run. If the environment disables
# this, each of hundreds of processes compiles everything again. That costs 7 s of processor time
# for a process that collects tests, and 0.2 s for each process that tests start.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
# Background processes of a shell ignore SIGINT, and so do the processes that they start. Some tests
# end a process with SIGINT.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
# The JVM that only computes the command line of the other JVM.
os.environ.setdefault("SPARK_LAUNCHER_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")


def _keep_files_in_memory() -> None:
    """Create the files of tests in memory, if there is space and no directory is configured.

    Tests sync thousands of files, and do not test what a disk does with them.
    """
    memory = Path("/dev/shm")  # noqa: S108 - it gets a separate directory
    if "TMPDIR" in os.environ or not os.access(memory, os.W_OK):
        return
    if shutil.disk_usage(memory).free > _FREE_BYTES:
        os.environ["TMPDIR"] = tempfile.tempdir = str(memory)


#: Space in memory for the files of a whole run of tests.
_FREE_BYTES = 6 * 2**30
_keep_files_in_memory()

settings.load_profile("ci" if os.environ.get("CI") else "dev")


@pytest.fixture(autouse=True)
def own_console() -> Iterator[None]:
    """Restore the log format and the handlers that a command sets for the process of a test."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    as_json, fields = console._console.as_json, console._console.fields
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    console._console.as_json, console._console.fields = as_json, fields


@pytest.fixture(scope="session")
def warm_python() -> Iterator[None]:
    """Let Spark start its Python processes quickly in all processes that use the fixture."""
    from tests.warm_python import use_warm_python, warm_python  # noqa: PLC0415 - as below

    with warm_python():
        use_warm_python()
        yield


@pytest.fixture(scope="session")
def spark(warm_python: None) -> "Iterator[SparkSession]":
    """Yield the one Spark session (two cores, Delta) that every test of the run shares."""
    assert warm_python is None
    from oriel.pipeline.spark import build_session  # noqa: PLC0415 - unit tests may lack Java
    from tests.spark_packages import DELTA_PACKAGE, DELTA_SETTINGS, fetch  # noqa: PLC0415

    fetch({"spark.jars.packages": DELTA_PACKAGE})
    session = build_session("oriel-tests", cores=2, packages=[DELTA_PACKAGE], extra=DELTA_SETTINGS)
    yield session
    session.stop()


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> "Iterator[Chrome]":
    """Yield headless Chromium under WebDriver, or skip if it is missing (in CI, fail).

    All tests of a process share it, and each opens its own page.
    """
    from tests.chromium import PROGRAMS, start_chromium  # noqa: PLC0415 - unit tests may lack it

    _require_programs(PROGRAMS)
    driver = start_chromium(tmp_path_factory.mktemp("chromium"))
    yield driver
    driver.quit()


def _require_programs(names: tuple[str, ...]) -> None:
    missing = [name for name in names if shutil.which(name) is None]
    if not missing:
        return
    reason = f"{' and '.join(missing)} not found (Debian: apt-get install chromium chromium-driver)"
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


#: Expensive fixtures that live as long as the process -> the pattern of a file that uses them.
_SHARED = {
    "broker": r"[ (]broker:",
    "runs": r"[ (]survivor:|[ (]runs: Runs",
    "spark": r"[ (]spark:|runs: ClockRuns",
    "peer": r"[ (]peer:",
}
#: One Spark session for all would finish long after the other processes. These files need more time
#: than all others with a session, so they share the session of the test drivers.
_WHOLE_RUNS = (_ROOT / "tests/pipeline/run", _ROOT / "tests/system/runs")
#: These share the containers of one stack.
_STACK = _ROOT / "tests/system/stack"
#: Half of the drivers' files start Spark for their expressions, once per process. Together, they
#: need one Spark instead of three.
_DRIVERS = re.compile(
    r"tests/(testing/|system/campaigns/|(system/)?documentation/test_(kafka_calls|python_blocks)"
    r"|pipeline/plan/test_record_sources)"
)


class SharedTogether(LoadFileScheduling):  # type: ignore[misc]
    """Runs test files in parallel (pytest-xdist), but files with a shared fixture in one process.

    The files start in the order of their collection.
    """

    def __init__(self, config: pytest.Config, log: Any) -> None:
        """Keep that order, because xdist would start with the files that have the most tests."""
        config.option.loadscopereorder = False
        super().__init__(config, log)

    def _split_scope(self, nodeid: str) -> str:
        file: str = super()._split_scope(nodeid)
        return _shared_by(self.config.rootpath / file) or file


@functools.cache
def _shared_by(file: Path) -> str | None:
    """Return the name of the group of files that share a fixture with this file, or None."""
    if file.parent == _STACK:
        return "stack"
    text = file.read_text()
    shared = next((name for name, pattern in _SHARED.items() if re.search(pattern, text)), None)
    if shared is None and _DRIVERS.match(file.relative_to(_ROOT).as_posix()):
        return "drivers"
    return "drivers" if shared == "spark" and file.parent in _WHOLE_RUNS else shared


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> SharedTogether:
    """Return the scheduler of the tests, which pytest requests only for parallel runs."""
    return SharedTogether(config, log)


#: The longest work is first, so that no process continues alone at the end. First are groups of
#: files with a shared fixture, and each group is one work unit. Then follow tests that start their
#: own processes, and other long tests.
_GROUPS = ("stack", "drivers", "spark", "runs", "broker", "peer")
_LONG = ("e2e", "browser", "slow")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Start with long tests, without changing the order of the tests in a file."""

    def rank(item: pytest.Item) -> int:
        shared = _shared_by(item.path)
        if shared is not None:
            return _GROUPS.index(shared)
        marks = (number for number, mark in enumerate(_LONG) if item.get_closest_marker(mark))
        return len(_GROUPS) + next(marks, len(_LONG))

    items.sort(key=rank)
    if _use_spark(items):
        for group in ("drivers", "spark"):
            # A test driver that starts first would leave a session that cannot read Delta.
            first = next((item for item in items if _shared_by(item.path) == group), None)
            if first is not None:
                _fixtures(first).insert(0, "spark")


def _use_spark(items: list[pytest.Item]) -> bool:
    return any("spark" in _fixtures(item) for item in items)


def _fixtures(item: pytest.Item) -> list[str]:
    return item.fixturenames if isinstance(item, pytest.Function) else []


def pytest_collection_finish(session: pytest.Session) -> None:
    """Start to build Java's archive, in one of several processes, if these tests use Java a lot."""
    worker = os.environ.get("PYTEST_XDIST_WORKER", "gw0")
    shared = {_shared_by(item.path) for item in session.items} - {None, "stack", "drivers"}
    if worker == "gw0" and (shared or _use_spark(session.items)):
        session.config.stash[_making_archive] = java.begin_archive()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    """Let each Java that a test starts use the archive as soon as it exists."""
    os.environ["SPARK_SUBMIT_OPTS"] = java.options()


def pytest_unconfigure(config: pytest.Config) -> None:
    """Wait until the archive exists and the Java of this process has ended."""
    making = config.stash.get(_making_archive, None)
    if making is not None:
        making.wait()
    if "pyspark" in sys.modules:
        java.end()


_making_archive = pytest.StashKey[Any]()


@pytest.fixture(scope="session")
def runs(warm_python: None) -> "Iterator[Runs]":
    """Yield the process of all runs over event logs that end by themselves."""
    from tests.e2e.runs_in_one_process import running_process  # noqa: PLC0415 - as above

    assert warm_python is None
    with running_process() as process:
        yield process


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> "Iterator[Broker]":
    """Yield the broker that all tests share. Each test has topics of its own."""
    from tests.e2e.kafka_broker import Broker  # noqa: PLC0415 - as above

    made = Broker(tmp_path_factory.mktemp("broker"))
    yield made
    made.kill()


@pytest.fixture(scope="session")
def kafka_runs(broker: "Broker", warm_python: None) -> "Iterator[Runs]":
    """Yield the process of all runs over that broker that end by themselves."""
    from tests.e2e.runs_in_one_process import running_process  # noqa: PLC0415 - as above

    assert broker
    assert warm_python is None
    with running_process(kafka=True) as process:
        yield process


@pytest.fixture(scope="session")
def peer(tmp_path_factory: pytest.TempPathFactory) -> "Iterator[KafkaPeer]":
    """Run Kafka Streams in one JVM. Each case has its own store and stream time."""
    from tests.windows.kafka_peer import running_peer  # noqa: PLC0415 - as above

    with running_peer(tmp_path_factory.getbasetemp() / "kafka-peer") as running:
        yield running


@pytest.fixture(scope="session")
def object_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectStore]:
    """Run an S3 server, which this process and the processes that it starts use."""
    directory = tmp_path_factory.mktemp("object-store")
    with running_object_store(directory) as store, pytest.MonkeyPatch.context() as patch:
        for name, value in store.environment.items():
            patch.setenv(name, value)
        yield store
