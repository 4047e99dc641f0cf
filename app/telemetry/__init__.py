"""Observe the service: metrics for Prometheus, access log lines, traces.

``Observed`` is a layer around the application that feeds the ``Metrics`` of its worker.
"""

from oriel.app.telemetry.measures import Metrics, Work, forget_dead_workers, share_metrics
from oriel.app.telemetry.observed import Observed
from oriel.app.telemetry.tracing import is_traced, traced

__all__ = [
    "Metrics",
    "Observed",
    "Work",
    "forget_dead_workers",
    "is_traced",
    "share_metrics",
    "traced",
]
