"""kafka-streams-calls.md has every method of Kafka Streams, and each row's code runs."""

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
    """The rows name the public methods of the published classes, all of them and no others."""
    published = published_calls(tmp_path_factory.getbasetemp() / "kafka-peer")
    assert {of_class for of_class, _ in published} == set(CLASSES)
    on_page = {(row.kafka_class, method) for row in _ROWS for method in row.methods}
    assert sorted(published - on_page) == [], "give these a row"
    assert sorted(on_page - published) == [], "there are no such methods"


@pytest.mark.parametrize("row", _ROWS, ids=lambda row: row.place)
def test_a_row_is_code_or_says_why_not(row: Row) -> None:
    """Without code a row has a reason; code that nobody runs stands in no remark."""
    assert row.kafka_class in CLASSES
    assert row.status == "" if row.codes else row.status == NO
    assert row.codes or row.remark
    assert not re.search(r"`[^`]*\([^`]*`", row.remark), "code belongs to the column before"


def test_a_method_stands_once() -> None:
    """Two rows of one method say which arguments each is about."""
    seen = [(row.kafka_class, method, row.overload) for row in _ROWS for method in row.methods]
    assert len(seen) == len(set(seen))


@pytest.mark.parametrize(
    ("row", "code"), _CODES, ids=[f"{row.place}:{row.codes.index(code)}" for row, code in _CODES]
)
def test_the_code_of_a_row_runs(row: Row, code: str) -> None:
    """A comparison is true; a stream or a table writes rows, and no record is a dead letter."""
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
    """The columns of each topic, whatever stream reads them."""
    columns: dict[str, set[str]] = {}
    for source in scope["builder"].build().sources:
        columns.setdefault(source.topic, set()).update(arrow_schema(source.schema).names)
    return columns


def _stores(result: Any, code: str, name: str = "row") -> Iterator[str]:
    """Give what a row's code makes stores, so that it runs; their names."""
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
        # Whatever class it is: a stream is grouped, and what is grouped aggregated.
        for step in ("default_branch", "group_by_key", "count", "aggregate"):
            if hasattr(result, step):
                yield from _stores(getattr(result, step)(), code, name)
                return
