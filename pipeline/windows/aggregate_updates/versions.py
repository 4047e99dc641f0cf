"""The aggregates of all versions of partition sessions.

Each record that joins sessions replaces them by a new version. A version has an index: first the
sessions of the state, by row, and then one index per record of the batch.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from oriel.pipeline.windows.aggregate_updates.running import running
from oriel.pipeline.windows.aggregates import PartialAggregates
from oriel.pipeline.windows.arrays import Ints, Ranges
from oriel.pipeline.windows.functions import UserFunctions, function_values, in_partition_order


class Versions(ABC):
    """The aggregates of the versions of partition sessions."""

    @abstractmethod
    def make(self, record: int, joined: Sequence[int]) -> bool:
        """Create the version that replaces the joined versions and contains one more record.

        Args:
            record: The index of the record in the batch.
            joined: The versions that the record joins, by end.

        Returns:
            False if a function removed the session.

        Raises:
            Rejected: A function raised.
        """

    @abstractmethod
    def rows(self, versions: Ints) -> pa.Table:
        """Return versions as the state keeps them: key, carried columns, and aggregates."""

    @abstractmethod
    def results(self, versions: Ints, sizes: Ints) -> Mapping[str, pa.Array]:
        """Return the aggregates of sessions of the store.

        Args:
            versions: The versions of each session by (end, start, partition), one session after the
                other.
            sizes: The number of versions of each session. A session without versions has nulls.
        """


class ColumnVersions(Versions):
    """The versions with named aggregates, which are computed for all versions at once.

    A version extends one of the joined versions, the *main* one, which has the most records. Such a
    chain of versions is a path. All other joined versions are the ends of their own paths, and are
    merged with the record. The running aggregates along a path are the aggregates of its versions.

    A path is computed after the paths that it joins. A version that is joined without being the
    main one has at most half of the records. A session of n records therefore has at most log2(n)
    levels of paths.
    """

    def __init__(self, columns: PartialAggregates, state: pa.Table, batch: pa.Table) -> None:
        """Start with the sessions of ``state`` and the records of ``batch``."""
        self._columns, self._state_size = columns, len(state)
        record_rows = columns.of_each(batch).append_column("key", batch["key"])
        old = state.select(record_rows.column_names).cast(record_rows.schema)
        self._single_rows = pa.concat_tables([old, record_rows])
        #: For each version: its number of records and old sessions, its path, and the versions that
        #: it joined in addition to the main one.
        self._sizes = [1] * len(self._single_rows)
        self._path = list(range(len(self._single_rows)))
        self._others: dict[int, list[int]] = {}
        self._level = [0] * len(self._single_rows)
        self._made = list(range(self._state_size))
        self._values: tuple[pa.Table, Ints] | None = None

    def make(self, record: int, joined: Sequence[int]) -> bool:
        version = self._state_size + record
        self._made.append(version)
        if not joined:
            return True
        sizes, path, level = self._sizes, self._path, self._level
        main = max(joined, key=sizes.__getitem__)
        path[version] = path[main]
        sizes[version] = 1 + sum(sizes[each] for each in joined)
        if len(joined) > 1:
            others = self._others[version] = [each for each in joined if each != main]
            # A path that a version joins in addition has ended, because its last session is
            # replaced. Its level is therefore final when it is read here.
            least = 1 + max(level[path[each]] for each in others)
            level[path[main]] = max(level[path[main]], least)
        return True

    def rows(self, versions: Ints) -> pa.Table:
        table, row_of_version = self._all()
        return table.take(pa.array(row_of_version[versions])).combine_chunks()

    def results(self, versions: Ints, sizes: Ints) -> Mapping[str, pa.Array]:
        merged = self._columns.merged(self.rows(versions), Ranges.side_by_side(sizes[sizes > 0]))
        # A deleted session reads the row of nulls, which is after all other rows.
        row_of_version = np.where(sizes > 0, np.cumsum(sizes > 0) - 1, len(merged))
        return {
            name: pa.concat_arrays([column, pa.nulls(1, column.type)]).take(
                pa.array(row_of_version)
            )
            for name, column in self._columns.results(merged).items()
        }

    def _all(self) -> tuple[pa.Table, Ints]:
        """Return the partial aggregates of all versions, and the row of each version."""
        if self._values is not None:
            return self._values
        made = np.array(self._made, dtype=np.int64)
        path = np.array(self._path, dtype=np.int64)
        # A version is computed with its whole path, so it has the level of its path.
        level = np.array(self._level, dtype=np.int64)[path[made]]
        # Late records have no version, so their row stays -1 and is never read.
        row_of_version = np.full(len(path), -1, dtype=np.int64)
        table = self._single_rows.slice(0, 0)
        for number in range(level.max(initial=-1) + 1):
            own = made[level == number]
            # Sort the versions by path, and within a path by index.
            own = own[np.lexsort((own, path[own]))]
            others = [self._others.get(version, []) for version in own.tolist()]
            sizes = np.array([len(each) for each in others], dtype=np.int64)
            joined = np.array([version for each in others for version in each], dtype=np.int64)
            parts = Ranges.side_by_side(sizes + 1)
            source = np.empty(int((sizes + 1).sum()), dtype=np.int64)
            # ``both`` has the rows of all lower levels, and then one row per version with its
            # record or old session only. The versions that it joined are in the lower levels.
            source[parts.low] = len(table) + own
            is_joined = np.ones(len(source), dtype=np.bool_)
            is_joined[parts.low] = False
            source[is_joined] = row_of_version[joined]
            both = pa.concat_tables([table, self._single_rows]).take(pa.array(source))
            with_joined = self._columns.merged(both, parts)
            head = np.append(True, path[own][1:] != path[own][:-1])[: len(own)]
            row_of_version[own] = len(table) + np.arange(len(own))
            table = pa.concat_tables([table, running(self._columns, with_joined, head)])
        self._values = table, row_of_version
        return self._values


class FunctionVersions(Versions):
    """The versions with functions of a user, which are called record by record."""

    def __init__(
        self,
        functions: UserFunctions,
        values: pa.Schema,
        carried: Sequence[str],
        state: pa.Table,
        batch: pa.Table,
    ) -> None:
        """Start with the sessions of ``state`` and the records of ``batch``.

        ``values`` are the columns of the values. ``carried`` names the key and the carried columns.
        """
        self._fold, self._state_size = functions, len(state)
        self._carried = pa.concat_tables([rows.select(carried) for rows in (state, batch)])
        self._keys = [*state["key"].to_pylist(), *batch["key"].to_pylist()]
        self._values = function_values(batch, values)
        self._partitions = batch["partition"].to_pylist()
        self._aggregates: dict[int, Any] = dict(enumerate(functions.read(state)))

    def make(self, record: int, joined: Sequence[int]) -> bool:
        functions, key = self._fold, self._keys[self._state_size + record]
        stream = self._partitions[record] % len(functions.aggregators)
        aggregates = [self._aggregates[version] for version in joined]
        # The merger is called for each joined session, by end, and then the aggregator for the
        # record, as in Kafka Streams (semantics.md#4-1).
        aggregate = functions.joined(stream, key, self._values[record], aggregates)
        self._aggregates[self._state_size + record] = aggregate
        return aggregate is not None

    def rows(self, versions: Ints) -> pa.Table:
        """See ``Versions``. All sessions and records of a key have the same carried columns."""
        carried = self._carried.take(pa.array(versions))
        aggregates = self._fold.columns([self._aggregates[n] for n in versions.tolist()])
        return pa.table({**{name: carried[name] for name in carried.column_names}, **aggregates})

    def results(self, versions: Ints, sizes: Ints) -> Mapping[str, pa.Array]:
        merged, indices = [], versions.tolist()
        for low, high in Ranges.side_by_side(sizes).pairs():
            # The versions are in the order of end, start and partition, so their position is the
            # sort key of the merge.
            in_order = list(enumerate(self._aggregates[version] for version in indices[low:high]))
            key = self._keys[indices[low]] if in_order else ""
            merged.append(in_partition_order(self._fold, key, in_order))
        return self._fold.columns(merged)
