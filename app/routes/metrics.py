"""Serve metrics of the data directory and the service for Prometheus."""

from collections.abc import Iterable, Iterator

from fastapi import APIRouter, Response
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from starlette.concurrency import run_in_threadpool

from oriel.app.contract import OPERATIONS
from oriel.app.reads import StoreCatalog
from oriel.app.telemetry import Metrics
from oriel.storage import DataLayout, StoreNotReady
from oriel.storage.monitoring import CONTENT_TYPE, metrics_text, overview


def metrics_routes(catalog: StoreCatalog, measures: Metrics, layout: DataLayout) -> APIRouter:
    """Return the route for one data directory, its catalog and the numbers of the workers."""
    router = APIRouter()

    @router.get(OPERATIONS["metrics"].path)
    async def metrics() -> Response:
        registry = CollectorRegistry(auto_describe=False)
        # The catalog belongs to the event loop.
        registry.register(_Indexes(list(index_metrics(catalog))))
        indexes = generate_latest(registry)
        measures.flush()
        # A thread, because this reads files, and the log of a store without a reported status.
        text = await run_in_threadpool(
            lambda: metrics_text(overview(layout.root, layout.index_root)) + measures.text()
        )
        return Response(text + indexes, media_type=CONTENT_TYPE)

    return router


class _Indexes(Collector):
    """A collector of computed metrics."""

    def __init__(self, metrics: Iterable[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> Iterable[Metric]:
        """Return every family of metrics."""
        return self._metrics


def index_metrics(catalog: StoreCatalog) -> Iterator[Metric]:
    """Yield the lag, the size and the readers of each index."""
    versions = GaugeMetricFamily(
        "oriel_index_lag_versions",
        "Table versions that the index does not contain yet.",
        labels=["store"],
    )
    seconds = GaugeMetricFamily(
        "oriel_index_lag_seconds",
        "Age of the oldest table version that the index does not contain yet. 0 if the index is up "
        "to date.",
        labels=["store"],
    )
    size = GaugeMetricFamily("oriel_index_bytes", "Size of the index file.", labels=["store"])
    readers = GaugeMetricFamily(
        "oriel_index_readers", "Reader slots of the index in use.", labels=["store"]
    )
    for name in catalog.names():
        view = catalog.view(name)
        try:
            with view.snapshot() as snapshot:
                lag = view.lag(snapshot.state.version)
                usage = snapshot.usage()
        except StoreNotReady:
            continue
        if lag is not None:
            versions.add_metric([name], lag.versions)
            seconds.add_metric([name], lag.ms / 1000)
        size.add_metric([name], usage.size_bytes)
        readers.add_metric([name], usage.readers)
    yield from (versions, seconds, size, readers)
