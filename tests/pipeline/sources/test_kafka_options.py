"""Options of Kafka's client: from the command line and from Java's properties files."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.errors import IllegalArgumentException
from pyspark.sql import SparkSession

from oriel.pipeline.errors import InvalidKafkaOption
from oriel.pipeline.sources import Kafka, client_options
from oriel.pipeline.sources.kafka_options import read_properties, without_secrets

PROPERTIES = r"""
# how to connect
! another comment
security.protocol = SASL_SSL
sasl.mechanism:PLAIN
sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required \
    username="oriel" \
    password="p\u00e4ss=w\\ord#1";
ssl.truststore.location /etc/kafka/trust store.jks
a\ name\=\:x=1
empty
"""

READ = {
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "PLAIN",
    "sasl.jaas.config": "org.apache.kafka.common.security.plain.PlainLoginModule required "
    'username="oriel" password="päss=w\\ord#1";',
    "ssl.truststore.location": "/etc/kafka/trust store.jks",
    "a name=:x": "1",
    "empty": "",
}


def test_a_properties_file_is_read_as_java_writes_it() -> None:
    """Comments, escapes, continued lines, and all three ends of a name are read."""
    assert read_properties(PROPERTIES, "the file") == READ


def _read_by_java(spark: SparkSession, text: str) -> dict[str, str] | None:
    """Return the entries that Java reads, or None if an escape is invalid."""
    jvm = spark._jvm
    assert jvm is not None
    properties = jvm.java.util.Properties()
    try:
        properties.load(jvm.java.io.StringReader(text))
    except IllegalArgumentException:
        return None
    return {name: properties.getProperty(name) for name in properties.stringPropertyNames()}


@pytest.mark.slow
@given(text=st.text(alphabet="ab=: \t\f\\#!\n\rut0041", max_size=30))
def test_any_properties_file_is_read_as_by_java(spark: SparkSession, text: str) -> None:
    """The entries of any text equal the entries of `java.util.Properties`."""
    try:
        found: dict[str, str] | None = read_properties(text, "the file")
    except InvalidKafkaOption:
        found = None
    assert found == _read_by_java(spark, text)


def test_the_command_line_is_laid_over_the_file(tmp_path: Path) -> None:
    """An option in both places has the command line's value. A value can contain '='."""
    file = tmp_path / "client.properties"
    file.write_text("a=file\nb=file\n")
    assert client_options(["b=x=y", "c="], file) == {"a": "file", "b": "x=y", "c": ""}


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("auto.offset.reset=latest", "use --start for where"),
        ("enable.auto.commit=true", "offsets are kept in the checkpoint"),
        ("key.deserializer=x", "messages are read as bytes"),
        ("value.deserializer=x", "messages are read as bytes"),
        ("interceptor.classes=x", "may change messages"),
        ("bootstrap.servers=x", "--kafka names the servers"),
        ("kafka.sasl.mechanism=x", "must be named without 'kafka.': sasl.mechanism"),
        ("secret", "must be NAME=VALUE"),
        ("=secret", "must be NAME=VALUE"),
    ],
)
def test_options_that_would_break_a_promise_are_refused(option: str, said: str) -> None:
    """One line says why, without the value."""
    with pytest.raises(InvalidKafkaOption) as refused:
        client_options([option], None)
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)
    assert "secret" not in str(refused.value)


def test_a_file_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    """The line names the file, and for a wrong escape nothing of its content."""
    with pytest.raises(InvalidKafkaOption, match=r"none\.properties cannot be read: No such file"):
        client_options((), tmp_path / "none.properties")
    (tmp_path / "latin.properties").write_bytes(b"a=\xff")
    with pytest.raises(
        InvalidKafkaOption, match=r"latin\.properties cannot be read: it is not UTF"
    ):
        client_options((), tmp_path / "latin.properties")
    (tmp_path / "bad.properties").write_text("password=secret\\u12")
    with pytest.raises(InvalidKafkaOption) as refused:
        client_options((), tmp_path / "bad.properties")
    assert "four hexadecimal digits" in str(refused.value)
    assert "secret" not in str(refused.value)


def test_secrets_stay_out_of_texts() -> None:
    """Neither the `repr` of Kafka nor a message has a password or a JAAS entry."""
    options = {
        "sasl.jaas.config": 'Module required password="hidden-1";',
        "ssl.key.password": "abcd",
    }
    assert "hidden" not in repr(Kafka("host:1", options=options))
    redacted = without_secrets(f"no hidden-1, no abcd, no {options['sasl.jaas.config']}", options)
    assert redacted == "no ***, no ***, no ***"
    assert without_secrets("PLAIN", {"sasl.mechanism": "PLAIN"}) == "PLAIN"
