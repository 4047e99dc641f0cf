"""The histories of the keys of a versioned table, which its operators share (KIP-889).

The state has one row per version, with the time until which the version is valid. The newest
versions are in one time bucket of the state. The others are in buckets by the time until which they
are valid, so a batch reads only the part of a history that its records can change or find.
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from oriel.pipeline.windows.arrays import Flags, Ints, Ranges, run_ends, run_starts
from oriel.pipeline.windows.definitions import FOREVER_MS
from oriel.pipeline.windows.joins.inputs import TableRecords, greatest, replaced

#: The time until which a version is valid. No value column has such a name.
VALID_TO = pa.field("oriel.valid_to_ms", pa.int64())
#: The number of time buckets of one history, and of all time buckets, which are reused.
_BUCKETS_PER_HISTORY, _BUCKETS = 64, 128


class Histories:
    """The time buckets of the versions, and the changes of a batch to them."""

    def __init__(self, history_ms: int) -> None:
        # A history of less than 64 ms still needs a bucket of 1 ms.
        self._bucket_ms = max(1, history_ms // _BUCKETS_PER_HISTORY)

    def buckets(self, rows: pa.Table) -> Ints:
        """Return the time bucket of each state row, 0 for newest versions.

        Buckets are reused. If versions of different times share a bucket, the only cost is the time
        to read them.
        """
        valid_to_ms = np.asarray(rows[VALID_TO.name])
        # Bucket 0 is reserved, because each record needs the newest version of its key.
        bucket: Ints = 1 + valid_to_ms // self._bucket_ms % _BUCKETS
        return np.where(valid_to_ms == FOREVER_MS, 0, bucket)

    def time_buckets(
        self, newest: pa.Table, batch: pa.Table, of_table: Flags
    ) -> tuple[tuple[pa.ChunkedArray, Ranges], tuple[pa.ChunkedArray, Ranges]]:
        """Return the time buckets that a batch can change, and the buckets that it only reads.

        Both are keys, with a range of buckets per key.

        Args:
            newest: The newest versions of the keys of the batch, and perhaps others.
            batch: The records.
            of_table: The records that are versions. The others only find versions.
        """
        newest = newest.filter(pc.equal(newest[VALID_TO.name], FOREVER_MS))
        number = pc.index_in(batch["key"], value_set=newest["key"])
        # Without a version of the key, the range of a record is its own time.
        newest_ms = np.asarray(pc.fill_null(newest["timestamp_ms"].take(number), -1))
        time_ms = np.asarray(batch["timestamp_ms"])
        # A new version is valid until the next one, and the previous one only until its time. Both
        # ends are between its time and the newest version. A record of the stream finds a version
        # that ends after its time.
        until_ms = np.maximum(time_ms, newest_ms)
        is_before = ~of_table & (time_ms < newest_ms)
        return (
            self._time_buckets_of(batch["key"], time_ms, until_ms, of_table, of_table),
            self._time_buckets_of(batch["key"], time_ms, until_ms, ~of_table, is_before),
        )

    def _time_buckets_of(
        self, keys: pa.ChunkedArray, from_ms: Ints, to_ms: Ints, of: Flags, spans: Flags
    ) -> tuple[pa.ChunkedArray, Ranges]:
        """Return the bucket of newest versions, and the buckets of ranges of time, with their keys.

        Args:
            keys: The key of each record.
            from_ms: The start of the range of each record.
            to_ms: The end of the range of each record.
            of: The records that need the newest version.
            spans: The records that need the range.
        """
        newest, chosen = np.flatnonzero(of), np.flatnonzero(spans)
        first = from_ms[chosen] // self._bucket_ms
        # A range that is longer than all buckets needs each bucket once.
        end = first % _BUCKETS + np.minimum(to_ms[chosen] // self._bucket_ms - first + 1, _BUCKETS)
        # A range that does not pass the last bucket has an empty second part, [1, 1).
        # After the last bucket, a range continues at the first one.
        low = [np.zeros_like(newest), 1 + first % _BUCKETS, np.ones_like(chosen)]
        high = [
            np.ones_like(newest),
            1 + np.minimum(end, _BUCKETS),
            1 + np.maximum(end - _BUCKETS, 0),
        ]
        return (
            keys.take(pa.array(np.concatenate([newest, chosen, chosen]))),
            Ranges(np.concatenate(low), np.concatenate(high)),
        )

    def merged(self, versions: pa.Table, arrived: pa.Table) -> tuple[pa.Table, Flags]:
        """Return the versions after a batch by key and time, and which versions have changed.

        A version has changed if it is new, or if it was the newest version of its key.

        Args:
            versions: The versions in the state of the keys of the batch.
            arrived: The records of the batch that are not late.
        """
        forever = pa.repeat(pa.scalar(FOREVER_MS, VALID_TO.type), len(arrived))
        arrived = arrived.append_column(VALID_TO, forever).select(versions.column_names)
        records = TableRecords.of(pa.concat_tables([versions, arrived]))
        group = (records.key_code, records.timestamp_ms)
        # The result has one row per key and time, sorted by both. The next row of a key is
        # therefore its next version.
        number = greatest(group, (records.partition, records.offset))
        is_new, key_code = number >= len(versions), records.key_code[number]
        next_ms = np.append(records.timestamp_ms[number][1:], FOREVER_MS)[: len(number)]
        next_ms = np.where(run_ends(run_starts(key_code)), FOREVER_MS, next_ms)
        next_is_new = np.append(is_new[1:], False)[: len(number)]
        # The working set lacks some older versions. So the end of a version stays unchanged, unless
        # a new version follows it.
        valid_to_ms = np.asarray(records.rows[VALID_TO.name])[number]
        # For example, if only the versions at 10 and 30 are read, the version at 10 still ends at
        # 20, the time of a version that was not read.
        valid_to_ms = np.where(next_is_new, np.minimum(valid_to_ms, next_ms), valid_to_ms)
        valid_to_ms = np.where(is_new, next_ms, valid_to_ms)
        was_newest = np.asarray(records.rows[VALID_TO.name])[number] == FOREVER_MS
        has_changed: Flags = is_new | (was_newest & (valid_to_ms != FOREVER_MS))
        return replaced(records.take(number), {VALID_TO.name: valid_to_ms}), has_changed
