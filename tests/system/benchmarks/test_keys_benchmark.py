"""The benchmark of many keys runs. The test checks the shape of its results."""

import json

import pytest

from benchmarks import keys

pytestmark = pytest.mark.e2e


def test_each_kind_is_measured(capsys: pytest.CaptureFixture[str]) -> None:
    """The benchmark measures both runs, the three places on disk, and the index."""
    keys.main(["--keys", "2000", "--kinds", "tumbling"])
    figures = json.loads(capsys.readouterr().out.splitlines()[-1])["kinds"]["tumbling"]
    assert figures.keys() > {"index_s"}
    # The index can be built faster than the timer can measure.
    assert {name: value for name, value in figures.items() if value <= 0}.keys() <= {"index_s"}
