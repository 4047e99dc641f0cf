"""The benchmark of commits runs. The test checks the shape of its results."""

import json

import pytest

from benchmarks.sinks.__main__ import main


@pytest.mark.kafka
def test_both_sinks_are_measured(capsys: pytest.CaptureFixture[str]) -> None:
    """A table has the times of its batches, and a topic has a rate."""
    assert main(["--quick"]) == 0
    found = json.loads(capsys.readouterr().out.splitlines()[-1])
    (one,), (topic,) = found["one"], found["topic"]
    assert 0 < one["p50_ms"] <= one["p99_ms"]
    assert topic["records_per_second"] > 0
