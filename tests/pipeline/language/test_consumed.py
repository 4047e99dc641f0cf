"""`Consumed`: rejected combinations with their solutions, and its string."""

from pathlib import Path
from typing import Any

import pytest

from oriel import Consumed, FieldTimestamp, InvalidTopology, Serdes, StreamsBuilder
from oriel.pipeline.language import Source
from oriel.pipeline.sources import EventLog, Kafka


def source(schema: str, consumed: Any) -> Source:
    """Return the source of a stream of topic `t`."""
    return StreamsBuilder().stream("t", schema, consumed).origins[0].operation.source


@pytest.mark.parametrize(
    ("schema", "consumed", "message"),
    [
        ("v INT", "json", r"stream\('t'\): consumed must be Consumed\(\.\.\.\), not 'json'"),
        ("v INT", Consumed(value_serde=Serdes.long()), 'Use the schema "value BIGINT"'),
        ("v STRING, w INT", Consumed(value_serde=Serdes.string()), 'the schema "value STRING"'),
        ("v INT", Consumed(timestamp=FieldTimestamp("at")), r"'at' is not one of \['v'\]"),
        (
            "at STRING",
            Consumed(timestamp=FieldTimestamp("at")),
            "must be BIGINT for the unit 'ms'",
        ),
        (
            "at BIGINT",
            Consumed(timestamp=FieldTimestamp("at", "iso")),
            "must be STRING for the unit",
        ),
        ("V INT", Consumed(headers={"h": "v"}), "two columns have the name 'v'"),
        ("v INT", Consumed(headers={"h": "c", "i": "C"}), "two columns have the name 'c'"),
        (
            "v INT, l ARRAY<STRUCT<d: DATE>>",
            Consumed(value_serde=Serdes.avro()),
            "only JSON values can have DATE, DECIMAL and BINARY columns, not values of the serde",
        ),
        ("v TIME", Consumed(headers={"h": "c"}), "the type TIME is not supported"),
    ],
)
def test_what_does_not_fit_is_refused_as_it_is_written(
    schema: str, consumed: Any, message: str
) -> None:
    """The error names the stream."""
    with pytest.raises(InvalidTopology, match=message) as refused:
        source(schema, consumed)
    assert str(refused.value).startswith("stream('t')")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"key_serde": Serdes.double()}, "key_serde must be one of string, long, integer"),
        ({"key_serde": "long"}, r"write key_serde=Serdes\.long\(\), not 'long'"),
        ({"key_serde": "text"}, "key_serde must be one of"),
        ({"value_serde": "avro"}, "value_serde must be a serde of Serdes"),
        ({"timestamp": "event_time"}, "timestamp must be 'message', 'ingestion' or Field"),
        ({"headers": ["h"]}, r"headers must be a dict from .* columns, .*, not \['h'\]"),
        ({"headers": {"h": 5}}, r"headers must be a dict .*, not \{'h': 5\}"),
        ({"headers": {5: "h"}}, r"headers must be a dict .*, not \{5: 'h'\}"),
        ({"headers": [("h", "c")]}, r"headers must be a dict .*, not \[\('h', 'c'\)\]"),
        ({"timestamp": FieldTimestamp("at", "h")}, "with a unit of s, ms, us, iso"),  # type: ignore[arg-type]
    ],
)
def test_arguments_that_are_none_of_those_that_there_are(
    arguments: dict[str, Any], message: str
) -> None:
    """The error lists the valid values."""
    with pytest.raises(InvalidTopology, match=message):
        Consumed(**arguments)


def test_a_file_that_can_not_be_read_is_named(tmp_path: Path) -> None:
    """The error names a missing file of an Avro schema or of a Protobuf descriptor."""
    missing = tmp_path / "gone"
    with pytest.raises(InvalidTopology, match="gone cannot be read: No such file"):
        Serdes.avro(missing)
    with pytest.raises(InvalidTopology, match="gone cannot be read: No such file"):
        Serdes.protobuf(missing, "m")
    missing.write_text("{}")
    assert Serdes.avro(missing) == Serdes.avro("{}")


def test_a_source_is_described_in_one_line() -> None:
    """A source is one line in a store's definition, equal exactly if records are read alike."""
    assert str(source("v INT", Consumed())) == "stream('t')"
    consumed = Consumed(
        key_serde=Serdes.long(),
        value_serde=Serdes.avro("{}"),
        timestamp=FieldTimestamp("at", "s"),
        headers={"x-trace": "trace", "b": "c`d"},
    )
    message = source("at BIGINT", consumed)
    assert str(message) == (
        "stream('t', key long, value avro(44136fa355b3678a, none), time at in s, "
        "headers 'x-trace' as trace, 'b' as c`d)"
    )
    assert message.columns == "at BIGINT, `trace` STRING, `c``d` STRING"
    same = source("at BIGINT", Consumed(**vars(consumed)))
    assert (same, hash(same)) == (message, hash(message))
    other = source("at BIGINT", Consumed(**{**vars(consumed), "value_serde": Serdes.avro("[]")}))
    assert other != message
    assert str(other) != str(message)
    protobuf = Serdes.protobuf(b"secret", "a.M", header="registry")
    assert str(protobuf) == "protobuf(a.M, 2bb80d537b1da3e3, registry)"


@pytest.mark.parametrize(
    "consumed",
    [
        Consumed(key_serde=Serdes.json()),
        Consumed(value_serde=Serdes.string()),
        Consumed(timestamp="ingestion"),
    ],
)
def test_an_event_log_has_a_form_of_its_own(tmp_path: Path, consumed: Consumed) -> None:
    """Another format for an event log is rejected in one line that names the stream."""
    with pytest.raises(InvalidTopology, match=r"^stream\('t', .*\): an event log has string keys"):
        EventLog(tmp_path).decoder(source("v STRING", consumed))


def test_a_schema_that_does_not_fit_the_values_names_the_stream() -> None:
    """Errors of decoders name the stream."""
    avro = source("v INT", Consumed(value_serde=Serdes.avro()))
    with pytest.raises(InvalidTopology, match=r"^stream\('t', .*--schema-registry URL"):
        Kafka("localhost:1").decoder(avro)
