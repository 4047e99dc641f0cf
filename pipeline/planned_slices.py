"""Slices as rows of a Python data source. A task reads the records of the slice in its row itself.

The records of a slice are then not copied into the JVM and back. Each process of a data source
imports this module, so its imports are few.
"""

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition


class PlannedSlices(DataSourceReader):
    """Returns slices that are planned already. There is at least one."""

    def __init__(self, planned: Sequence[InputPartition], schema: pa.Schema) -> None:
        """Return one row per slice of ``planned``. ``schema`` has the columns of a slice."""
        self._planned = planned
        self._schema = schema

    def partitions(self) -> Sequence[InputPartition]:
        """Return one partition of Spark for each slice."""
        return self._planned

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the slice as one row."""
        yield slice_row(partition, self._schema)


def slice_row(part: InputPartition, schema: pa.Schema) -> pa.RecordBatch:
    """Return a slice as one row."""
    return pa.RecordBatch.from_pylist([vars(part)], schema=schema)
