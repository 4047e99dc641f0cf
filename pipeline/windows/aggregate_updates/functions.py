"""The updates of tumbling and hopping windows, and without windows, by functions of a user."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from oriel.pipeline.windows.aggregate_updates.contract import WINDOW_BOUNDS
from oriel.pipeline.windows.aggregate_updates.grid import (
    PARTITION,
    ChangedRows,
    GridEntries,
    GridUpdatesEngine,
)
from oriel.pipeline.windows.arrays import Ints, Ranges
from oriel.pipeline.windows.definitions import NoWindows, TimeWindows
from oriel.pipeline.windows.functions import (
    Rejected,
    UserFunctions,
    function_values,
    in_partition_order,
)
from oriel.pipeline.windows.joins import RECORDS, InputRows

#: (key, window start in ms) -> partition -> (aggregate, its time in ms).
_PartitionAggregates = dict[tuple[str, int], dict[int, tuple[Any, int]]]


class FunctionUpdatesEngine(GridUpdatesEngine):
    """The updates by functions of a user, which are called record by record.

    The state has one row per key, window and source partition, like the state of
    ``TimeFunctionsEngine``. Within a partition, the functions see the records in the order of
    offsets. The row of a window is the merge of its partitions. If a function raises on a record,
    the record is in none of its windows.
    """

    def __init__(
        self,
        windows: TimeWindows | NoWindows,
        functions: UserFunctions,
        values: pa.Schema,
        carried: pa.Schema | None = None,
        *,
        inputs: Sequence[InputRows] = (RECORDS,),
        rejection_text: Callable[[str], str] = str,
    ) -> None:
        """Aggregate ``values`` by the functions of ``functions``.

        ``rejection_text`` returns the text of the reason for which a record is rejected.

        Raises:
            IllegalArgument: An aggregate has the name of a column that the engine needs.
        """
        fields = [PARTITION], list(pa.schema(functions.types))
        super().__init__(windows, values, functions.types, fields, carried, inputs=inputs)
        self._fold, self._values, self._reason = functions, values, rejection_text

    def _changed(self, state: pa.Table, entries: GridEntries) -> ChangedRows:
        # The compiled loop of a store returns only the last aggregate of a run of records. An
        # update needs the aggregate after each record, so the functions are called record by
        # record.
        parts = self._read_partition_aggregates(state)
        emitted: list[tuple[int, Any, int]] = []
        rejected: dict[int, str] = {}
        batch, bounds = entries.batch, Ranges.side_by_side(entries.windows.sizes).pairs()
        names = ("key", "partition", "timestamp_ms")
        columns = (batch[name].to_pylist() for name in names)
        records = zip(*columns, function_values(batch, self._values), bounds, strict=True)
        starts = entries.start_ms.tolist()
        is_deletion, is_completed = (flags.tolist() for flags in self._changes(batch))
        is_removal = self._removals(batch).tolist()
        # An update of a table can delete the row of a group and then add a value to the group. The
        # new row then starts without an aggregate, but with the time of the deleted row.
        deleted_now = not_deleted = None, -1
        applied = [partial(self._fold.applied, n) for n in range(len(self._fold.aggregators))]
        subtracted, removed = self._fold.subtracted, lambda *_: None
        before_update: dict[tuple[str, int], dict[int, tuple[Any, int]]] = {}
        for index, (key, record_partition, time_ms, value, (low, high)) in enumerate(records):
            # With several streams, the partition is partition * streams + stream, as in a store.
            stream = record_partition % len(applied)
            partition = self._fold.aggregation_group(record_partition)
            # The aggregates in ``parts`` are replaced only after all calls for this record have
            # returned. If the aggregator raises for the second of two hopping windows, the first
            # window also does not change.
            changed: dict[int, tuple[Any, int]] = {}
            deleted_before, deleted_now = deleted_now, not_deleted
            # ``KTableAggregate`` of Kafka Streams writes a group after both calls of an update. So
            # if the subtractor raises, the adder is not called. If the adder raises, the
            # subtraction is undone.
            if not index or not is_completed[index - 1]:
                before_update = {}
            elif index - 1 in rejected:
                continue
            call = subtracted if is_deletion[index] else applied[stream]
            call = removed if is_removal[index] else call
            # The functions can have deleted a row before it expires.
            is_known = not is_removal[index] or partition in parts.get((key, starts[low]), ())
            try:
                for entry in range(low, high if is_known else low):
                    own = parts.get((key, starts[entry]), {})
                    aggregate, newest_ms = own.get(partition, deleted_before)
                    # The time of a row is the greatest time of its records (semantics.md#0-7). The
                    # time -1 of a missing row is less than every record time.
                    changed[entry] = call(key, value, aggregate), max(newest_ms, time_ms)
            except Rejected as error:
                rejected[index] = self._reason(str(error))
                parts |= before_update
                continue
            for entry, part in changed.items():
                own = parts.setdefault((key, starts[entry]), {})
                if is_completed[index]:
                    before_update[key, starts[entry]] = dict(own)
                own[partition] = part
                if part[0] is None:
                    # The next record starts a new aggregate with its own time (semantics.md#9).
                    # Only a row that completes the same update keeps the time of the deleted row.
                    del own[partition]
                    deleted_now = part if is_completed[index] else not_deleted
                if not is_completed[index]:
                    row, newest_ms = self._row(key, own)
                    # After the removal of the last partial aggregate, only ``part`` has the time
                    # that the row would have. If other partitions still have one, their times
                    # count.
                    emitted.append((entry, row, newest_ms if own else part[1]))
        return ChangedRows(
            self._state_rows(parts, state, batch),
            np.array([entry for entry, _, _ in emitted], dtype=np.int64),
            self._fold.columns([row for _, row, _ in emitted]),
            np.array([time_ms for _, _, time_ms in emitted], dtype=np.int64),
            np.array([row is None for _, row, _ in emitted], dtype=np.bool_),
            rejected,
        )

    def _rows_in(self, state: pa.Table) -> tuple[pa.Array, Ints, Mapping[str, pa.Array], Ints]:
        rows = [
            (key, start_ms, *self._row(key, own))
            for (key, start_ms), own in self._read_partition_aggregates(state).items()
        ]
        keys, starts, aggregates, times = zip(*rows, strict=True) if rows else ((), (), (), ())
        start_ms, time_ms = (np.array(numbers, dtype=np.int64) for numbers in (starts, times))
        return pa.array(keys, pa.string()), start_ms, self._fold.columns(list(aggregates)), time_ms

    def _row(self, key: str, own: dict[int, tuple[Any, int]]) -> tuple[Any, int]:
        """Merge the partial aggregates of a window, and return its row and its time in ms.

        ``own`` has the aggregate and the time of each partition. Without any, the time is -1.
        """
        # The merger of a user can depend on the order of its arguments, so the lowest partition is
        # first, and not the partition whose record arrived first (decision 0011).
        by_partition = [(partition, aggregate) for partition, (aggregate, _) in own.items()]
        newest_ms = max((newest_ms for _, newest_ms in own.values()), default=-1)
        return in_partition_order(self._fold, key, by_partition), newest_ms

    def _read_partition_aggregates(self, state: pa.Table) -> _PartitionAggregates:
        parts: _PartitionAggregates = {}
        names = ("key", WINDOW_BOUNDS[0].name, "partition", "timestamp_ms")
        columns = (state[name].to_pylist() for name in names)
        for key, start_ms, partition, time_ms, aggregate in zip(
            *columns, self._fold.read(state), strict=True
        ):
            parts.setdefault((key, start_ms), {})[partition] = aggregate, time_ms
        return parts

    def _state_rows(
        self, parts: _PartitionAggregates, state: pa.Table, batch: pa.Table
    ) -> pa.Table:
        """Return the next state. All records of a key have the same carried columns."""
        names = ["key", *(field.name for field in self._carried)]
        both = pa.concat_tables([state.select(names), batch.select(names)])
        carried = {row["key"]: row for row in both.to_pylist()}
        rows = [
            (key, start_ms, partition, *part)
            for (key, start_ms), own in parts.items()
            for partition, part in own.items()
        ]
        columns = {
            "key": [key for key, *_ in rows],
            WINDOW_BOUNDS[0].name: [start_ms for _, start_ms, *_ in rows],
            "partition": [partition for _, _, partition, *_ in rows],
            **{name: [carried[key][name] for key, *_ in rows] for name in names[1:]},
            **self._fold.columns([aggregate for *_, aggregate, _ in rows]),
            "timestamp_ms": [time_ms for *_, time_ms in rows],
        }
        return pa.table(columns, schema=self.state_schema)
