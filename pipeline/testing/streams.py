"""The records of a stream, read where a window engine would take them.

The stream's steps and joins, stamps and clocks are the pipeline's; only the engine is left out.
"""

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from oriel.pipeline.language import Functions, KStream, Store
from oriel.pipeline.plan import BatchPlan
from oriel.pipeline.state import Version
from oriel.pipeline.testing.output import Reader
from oriel.pipeline.testing.records import Record
from oriel.pipeline.testing.store_driver import MemoryFiles, StoreDriver
from oriel.pipeline.windows import (
    MAX_TIMESTAMP_MS,
    NULL_VALUE,
    EmitStrategy,
    EngineResult,
    TimeWindows,
)

#: Windows that take every record: without a value, and however late, as no time is greater.
_ALL_RECORDS = TimeWindows.of_size_and_grace(1, MAX_TIMESTAMP_MS)
#: Functions are given all columns of a value, whatever their types. These are never called.
_ALL_COLUMNS = Functions(int, (lambda *_: None,), lambda *_: None, "records BIGINT", "stream")
#: In what order records of one batch came; results of a join that share a place by the last.
_ARRIVAL = ("offset", "partition", "suborder")


def stream_store(stream: KStream) -> Store:
    """A store that would take all records of ``stream``."""
    emit = EmitStrategy.on_window_update()
    return Store("stream", stream.origins, _ALL_RECORDS, _ALL_COLUMNS, emit, None)


@dataclass
class _Taken(MemoryFiles):
    """Keeps the records that are on their way to the engine, which gets none of them."""

    taken: list[dict[str, Any]] = field(default_factory=list)

    def process_records(
        self, plan: BatchPlan, task: int, records: pa.Table, close_ms: int
    ) -> tuple[EngineResult, Version]:
        """See ``TaskFiles``."""
        order = [(name, "ascending") for name in _ARRIVAL if name in records.column_names]
        self.taken += records.sort_by(order).to_pylist()
        return super().process_records(plan, task, records.slice(0, 0), close_ms)


class StreamDriver(StoreDriver):
    """Brings a stream forward, a micro-batch at a time, up to what a store behind it would get."""

    def __init__(self, store: Store, in_front: Mapping[str, StoreDriver]) -> None:
        """Check the steps of the stream in front of ``store``, which is one of ``stream_store``.

        Raises:
            InvalidTopology: a step does not fit; the message names it.
        """
        super().__init__(store, in_front)
        self.records: list[Record] = []

    def _new_files(self) -> MemoryFiles:
        return _Taken(dict(self._states))

    def _keep(self, files: MemoryFiles) -> None:
        super()._keep(files)
        assert isinstance(files, _Taken)
        columns = self.plans.inputs[0].stamp.columns
        for row in files.taken:
            value = {name: row[column] for name, column in columns.items()}
            value_or_none = None if row[NULL_VALUE.name] else value
            self.records.append(Record(row["key"], value_or_none, row["timestamp_ms"]))


class StreamReader(Reader[Record]):
    """Reads a stream's records in the order in which they came."""

    def __init__(self, stream_driver: StreamDriver) -> None:
        """Begin with the first record."""
        super().__init__(stream_driver.records, "the stream has no further record")

    def read_record(self) -> Record:
        """The next record: its key, the columns of its value (None: it has no value), its time.

        Raises:
            IllegalArgument: all are read.
        """
        (record,) = self._next(1)
        return deepcopy(record)

    def read_records(self) -> list[Record]:
        """All records that are not read yet."""
        return deepcopy(list(self._next(self.queue_size)))
