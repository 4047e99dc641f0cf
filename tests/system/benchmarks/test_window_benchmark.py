"""The benchmark of window kinds runs. The tests check the shape of its results."""

import json
import subprocess
import sys
from typing import Any

import pytest

from benchmarks.windows import DISORDERED, ELSEWHERE, IN_ORDER, aggregates, kinds
from tests.tidy.project import ROOT

#: These tests start processes, so they run in CI, not during development.
pytestmark = pytest.mark.slow

_MEASURED = {
    "records",
    "late",
    "seconds",
    "records_per_second",
    "cpu_us_per_record",
    "rows_per_record",
    "state_rows",
}


@pytest.fixture(scope="module")
def results() -> dict[str, Any]:
    """Return the results of all parts in tiny sizes, from the JSON of the last line."""
    return _measured("--hot-key", "20")


def _measured(*options: str) -> dict[str, Any]:
    ended = subprocess.run(
        [sys.executable, "-m", "benchmarks.windows", "--quick", "--no-sync", *options],
        cwd=ROOT, capture_output=True, text=True, check=True, timeout=120,
    )  # fmt: skip
    found: dict[str, Any] = json.loads(ended.stdout.splitlines()[-1])
    return found


@pytest.mark.parametrize(
    ("part", "names"),
    [
        ("kinds", [case.name for case in kinds()]),
        ("aggregates", [case.name for case in aggregates()]),
    ],
)
def test_every_case_is_measured_in_order_and_in_disorder(
    results: dict[str, Any], part: str, names: list[str]
) -> None:
    """Each case has the figures of both arrival orders, and the results describe the orders."""
    assert results["arrivals"] == {
        IN_ORDER: {"disorder_s": 0, "grace_s": 0, "hot_key_percent": 0},
        DISORDERED: {"disorder_s": 5, "grace_s": 30, "hot_key_percent": 20},
    }
    assert list(results[part]) == names
    for found in results[part].values():
        for arrival in (IN_ORDER, DISORDERED):
            assert set(found[arrival]) == _MEASURED
            assert found[arrival]["records"] == 200
            # 5 s of disorder are inside the grace of 30 s.
            assert found[arrival]["late"] == 0


def test_known_kafka_streams_rates_are_printed(results: dict[str, Any]) -> None:
    """The results contain the known rates of Kafka Streams from another measurement."""
    elsewhere = {name: one["kafka_streams_elsewhere"] for name, one in results["kinds"].items()}
    assert {name: rate for name, rate in elsewhere.items() if rate} == ELSEWHERE


def test_each_kind_writes_the_rows_that_its_windows_make(results: dict[str, Any]) -> None:
    """With 10 keys and 20 s per batch, a batch writes the rows of its windows, open or closed."""
    rows = {name: one[IN_ORDER]["rows_per_record"] * 200 for name, one in results["kinds"].items()}
    # A session that grows has a new row, and its old row is deleted.
    assert rows["no windows"] == rows["session, gap 5 s"] / 2 == 10
    # The windows of the batch's records, and the window that its first record closed.
    assert rows["tumbling 10 s"] == rows["tumbling 10 s, functions"] == 30
    assert rows["hopping 10 s by 1 s"] == 300
    # Two windows for each distinct time.
    assert rows["sliding 10 s, on close"] == 400


def test_records_older_than_the_grace_are_late() -> None:
    """Without grace, some records that are up to 20 s late miss every window of 10 s."""
    kinds_of = _measured("--kinds", "--disorder", "20", "--grace", "0")["kinds"]
    late = {name: one[DISORDERED]["late"] for name, one in kinds_of.items()}
    assert 0 < late["sliding 10 s, on update"] < late["tumbling 10 s"] < 200
    assert late["no windows"] == 0
    late_in_order = {name: one[IN_ORDER]["late"] for name, one in kinds_of.items()}
    assert late_in_order == dict.fromkeys(kinds_of, 0)


def test_scale_and_lengths_are_measured_by_size(results: dict[str, Any]) -> None:
    """Each size has the number of its records."""
    logs = results["scale"]["records"]
    assert set(logs) == {"tumbling 10 s", "session, gap 5 s", "no windows"}
    for sizes in logs.values():
        assert {size: one["records"] for size, one in sizes.items()} == {"200": 200, "400": 400}
    keys = results["scale"]["keys"]["no windows"]
    assert {size: one["state_rows"] for size, one in keys.items()} == {"10": 10, "100": 100}
    assert set(results["lengths"]) == {"on close", "on update"}
    for lengths in results["lengths"].values():
        assert list(lengths) == ["1", "10"]
        assert [set(one) for one in lengths.values()] == [_MEASURED, _MEASURED]
