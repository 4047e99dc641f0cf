"""The router: it sends each row to the task of its key, with the columns that the task reads."""

import numpy as np
import pyarrow as pa

from oriel.pipeline.plan import BatchPlan, StreamPlan
from oriel.pipeline.stage_columns import KEY_GROUP, TASK, PartitionIndexes
from oriel.pipeline.state import key_hashes
from oriel.pipeline.windows import APPLY_ORDER, Ints


class Router:
    """Sends the rows of one stream to the tasks of the next operator."""

    def __init__(self, plan: BatchPlan, stream: StreamPlan, schema: pa.Schema) -> None:
        """Send rows of ``schema``, which are the columns that the next operator reads."""
        self._plan = plan
        self._stream = stream
        self._schema = schema

    def to_tasks(self, rows: pa.Table) -> pa.RecordBatch:
        """Return the rows under the names of the next operator, each with the index of its task."""
        stream = self._stream
        names = [stream.columns.get(name, name) for name in rows.column_names]
        rows = rows.rename_columns(names)
        # Key groups are computed before partitions become indexes of the operator. One task needs
        # all rows without a key of a source partition, also from several branches of one stream.
        groups = _key_groups(rows, self._plan.key_groups)
        if stream.inputs > 1:
            rows = PartitionIndexes(stream.inputs).numbered(rows, stream.input_index)
        if APPLY_ORDER.name in self._schema.names:
            # Updates of tables are applied by stream time, then by log. Updates with the same
            # stream time and log have the order of partitions and offsets (``TableUpdatesEngine``).
            logs, apply_order = stream.apply_order_logs, pa.nulls(len(rows), APPLY_ORDER.type)
            if logs:
                # One integer with the order (stream time, log), because a log is less than
                # ``logs``. For example, with two logs, (5, 1) is 11 and (6, 0) is 12.
                order = np.asarray(rows["stream_time_ms"]) * logs
                if logs > 1 and stream.origin is not None:
                    order = order + stream.origin.topic_indexes(rows)
                apply_order = pa.array(order)
            rows = rows.append_column(APPLY_ORDER, apply_order)
        for name, value in stream.constants.items():
            rows = rows.append_column(name, pa.repeat(value, len(rows)))
        rows = rows.append_column(KEY_GROUP, pa.array(groups, KEY_GROUP.type))
        return for_tasks(rows, self._schema, self._plan.tasks)


def for_tasks(rows: pa.Table, schema: pa.Schema, tasks: int) -> pa.RecordBatch:
    """Return rows for the tasks of their key groups, with null for missing columns of ``schema``.

    A key has one key group, and a key group has one task. So for any number of tasks, one task has
    all records of a key.
    """
    # The same rule as ``is_in_share``. With another rule, a task would read a state that lacks the
    # keys of its records.
    task = pa.array(np.asarray(rows[KEY_GROUP.name]) % tasks, TASK.type)
    columns = [
        task if field.name == TASK.name
        else rows[field.name] if field.name in rows.column_names
        else pa.nulls(len(rows), field.type)
        for field in schema
    ]  # fmt: skip
    return one_batch(pa.table(columns, names=schema.names).cast(schema))


def one_batch(rows: pa.Table) -> pa.RecordBatch:
    """Return the rows of a table as one record batch."""
    columns = [column.combine_chunks() for column in rows.columns]
    return pa.RecordBatch.from_arrays(columns, schema=rows.schema)


def _key_groups(rows: pa.Table, key_groups: int) -> Ints:
    """Return the key group of each row's key, from 0.

    The state on disk is divided by these groups, so another hash would lose its keys. Only sinks
    accept rows without a key. All these rows of a partition have one key group, because a sink
    writes them in the order of their partition.
    """
    # Keys repeat, so each distinct key is hashed once per batch of rows.
    coded = rows["key"].combine_chunks().dictionary_encode()
    groups: Ints = key_hashes(coded.dictionary) % key_groups
    group_of_row: Ints
    if not coded.null_count:
        group_of_row = groups[np.asarray(coded.indices)]
        return group_of_row
    group_of_row = np.asarray(rows["partition"], np.int64) % key_groups
    with_key = np.asarray(coded.is_valid())
    group_of_row[with_key] = groups[np.asarray(coded.indices.drop_null())]
    return group_of_row
