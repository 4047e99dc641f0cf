"""The status of a data directory, from the reports of its pipelines and tailer.

The package reads a data directory and the status files of its processes (``RunStatusFile`` is the
file of the pipeline). It returns an overview of pipelines, stores, partitions and indexes, also as
Prometheus metrics. It does not disturb a pipeline, and needs no running pipeline.
"""

from oriel.storage.monitoring.metrics import CONTENT_TYPE, metric_families, metrics_text
from oriel.storage.monitoring.overview import Overview, StoreOverview, overview
from oriel.storage.monitoring.partitions import PartitionOverview, total_lag
from oriel.storage.monitoring.pipelines import (
    STUCK_SECONDS,
    PipelineOverview,
    pipeline_overviews,
    retired_text,
    run_problem,
    stopped_text,
)
from oriel.storage.monitoring.run_status import (
    STATUS_FILE,
    RunStatus,
    RunStatusFile,
    StoreRun,
    run_status_files,
)
from oriel.storage.monitoring.texts import duration_text, time_text
from oriel.storage.monitoring.topologies import (
    RecordedTopology,
    record_topology,
    recorded_topologies,
)

__all__ = [
    "CONTENT_TYPE",
    "STATUS_FILE",
    "STUCK_SECONDS",
    "Overview",
    "PartitionOverview",
    "PipelineOverview",
    "RecordedTopology",
    "RunStatus",
    "RunStatusFile",
    "StoreOverview",
    "StoreRun",
    "duration_text",
    "metric_families",
    "metrics_text",
    "overview",
    "pipeline_overviews",
    "record_topology",
    "recorded_topologies",
    "retired_text",
    "run_problem",
    "run_status_files",
    "stopped_text",
    "time_text",
    "total_lag",
]
