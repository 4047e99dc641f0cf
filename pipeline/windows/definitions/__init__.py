"""What a window is: definitions in Kafka Streams' words, and the rules that they share.

In come durations of users, as whole ms or ``timedelta``s; out go validated definitions
(``TimeWindows``, ``SlidingWindows``, ``SessionWindows``, ``NoWindows``, ``JoinWindows``), the
rules table that says per kind when a window is open, and the emission policy. Whatever breaks
a rule is an ``IllegalArgument`` here, before any record is read.
"""

from oriel.pipeline.windows.definitions.durations import (
    MAX_TIMESTAMP_MS,
    Duration,
    check_span_ms,
    to_ms,
)
from oriel.pipeline.windows.definitions.errors import IllegalArgument, IllegalArgumentType, said
from oriel.pipeline.windows.definitions.join_windows import LEFT, RIGHT, JoinWindows
from oriel.pipeline.windows.definitions.other_words import KafkaWords
from oriel.pipeline.windows.definitions.rules import (
    FOREVER_MS,
    RULES,
    EmitStrategy,
    Kind,
    WindowRule,
)
from oriel.pipeline.windows.definitions.windows import (
    MAX_WINDOWS_PER_RECORD,
    NoWindows,
    SessionWindows,
    SlidingWindows,
    TimeWindows,
    Windows,
)

__all__ = [
    "FOREVER_MS",
    "LEFT",
    "MAX_TIMESTAMP_MS",
    "MAX_WINDOWS_PER_RECORD",
    "RIGHT",
    "RULES",
    "Duration",
    "EmitStrategy",
    "IllegalArgument",
    "IllegalArgumentType",
    "JoinWindows",
    "KafkaWords",
    "Kind",
    "NoWindows",
    "SessionWindows",
    "SlidingWindows",
    "TimeWindows",
    "WindowRule",
    "Windows",
    "check_span_ms",
    "said",
    "to_ms",
]
