"""What the tests of windows share."""

from collections.abc import Iterator

import pytest

from tests.windows.kafka_peer import KafkaPeer, running_peer


@pytest.fixture(scope="session")
def peer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaPeer]:
    """Kafka Streams, running in one JVM; a case has a store and a clock of its own."""
    with running_peer(tmp_path_factory.getbasetemp() / "kafka-peer") as running:
        yield running
