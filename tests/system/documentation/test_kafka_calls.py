"""kafka-streams-calls.md has every method of Kafka Streams, and the code of each row runs."""

import re
from collections.abc import Iterator
from typing import Any

import pytest

from oriel.pipeline import language
from oriel.pipeline.language import arrow_schema
from oriel.testing import Record, TopologyTestDriver
from tests.documentation.kafka_calls import (
    CLASSES,
    NO,
    Row,
    prepared,
    published_calls,
    rows,
)

pytestmark = pytest.mark.slow

_ROWS = rows()
_CODES = [(row, code) for row in _ROWS for code in row.codes]
#: Columns of every schema of the page.
_VALUE = {"item": "tea", "amount": 200.5, "page": "/", "price": 1.5, "pieces": 3}
_LATER_MS = 10_000_000


@pytest.mark.slow
def test_the_page_has_every_method(tmp_path_factory: pytest.TempPathFactory) -> None:
    """The rows have each public method of the published classes, and no other method."""
    published = published_calls(tmp_path_factory.getbasetemp() / "kafka-peer")
    assert {of_class for of_class, _ in published} == set(CLASSES)
    on_page = {call for row in _ROWS for call in row.calls}
    assert sorted(published - on_page) == [], "add a row for each"
    assert sorted(on_page - published) == [], "these methods do not exist"


@pytest.mark.parametrize("row", _ROWS, ids=lambda row: row.place)
def test_a_row_has_code_or_a_note(row: Row) -> None:
    """A row has either code or a note."""
    assert {kafka_class for kafka_class, _ in row.calls} <= set(CLASSES)
    assert row.status == "" if row.codes else row.status == NO
    assert row.codes or row.note
    assert not re.search(r"`[^`]*\([^`]*`", row.note), "move the code to the column before"


def test_a_method_has_one_row() -> None:
    """If a method has two rows, each names its arguments."""
    seen = [(call, row.overload) for row in _ROWS for call in row.calls]
    assert len(seen) == len(set(seen))


@pytest.mark.parametrize(
    ("row", "code"), _CODES, ids=[f"{row.place}:{row.codes.index(code)}" for row, code in _CODES]
)
def test_the_code_of_a_row_runs(row: Row, code: str) -> None:
    """A comparison is true, a stream or a table writes rows, and no record is a dead letter."""
    scope: dict[str, Any] = {}
    exec(prepared(), scope)  # noqa: S102
    result = eval(code, scope)  # noqa: S307
    if isinstance(result, bool):
        assert result, f"{row.place}: {code}"
        return
    stores = list(_stores(result, code))
    if not stores:
        return
    driver = TopologyTestDriver(scope["builder"].build())
    readers = [driver.create_output_reader(store) for store in stores]
    columns = _columns(scope)
    topics = sorted(columns, key=lambda topic: topic not in {"prices", "stock"})
    for time_ms in (1, _LATER_MS):
        given = {**_VALUE, "started": time_ms}
        for topic in topics:
            value = {name: given[name] for name in columns[topic] & given.keys()}
            driver.pipe_input(topic, Record("7", value, time_ms))
    assert sum(reader.queue_size for reader in readers) > 0, f"{row.place}: {code} writes nothing"
    assert (driver.dropped, driver.late) == (0, 0)


def _columns(scope: dict[str, Any]) -> dict[str, set[str]]:
    """Return the columns of each topic, for all streams that read it."""
    columns: dict[str, set[str]] = {}
    for source in scope["builder"].build().sources:
        columns.setdefault(source.topic, set()).update(arrow_schema(source.schema).names)
    return columns


def _stores(result: Any, code: str, name: str = "row") -> Iterator[str]:
    """Add stores to the result of the code, so that it runs, and return their names."""
    if isinstance(result, dict):
        for branch, stream in result.items():
            yield from _stores(stream, code, f"{name}_{branch}")
    elif not type(result).__module__.startswith(language.__name__):
        return
    elif "materialize(" in code:
        yield from re.findall(r"materialize\(\"(\w+)\"", code)
    elif hasattr(result, "materialize"):
        result.materialize(name)
        yield name
    else:
        # Group a stream, and aggregate a grouped stream.
        for step in ("default_branch", "group_by_key", "count", "aggregate"):
            if hasattr(result, step):
                yield from _stores(getattr(result, step)(), code, name)
                return
