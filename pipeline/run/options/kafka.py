"""Options of ``oriel run`` for Kafka."""

import argparse

from oriel.pipeline.arguments import DEFAULT_RECORDS, Start
from oriel.pipeline.decoding import SchemaRegistry
from oriel.pipeline.sources import Kafka, client_options

_DEFAULT_WAIT_MS = 30_000


def kafka_of(options: argparse.Namespace, registry: SchemaRegistry | None) -> Kafka:
    """Return the log of the options. ``registry`` has the schemas that values reference by id.

    Raises:
        InvalidKafkaOption: an option of the client is not allowed, or its file is not readable.
    """
    starts: dict[str | None, Start] = dict(options.start or ())
    return Kafka(
        options.kafka,
        max_batch_records=options.max_batch_records or DEFAULT_RECORDS,
        options=client_options(options.kafka_option or (), options.kafka_config),
        max_batch_bytes=options.max_batch_bytes,
        start=starts.pop(None, None),
        topic_starts={topic: start for topic, start in starts.items() if topic is not None},
        on_data_loss=options.on_data_loss or "fail",
        schema_registry=registry,
        reader=options.kafka_reader or "auto",
    )


def publish_options(options: argparse.Namespace) -> dict[str, str] | None:
    """Return the options of the Java client for the output cluster, None without a cluster."""
    servers = options.publish_to or options.kafka
    if servers is None:
        return None
    client = client_options(options.kafka_option or (), options.kafka_config)
    return {**client, "bootstrap.servers": servers}


def wait_seconds(options: argparse.Namespace) -> float:
    """Return how long to wait for Kafka at the start, in seconds."""
    wait_ms = _DEFAULT_WAIT_MS if options.kafka_wait is None else options.kafka_wait
    return float(wait_ms / 1000)
