"""Options of the Java client as settings of librdkafka, or an error that names the option."""

import stat
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError
from cryptography import x509
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, pkcs12

from oriel.pipeline.errors import InvalidKafkaOption
from oriel.pipeline.kafka_slices import unavailable
from oriel.pipeline.sources import Kafka, choose_reader
from oriel.pipeline.sources.client_settings import (
    UntranslatableOption,
    client_settings,
    producer_settings,
)
from oriel.pipeline.sources.kafka_client import ClientReader
from oriel.pipeline.sources.kafka_reader import ConnectorReader
from tests.certificates import self_signed

_PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
_SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
_BEARER = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, {}),
        ({"fetch.max.wait.ms": "100"}, {"fetch.wait.max.ms": "100"}),
        ({"request.timeout.ms": "9000"}, {"socket.timeout.ms": "9000"}),
        ({"group.id": "billing"}, {"group.id": "billing"}),
        ({"max.poll.records": "5", "session.timeout.ms": "1"}, {}),
        (
            {
                "security.protocol": "SASL_SSL",
                "sasl.mechanism": "PLAIN",
                "sasl.jaas.config": f'{_PLAIN} required username="o" password="a=\\"b\\" #1";',
            },
            {"sasl.username": "o", "sasl.password": 'a="b" #1', "sasl.mechanism": "PLAIN"},
        ),
        (
            {
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "SCRAM-SHA-512",
                "sasl.jaas.config": f"{_SCRAM} required\n  username=o\n  password=p;",
            },
            {"sasl.username": "o", "sasl.password": "p", "sasl.mechanism": "SCRAM-SHA-512"},
        ),
        (
            {
                "security.protocol": "SASL_SSL",
                "sasl.mechanism": "OAUTHBEARER",
                "sasl.oauthbearer.token.endpoint.url": "https://login.example/token",
                "sasl.jaas.config": f"{_BEARER} required clientId='i' clientSecret=\"s\" scope=k;",
            },
            {
                "sasl.oauthbearer.method": "oidc",
                "sasl.oauthbearer.client.secret": "s",
                "sasl.oauthbearer.scope": "k",
                "sasl.oauthbearer.token.endpoint.url": "https://login.example/token",
            },
        ),
        (
            {"ssl.endpoint.identification.algorithm": ""},
            {"ssl.endpoint.identification.algorithm": "none"},
        ),
        (
            {"ssl.truststore.type": "PEM", "ssl.truststore.location": "/ca.pem"},
            {"ssl.ca.location": "/ca.pem"},
        ),
        (
            {"ssl.keystore.type": "PEM", "ssl.keystore.location": "/me.pem"},
            {"ssl.certificate.location": "/me.pem", "ssl.key.location": "/me.pem"},
        ),
        (
            {
                "ssl.keystore.type": "PKCS12",
                "ssl.keystore.location": "/me.p12",
                "ssl.keystore.password": "s",
            },
            {"ssl.keystore.location": "/me.p12", "ssl.keystore.password": "s"},
        ),
    ],
)
def test_an_option_has_an_equal_setting(options: dict[str, str], expected: dict[str, str]) -> None:
    """Names and values are librdkafka's. Options of consumer groups have no effect."""
    settings = client_settings("kafka:9092", options)
    assert settings["bootstrap.servers"] == "kafka:9092"
    assert expected.items() <= settings.items()


def test_readers_and_writers_use_their_own_options() -> None:
    """Connection options apply to both. Other options apply to reading or to writing."""
    options = {
        "security.protocol": "SSL", "max.request.size": "5", "delivery.timeout.ms": "6",
        "fetch.min.bytes": "7", "isolation.level": "read_committed", "max.block.ms": "8",
        "acks": "1",
    }  # fmt: skip
    shared = {"bootstrap.servers": "kafka:9092", "security.protocol": "SSL"}
    reading = {"fetch.min.bytes": "7", "isolation.level": "read_committed"}
    writing = {"message.max.bytes": "5", "message.timeout.ms": "6"}
    assert client_settings("kafka:9092", options) == shared | reading
    settings = producer_settings({**options, "bootstrap.servers": "kafka:9092"})
    assert settings == shared | writing
    with pytest.raises(UntranslatableOption, match=r"transactional\.id"):
        producer_settings({"bootstrap.servers": "kafka:9092", "transactional.id": "mine"})


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"sasl.login.callback.handler.class": "x"}, "sasl.login.callback.handler.class"),
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "GSSAPI"}, "security.protocol"),
        ({"sasl.jaas.config": "com.sun.security.auth.module.Krb5LoginModule required a=b;"},
         "sasl.jaas.config"),
        ({"sasl.jaas.config": f"{_PLAIN} required username=secret-name;"}, "sasl.jaas.config"),
        ({"sasl.jaas.config": "secret-text"}, "sasl.jaas.config"),
        ({"ssl.truststore.location": "/trust.jks"}, "ssl.truststore.type"),
        ({"ssl.keystore.location": "/key.jks"}, "ssl.keystore.type"),
    ],
)  # fmt: skip
def test_an_option_without_an_equal_is_named(options: dict[str, str], named: str) -> None:
    """``auto`` uses the connector and names the option. ``client`` is an error without secrets."""
    with pytest.raises(UntranslatableOption, match=named) as refused:
        client_settings("kafka:9092", options)
    assert "secret" not in str(refused.value)
    lines: list[str] = []
    auto = choose_reader("auto", "kafka:9092", options, lines.append, skips_lost=False)
    assert isinstance(auto, ConnectorReader)
    (line,) = lines
    assert line.startswith("Kafka reader chosen: reader=spark. Kafka's option ")
    assert named in line
    with pytest.raises(InvalidKafkaOption, match="Use --kafka-reader spark"):
        choose_reader("client", "kafka:9092", options, lines.append, skips_lost=False)


def test_the_reader_is_the_client_if_it_has_all_options() -> None:
    """Only committed records are read, and no topic is created. Java's defaults are not set."""
    lines: list[str] = []
    reader = choose_reader("auto", "kafka:9092", {}, lines.append, skips_lost=False)
    assert isinstance(reader, ClientReader)
    assert reader.settings["isolation.level"] == "read_committed"
    assert reader.settings["allow.auto.create.topics"] == "false"
    assert "max.partition.fetch.bytes" not in reader.settings
    assert lines == []
    spark = choose_reader("spark", "kafka:9092", {}, lines.append, skips_lost=False)
    assert isinstance(spark, ConnectorReader)


def test_a_trust_store_is_read(tmp_path: Path) -> None:
    """The authorities of a PKCS12 store become PEM. A wrong password is an error without it."""
    _, certificate = self_signed("broker", x509.DNSName("broker.example"))
    store = pkcs12.serialize_key_and_certificates(
        None, None, None, [certificate], BestAvailableEncryption(b"pass-word")
    )
    path = tmp_path / "trust.p12"
    path.write_bytes(store)
    options = {"ssl.truststore.type": "PKCS12", "ssl.truststore.location": str(path)}
    settings = client_settings("kafka:9092", {**options, "ssl.truststore.password": "pass-word"})
    assert settings["ssl.ca.pem"] == certificate.public_bytes(Encoding.PEM).decode()
    # The library accepts the settings.
    Consumer({**settings, "security.protocol": "SSL", "group.id": "tests"}).close()
    with pytest.raises(InvalidKafkaOption, match=r"ssl\.truststore\.location") as refused:
        client_settings("kafka:9092", {**options, "ssl.truststore.password": "not-this"})
    assert "not-this" not in str(refused.value)


def test_secrets_are_in_one_file_of_this_user() -> None:
    """Spark's plan has the path of the file, and nobody else can read it."""
    reader = ClientReader({"sasl.password": "hidden"}, skips_lost=False)
    assert "hidden" not in repr(reader)
    path = reader._settings_file
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert b"hidden" in path.read_bytes()
    assert reader._settings_file == path


@pytest.mark.parametrize(
    "code", [KafkaError._TIMED_OUT, KafkaError._TRANSPORT, KafkaError.UNKNOWN_TOPIC_OR_PART]
)
def test_any_error_of_the_client_is_followed_by_a_check_of_the_brokers(code: int) -> None:
    """Such an error, also inside the text of a Spark error, can pass. Other errors cannot."""
    kafka = Kafka("host:1")
    error = unavailable("topic 'orders', partition 0,", KafkaError(code))
    assert kafka.may_pass(error)
    assert kafka.may_pass(RuntimeError(f"job aborted: KafkaUnavailable: {error}\n at org.apache"))
    assert not kafka.may_pass(RuntimeError("job aborted: division by zero"))
