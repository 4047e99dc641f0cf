"""An overview as Prometheus metrics, in the text format that a scrape expects.

Names and labels are a contract: the dashboard and the alert rules in ``monitoring/`` use them.
Times are seconds since 1970, as Prometheus' own functions take them.
"""

from collections.abc import Iterable, Iterator

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from oriel.storage.monitoring.overview import Overview, StoreOverview

#: The content type of the answer to a scrape.
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

#: Counters of a store that are not ``input`` themselves but say what became of it.
_OUTCOMES = ("applied", "late", "dead_lettered", "filtered")

_INDEX_STATES = ("opening", "building", "following", "failed", "stale", "blocked", "away")


def metrics_text(overview: Overview) -> bytes:
    """All metrics of an overview."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Overview(overview))
    return generate_latest(registry)


class _Overview(Collector):
    """Gives the metrics of one overview."""

    def __init__(self, overview: Overview) -> None:
        self._overview = overview

    def collect(self) -> Iterable[Metric]:
        """Give every family of metrics."""
        yield from _of_runs(self._overview)
        yield from _of_stores(self._overview.stores)
        yield from _of_partitions(self._overview)
        yield from _of_indexes(self._overview)


def _of_runs(overview: Overview) -> Iterator[Metric]:
    up = GaugeMetricFamily(
        "oriel_pipeline_up", "Whether the pipeline's heartbeat is fresh.", labels=["application"]
    )
    started = GaugeMetricFamily(
        "oriel_pipeline_start_time_seconds", "When the pipeline started.", labels=["application"]
    )
    last = GaugeMetricFamily(
        "oriel_pipeline_last_batch_time_seconds",
        "When the last batch was committed.",
        labels=["application"],
    )
    log_end = GaugeMetricFamily(
        "oriel_pipeline_log_end_time_seconds",
        "When the pipeline last read the end of its log.",
        labels=["application"],
    )
    batches = CounterMetricFamily(
        "oriel_pipeline_batches", "Batches committed since the start.", labels=["application"]
    )
    phases = CounterMetricFamily(
        "oriel_pipeline_phase_seconds",
        "Duration of batches since the start in seconds, by phase.",
        labels=["application", "phase"],
    )
    maintenance = CounterMetricFamily(
        "oriel_pipeline_maintenance_failures",
        "How often a table could not be compacted or cleaned up, since the start.",
        labels=["application"],
    )
    lost = CounterMetricFamily(
        "oriel_pipeline_lost_offsets",
        "Offsets that were deleted from the log before they were read, since the checkpoint was "
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
        "Records since the store was created, by outcome. The sum is the input.",
        labels=["store", "outcome"],
    )
    others = CounterMetricFamily(
        "oriel_store_events",
        "Other counters of a store, by name, for example results of joins that were too late.",
        labels=["store", "event"],
    )
    batch = GaugeMetricFamily("oriel_store_batch", "The last batch.", labels=["store"])
    close = GaugeMetricFamily(
        "oriel_store_close_time_seconds",
        "Windows that end before this time are final.",
        labels=["store"],
    )
    open_records = GaugeMetricFamily(
        "oriel_store_open_records", "Rows in the state.", labels=["store"]
    )
    state = GaugeMetricFamily("oriel_store_state_bytes", "Size of the state.", labels=["store"])
    idle = CounterMetricFamily(
        "oriel_store_partitions_left_out",
        "How often a partition became idle, so that windows became final without it.",
        labels=["store"],
    )
    for store in stores:
        idle.add_metric([store.name], store.idle_times)
        state.add_metric([store.name], store.state_bytes)
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
    yield from (records, others, batch, close, open_records, state, idle)


def _of_partitions(overview: Overview) -> Iterator[Metric]:
    labels = ["store", "topic", "partition"]
    offset = GaugeMetricFamily(
        "oriel_partition_offset", "Offset that the store has reached, exclusive.", labels=labels
    )
    end = GaugeMetricFamily(
        "oriel_partition_log_end_offset",
        "Offset at which the log ended when its end was last read.",
        labels=labels,
    )
    unread = GaugeMetricFamily(
        "oriel_partition_lag",
        "Records (Kafka) or bytes (event log) between the store's offset and the log's end. It has "
        "no value if the pipeline does not run or the log's end is outdated.",
        labels=labels,
    )
    stream_time = GaugeMetricFamily(
        "oriel_partition_stream_time_seconds", "The partition's stream time.", labels=labels
    )
    holds = GaugeMetricFamily(
        "oriel_partition_holds_windows_open",
        "Whether the store's windows wait for this partition.",
        labels=labels,
    )
    idle = GaugeMetricFamily(
        "oriel_partition_idle",
        "Whether the partition is idle and windows become final without it.",
        labels=labels,
    )
    lag = GaugeMetricFamily(
        "oriel_partition_lag_seconds",
        "Delay of the partition's stream time against wall-clock time while the log has unread "
        "records, otherwise 0.",
        labels=labels,
    )
    retired = {name for name, (run, _) in overview.runs.items() if run.retired_ms}
    for store in overview.stores:
        # Nobody waits for the partitions of a retired pipeline, so no alert evaluates them.
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
    up = GaugeMetricFamily("oriel_tailer_up", "Whether the tailer's heartbeat is fresh.")
    up.add_metric([], float(overview.tailer.alive))
    version = GaugeMetricFamily(
        "oriel_index_version", "The table version that the index has.", labels=["store"]
    )
    state = GaugeMetricFamily(
        "oriel_index_state", "1 for the state that the index is in.", labels=["store", "state"]
    )
    damaged = CounterMetricFamily(
        "oriel_index_damaged",
        "Rebuilds of damaged indexes since the tailer started.",
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
