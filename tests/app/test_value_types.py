"""The values of queries and paths have the types that the reads expect."""

from collections.abc import Mapping
from typing import get_type_hints
from urllib.parse import urlencode

import pytest
from pydantic import TypeAdapter

from oriel.app.contract import OPERATIONS, PathValues, ReadQuery, ReadValues, read_path
from oriel.app.contract.parameters import QueryParameter

_READS = {name: record for name, record in OPERATIONS.items() if record.store_kinds}
_QUERIES = {
    name: record.query for name, record in OPERATIONS.items() if isinstance(record.query, ReadQuery)
}
#: Values of parameters without an example.
_VALUES = {"columns": "n,mean", "cursor": "AA", "final": "true", "limit": "7", "prefix": "E",
           "times": "iso", "wait_ms": "9"}  # fmt: skip


@pytest.mark.parametrize("name", _QUERIES)
def test_the_values_of_a_query_have_their_types(name: str) -> None:
    """Defaults and values of all parameters of a read fit ``ReadValues``."""
    query = _QUERIES[name]
    requested = urlencode({each.name: _value(each) for each in query.parameters})
    for values in (query.read(b""), query.read(requested.encode())):
        _check_types(values, ReadValues)
        assert [*values] == [each.name for each in query.parameters]


@pytest.mark.parametrize("name", _READS)
def test_the_values_of_a_path_have_their_types(name: str) -> None:
    """The values of each read's path fit ``PathValues``, in the order of the path."""
    _store, *own = OPERATIONS[name].path_parameters
    values = read_path(own, b"/".join(str(each.example).encode() for each in own))
    assert values is not None
    _check_types(values, PathValues)
    assert [*values] == [each.name for each in own]


def _check_types(values: Mapping[str, object], typed: type) -> None:
    types = get_type_hints(typed)
    for name, value in values.items():
        TypeAdapter(types[name]).validate_python(value, strict=True)


def _value(parameter: QueryParameter) -> str:
    example = parameter.example
    return str(_VALUES[parameter.name] if example is None else example)
