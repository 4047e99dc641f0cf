"""Records of slices, fetched with librdkafka and returned as Arrow batches.

A slice ends by its position and never by a count of records: aborted transactions, markers of
transactions (KIP-98) and compaction leave gaps in the offsets.
"""

import gc
import os
import time
from bisect import bisect_left
from collections.abc import Generator, Iterator, Mapping, Sequence
from functools import cache
from typing import cast

import numpy as np
import pyarrow as pa
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from oriel.pipeline.errors import KafkaUnavailable, RecordsLost
from oriel.pipeline.kafka_slices import GROUP, KafkaSlice, unavailable

#: Settings of the consumer that protect a guarantee, so users cannot change them.
_FIXED: Mapping[str, str | int | bool] = {
    # Offsets are in the checkpoint. An offset out of range is an error and not a new position.
    "auto.offset.reset": "error",
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "check.crcs": True,
    # If the last offsets of a slice have no records, this event shows the end of the slice.
    "enable.partition.eof": True,
}
_DEFAULTS: Mapping[str, str | int | bool] = {
    "group.id": GROUP,
    # Records that are fetched before they are read. This bounds the memory of each process, and the
    # work for records that a task drops because they are after its slice.
    "queued.max.messages.kbytes": 32_768,
    "queued.min.messages": 30_000,
    "max.partition.fetch.bytes": 524_288,
    # The client pauses for this time if enough records are fetched. Its default is 1 s.
    "fetch.queue.backoff.ms": 10,
    # The end of a partition is known only after a fetch returns.
    "fetch.wait.max.ms": 100,
    "log_level": 0,
}
#: One batch has at most about this many bytes and this many records.
_BATCH_BYTES = 4 * 2**20
_BATCH_RECORDS = 10_000
#: A partition has at most about this many records, or ``_BATCH_BYTES``, after its slice.
_MAX_RECORDS_AHEAD = 1_000
#: The first records of a slice show how large records are.
_SAMPLE_RECORDS = 500
#: A batch waits this long for more records.
_GATHER_SECONDS = 0.005
_POLL_SECONDS = 1.0
#: If the brokers deliver no record of a slice in this time, the read fails.
_RESPONSE_TIMEOUT_SECONDS = 30.0

_HEADERS = pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))
_RAW = [
    pa.field("key", pa.binary()),
    pa.field("raw", pa.binary()),
    pa.field("partition", pa.int32()),
    pa.field("offset", pa.int64()),
    pa.field("timestamp", pa.timestamp("us", "UTC")),
]
RAW_SCHEMA = pa.schema(_RAW)
RAW_SCHEMA_WITH_HEADERS = pa.schema([*_RAW, pa.field("headers", _HEADERS)])

#: Errors that do not concern the records: the consumer is in no group, and it reconnects by itself.
_HARMLESS = {
    KafkaError.GROUP_AUTHORIZATION_FAILED,
    KafkaError._ALL_BROKERS_DOWN,  # noqa: SLF001 - the library's name
    KafkaError._RESOLVE,  # noqa: SLF001
    KafkaError._TIMED_OUT,  # noqa: SLF001
    KafkaError._TRANSPORT,  # noqa: SLF001
}
#: Several times the messages that exist at a time. They are freed without a collection.
_OBJECTS_BEFORE_COLLECTION = 200_000

#: Topic and partition.
_TopicPartition = tuple[str, int]


class SliceReader:
    """Reads slices with one consumer, which stays assigned to their partitions.

    A slice that begins where the last slice of its partition ended continues there, with records
    that are fetched already. Not thread-safe.
    """

    def __init__(
        self,
        settings: Mapping[str, str],
        *,
        skips_lost: bool = False,
        keeps_partitions: bool = False,
    ) -> None:
        """Create the consumer.

        Args:
            settings: Settings of librdkafka (``client_settings``).
            skips_lost: If True, a slice whose first records Kafka has deleted begins at the first
                record that exists. The pipeline counts the deleted offsets.
            keeps_partitions: If True, a partition stays assigned during a read without a slice of
                it. False for tasks: another process may read its next slice.
        """
        self._skips_lost = skips_lost
        self._keeps_partitions = keeps_partitions
        self._consumer = Consumer({**_DEFAULTS, **settings, **_FIXED})
        #: The offset after the last record that was returned, per assigned partition.
        self._positions: dict[_TopicPartition, int] = {}
        #: The end of a partition, if the client has returned all records before it. The client
        #: reports an end once, also if several slices without records have this end.
        self._ends: dict[_TopicPartition, int] = {}
        #: Records after the end of a slice.
        self._ahead: dict[_TopicPartition, list[Message]] = {}

    def read(
        self, slices: Sequence[KafkaSlice], headers: Mapping[str, bool] | None = None
    ) -> Generator[tuple[str, pa.RecordBatch]]:
        """Yield the topic and the raw records of slices, each partition in the order of offsets.

        Args:
            slices: At most one slice per partition.
            headers: Topic -> whether its headers are read. Batches of a topic that is missing here
                have no column ``headers``.

        Raises:
            RecordsLost: Kafka has deleted records of a slice.
            KafkaUnavailable: The brokers do not return the records, or reject the client.
        """
        unread = {(part.topic, part.partition): part for part in slices}
        self._assign(unread)
        try:
            yield from self._read(unread, headers or {})
        finally:
            if unread:
                # The caller or an error ended the read, so the positions are not known.
                self._unassign(list(self._positions))

    def _read(
        self, unread: dict[_TopicPartition, KafkaSlice], headers: Mapping[str, bool]
    ) -> Iterator[tuple[str, pa.RecordBatch]]:
        """Yield as ``read`` does, and remove each slice from ``unread`` when it has ended."""
        found = {
            topic_partition: self._ahead.pop(topic_partition, []) for topic_partition in unread
        }
        size = _SAMPLE_RECORDS
        arrived_at = time.monotonic()
        while True:
            for topic_partition, messages in found.items():
                part = unread.get(topic_partition)
                if part is None and topic_partition in self._positions:
                    self._keep(topic_partition, messages)
                    continue
                records = self._without_errors(topic_partition, messages)
                if part is None:
                    # The client can return a record after its partition was unassigned.
                    continue
                slice_records, is_done = self._cut(part, records)
                if slice_records:
                    size = _records_at_a_time(slice_records)
                    batch = raw_records(
                        slice_records, part.partition, has_headers=headers.get(part.topic)
                    )
                    yield part.topic, batch
                if is_done:
                    self._positions[topic_partition] = part.end
                    del unread[topic_partition]
            if not unread:
                return
            # A partition with many more records would delay the others.
            self._unassign([p for p in self._ahead if p not in unread and self._is_far_ahead(p)])
            remaining = sum(
                part.end - self._positions[topic_partition]
                for topic_partition, part in unread.items()
            )
            found = self._fetch(min(size, remaining))
            if not unread.keys().isdisjoint(found):
                arrived_at = time.monotonic()
            elif time.monotonic() - arrived_at > _RESPONSE_TIMEOUT_SECONDS:
                raise _unavailable(next(iter(unread)), KafkaError(KafkaError._TIMED_OUT))  # noqa: SLF001

    def _keep(self, topic_partition: _TopicPartition, messages: list[Message]) -> None:
        """Keep records for the next slice of a partition, which this read does not need."""
        try:
            records = self._without_errors(topic_partition, messages)
        except (KafkaUnavailable, RecordsLost):
            # If it persists, the next slice of the partition reports it.
            self._unassign([topic_partition])
            return
        if records:
            self._ahead.setdefault(topic_partition, []).extend(records)

    def _is_far_ahead(self, topic_partition: _TopicPartition) -> bool:
        """Return whether the records that are kept for the next slice are many or large.

        Live slices are short, and new records arrive during a read. If their partition were
        unassigned, the next batch would wait longer for them than it needs in total.
        """
        ahead = self._ahead[topic_partition]
        return len(ahead) > _MAX_RECORDS_AHEAD or sum(map(len, ahead)) > _BATCH_BYTES

    def close(self) -> None:
        """Close the connections."""
        self._consumer.close()

    def _assign(self, slices: Mapping[_TopicPartition, KafkaSlice]) -> None:
        """Assign the partitions of slices, each at its start."""
        moved = {
            topic_partition: part
            for topic_partition, part in slices.items()
            if self._positions.get(topic_partition) != part.start
        }
        unwanted = () if self._keeps_partitions else self._positions.keys() - slices.keys()
        self._unassign([p for p in self._positions if p in moved or p in unwanted])
        if moved:
            starts = [
                TopicPartition(*topic_partition, part.start)
                for topic_partition, part in moved.items()
            ]
            self._consumer.incremental_assign(starts)
            self._positions |= {
                topic_partition: part.start for topic_partition, part in moved.items()
            }

    def _unassign(self, topic_partitions: Sequence[_TopicPartition]) -> None:
        """Fetch no more records of partitions, and drop the records that are fetched."""
        if topic_partitions:
            self._consumer.incremental_unassign(
                [TopicPartition(*topic_partition) for topic_partition in topic_partitions]
            )
        for topic_partition in topic_partitions:
            del self._positions[topic_partition]
            self._ahead.pop(topic_partition, None)
            self._ends.pop(topic_partition, None)

    def _fetch(self, max_records: int) -> dict[_TopicPartition, list[Message]]:
        """Return the next messages by partition. Empty if no message arrives in a second."""
        first = self._consumer.poll(_POLL_SECONDS)
        if first is None:
            return {}
        messages = [first]
        if max_records > 1:
            messages += self._consumer.consume(max_records - 1, _GATHER_SECONDS)
        if len(self._positions) == 1:
            return {next(iter(self._positions)): messages}
        found: dict[_TopicPartition, list[Message]] = {}
        for message in messages:
            found.setdefault((message.topic() or "", message.partition() or 0), []).append(message)
        return found

    def _cut(self, part: KafkaSlice, records: list[Message]) -> tuple[list[Message], bool]:
        """Return the records of a slice, and whether the slice has ended.

        Records after its end are kept for the next slice of the partition.
        """
        topic_partition = (part.topic, part.partition)
        has_ended = self._ends.get(topic_partition, 0) >= part.end
        if not records:
            return [], has_ended
        last = _offset(records[-1])
        if last < part.end:
            self._positions[topic_partition] = last + 1
            return records, has_ended or last == part.end - 1
        count = bisect_left(records, part.end, key=_offset)
        self._ahead[topic_partition] = records[count:]
        return records[:count], True

    def _without_errors(
        self, topic_partition: _TopicPartition, messages: list[Message]
    ) -> list[Message]:
        """Return the records among messages, and keep the end of the partition.

        Raises:
            RecordsLost, KafkaUnavailable: A message is an error.
        """
        errors = [message for message in messages if message.error() is not None]
        if not errors:
            return messages
        for message in errors:
            error = message.error()
            assert error is not None
            code = error.code()
            if code == KafkaError._PARTITION_EOF:  # noqa: SLF001 - the library's name
                self._ends[topic_partition] = _offset(message)
            elif code in {KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE}:  # noqa: SLF001
                self._skip(topic_partition, error)
            elif code not in _HARMLESS:
                raise _unavailable(topic_partition, error)
        return [message for message in messages if message.error() is None]

    def _skip(self, topic_partition: _TopicPartition, error: KafkaError) -> None:
        """Continue at the first record of a partition that exists.

        Raises:
            RecordsLost: Records of the slice are deleted, and the run does not skip them.
            KafkaUnavailable: The brokers do not return the offset of the first record.
        """
        if not self._skips_lost:
            topic, partition = topic_partition
            message = (
                f"topic {topic!r}, partition {partition}: Kafka deleted records before they were "
                f"read ({error.name()})"
            )
            raise RecordsLost(message)
        try:
            first, _ = self._consumer.get_watermark_offsets(
                TopicPartition(*topic_partition), _RESPONSE_TIMEOUT_SECONDS
            )
        except KafkaException as raised:
            raise _unavailable(topic_partition, raised.args[0]) from raised
        self._unassign([topic_partition])
        self._consumer.incremental_assign([TopicPartition(*topic_partition, first)])
        self._positions[topic_partition] = self._ends[topic_partition] = first


def _unavailable(topic_partition: _TopicPartition, error: KafkaError) -> KafkaUnavailable:
    topic, partition = topic_partition
    return unavailable(f"topic {topic!r}, partition {partition},", error)


def raw_records(
    messages: Sequence[Message], partition: int, *, has_headers: bool | None
) -> pa.RecordBatch:
    """Return messages of one partition as raw rows, as Spark's connector returns them.

    Args:
        messages: The messages.
        partition: The partition.
        has_headers: Whether the headers are read. None: the rows have no column for them.
    """
    times_ms = pa.array([message.timestamp()[1] for message in messages], pa.timestamp("ms", "UTC"))
    columns = [
        pa.array([message.key() for message in messages], pa.binary()),
        pa.array([message.value() for message in messages], pa.binary()),
        pa.array(np.full(len(messages), partition, dtype=np.int32)),
        pa.array([message.offset() for message in messages], pa.int64()),
        times_ms.cast(pa.timestamp("us", "UTC")),
    ]
    if has_headers is None:
        return pa.RecordBatch.from_arrays(columns, schema=RAW_SCHEMA)
    columns.append(
        pa.array([_headers(message) for message in messages], _HEADERS)
        if has_headers
        else pa.nulls(len(messages), _HEADERS)
    )
    return pa.RecordBatch.from_arrays(columns, schema=RAW_SCHEMA_WITH_HEADERS)


def _offset(message: Message) -> int:
    offset = message.offset()
    assert offset is not None
    return offset


def _headers(message: Message) -> list[dict[str, object]] | None:
    headers = cast("list[tuple[str, bytes | None]] | None", message.headers())
    return [{"key": key, "value": value} for key, value in headers] if headers else None


def _records_at_a_time(messages: Sequence[Message]) -> int:
    """Return how many records like these one batch has, so that its size is bounded."""
    size = sum(map(len, messages)) / len(messages)
    return max(1, min(_BATCH_RECORDS, int(_BATCH_BYTES / max(1.0, size))))


@cache
def _readers(
    _process: int,
    settings: tuple[tuple[str, str], ...],
    *,
    skips_lost: bool,
    keeps_partitions: bool,
) -> SliceReader:
    # Each message is a Python object. By default, Python looks for garbage after 700 new objects,
    # which was 8 percent of the time of a task.
    gc.set_threshold(_OBJECTS_BEFORE_COLLECTION)
    try:
        return SliceReader(dict(settings), skips_lost=skips_lost, keeps_partitions=keeps_partitions)
    except KafkaException as error:
        message = f"Kafka's client cannot be created: {error.args[0].str()}"
        raise KafkaUnavailable(message) from error


def reader_of(
    settings: Mapping[str, str], *, skips_lost: bool, keeps_partitions: bool
) -> SliceReader:
    """Return the reader of this process for a cluster. See ``SliceReader`` for the arguments.

    It is created in the process that uses it, because a client does not survive a fork.
    """
    return _readers(
        os.getpid(),
        tuple(sorted(settings.items())),
        skips_lost=skips_lost,
        keeps_partitions=keeps_partitions,
    )
