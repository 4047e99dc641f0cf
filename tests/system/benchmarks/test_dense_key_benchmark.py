"""The dense-key benchmark runs. The tests check the shape of its results, not the figures."""

import json

import pytest

from benchmarks.dense_key import CASES, main


def test_every_case_is_measured_in_every_size(capsys: pytest.CaptureFixture[str]) -> None:
    """Each case has costs, rows and a state in every size."""
    main(["--quick"])
    found = json.loads(capsys.readouterr().out.splitlines()[-1])["cases"]
    assert list(found) == [case.name for case in CASES]
    for sizes in found.values():
        assert list(sizes) == ["100", "1000"]
        for one in sizes.values():
            assert one["us_a_record"] > 0
            assert one["more_ms"] > 0
            assert one["rows"] >= one["state_rows"] // 2 > 10
