"""Write rows of stores and records of streams to Kafka topics, after each batch is prepared.

Every topic has a transactional producer in the driver. A transaction contains a marker of the
batch, so after a crash a start writes only the messages that Kafka has not committed
(``oriel.pipeline.sinks``).
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import orjson
import pyarrow as pa

from oriel.pipeline.errors import InvalidKafkaOption, InvalidTopology, KafkaUnavailable
from oriel.pipeline.language import Publication, SinkNode, StoreNode
from oriel.pipeline.plan import PreparedBatch, StorePlans, input_sources
from oriel.pipeline.run.batches import rows_of_batch
from oriel.pipeline.sinks import (
    Messages,
    TopicProducer,
    batch_identity,
    record_messages,
    row_messages,
)
from oriel.pipeline.sources import UntranslatableOption, producer_settings
from oriel.storage import (
    StoreDefinition,
    current_files,
    is_sink_name,
    replace_file,
    with_digest,
    without_digest,
)

#: The Java client's time for a request that blocks.
_MAX_BLOCK_MS = "60000"


class Publisher:
    """Writes the rows and records of a run to Kafka, each exactly once."""

    def __init__(self, options: Mapping[str, str], checkpoint: Path, *, sync: bool) -> None:
        """Prepare to write. The first batch of a topic connects to the brokers.

        Args:
            options: Options of Kafka's Java client, with ``bootstrap.servers``.
            checkpoint: The checkpoint, which has the name of the pipeline. Its
                ``published.json`` has the last batch whose rows are all written.
            sync: Whether files are forced to disk.
        """
        self._options = options
        self._path = checkpoint / "published.json"
        self._pipeline = checkpoint.name
        self._sync = sync
        self._producers: dict[str, TopicProducer] = {}

    def published_batch(self) -> int:
        """Return the last batch whose rows are all written, -1 before the first or if unknown."""
        try:
            return int(orjson.loads(without_digest(current_files().read(self._path)))["batch"])
        except (FileNotFoundError, ValueError, LookupError, TypeError):
            return -1

    def mark_published(self, batch: int) -> None:
        """Note that all rows of ``batch`` are written."""
        replace_file(self._path, with_digest(orjson.dumps({"batch": batch})), sync=self._sync)

    def publish(
        self,
        publications: Sequence[Publication],
        definition: StoreDefinition,
        table: Path,
        prepared: PreparedBatch,
    ) -> None:
        """Write the rows that a committed batch changed in the ``table`` of a store."""
        if not publications or not prepared.changed:
            return
        tables = list(rows_of_batch(table, definition, prepared))
        for publication in publications if tables else ():
            messages = row_messages(pa.concat_tables(tables), publication, definition)
            self._send(f"rows of store {definition.name!r}", publication, prepared, messages)

    def publish_records(self, plans: StorePlans, directory: Path, prepared: PreparedBatch) -> None:
        """Write the records of a sink's prepared batch, from the segments in ``directory``."""
        names = [name for of_task in prepared.segments.values() for name in of_task]
        values = pa.schema(list(plans.assembly.engine.aggregate_types.items()))
        (publication,) = plans.store.publications
        messages = record_messages(directory, names, values, input_sources(plans), publication)
        what = f"records for the topic {publication.topic!r}"
        self._send(what, publication, prepared, messages)

    def close(self) -> None:
        """Close the connections."""
        for producer in self._producers.values():
            producer.close()

    def _send(
        self,
        what: str,
        publication: Publication,
        prepared: PreparedBatch,
        messages: Iterable[Messages],
    ) -> None:
        producer = self._producer(publication.topic)
        try:
            producer.send(prepared.record.batch, batch_identity(prepared), messages)
        except KafkaUnavailable as error:
            message = (
                f"{what} cannot be written to Kafka at {self._options['bootstrap.servers']} (the "
                f"next start writes them): {error}"
            )
            raise type(error)(message) from error

    def _producer(self, topic: str) -> TopicProducer:
        if topic not in self._producers:
            self._producers[topic] = TopicProducer(
                producer_settings(self._options),
                self._pipeline,
                topic,
                timeout_seconds=int(self._options.get("max.block.ms", _MAX_BLOCK_MS)) / 1000,
            )
        return self._producers[topic]


def check_publications(
    stores_and_sinks: Iterable[StoreNode | SinkNode], options: Mapping[str, str] | None
) -> None:
    """Check that stores and streams can be written to Kafka.

    Args:
        stores_and_sinks: Stores and sinks.
        options: Options of Kafka's Java client, or None if no cluster is named.

    Raises:
        InvalidTopology: One of them has a topic, but no cluster is named.
        InvalidKafkaOption: The client that writes does not have an option.
    """
    for unit in stores_and_sinks:
        for publication in unit.publications:
            if options is None:
                owner = "a stream" if is_sink_name(unit.name) else f"store {unit.name!r}"
                message = (
                    f"{owner} writes to the Kafka topic {publication.topic!r}, but no cluster is "
                    "named. Name the cluster with --publish-to HOST:PORT"
                )
                raise InvalidTopology(message)
            try:
                producer_settings(options)
            except UntranslatableOption as error:
                message = f"the topic {publication.topic!r} cannot be written: {error}"
                raise InvalidKafkaOption(message) from error
