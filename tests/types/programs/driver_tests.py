"""Tests of topologies as users write them: the driver, its readers and its stores."""

from datetime import timedelta
from typing import Any, assert_type

from pyspark.sql import SparkSession

from oriel import KStream, Topology
from oriel.testing import (
    Counters,
    DriverKeyValueStore,
    DriverSessionStore,
    DriverVersionedStore,
    DriverWindowStore,
    FunctionRaised,
    KeyValue,
    OutputReader,
    Record,
    StreamReader,
    TopologyTestDriver,
    VersionedValue,
    WindowedValue,
    spark_session,
)


def runs(topology: Topology, delays: KStream) -> None:
    """A run of a topology, batch by batch."""
    assert_type(TopologyTestDriver(topology, max_ahead_ms=1_000), TopologyTestDriver)
    assert_type(TopologyTestDriver(topology, collect_function_errors=True), TopologyTestDriver)
    with TopologyTestDriver(topology, idle_after_ms=timedelta(minutes=1)) as driver:
        assert_type(driver, TopologyTestDriver)
        record = Record("EWR", {"delay": 4.0}, timestamp_ms=10, headers={"trace": b"7f3a"})
        assert_type(record, Record)
        assert_type(driver.pipe_input("flights", record), None)
        assert_type(driver.pipe_input("flights", [record], partition=1), None)
        assert_type(driver.pipe_inputs([("flights", record), ("flights", record, 1)]), None)
        try:
            driver.pipe_input("flights", record)
        except FunctionRaised as error:
            assert_type(error, FunctionRaised)
        assert_type(driver.advance_wall_clock_time(60_000), None)
        assert_type(driver.read_output("departures"), list[dict[str, Any]])
        assert_type(driver.create_output_reader("departures"), OutputReader)
        assert_type(driver.create_output_reader(delays), StreamReader)
        assert_type(driver.create_output_topic("delays"), StreamReader)
        assert_type(driver.explain("departures"), str)
        assert_type(driver.window_store("departures"), DriverWindowStore)
        assert_type(driver.session_store("visits"), DriverSessionStore)
        assert_type(driver.key_value_store("totals"), DriverKeyValueStore)
        assert_type(driver.versioned_store("prices"), DriverVersionedStore)
        assert_type(driver.counters("departures"), Counters)
        assert_type(driver.dead_letters("departures"), list[dict[str, Any]])
        assert_type(driver.late, int)
        assert_type(driver.dropped, int)
        assert_type(driver.close(), None)
    assert_type(spark_session(), SparkSession)


def readers(rows: OutputReader, stream: StreamReader) -> None:
    """Rows of a store and records of a stream, each once."""
    assert_type(rows.read_row(), dict[str, Any])
    assert_type(rows.read_rows(), list[dict[str, Any]])
    assert_type(rows.queue_size, int)
    assert_type(rows.is_empty, bool)
    assert_type(stream.read_record(), Record)
    assert_type(stream.read_records(), list[Record])
    assert_type(stream.queue_size, int)
    assert_type(stream.is_empty, bool)


def window_stores(store: DriverWindowStore) -> None:
    """Reads of windows."""
    assert_type(store.fetch("EWR", 0), WindowedValue | None)
    assert_type(store.fetch("EWR", 0, 100), list[WindowedValue])
    assert_type(store.backward_fetch("EWR", 0, 100), list[WindowedValue])
    assert_type(store.fetch_range("EWR", None, 0, 100), list[WindowedValue])
    assert_type(store.backward_fetch_range(None, "JFK", 0, 100), list[WindowedValue])
    assert_type(store.fetch_all(0, 100), list[WindowedValue])
    assert_type(store.backward_fetch_all(0, 100), list[WindowedValue])
    assert_type(store.all(), list[WindowedValue])
    assert_type(store.backward_all(), list[WindowedValue])


def session_stores(store: DriverSessionStore) -> None:
    """Reads of sessions."""
    assert_type(store.fetch("EWR"), list[WindowedValue])
    assert_type(store.backward_fetch("EWR"), list[WindowedValue])
    assert_type(store.fetch_range("EWR", None), list[WindowedValue])
    assert_type(store.backward_fetch_range("EWR", "JFK"), list[WindowedValue])
    assert_type(store.find_sessions("EWR", 0, 100), list[WindowedValue])
    assert_type(store.backward_find_sessions("EWR", 0, 100), list[WindowedValue])
    assert_type(store.find_sessions_range("EWR", None, 0, 100), list[WindowedValue])
    assert_type(store.backward_find_sessions_range(None, None, 0, 100), list[WindowedValue])
    assert_type(store.fetch_session("EWR", 0, 100), WindowedValue | None)
    assert_type(store.all(), list[WindowedValue])
    assert_type(store.backward_all(), list[WindowedValue])


def key_value_stores(store: DriverKeyValueStore) -> None:
    """Reads of rows."""
    assert_type(store.get("EWR"), KeyValue | None)
    assert_type(store.range("EWR", None), list[KeyValue])
    assert_type(store.reverse_range(None, "JFK"), list[KeyValue])
    assert_type(store.prefix_scan("E"), list[KeyValue])
    assert_type(store.all(), list[KeyValue])
    assert_type(store.reverse_all(), list[KeyValue])
    assert_type(store.approximate_num_entries(), int)


def versioned_stores(store: DriverVersionedStore, version: VersionedValue) -> None:
    """Reads of versions, in addition to those of rows."""
    assert_type(store.get("tea"), KeyValue | None)
    assert_type(store.get_as_of("tea", 5), VersionedValue | None)
    assert_type(store.versions("tea", 0, 100), list[VersionedValue])
    assert_type(store.backward_versions("tea"), list[VersionedValue])
    assert_type(version.key, str)
    assert_type(version.value, dict[str, Any])
    assert_type(version.timestamp_ms, int)
    assert_type(version.valid_from_ms, int)
    assert_type(version.valid_to_ms, int | None)


def values(window: WindowedValue, row: KeyValue, record: Record, counters: Counters) -> None:
    """What the reads return."""
    assert_type(window.key, str)
    assert_type(window.window_start_ms, int)
    assert_type(window.window_end_ms, int)
    assert_type(window.value, dict[str, Any])
    assert_type(window.timestamp_ms, int)
    assert_type(window.final, bool)
    assert_type(row.key, str)
    assert_type(row.value, dict[str, Any])
    assert_type(row.timestamp_ms, int)
    assert_type(record.key, str | None)
    assert_type(record.timestamp_ms, int)
    if record.value is not None:
        assert_type(dict(record.value), dict[str, Any])
    if record.headers is not None:
        assert_type(dict(record.headers), dict[str, bytes])
    assert_type(counters.input, int)
    assert_type(counters.applied, int)
    assert_type(counters.late, int)
    assert_type(counters.dropped, int)
    assert_type(counters.filtered, int)
    assert_type(counters.late_results, int)
    assert_type(counters.dropped_results, int)
    assert_type(counters.elements, int)
    assert_type(counters.elements_applied, int)
    assert_type(counters.elements_late, int)
    assert_type(counters.elements_dropped, int)
    assert_type(counters.elements_filtered, int)
