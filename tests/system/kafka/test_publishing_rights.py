"""The rights that a user needs to write output topics, tested with a broker that checks them."""

from collections import Counter
from pathlib import Path
from typing import cast

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from oriel.pipeline.errors import KafkaUnavailable
from oriel.pipeline.sinks import TopicProducer
from oriel.pipeline.sinks.topic_producer import Marker
from oriel.pipeline.sources import producer_settings
from tests.e2e.kafka_broker import PASSWORD, USER, Broker
from tests.storage.waiting import WAIT_SECONDS
from tests.system.kafka.test_exactly_once import make_topic, messages, seen

pytestmark = [pytest.mark.e2e, pytest.mark.kafka]

_AUTHORIZER = """
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:ANONYMOUS
"""
_TOPIC, _NAME = "rights", "oriel/app/rights"
#: The rights of docs/reference/kafka.md, each with a part of the error without it.
_RIGHTS = [
    (ResourceType.TOPIC, _TOPIC, AclOperation.DESCRIBE, "no topic 'rights', or this user"),
    (ResourceType.TRANSACTIONAL_ID, _NAME, AclOperation.WRITE, f"transactional id '{_NAME}'"),
    (ResourceType.GROUP, _NAME, AclOperation.READ, f"group '{_NAME}'"),
    (ResourceType.TOPIC, _TOPIC, AclOperation.WRITE, "describe, read and write the topic"),
    (ResourceType.TOPIC, _TOPIC, AclOperation.READ, "describe, read and write the topic"),
]


def test_each_missing_right_is_named(tmp_path: Path) -> None:
    """Each error names the next missing right. With all rights, the batch is written."""
    broker = Broker(tmp_path)
    try:
        broker.kill()
        with (tmp_path / "server.properties").open("a") as config:
            config.write(_AUTHORIZER)
        broker.start()
        make_topic(broker.address, _TOPIC)
        module = "org.apache.kafka.common.security.plain.PlainLoginModule"
        settings = producer_settings({
            "bootstrap.servers": broker.sasl_address, "security.protocol": "SASL_SSL",
            "sasl.mechanism": "PLAIN",
            "sasl.jaas.config": f'{module} required username="{USER}" password="{PASSWORD}";',
            "ssl.truststore.type": "PEM", "ssl.truststore.location": str(broker.certificate),
        })  # fmt: skip
        producer = TopicProducer(settings, "app", _TOPIC, timeout_seconds=10)
        admin = AdminClient({"bootstrap.servers": broker.address, "log_level": 0})
        for kind, name, operation, message in _RIGHTS:
            with pytest.raises(KafkaUnavailable) as refused:
                producer.send(0, "a", [messages(range(10))])
            assert message in str(refused.value)
            right = AclBinding(
                kind, name, ResourcePatternType.LITERAL, f"User:{USER}", "*", operation,
                AclPermissionType.ALLOW,
            )  # fmt: skip
            for granted in admin.create_acls([right]).values():
                granted.result(timeout=WAIT_SECONDS)
        producer.send(0, "a", [messages(range(10))])
        producer.close()
        assert seen(broker.address, _TOPIC) == Counter(range(10))
    finally:
        broker.kill()


class _FailingLater:
    """A producer whose transaction fails while it sends the marker, which happens at random."""

    def __init__(self) -> None:
        """The first call fails with the transaction's state, later calls with the reason."""
        self._codes = iter([KafkaError._STATE, KafkaError.TOPIC_AUTHORIZATION_FAILED])

    def send_offsets_to_transaction(self, *_: object) -> None:
        """Raise the next error."""
        raise KafkaException(KafkaError(next(self._codes)))


def test_a_right_that_is_missing_during_the_commit_is_named() -> None:
    """The error has the reason, not the state of the transaction."""
    producer = TopicProducer({}, "app", _TOPIC, timeout_seconds=10)
    with pytest.raises(KafkaException) as refused:
        producer._commit(cast("Producer", _FailingLater()), Marker(0, "a", 10))
    assert refused.value.args[0].code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
