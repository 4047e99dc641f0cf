"""Settings from the options of ``oriel run`` and ``oriel rebuild``."""

from oriel.pipeline.run.options.clock import clock_settings, idle_lines
from oriel.pipeline.run.options.kafka import (
    kafka_of,
    publish_options,
    wait_seconds,
)
from oriel.pipeline.run.options.upkeep import upkeep_settings

__all__ = [
    "clock_settings",
    "idle_lines",
    "kafka_of",
    "publish_options",
    "upkeep_settings",
    "wait_seconds",
]
