"""The join benchmark runs. The tests check the shape of its results and the state size."""

import json

import pytest

from benchmarks.joins import CASES, main


def test_every_case_is_measured_with_its_state(capsys: pytest.CaptureFixture[str]) -> None:
    """Tables have one row per key, and records wait for the join's range and grace."""
    main(["--quick", "--no-sync"])
    found = json.loads(capsys.readouterr().out.splitlines()[-1])["joins"]
    assert list(found) == [case.name for case in CASES]
    for case in CASES:
        one = found[case.name]
        assert 0 < one["median_ms"] <= one["longest_ms"]
        assert 0.9 * case.state <= one["state_rows"] * 1000 <= 1.1 * case.state
        assert one["bytes"] > 0
