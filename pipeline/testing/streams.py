"""Readers of the records of a stream, as the pipeline would write them to a topic."""

from collections.abc import Mapping
from copy import deepcopy

from oriel.pipeline.language import KStream, Publication, SinkNode
from oriel.pipeline.lowered import Store, lower_sink
from oriel.pipeline.plan import header_texts
from oriel.pipeline.testing.output import Reader
from oriel.pipeline.testing.records import Record
from oriel.pipeline.testing.store_driver import MemoryFiles, StoreDriver
from oriel.pipeline.windows import NULL_VALUE, python_rows


def stream_sink(stream: KStream) -> Store:
    """Return a sink for the records of ``stream``."""
    return lower_sink(SinkNode(stream.origins, (Publication("read"),)))


class StreamDriver(StoreDriver):
    """Processes micro-batches of a sink and keeps its records."""

    def __init__(self, sink: Store, upstream: Mapping[str, StoreDriver]) -> None:
        """Check the steps of the stream. ``upstream`` has the stores whose rows it can read.

        Raises:
            InvalidTopology: a step is invalid. The message names the step.
        """
        super().__init__(sink, upstream)
        self.records: list[Record] = []

    def _keep(self, files: MemoryFiles) -> None:
        self.dead_letters += files.dead_letters
        columns = self.plans.inputs[0].stream.columns
        headers = dict(self.plans.store.publications[0].headers)
        in_value = {name: of for name, of in columns.items() if name not in headers.values()}
        for table in files.changes:
            texts = [header_texts(table[columns[name]]) for name in headers.values()]
            for row, *of_row in zip(python_rows(table), *texts, strict=True):
                value = {name: row[column] for name, column in in_value.items()}
                value_or_none = None if row[NULL_VALUE.name] else value
                named = {
                    name: text
                    for name, text in zip(headers, of_row, strict=True)
                    if text is not None
                }
                record = Record(row["key"], value_or_none, row["timestamp_ms"], named or None)
                self.records.append(record)


class StreamReader(Reader[Record]):
    """Reads each record of a stream or an output topic once, in the order of the stream.

    Get it from ``TopologyTestDriver.create_output_reader`` or ``create_output_topic``.

    Example:
        >>> sent = flights.map_values("delay").to("delays")
        >>> driver = TopologyTestDriver(builder.build())
        >>> delays = driver.create_output_topic("delays")
        >>> driver.pipe_input("flights", Record("EWR", {"delay": 7}, timestamp_ms=5))
        >>> delays.read_record()
        Record(key='EWR', value={'delay': 7}, timestamp_ms=5, headers=None)
        >>> delays.is_empty
        True
    """

    def __init__(self, stream_driver: StreamDriver, of: str = "the stream") -> None:
        """Start at the first record. ``of`` names the records in messages."""
        super().__init__(stream_driver.records, f"{of} has no further record")

    def read_record(self) -> Record:
        """Read the next record.

        Returns:
            The record: its key, the columns of its value and its time. The value is None for a null
            value.

        Raises:
            IllegalArgument: all records are read.
        """
        (record,) = self._next(1)
        return deepcopy(record)

    def read_records(self) -> list[Record]:
        """Read all records that are not read yet.

        Returns:
            The records, oldest first.
        """
        return deepcopy(list(self._next(self.queue_size)))
