"""Headers of output topics, which are columns of the records."""

from typing import Any

import pytest

from oriel import Consumed, InvalidTopology, StreamsBuilder
from oriel.testing import Record, TopologyTestDriver

_SCHEMA = "item STRING, price DOUBLE, sent BOOLEAN, tags ARRAY<STRING>"


def _sent(headers: dict[str, str], records: list[Record]) -> list[Record]:
    builder = StreamsBuilder()
    consumed = Consumed(headers={"trace": "trace_id"})
    builder.stream("orders", _SCHEMA, consumed).to("out", headers=headers)
    driver = TopologyTestDriver(builder.build())
    driver.pipe_input("orders", records)
    return driver.create_output_topic("out").read_records()


def test_a_header_has_the_text_of_its_column_and_the_value_does_not_have_it() -> None:
    """The test driver leaves out nulls, for example if the value of a record is null."""
    value = {"item": "tea", "price": 1.5, "sent": True, "tags": ["x"]}
    records = [
        Record("a", value, 1, {"trace": "ä7".encode()}),
        Record("a", {**value, "price": None}, 2),
        Record("a", None, 3),
    ]
    headers = {"trace": "trace_id", "cost": "price", "was-sent": "sent"}
    assert _sent(headers, records) == [
        Record("a", {"item": "tea", "tags": ["x"]}, 1,
               {"trace": "ä7".encode(), "cost": b"1.5", "was-sent": b"true"}),
        Record("a", {"item": "tea", "tags": ["x"]}, 2, {"was-sent": b"true"}),
        Record("a", None, 3),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("headers", "text"),
    [
        ({"source": "item"}, "a name other than source and timestamp_ms"),
        ({"": "item"}, "a name other than source and timestamp_ms"),
        ({"item": 5}, "header 'item' must be a column of the value, not 5"),
        (
            {"item": "name"},
            "header 'item' needs a column with .*, not 'name'. The columns are item",
        ),
        ({"tags": "tags"}, "header 'tags' needs a column with a number"),
    ],
)
def test_invalid_headers_are_rejected(headers: Any, text: str) -> None:
    """A message names the header and the solution."""
    with pytest.raises(InvalidTopology, match=text):
        _sent(headers, [])
