"""Settings from the options of ``oriel run`` and ``oriel rebuild``."""

from oriel.pipeline.run.options.clock import idle_lines, stream_time_settings
from oriel.pipeline.run.options.kafka import (
    kafka_of,
    publish_options,
    wait_seconds,
)
from oriel.pipeline.run.options.upkeep import maintenance_settings

__all__ = [
    "idle_lines",
    "kafka_of",
    "maintenance_settings",
    "publish_options",
    "stream_time_settings",
    "wait_seconds",
]
