"""The options of ``oriel run`` and ``oriel rebuild``: read, checked, and as settings."""

from oriel.pipeline.run.options.clock import clock_settings, idle_lines
from oriel.pipeline.run.options.kafka import (
    check_kafka_arguments,
    kafka_of,
    publish_options,
    wait_seconds,
)
from oriel.pipeline.run.options.parsers import rebuild_parser, run_parser
from oriel.pipeline.run.options.upkeep import upkeep_settings

__all__ = [
    "check_kafka_arguments",
    "clock_settings",
    "idle_lines",
    "kafka_of",
    "publish_options",
    "rebuild_parser",
    "run_parser",
    "upkeep_settings",
    "wait_seconds",
]
