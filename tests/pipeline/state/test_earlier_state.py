"""State of versions that had ``suborder`` instead of the lineage."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from oriel.pipeline.errors import CheckpointError
from oriel.pipeline.state import KeyedState, Layout
from oriel.pipeline.state.layout import never_expires
from oriel.pipeline.state.segments import read_segment, write_segment
from oriel.pipeline.windows import LINEAGE

RECORD = [("timestamp_ms", pa.int64()), ("partition", pa.int32()), ("offset", pa.int64())]
#: The position of the first value of a window, with all values, in the state of ``collect_list``.
LOCATED = pa.struct([("value", pa.float64()), *RECORD])
EARLIER = pa.struct([*LOCATED, ("suborder", pa.int64())])


def schema_of(located: pa.DataType) -> pa.Schema:
    """Return the columns of a state with ``first`` and ``collect_list``."""
    return pa.schema([
        ("key", pa.string()), ("key_group", pa.int32()), ("FirstPart(v)", located),
        ("ListPart(v)", pa.list_(located)),
    ])  # fmt: skip


def test_rows_without_a_lineage_are_converted(tmp_path: Path) -> None:
    """The state of a topology without joins and flattened records continues."""
    value = {"value": 2.5, "timestamp_ms": 7, "partition": 1, "offset": 4}
    row = {"key": "a", "key_group": 1, "FirstPart(v)": value, "ListPart(v)": [value, value]}
    with_lineage = value | {"suborder": 0}
    earlier = row | {"FirstPart(v)": with_lineage, "ListPart(v)": [with_lineage] * 2}
    state = KeyedState(tmp_path, (), Layout(schema_of(EARLIER), never_expires))
    rows = pa.Table.from_pylist([earlier], schema=schema_of(EARLIER))
    needed = state.working_set(pa.chunked_array([["a"]]))
    version = state.replaced(needed, rows, "0", sync=False)
    layout = Layout(schema_of(LOCATED), never_expires)
    assert KeyedState(tmp_path, version.names, layout).all_rows().to_pylist() == [row]


@pytest.mark.parametrize("nested", [False, True], ids=["column", "position"])
def test_rows_of_joins_are_rejected_with_the_solution(tmp_path: Path, *, nested: bool) -> None:
    """The message names the command that computes the store again."""
    key = ("key", pa.string())
    located = pa.struct([*LOCATED, LINEAGE])
    if nested:
        earlier, schema = pa.schema([key, ("f", EARLIER)]), pa.schema([key, ("f", located)])
    else:
        earlier, schema = pa.schema([key, ("suborder", pa.int64())]), pa.schema([key, LINEAGE])
    directory = tmp_path / "pairs@2"
    directory.mkdir()
    name = write_segment(directory, earlier.empty_table(), "0", sync=False)
    with pytest.raises(CheckpointError, match=r"an earlier version.*`oriel rebuild pairs`"):
        read_segment(directory, name, schema)


def test_other_columns_are_not_converted(tmp_path: Path) -> None:
    """A column with another type is a topology that has changed."""
    name = write_segment(tmp_path, pa.table({"n": np.zeros(1)}), "0", sync=False)
    with pytest.raises(CheckpointError, match="other columns than the topology needs"):
        read_segment(tmp_path, name, pa.schema([("n", pa.int64())]))
