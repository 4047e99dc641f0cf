"""The benchmark of many keys works; what it measures is not checked, only its shape."""

import json

import pytest

from benchmarks import keys

pytestmark = pytest.mark.e2e


def test_each_kind_is_measured(capsys: pytest.CaptureFixture[str]) -> None:
    """Both runs, the three places on disk, and the index."""
    keys.main(["--keys", "2000", "--kinds", "tumbling"])
    figures = json.loads(capsys.readouterr().out.splitlines()[-1])["kinds"]["tumbling"]
    assert figures.keys() > {"index_s"}
    # The index can be faster than the clock measures.
    assert {name: value for name, value in figures.items() if value <= 0}.keys() <= {"index_s"}
