"""How a data folder fares: what pipelines and tailer say of themselves, put together.

In come a data folder and the words of whoever works on it (``RunStatusFile`` is the pipeline's);
out goes an overview of pipelines, stores, partitions and indexes, and the same as Prometheus
metrics. Reading it disturbs nobody and needs no pipeline to run.
"""

from oriel.storage.monitoring.metrics import CONTENT_TYPE, metrics_text
from oriel.storage.monitoring.overview import (
    Overview,
    PartitionOverview,
    StoreOverview,
    overview,
)
from oriel.storage.monitoring.run_status import (
    STATUS_FILE,
    RunStatus,
    RunStatusFile,
    StoreRun,
)

__all__ = [
    "CONTENT_TYPE",
    "STATUS_FILE",
    "Overview",
    "PartitionOverview",
    "RunStatus",
    "RunStatusFile",
    "StoreOverview",
    "StoreRun",
    "metrics_text",
    "overview",
]
