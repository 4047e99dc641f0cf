"""The benchmark of joins works; what it measures is not checked, only its shape and the state."""

import json

import pytest

from benchmarks.joins import CASES, main


def test_every_case_is_measured_beside_its_state(capsys: pytest.CaptureFixture[str]) -> None:
    """Tables have a row a key, and records wait as long as the range and the grace say."""
    main(["--quick", "--no-sync"])
    found = json.loads(capsys.readouterr().out.splitlines()[-1])["joins"]
    assert list(found) == [case.name for case in CASES]
    for case in CASES:
        one = found[case.name]
        assert 0 < one["median_ms"] <= one["longest_ms"]
        assert 0.9 * case.state <= one["state_rows"] * 1000 <= 1.1 * case.state
        assert one["bytes"] > 0
