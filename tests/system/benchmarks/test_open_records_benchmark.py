"""The benchmark of open records runs. The test checks the shape of its results."""

import json

import pytest

from benchmarks.open_records import KINDS, LONG, main


def test_every_kind_is_measured_with_its_open_records(capsys: pytest.CaptureFixture[str]) -> None:
    """Each kind has its state, and batches with and without open records."""
    main(["--quick"])
    found = json.loads(capsys.readouterr().out.splitlines()[-1])["kinds"]
    assert list(found) == [case.name for case in (*KINDS, LONG)]
    assert found["sliding 10 s"]["state_rows"] == 2_000
    assert found["no windows"]["state_rows"] == 200
    assert found[LONG.name]["state_rows"] == 1_440
    for one in found.values():
        for took in (one["alone"], one["beside"]):
            assert 0 < took["median_ms"] <= took["longest_ms"]
            assert took["bytes"] > 0
