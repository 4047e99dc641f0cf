"""Read the end offsets and the wall-clock time of the batch that Spark has planned.

Spark's offset log has both. But a live run lets Spark write this log rarely, so they are read from
Spark's memory (decision 0094).
"""

from typing import NamedTuple

import orjson
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.sql import SparkSession

from oriel.pipeline.errors import CheckpointError
from oriel.storage import Offsets

#: Options of a query whose offset log and commit log Spark writes in another thread, and only if a
#: day has passed since the last time. Spark allows it for its own sinks only, because a restart
#: needs these logs. A start of Oriel writes them from the batches that the stores have prepared.
RARE_LOGS = {
    "asyncProgressTrackingEnabled": "true",
    "asyncProgressTrackingCheckpointIntervalMs": "86400000",
    "_asyncProgressTrackingOverrideSinkSupportCheck": "true",
}


class PlannedBatch(NamedTuple):
    """A batch of a query.

    Attributes:
        ends: Topic -> partition -> the offset at which the batch ends.
        time_ms: The wall-clock time of ``current_timestamp()`` in the batch, in ms since 1970.
    """

    ends: Offsets
    time_ms: int


def planned_batch(spark: SparkSession, query: str) -> PlannedBatch:
    """Return the batch that a query runs. Call it while the batch runs.

    Args:
        spark: The session.
        query: The id of the query.

    Raises:
        CheckpointError: Spark does not have the batch, or has it in another form.
    """
    try:
        execution = spark._jsparkSession.streams().get(query).streamingQuery()  # noqa: SLF001
        context = execution.getLatestExecutionContext()
        time_ms = int(context.offsetSeqMetadata().batchTimestampMs())
        ends: Offsets = {}
        # A source without offsets is missing.
        for source in context.endOffsets().values().mkString("\n").splitlines():
            for topic, partitions in orjson.loads(source).items():
                ends[topic] = {str(p): int(offset) for p, offset in partitions.items()}
    except (Py4JError, ValueError, AttributeError, TypeError) as error:
        message = f"the batch that Spark has planned cannot be read: {error}"
        raise CheckpointError(message) from error
    return PlannedBatch(ends, time_ms)
