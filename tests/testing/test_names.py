"""The public names of ``oriel.testing`` and ``oriel.aggregates``, and their imports."""

import subprocess
import sys

import pytest

import oriel.testing
from oriel import aggregates
from oriel.pipeline.windows import Aggregate


@pytest.mark.parametrize("name", oriel.testing.__all__)
def test_every_name_is_there(name: str) -> None:
    """The module has the driver's names and the names of the stores' suites."""
    assert getattr(oriel.testing, name) is not None
    assert name in dir(oriel.testing)


def test_other_names_are_not() -> None:
    """An unknown name raises an ``AttributeError``."""
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = oriel.testing.nothing


@pytest.mark.slow
def test_the_suites_need_no_spark_and_the_driver_no_pytest() -> None:
    """The suites do not import Spark, and the driver does not import pytest."""
    suites = (
        "import sys; from oriel.testing import WindowStoreConformance, ModelWindowStore; "
        "assert 'pyspark' not in sys.modules and 'oriel.pipeline' not in sys.modules"
    )
    driver = (
        "import sys; sys.modules['pytest'] = None; from oriel.testing import TopologyTestDriver"
    )
    for program in (suites, driver):
        subprocess.run([sys.executable, "-P", "-c", program], check=True, timeout=120)


def test_the_aggregates_have_a_module_of_their_own() -> None:
    """``oriel.aggregates`` has exactly the functions that return an aggregate."""
    made_by_language = {
        name
        for name in oriel.__all__
        if name == "mergeable" or getattr(oriel, name).__annotations__.get("return") is Aggregate
    }
    assert set(aggregates.__all__) == made_by_language
    public = {name: getattr(oriel, name) for name in aggregates.__all__}
    assert {name: getattr(aggregates, name) for name in aggregates.__all__} == public
