"""The columns of rows between the stages of a batch, and the numbers of partitions in them."""

import numpy as np
import pyarrow as pa
import pytest

from oriel.pipeline.stage_columns import (
    RAW,
    STAGE_COLUMNS,
    PartitionIndexes,
    joined_values,
    to_windows_schema,
)
from oriel.pipeline.windows import RESULT_FIELDS


def test_reserved_names_are_rejected_for_value_columns() -> None:
    """The reserved names are part of the language. A new one would reject valid topologies."""
    assert {
        "partition", "offset", "key", "timestamp_ms", "stream_time_ms", "task",
        "reason", "keep", "null_value", "raw", "key_group", "close_ms", "input",
    } == STAGE_COLUMNS  # fmt: skip


def test_bytes_go_to_the_engine_once_and_only_where_they_are_needed() -> None:
    """An engine that keeps them in its state reads them itself."""
    plain = pa.schema([("key", pa.string())])
    assert to_windows_schema(plain, keeps_raw=False).names == ["task", "key"]
    assert to_windows_schema(plain, keeps_raw=True).names == ["task", "raw", "key"]
    assert to_windows_schema(plain.append(RAW), keeps_raw=True).names.count("raw") == 1


def test_a_join_adds_nothing_to_the_values() -> None:
    """A result has these columns in addition to the values of both sides."""
    values = pa.schema([("l", pa.string()), ("r", pa.float64())])
    rows = pa.schema([("task", pa.int32()), *RESULT_FIELDS, *values])
    assert joined_values(rows) == values


@pytest.mark.parametrize("inputs", [1, 2, 3])
def test_each_partition_of_each_input_has_a_number_of_its_own(inputs: int) -> None:
    """The number determines input and partition. With one input, it is the partition."""
    numbers = PartitionIndexes(inputs)
    rows = pa.table({"partition": pa.array([0, 1, 7, 1], pa.int32()), "v": [1, 2, 3, 4]})
    seen: set[int] = set()
    for input_number in range(inputs):
        numbered = numbers.numbered(rows, input_number)
        assert numbered.schema == rows.schema
        assert numbers.restored(numbered) == rows
        own = np.asarray(numbered["partition"])
        counts = numbers.count_by_input(own).tolist()
        assert counts == [4 if other == input_number else 0 for other in range(inputs)]
        assert not seen & set(own.tolist())
        seen |= set(own.tolist())
    assert inputs > 1 or seen == {0, 1, 7}
