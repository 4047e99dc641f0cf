"""Observe the service: metrics for Prometheus, access log lines, traces.

``Observed`` is a layer around the application that feeds the ``Measures`` of its worker.
"""

from oriel.app.telemetry.measures import Measures, Work, forget_dead_workers, share_measures
from oriel.app.telemetry.observed import Observed
from oriel.app.telemetry.tracing import is_traced, traced

__all__ = [
    "Measures",
    "Observed",
    "Work",
    "forget_dead_workers",
    "is_traced",
    "share_measures",
    "traced",
]
