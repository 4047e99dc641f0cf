"""The benchmark of a dense key works; what it measures is not checked, only its shape."""

import json

import pytest

from benchmarks.dense_key import CASES, main


def test_every_case_is_measured_in_every_size(capsys: pytest.CaptureFixture[str]) -> None:
    """There are costs, and rows and a state that they were for."""
    main(["--quick"])
    found = json.loads(capsys.readouterr().out.splitlines()[-1])["cases"]
    assert list(found) == [case.name for case in CASES]
    for sizes in found.values():
        assert list(sizes) == ["100", "1000"]
        for one in sizes.values():
            assert one["us_a_record"] > 0
            assert one["more_ms"] > 0
            assert one["rows"] >= one["state_rows"] // 2 > 10
