"""The choice of the reader of Kafka's records (``--kafka-reader``)."""

from collections.abc import Callable, Mapping

from oriel.pipeline.arguments import ReaderName
from oriel.pipeline.errors import InvalidKafkaOption
from oriel.pipeline.sources.client_settings import UntranslatableOption, client_settings
from oriel.pipeline.sources.kafka_options import DEFAULT_OPTIONS
from oriel.pipeline.sources.kafka_reader import ConnectorReader, KafkaReader

#: Defaults that protect a guarantee or the brokers. The others suit the Java client only.
_SHARED_DEFAULTS = ("isolation.level", "allow.auto.create.topics", "reconnect.backoff.max.ms")


def choose_reader(
    name: ReaderName,
    servers: str,
    options: Mapping[str, str],
    warn: Callable[[str], None],
    *,
    skips_lost: bool,
) -> KafkaReader:
    """Return the reader of a cluster.

    Args:
        name: The reader.
        servers: The bootstrap servers.
        options: Options of the Java client.
        warn: Called with a message of one line if ``auto`` chooses Spark's connector.
        skips_lost: If True, records that Kafka has deleted are skipped.

    Raises:
        InvalidKafkaOption: ``client`` is chosen, and librdkafka does not have an option.
    """
    if name != "spark":
        # A run over an event log does not load the client.
        from oriel.pipeline.sources.kafka_client import ClientReader  # noqa: PLC0415

        shared = {option: DEFAULT_OPTIONS[option] for option in _SHARED_DEFAULTS}
        try:
            settings = client_settings(servers, {**shared, **options})
            return ClientReader(settings, skips_lost=skips_lost)
        except UntranslatableOption as error:
            if name == "client":
                message = f"--kafka-reader client: {error}. Use --kafka-reader spark"
                raise InvalidKafkaOption(message) from error
            warn(f"Kafka reader chosen: reader=spark. {error}")
    return ConnectorReader(servers, {**DEFAULT_OPTIONS, **options}, skips_lost=skips_lost)
