"""Window definitions in the words of Kafka Streams, and the rules that they share.

Users pass times as whole milliseconds or as ``timedelta``. The definitions check them:
``TimeWindows``, ``SlidingWindows``, ``SessionWindows``, ``NoWindows`` and ``JoinWindows``.
``RULES`` defines for each kind when a window is open, and ``EmitStrategy`` when its row is written.
A value that breaks a rule raises ``IllegalArgument`` before any record is read.
"""

from oriel.pipeline.windows.definitions.durations import (
    MAX_TIMESTAMP_MS,
    Duration,
    check_span_ms,
    to_ms,
)
from oriel.pipeline.windows.definitions.errors import IllegalArgument, IllegalArgumentType, said
from oriel.pipeline.windows.definitions.join_windows import LEFT, RIGHT, JoinWindows
from oriel.pipeline.windows.definitions.kafka_hints import KafkaHints
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
    VersionWindows,
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
    "KafkaHints",
    "Kind",
    "NoWindows",
    "SessionWindows",
    "SlidingWindows",
    "TimeWindows",
    "VersionWindows",
    "WindowRule",
    "Windows",
    "check_span_ms",
    "said",
    "to_ms",
]
