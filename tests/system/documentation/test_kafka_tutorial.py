"""The commands of docs/get-started/tutorial-kafka.md work with a real broker."""

from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from tests.documentation.pages import NOT_RUN, Block, blocks
from tests.e2e.documented_commands import PageRun
from tests.e2e.kafka_broker import Broker
from tests.e2e.runs_in_one_process import Runs
from tests.storage.waiting import WAIT_SECONDS
from tests.tidy.project import ROOT

_PAGE = ROOT / "docs" / "get-started" / "tutorial-kafka.md"
_TOPIC, _PARTITIONS = "payments", 2
#: The address of the broker on the page.
_ADDRESS = "localhost:9092"


class _KafkaPageRun(PageRun):
    """A page whose pipeline reads a topic of a broker."""

    def __init__(self, directory: Path, runs: Runs, broker: Broker) -> None:
        """Run blocks in ``directory``, with ``broker`` instead of the page's broker."""
        super().__init__(directory, runs, None)
        self._broker = broker

    def run(self, block: Block) -> None:
        """Run a block at the broker's address."""
        super().run(block._replace(text=block.text.replace(_ADDRESS, self._broker.address)))

    def _log_bytes(self) -> int:
        """Return how many records the topic has, because a live pipeline reads added records."""
        consumer = Consumer(
            {"bootstrap.servers": self._broker.address, "log_level": 0, "group.id": "tutorial"}
        )
        try:
            if _TOPIC not in consumer.list_topics(timeout=WAIT_SECONDS).topics:
                return 0
            partitions = [TopicPartition(_TOPIC, number) for number in range(_PARTITIONS)]
            return sum(consumer.get_watermark_offsets(each)[1] for each in partitions)
        finally:
            consumer.close()


@pytest.mark.e2e
@pytest.mark.kafka
def test_the_tutorial_leads_from_a_topic_to_a_service_with_tokens(
    tmp_path: Path, broker: Broker, kafka_runs: Runs
) -> None:
    """Each block runs in order in an empty directory, and the output has the shape on the page."""
    directory = tmp_path / "shops"
    directory.mkdir()
    with _KafkaPageRun(directory, kafka_runs, broker) as page_run:
        for block in blocks(_PAGE):
            if not block.note.startswith(NOT_RUN):
                page_run.run(block)
