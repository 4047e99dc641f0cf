"""The decoding benchmark runs. The tests check the shape of its results, not the figures."""

import json

import pytest

from benchmarks.decoding import INVALID_LINES, main
from oriel.pipeline.decoding import event_log_decoder
from tests.pipeline.decoding.both_decoders import log_rows

FORMATS = ("JSON", "Avro", "Protobuf", "long", "string")


def test_every_kind_of_line_is_measured(capsys: pytest.CaptureFixture[str]) -> None:
    """Each kind of line is measured, mixed with valid lines."""
    main(["--quick"])
    found = json.loads(capsys.readouterr().out.splitlines()[-1])["decoding"]
    assert len(found) == len(INVALID_LINES) + 2 + len(FORMATS)
    assert {f"Kafka: {name}" for name in FORMATS} < set(found)
    assert found["all good"]["share_of_all_good"] == 1.0
    assert {name: one for name, one in found.items() if one["lines_per_second"] <= 0} == {}


def test_bad_lines_are_bad() -> None:
    """Each invalid line causes a dead letter."""
    decoder = event_log_decoder("amount BIGINT, price DOUBLE")
    assert decoder is not None
    assert decoder.decode(log_rows(list(INVALID_LINES.values())))["reason"].null_count == 0
