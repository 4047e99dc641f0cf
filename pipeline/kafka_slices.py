"""Slices of Kafka's partitions, planned by Spark's streaming query and read by Oriel's tasks.

The Python data source only plans: a row of the source is a slice (topic, partition, start, end).
The task that decodes the records of a slice fetches them itself
(``oriel.pipeline.sources.kafka_client.reading``), so they are not copied into the JVM and back.

Spark starts one Python process per topic, which calls ``latestOffset`` for each batch with the
classes of this module. Its clients are created in that process, after the fork. The module is
outside ``sources`` because each such process imports it, and few imports start fast.
"""

import time
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
from confluent_kafka import (
    OFFSET_INVALID,
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, ListOffsetsResultInfo, OffsetSpec
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from oriel.pipeline.errors import KafkaUnavailable
from oriel.pipeline.new_records import MAX_WAIT_SECONDS, waiting_ends
from oriel.pipeline.planned_slices import PlannedSlices, slice_row

FORMAT = "oriel_kafka"
#: The client requires the name of a group, although its consumers do not join a group.
GROUP = "oriel"

#: The first batch of a new checkpoint has at most this many records. The driver computes it alone,
#: so the first results are committed while Spark starts its Python workers.
_FIRST_BATCH_RECORDS = 10_000
#: Timeout of one request.
_REQUEST_SECONDS = 15.0
#: The partitions of topics are requested again after this time. New ones are read after it at the
#: latest.
_PARTITIONS_SECONDS = 1.0
#: A fetch request waits at most this long at the broker for new messages. The client has one such
#: request at a time. If it begins before all partitions are assigned, the others wait for its end.
_FETCH_WAIT_MS = 25

#: The rows of the source.
SLICE_SCHEMA = pa.schema([
    pa.field("topic", pa.string()),
    pa.field("partition", pa.int32()),
    pa.field("start", pa.int64()),
    pa.field("end", pa.int64()),
])  # fmt: skip


@dataclass(frozen=True)
class KafkaSlice(InputPartition):
    """The offsets of one partition that one task reads, from ``start`` to before ``end``."""

    topic: str
    partition: int
    start: int
    end: int


def slices(topic: str, starts: Mapping[str, int], ends: Mapping[str, int]) -> list[KafkaSlice]:
    """Return the slices of a topic between two offsets of its partitions.

    Args:
        topic: The topic.
        starts: Partition -> offset. A partition that is missing begins at 0.
        ends: Partition -> the offset after the last one.
    """
    return [
        KafkaSlice(topic, int(partition), starts.get(partition, 0), end)
        for partition, end in ends.items()
        if end > starts.get(partition, 0)
    ]


class KafkaSlices(DataSource):
    """Spark data source ``oriel_kafka``.

    Options of all queries: ``topic``. Options of a batch query: ``starts`` and ``ends`` (JSON:
    partition -> offset). Options of a streaming query:

    - ``settings``: a file with settings of librdkafka, so that no secret is in a plan.
    - ``firsts``: JSON: partition -> offset.
    - ``batch_records``: the most offsets of a batch.
    - ``wait_for``: JSON: the topics of the query, if the planner waits for their records.
    """

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self._topic = options["topic"]

    @classmethod
    def name(cls) -> str:
        """Return the format's name."""
        return FORMAT

    def schema(self) -> StructType:
        """Return the columns of slices."""
        return from_arrow_schema(SLICE_SCHEMA)

    def reader(self, schema: StructType) -> PlannedSlices:  # noqa: ARG002
        """Return the reader of the records between two offsets."""
        starts, ends = (orjson.loads(self.options[name]) for name in ("starts", "ends"))
        return PlannedSlices(slices(self._topic, starts, ends), SLICE_SCHEMA)

    def streamReader(self, schema: StructType) -> "KafkaPlanner":  # noqa: ARG002, N802 - Spark's name
        """Return the reader of a streaming query."""
        return KafkaPlanner(
            self._topic,
            Path(self.options["settings"]),
            orjson.loads(self.options["firsts"]),
            int(self.options["batch_records"]),
            orjson.loads(self.options.get("wait_for", "[]")),
        )


class KafkaPlanner(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans the batches of a topic."""

    def __init__(
        self,
        topic: str,
        settings: Path,
        first_offsets: Mapping[str, int],
        batch_records: int,
        wait_for: Sequence[str] = (),
    ) -> None:
        """Plan batches of at most ``batch_records``. A new query begins at ``first_offsets``.

        If there is nothing to read, wait for records of the topics ``wait_for``.
        """
        self._topic = topic
        self._settings = settings
        self._first_offsets = first_offsets
        self._batch_records = batch_records
        self._wait_for = wait_for
        #: Partition -> the end of a run with ``--once``.
        self._once_ends: dict[str, int] | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """Return the offsets at which a new query begins."""
        return {self._topic: self._first_offsets}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Return the limit of one batch."""
        return ReadMaxRows(self._batch_records)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Keep the ends of the partitions as the end of a run with ``--once``."""
        self._once_ends = self._latest()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Return the offsets at which the next batch ends.

        If a partition is missing or ends before ``start``, the result shows it: the pipeline
        compares both before it reads (``Log.look_for_losses``).
        """
        starts: dict[str, int] = start[self._topic]
        return {self._topic: waiting_ends(lambda: self._ends(starts, limit), starts, self._records)}

    def _ends(self, starts: dict[str, int], limit: ReadLimit) -> dict[str, int]:
        latest = self._latest()
        if self._once_ends is not None:
            # Records of a partition that was created later are for the next run.
            latest = {p: min(end, self._once_ends.get(p, 0)) for p, end in latest.items()}
        unread = [p for p, end in latest.items() if end > starts.get(p, 0)]
        if not isinstance(limit, ReadMaxRows) or not unread:
            return latest
        is_first = starts == self._first_offsets
        records = min(limit.max_rows, _FIRST_BATCH_RECORDS) if is_first else limit.max_rows
        # Equal shares, so that a long partition does not delay the others.
        share = max(1, records // len(unread))
        return {p: min(end, starts.get(p, 0) + share) for p, end in latest.items()}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return one slice per partition that has something new."""
        return slices(self._topic, start[self._topic], end[self._topic])

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the slice as one row."""
        yield slice_row(partition, SLICE_SCHEMA)

    def _latest(self) -> dict[str, int]:
        """Return the last stable offset of each partition.

        Raises:
            KafkaUnavailable: No broker responds in time.
        """
        try:
            if self._records is not None and self._topic in self._records.latest:
                return self._records.latest[self._topic]
            return self._topic_ends.latest()[self._topic]
        except KafkaException as error:
            topic = f"topic {self._topic!r}"
            raise unavailable(topic, error.args[0]) from error

    @cached_property
    def _admin(self) -> AdminClient:
        return AdminClient({**self._client_settings(), "log_level": 0})

    @cached_property
    def _topic_ends(self) -> "TopicEnds":
        return TopicEnds(self._admin, [self._topic])

    @cached_property
    def _records(self) -> "NewMessages | None":
        if not self._wait_for:
            return None
        return NewMessages(self._admin, self._client_settings(), self._wait_for)

    def _client_settings(self) -> dict[str, Any]:
        settings: dict[str, Any] = orjson.loads(self._settings.read_bytes())
        return settings

    def __getstate__(self) -> dict[str, Any]:
        # Spark pickles the reader for tasks, and a client belongs to one process.
        clients = ("_admin", "_topic_ends", "_records")
        return {name: value for name, value in vars(self).items() if name not in clients}


class NewMessages:
    """Waits for messages of topics with a fetch request, to which the broker responds at once."""

    def __init__(
        self, admin: AdminClient, settings: Mapping[str, Any], topics: Sequence[str]
    ) -> None:
        """Wait for messages of ``topics``, with a consumer of the ``settings``."""
        self._ends = TopicEnds(admin, topics)
        self._settings = settings
        #: Topic -> partition -> last stable offset. Empty if a topic cannot be read.
        self.latest: dict[str, dict[str, int]] = {}

    def have_come(self) -> bool:
        before = self.latest
        try:
            self.latest = self._ends.latest()
        except KafkaException:
            # The process that plans the topic in question reports the reason.
            self.latest = {}
        return self.latest != before

    def wait(self) -> None:
        # One message is enough, and reading it does not change what the tasks read.
        self._consumer.assign(
            [
                TopicPartition(topic, int(partition), end)
                for topic, ends in self.latest.items()
                for partition, end in ends.items()
            ]
        )
        until = time.monotonic() + MAX_WAIT_SECONDS
        while (remaining := until - time.monotonic()) > 0:
            message = self._consumer.poll(remaining)
            # The client reports connections that it restores, and a group that it does not need.
            if message is None or message.error() is None:
                break
        self._consumer.unassign()
        self.have_come()

    @cached_property
    def _consumer(self) -> Consumer:
        return Consumer(
            {
                "group.id": GROUP,
                **self._settings,
                "enable.auto.commit": False,
                "enable.auto.offset.store": False,
                # Messages of an earlier wait can still be in the queue. With a limit of 1, the
                # client would leave their partition out of its only request, which waits.
                "queued.min.messages": 1_000,
                "fetch.message.max.bytes": 1,
                "fetch.wait.max.ms": _FETCH_WAIT_MS,
                "log_level": 0,
            }
        )


class TopicEnds:
    """The ends of some topics, requested again for each batch.

    The partitions are requested once per second only, because this request lasts as long as the
    other one.
    """

    def __init__(self, admin: AdminClient, topics: Sequence[str]) -> None:
        """Request the ends of ``topics`` with ``admin``."""
        self._admin = admin
        self._topics = topics
        #: Topic -> partitions, and until when they are used (seconds of ``time.monotonic``).
        self._partitions: dict[str, list[int]] = {}
        self._until = 0.0

    def latest(self) -> dict[str, dict[str, int]]:
        """Return topic -> partition -> last stable offset (KIP-98).

        Raises:
            KafkaException: A topic does not exist, or no broker responds in time.
        """
        until = self._until
        if time.monotonic() >= until:
            until = time.monotonic() + _PARTITIONS_SECONDS
            described = self._admin.describe_topics(
                TopicCollection(list(self._topics)), request_timeout=_REQUEST_SECONDS
            )
            self._partitions = {
                topic: [each.id for each in future.result().partitions]
                for topic, future in described.items()
            }
        # After an error, the partitions are requested again: the topic can be another one.
        self._until = 0.0
        latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
        ends: dict[str, dict[str, int]] = {topic: {} for topic in self._topics}
        for topic_partition, future in requested_offsets(
            self._admin, self._partitions, latest, _REQUEST_SECONDS
        ).items():
            ends[topic_partition.topic][str(topic_partition.partition)] = known_offset(
                future.result()
            )
        self._until = until
        return ends


def known_offset(found: ListOffsetsResultInfo) -> int:
    """Return the offset of a partition.

    Raises:
        KafkaException: The client has no offset. If a broker ends, the client can return this
            instead of an error.
    """
    if found.offset == OFFSET_INVALID:
        raise KafkaException(KafkaError(KafkaError._TRANSPORT))  # noqa: SLF001 - the library's name
    return int(found.offset)


def requested_offsets(
    admin: AdminClient,
    partitions: Mapping[str, Sequence[int]],
    spec: OffsetSpec,
    timeout_seconds: float,
) -> dict[TopicPartition, "Future[ListOffsetsResultInfo]"]:
    """Request the offset of each partition that ``spec`` names.

    The end of a partition is its last stable offset (KIP-98), because a slice is read up to it.
    """
    requested = {
        TopicPartition(topic, number): spec
        for topic, numbers in partitions.items()
        for number in numbers
    }
    return admin.list_offsets(
        requested, isolation_level=IsolationLevel.READ_COMMITTED, request_timeout=timeout_seconds
    )


def unavailable(what: str, error: KafkaError) -> KafkaUnavailable:
    """Return the pipeline's error for an error of librdkafka while it reads ``what``."""
    message = f"Kafka: {what} cannot be read: {error.str()} ({error.name()})"
    return KafkaUnavailable(message)
