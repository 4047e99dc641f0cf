"""The records of a stream, read where they would be written to a topic.

The stream's steps and joins, stamps and clocks are the pipeline's, as for a sink.
"""

from collections.abc import Mapping
from copy import deepcopy

from oriel.pipeline.language import KStream, Publication, Records, Store
from oriel.pipeline.testing.output import Reader
from oriel.pipeline.testing.records import Record
from oriel.pipeline.testing.store_driver import MemoryFiles, StoreDriver
from oriel.pipeline.windows import NULL_VALUE, EmitStrategy, NoWindows, python_rows
from oriel.storage import sink_name


def stream_sink(stream: KStream) -> Store:
    """A sink for the records of ``stream``."""
    emit, to = EmitStrategy.on_window_update(), (Publication("read"),)
    return Store(sink_name("read"), stream.origins, NoWindows(), Records(), emit, None, to)


class StreamDriver(StoreDriver):
    """Brings a sink forward, a micro-batch at a time, and keeps its records."""

    def __init__(self, sink: Store, in_front: Mapping[str, StoreDriver]) -> None:
        """Check the steps of the stream; ``in_front`` has the stores whose rows it may read.

        Raises:
            InvalidTopology: a step does not fit; the message names it.
        """
        super().__init__(sink, in_front)
        self.records: list[Record] = []

    def _keep(self, files: MemoryFiles) -> None:
        self.dead_letters += files.dead_letters
        columns = self.plans.inputs[0].stamp.columns
        for row in (row for table in files.changes for row in python_rows(table)):
            value = {name: row[column] for name, column in columns.items()}
            value_or_none = None if row[NULL_VALUE.name] else value
            self.records.append(Record(row["key"], value_or_none, row["timestamp_ms"]))


class StreamReader(Reader[Record]):
    """Reads a stream's records in the order in which they came."""

    def __init__(self, stream_driver: StreamDriver, of: str = "the stream") -> None:
        """Begin with the first record; ``of`` is what messages call them."""
        super().__init__(stream_driver.records, f"{of} has no further record")

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
