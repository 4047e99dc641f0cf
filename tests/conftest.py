"""Fixtures and settings that all tests share."""

import functools
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadFileScheduling

from tests.locks import only_one
from tests.object_store import ObjectStore, running_object_store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from selenium.webdriver import Chrome

#: Lets Spark read our tables in tests; the product itself does not need it.
DELTA_PACKAGE = "io.delta:delta-spark_4.2_2.13:4.4.0"

_DELTA_SETTINGS = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    # Delta's own default of 50 tasks for reading a small log only costs time.
    "spark.databricks.delta.snapshotPartitions": "1",
}

# Deadlines measure the machine, not the code. The blob lets anyone repeat a failure of CI.
settings.register_profile(
    "dev", deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("ci", settings.get_profile("dev"), derandomize=False)
# `oriel test unit` tries fewer examples than the hundred of a whole run.
settings.register_profile("unit", settings.get_profile("dev"), max_examples=40)
# Processes that tests start find what pytest finds (pyproject.toml: pythonpath).
_ROOT = Path(__file__).resolve().parents[1]
os.environ["PYTHONPATH"] = os.pathsep.join([str(_ROOT / "src"), str(_ROOT)])
# The JVMs of tests live for seconds: compiling their code well costs more than it gains (a
# fifth of the processor's time), and there are as many collectors as processes.
os.environ.setdefault(
    "SPARK_SUBMIT_OPTS",
    "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC "
    # Nor is the byte code of Spark's own classes verified anew at each start.
    "-XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote",
)
# The JVM that only works out the command line of the other.
os.environ.setdefault("SPARK_LAUNCHER_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")

settings.load_profile("ci" if os.environ.get("CI") else "dev")


@pytest.fixture(scope="session")
def spark() -> "Iterator[SparkSession]":
    """Yield the one Spark session (two cores, Delta) that every test of the run shares."""
    from oriel.pipeline.spark import build_session  # noqa: PLC0415 - unit tests may lack Java

    with only_one("ivy"):
        session = build_session(
            "oriel-tests", cores=2, packages=[DELTA_PACKAGE], extra=_DELTA_SETTINGS
        )
    yield session
    session.stop()


@pytest.fixture
def browser(tmp_path: Path) -> "Iterator[Chrome]":
    """Yield headless Chromium under WebDriver; skip where it is missing (under CI: fail)."""
    _require_browser()
    from selenium.webdriver import Chrome, ChromeOptions, ChromeService  # noqa: PLC0415

    options = ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    for argument in (
        "--headless=new",
        "--no-sandbox",  # root in CI has no sandbox
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--no-first-run",
        # No calls home: this is a test of our page.
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--disable-quic",
        f"--user-data-dir={tmp_path / 'chromium'}",
    ):
        options.add_argument(argument)
    driver = Chrome(options=options, service=ChromeService(shutil.which("chromedriver")))
    yield driver
    driver.quit()


def _require_browser() -> None:
    missing = [name for name in ("chromium", "chromedriver") if shutil.which(name) is None]
    if not missing:
        return
    reason = f"{' and '.join(missing)} not found (Debian: apt-get install chromium chromium-driver)"
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


#: Fixtures that are dear to make and live as long as the process.
_SHARED = ("spark", "survivor")
#: With one Spark session for all, the other processes would be done long before it. This file
#: takes about as long as all others that share one, so it has a session of its own.
_OWN_SESSION = "test_run.py"


class SharedTogether(LoadFileScheduling):  # type: ignore[misc]
    """Files of tests side by side (pytest-xdist), those with a shared fixture in one process."""

    def _split_scope(self, nodeid: str) -> str:
        file: str = super()._split_scope(nodeid)
        return _shared_by(self.config.rootpath / file) or file


@functools.cache
def _shared_by(file: Path) -> str | None:
    """Which shared fixture a test of the file asks for, if any."""
    text = file.read_text()
    if file.name == _OWN_SESSION:
        return None
    return next((name for name in _SHARED if re.search(rf"[ (]{name}:", text)), None)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> SharedTogether:
    """How the tests are dealt out: only asked for where tests run side by side."""
    return SharedTogether(config, log)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with what takes long, so that no process is left alone with it at the end.

    First the groups of files that share something: each is one piece of work.
    """
    items.sort(
        key=lambda item: (
            item.path.name != _OWN_SESSION,
            _shared_by(item.path) is None,
            not any(map(item.get_closest_marker, _LONG)),
        )
    )


#: Marks of tests that start processes of their own, and of others that take long.
_LONG = ("e2e", "kafka", "browser", "slow")


@pytest.fixture(scope="session")
def object_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectStore]:
    """Run an S3 server, which this process and those that it starts use."""
    folder = tmp_path_factory.mktemp("object-store")
    with running_object_store(folder) as store, pytest.MonkeyPatch.context() as patch:
        for name, value in store.environment.items():
            patch.setenv(name, value)
        yield store
