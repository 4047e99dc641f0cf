"""The benchmark of window kinds works; what it measures is not checked, only its shape."""

import json
import subprocess
import sys
from typing import Any

import pytest

from benchmarks.windows import KINDS
from tests.tidy.project import ROOT

#: Starts processes: for CI, not for the inner loop.
pytestmark = pytest.mark.slow

_MEASURED = {
    "records",
    "seconds",
    "records_per_second",
    "cpu_us_per_record",
    "rows_per_record",
    "state_rows",
}


@pytest.fixture(scope="module")
def results() -> dict[str, Any]:
    """All parts in tiny sizes, as JSON in the last line."""
    told = subprocess.run(
        [sys.executable, "-m", "benchmarks.windows", "--quick", "--no-sync"],
        cwd=ROOT, capture_output=True, text=True, check=True, timeout=120,
    )  # fmt: skip
    found: dict[str, Any] = json.loads(told.stdout.splitlines()[-1])
    return found


def test_every_kind_is_measured(results: dict[str, Any]) -> None:
    """Each case tells what it measured, and what Kafka Streams does where that is known."""
    kinds = results["kinds"]
    assert list(kinds) == [case.name for case, _ in KINDS]
    for case, elsewhere in KINDS:
        found = kinds[case.name]
        assert found.pop("kafka_streams_elsewhere") == elsewhere
        assert set(found) == _MEASURED
        assert found["records"] == 200


def test_each_kind_writes_the_rows_that_its_windows_make(results: dict[str, Any]) -> None:
    """10 keys and 20 seconds a batch: a batch's rows are those of its windows, open or closed."""
    rows = {name: one["rows_per_record"] * 200 for name, one in results["kinds"].items()}
    # A session that grows is told anew, and its old row is taken back.
    assert rows["no windows"] == rows["session, gap 5 s"] / 2 == 10
    # Windows that the batch touches, and the one that its first record closed.
    assert rows["tumbling 10 s"] == rows["tumbling 10 s, functions"] == 30
    assert rows["hopping 10 s by 1 s"] == 300
    # Two windows for each distinct time.
    assert rows["sliding 10 s, on close"] == 400


def test_scale_and_lengths_are_measured_by_size(results: dict[str, Any]) -> None:
    """Each size is there with the records that it had."""
    logs = results["scale"]["records"]
    assert set(logs) == {"tumbling 10 s", "session, gap 5 s", "no windows"}
    for sizes in logs.values():
        assert {size: one["records"] for size, one in sizes.items()} == {"200": 200, "400": 400}
    keys = results["scale"]["keys"]["no windows"]
    assert {size: one["state_rows"] for size, one in keys.items()} == {"10": 10, "100": 100}
    assert set(results["lengths"]) == {"on close", "on update"}
    for lengths in results["lengths"].values():
        assert list(lengths) == ["1", "10"]
        assert all(set(one) == _MEASURED for one in lengths.values())
