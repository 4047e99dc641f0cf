"""Measure the cost of decoding valid and invalid lines: ``oriel bench decoding``.

One process decodes batches of lines of an event log with the pipeline's block decoder, without
Spark. The lines are all valid, or one line of a hundred is invalid, for each kind of invalid line
and for all kinds. Then it decodes Kafka's messages with such values in each format. The figure is
the processor time, the minimum of several runs in turn.

Prints a table, and JSON in the last line.
"""

import argparse
import json
import struct
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from io import BytesIO

import fastavro
import pyarrow as pa
from google.protobuf.descriptor_pb2 import (
    FieldDescriptorProto,
    FileDescriptorProto,
    FileDescriptorSet,
)
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

from oriel.pipeline.decoding import BlockDecoder, event_log_decoder, kafka_decoder
from oriel.pipeline.language import Consumed, Serdes

_SCHEMA = "amount BIGINT, price DOUBLE"
_GOOD = b'{"key":"k%d","value":{"amount":3,"price":1.5},"timestamp_ms":%d}'
_LINE = _GOOD % (12, 1_700_000_000_000)
#: One of this many lines is invalid.
_EVERY = 100

#: Invalid lines, by what is wrong with them.
INVALID_LINES = {
    "cut off": _LINE[:-9],
    "no JSON": _LINE.replace(b":3", b":"),
    "two on a line": _LINE * 2,
    "a number as key": _LINE.replace(b'"k12"', b"12"),
    "text as number": _LINE.replace(b"1.5", b'"1.5"'),
    "fraction as BIGINT": _LINE.replace(b":3", b":3.5"),
}


@dataclass(frozen=True)
class Sizes:
    """The lines of a batch, and how often each batch is decoded."""

    lines: int = 100_000
    runs: int = 7


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print a table and one line of JSON."""
    options = _parse(arguments)
    sizes = Sizes(lines=2_000, runs=1) if options.quick else Sizes()
    decoder = event_log_decoder(_SCHEMA)
    assert decoder is not None
    all_invalid = list(INVALID_LINES.values())
    batches = {"all good": _batch(sizes.lines, [])}
    batches |= {f"1 %: {name}": _batch(sizes.lines, [line]) for name, line in INVALID_LINES.items()}
    batches["1 %: all of these"] = _batch(sizes.lines, all_invalid)
    cases = {name: (decoder, batch) for name, batch in batches.items()}
    cases |= {f"Kafka: {name}": case for name, case in _messages(sizes.lines).items()}
    seconds = _least_seconds(cases, sizes.runs)
    print(f"{'lines':28}{'lines/s':>12}{'us/line':>10}{'of all good':>13}")
    found = {}
    for name, least in seconds.items():
        speed = sizes.lines / least
        share = seconds["all good"] / least
        print(f"{name:28}{speed:12,.0f}{1e6 * least / sizes.lines:10.2f}{share:12.0%}")
        found[name] = {"lines_per_second": round(speed), "share_of_all_good": round(share, 3)}
    print(json.dumps({"decoding": found}))


def _batch(count: int, invalid: list[bytes]) -> pa.RecordBatch:
    """Return ``count`` lines. Every hundredth line is the next one of ``invalid``, in turn."""
    lines = [_GOOD % (number % 1_000, 1_700_000_000_000 + number) for number in range(count)]
    if invalid:
        places = range(_EVERY // 2, count, _EVERY)
        for turn, place in enumerate(places):
            lines[place] = invalid[turn % len(invalid)]
    return pa.record_batch({
        "partition": pa.array([0] * count, pa.int32()),
        "offset": pa.array(range(count), pa.int64()),
        "raw": pa.array(lines, pa.binary()),
    })  # fmt: skip


def _messages(count: int) -> dict[str, tuple[BlockDecoder, pa.RecordBatch]]:
    """Return a decoder and ``count`` messages for each format."""
    avro = {
        "type": "record", "name": "Line",
        "fields": [{"name": "amount", "type": "long"}, {"name": "price", "type": "double"}],
    }  # fmt: skip
    parsed = fastavro.parse_schema(avro)
    file = FileDescriptorProto(name="line.proto", syntax="proto3")
    fields = file.message_type.add(name="Line").field
    kind = FieldDescriptorProto
    fields.add(name="amount", number=1, type=kind.TYPE_INT64, label=1)
    fields.add(name="price", number=2, type=kind.TYPE_DOUBLE, label=1)
    pool = DescriptorPool()
    pool.Add(file)
    line_class = GetMessageClass(pool.FindMessageTypeByName("Line"))
    descriptors = FileDescriptorSet(file=[file]).SerializeToString()

    def in_avro(number: int) -> bytes:
        stream = BytesIO()
        fastavro.schemaless_writer(stream, parsed, {"amount": number, "price": 1.5})
        return stream.getvalue()

    def in_protobuf(number: int) -> bytes:
        written: bytes = line_class(amount=number, price=1.5).SerializeToString()
        return written

    formats: dict[str, tuple[str, Consumed, Callable[[int], bytes]]] = {
        "JSON": (_SCHEMA, Consumed(), lambda number: b'{"amount":%d,"price":1.5}' % number),
        "Avro": (_SCHEMA, Consumed(value_serde=Serdes.avro(json.dumps(avro))), in_avro),
        "Protobuf": (
            _SCHEMA,
            Consumed(value_serde=Serdes.protobuf(descriptors, "Line")),
            in_protobuf,
        ),
        "long": ("v BIGINT", Consumed(value_serde=Serdes.long()), lambda n: struct.pack(">q", n)),
        "string": ("v STRING", Consumed(value_serde=Serdes.string()), lambda n: b"text %d" % n),
    }
    cases = {}
    for name, (schema, consumed, write) in formats.items():
        decoder = kafka_decoder(schema, consumed)
        assert decoder is not None
        cases[name] = decoder, pa.record_batch({
            "key": pa.array([b"k%d" % (number % 1_000) for number in range(count)], pa.binary()),
            "raw": pa.array([write(number) for number in range(count)], pa.binary()),
            "partition": pa.array([0] * count, pa.int32()),
            "offset": pa.array(range(count), pa.int64()),
            "timestamp": pa.array([1_000_000] * count, pa.timestamp("us", tz="UTC")),
        })  # fmt: skip
    return cases


def _least_seconds(
    cases: dict[str, tuple[BlockDecoder, pa.RecordBatch]], runs: int
) -> dict[str, float]:
    """Return the minimum processor time of each batch. Each run decodes all batches in turn."""
    least = dict.fromkeys(cases, float("inf"))
    for _ in range(runs):
        for name, (decoder, batch) in cases.items():
            begun = time.process_time()
            decoder.decode(batch)
            least[name] = min(least[name], time.process_time() - begun)
    return least


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="oriel bench decoding",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--quick", action="store_true", help="use tiny sizes, only to test the benchmark"
    )
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
