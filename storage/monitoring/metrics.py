"""Export an overview as Prometheus metrics, in the text format of a scrape.

Names and labels are a contract: the dashboard and the alert rules in ``monitoring/`` use them.
Times are seconds since 1970, as in Prometheus' own functions. ``python -m tools.metrics_page``
writes the help texts into docs/reference/metrics.md.
"""

from collections.abc import Iterable, Iterator

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from oriel.storage.monitoring.overview import Overview, StoreOverview

#: The content type of the response to a scrape.
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

#: Counters of a store whose sum is ``input``.
_OUTCOMES = ("applied", "late", "dead_lettered", "filtered")

_INDEX_STATES = ("opening", "building", "following", "failed", "stale", "blocked", "away")


def metrics_text(overview: Overview) -> bytes:
    """Return all metrics of an overview."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Overview(overview))
    return generate_latest(registry)


def metric_families(overview: Overview) -> dict[str, list[Metric]]:
    """Return the families of metrics of an overview, by the things that they measure."""
    return {
        "Pipelines": [*_of_runs(overview)],
        "Stores": [*_of_stores(overview.stores)],
        "Partitions": [*_of_partitions(overview)],
        "Indexes": [*_of_indexes(overview)],
    }


class _Overview(Collector):
    """Collects the metrics of one overview."""

    def __init__(self, overview: Overview) -> None:
        self._overview = overview

    def collect(self) -> Iterable[Metric]:
        """Yield every family of metrics."""
        for families in metric_families(self._overview).values():
            yield from families


def _of_runs(overview: Overview) -> Iterator[Metric]:
    up = GaugeMetricFamily(
        "oriel_pipeline_up",
        "1 if the last heartbeat of the pipeline is at most 10 s old, otherwise 0.",
        labels=["application"],
    )
    started = GaugeMetricFamily(
        "oriel_pipeline_start_time_seconds", "When the pipeline started.", labels=["application"]
    )
    last = GaugeMetricFamily(
        "oriel_pipeline_last_batch_time_seconds",
        "When the pipeline committed its last batch.",
        labels=["application"],
    )
    log_end = GaugeMetricFamily(
        "oriel_pipeline_log_end_time_seconds",
        "When the pipeline last read the end of its log.",
        labels=["application"],
    )
    batches = CounterMetricFamily(
        "oriel_pipeline_batches",
        "Committed batches since the start of the pipeline.",
        labels=["application"],
    )
    phases = CounterMetricFamily(
        "oriel_pipeline_phase_seconds",
        "Duration of all batches since the start of the pipeline, by phase: plan, compute, commit.",
        labels=["application", "phase"],
    )
    maintenance = CounterMetricFamily(
        "oriel_pipeline_maintenance_failures",
        "Failed attempts to compact or clean up a table since the start of the pipeline.",
        labels=["application"],
    )
    lost = CounterMetricFamily(
        "oriel_pipeline_lost_offsets",
        "Offsets that Kafka deleted before the pipeline read them, since the checkpoint was "
        "created.",
        labels=["application", "topic"],
    )
    for name, (run, is_alive) in overview.runs.items():
        if run.retired_ms:
            continue
        up.add_metric([name], float(is_alive))
        started.add_metric([name], run.started_ms / 1000)
        last.add_metric([name], run.batch_ms / 1000)
        if run.log_ends_ms:
            log_end.add_metric([name], run.log_ends_ms / 1000)
        batches.add_metric([name], run.batches)
        for phase, seconds in run.total_phase_seconds.items():
            phases.add_metric([name, phase], seconds)
        maintenance.add_metric([name], run.maintenance_failures)
        for topic, offsets in run.lost.items():
            lost.add_metric([name, topic], offsets)
    yield from (up, started, last, log_end, batches, phases, maintenance, lost)


def _of_stores(stores: Iterable[StoreOverview]) -> Iterator[Metric]:
    records = CounterMetricFamily(
        "oriel_store_records",
        "Records since the store was created, by outcome: applied, late, dead_lettered, filtered. "
        "Their sum is the input.",
        labels=["store", "outcome"],
    )
    others = CounterMetricFamily(
        "oriel_store_events",
        "Other counters of a store, by name, for example late_results for late results of joins.",
        labels=["store", "event"],
    )
    batch = GaugeMetricFamily(
        "oriel_store_batch", "Number of the last committed batch.", labels=["store"]
    )
    close = GaugeMetricFamily(
        "oriel_store_close_time_seconds",
        "Windows that end before this time are final.",
        labels=["store"],
    )
    open_records = GaugeMetricFamily(
        "oriel_store_open_records",
        "Rows in the state: open windows, and records that open windows can need.",
        labels=["store"],
    )
    state = GaugeMetricFamily(
        "oriel_store_state_bytes", "Size of the state files.", labels=["store"]
    )
    table = GaugeMetricFamily(
        "oriel_store_table_bytes",
        "Size of the files of the table and its log, also of removed files. Not with object "
        "storage.",
        labels=["store"],
    )
    files = GaugeMetricFamily(
        "oriel_store_files",
        "Files of the table, its log and the state. Not with object storage.",
        labels=["store"],
    )
    idle = CounterMetricFamily(
        "oriel_store_partitions_left_out",
        "How often a partition became idle, so that windows became final without it.",
        labels=["store"],
    )
    for store in stores:
        idle.add_metric([store.name], store.idle_times)
        state.add_metric([store.name], store.state_bytes)
        if store.table_bytes is not None and store.files is not None:
            table.add_metric([store.name], store.table_bytes)
            files.add_metric([store.name], store.files)
        if store.open_records is not None:
            open_records.add_metric([store.name], store.open_records)
        if store.record is None:
            continue
        batch.add_metric([store.name], store.record.batch)
        if store.record.close_ms >= 0:
            close.add_metric([store.name], store.record.close_ms / 1000)
        for name, number in store.record.counters.items():
            if name in _OUTCOMES:
                records.add_metric([store.name, name], number)
            elif name != "input":
                others.add_metric([store.name, name], number)
    yield from (records, others, batch, close, open_records, state, table, files, idle)


def _of_partitions(overview: Overview) -> Iterator[Metric]:
    labels = ["store", "topic", "partition"]
    offset = GaugeMetricFamily(
        "oriel_partition_offset",
        "Offset after the last record that the store has read.",
        labels=labels,
    )
    end = GaugeMetricFamily(
        "oriel_partition_log_end_offset",
        "Offset of the end of the log when the pipeline last read it. It can be less than the "
        "offset of the store.",
        labels=labels,
    )
    unread = GaugeMetricFamily(
        "oriel_partition_lag",
        "Records (Kafka) or bytes (event log) between the offset of the store and the end of the "
        "log. It has no value if the pipeline does not run, or read the end more than 20 s ago.",
        labels=labels,
    )
    stream_time = GaugeMetricFamily(
        "oriel_partition_stream_time_seconds", "Stream time of the partition.", labels=labels
    )
    holds = GaugeMetricFamily(
        "oriel_partition_holds_windows_open",
        "1 if this partition keeps windows from becoming final, otherwise 0.",
        labels=labels,
    )
    idle = GaugeMetricFamily(
        "oriel_partition_idle",
        "1 if the partition is idle, so that windows become final without it, otherwise 0.",
        labels=labels,
    )
    lag = GaugeMetricFamily(
        "oriel_partition_lag_seconds",
        "Distance from the stream time of the partition to wall-clock time while the log has "
        "unread records, otherwise 0.",
        labels=labels,
    )
    retired = {name for name, (run, _) in overview.runs.items() if run.retired_ms}
    for store in overview.stores:
        # No alert evaluates the partitions of a retired pipeline.
        for partition in () if store.application in retired else store.partitions:
            place = [store.name, partition.topic, partition.partition]
            offset.add_metric(place, partition.offset)
            if partition.log_end is not None:
                end.add_metric(place, partition.log_end)
            if partition.lag is not None:
                unread.add_metric(place, partition.lag)
            if partition.stream_time_ms >= 0:
                stream_time.add_metric(place, partition.stream_time_ms / 1000)
            holds.add_metric(place, float(partition.holds_windows_open))
            idle.add_metric(place, float(partition.is_idle))
            if partition.lag_ms is not None:
                lag.add_metric(place, partition.lag_ms / 1000)
    yield from (offset, end, unread, stream_time, holds, idle, lag)


def _of_indexes(overview: Overview) -> Iterator[Metric]:
    up = GaugeMetricFamily(
        "oriel_tailer_up", "1 if the tailer has a current heartbeat, otherwise 0."
    )
    up.add_metric([], float(overview.tailer.alive))
    version = GaugeMetricFamily(
        "oriel_index_version", "Table version that the index contains.", labels=["store"]
    )
    state = GaugeMetricFamily(
        "oriel_index_state",
        "1 for the current state of the index, otherwise 0.",
        labels=["store", "state"],
    )
    damaged = CounterMetricFamily(
        "oriel_index_damaged",
        "Rebuilds of a damaged index since the tailer started.",
        labels=["store"],
    )
    for store in overview.stores:
        if store.index is None:
            continue
        damaged.add_metric([store.name], store.index.damaged)
        if store.index.version is not None:
            version.add_metric([store.name], store.index.version)
        for name in _INDEX_STATES:
            state.add_metric([store.name, name], float(store.index.state == name))
    yield from (up, version, state, damaged)
