"""The benchmark of updates runs. The test checks the shape of its results."""

import json

import pytest

from benchmarks.updates import ARRIVALS, CASES, main


def test_every_kind_is_measured_both_ways(capsys: pytest.CaptureFixture[str]) -> None:
    """Each record emits at least one row, and overlapping windows emit more."""
    main(["--quick"])
    found = json.loads(capsys.readouterr().out.splitlines()[-1])["kinds"]
    assert list(found) == list(CASES)
    for of_kind in found.values():
        assert list(of_kind) == list(ARRIVALS)
        for one in of_kind.values():
            assert one["us_a_record"] > 0
            assert one["us_a_row"] > 0
            assert one["rows_a_record"] >= 1
            assert one["open_rows"] > 0
    overlapping = found["hopping 10 s by 2 s"]
    assert {name: one for name, one in overlapping.items() if one["rows_a_record"] <= 1} == {}
