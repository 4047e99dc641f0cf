"""Settings from the options of ``oriel run`` and ``oriel rebuild``."""

from oriel.pipeline.run.options.kafka import kafka_of, publish_options, wait_seconds
from oriel.pipeline.run.options.maintenance import maintenance_settings
from oriel.pipeline.run.options.stream_time import idle_lines, stream_time_settings

__all__ = [
    "idle_lines",
    "kafka_of",
    "maintenance_settings",
    "publish_options",
    "stream_time_settings",
    "wait_seconds",
]
