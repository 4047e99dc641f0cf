"""The state of an operator in one task, in the layout that the class of the operator declares.

Each layout has one class. A batch opens the state, reads its working set, and writes the next
version.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import pyarrow as pa

from oriel.pipeline.state.keyed_state import KeyedState
from oriel.pipeline.state.layout import Layout
from oriel.pipeline.state.open_records import OpenRecords
from oriel.pipeline.state.segments import TaskShare, Version, by_share, write_segment
from oriel.pipeline.windows import Ints, Operator, StateLayout, Times, WorkingSet

#: Task -> the files of its state after the last batch.
Segments = Mapping[int, Sequence[str]]


class _TaskResult(NamedTuple):
    """The part of a result that is stored for one task."""

    state: pa.Table
    added: pa.Table | None


class OperatorState(ABC):
    """One version of the state of an operator, in one task."""

    @classmethod
    @abstractmethod
    def opened(
        cls, directory: Path, segments: Segments, share: TaskShare, operator: Operator[Any]
    ) -> Self:
        """Open the state of a task in ``directory``.

        Raises:
            CheckpointError: A file is missing, or has another format or schema.
        """

    @staticmethod
    def divide(rows: pa.Table, shares: Sequence[TaskShare]) -> list[pa.Table]:
        """Return the rows of each task, from the rows of all ``shares``."""
        return [rows] if len(shares) == 1 else by_share(rows, shares)

    def divide_result(self, result: Any, shares: Sequence[TaskShare]) -> list[Any]:
        """Return what is stored for each task, from the result of all ``shares``."""
        if len(shares) == 1:
            return [result]
        # Keys are independent, and each row has the key group of its key. So the rows of a common
        # result can be divided between the tasks (decision 0095).
        states = self.divide(result.state, shares)
        has_added = result.added is not None
        added = self.divide(result.added, shares) if has_added else [None] * len(shares)
        return [_TaskResult(*of_task) for of_task in zip(states, added, strict=True)]

    @abstractmethod
    def needed(self, batch: pa.Table, times: Times) -> WorkingSet:
        """Return the rows that the operator needs for a batch."""

    @abstractmethod
    def replaced(
        self, needed: Any, batch: pa.Table, times: Times, result: Any, name: str, *, sync: bool
    ) -> Version:
        """Write the next version, where the state of ``result`` replaces the working set.

        Args:
            needed: The working set of the batch.
            batch: The records of the batch.
            times: The times before and after the batch.
            result: The result of the operator.
            name: The beginning of the names of files.
            sync: True if files are synced.
        """


@dataclass(frozen=True)
class KeyedOperatorState(OperatorState):
    """Rows of keys."""

    operator: Operator[Any]
    state: KeyedState

    @classmethod
    def opened(
        cls, directory: Path, segments: Segments, share: TaskShare, operator: Operator[Any]
    ) -> Self:
        state = KeyedState.of_task(directory, segments, share, Layout.of(operator))
        return cls(operator, state)

    def needed(self, batch: pa.Table, times: Times) -> WorkingSet:
        needed: WorkingSet = self.operator.needed_state(self.state, batch, times)
        return needed

    def replaced(
        self, needed: Any, batch: pa.Table, times: Times, result: Any, name: str, *, sync: bool
    ) -> Version:
        del times
        # For example, records of a stream that look up a table change no row. Their rows are in the
        # working set, but they are not written again.
        changing = self.operator.changing(batch)
        return self.state.replaced(
            needed, result.state, name, sync=sync, changed_keys=changing, added_rows=result.added
        )


@dataclass(frozen=True)
class OpenWorkingSet:
    """The open records that a batch needs, and their indexes in the state."""

    rows: pa.Table
    numbers: Ints


@dataclass(frozen=True)
class OpenOperatorState(OperatorState):
    """Open records, in the order in which they arrived."""

    operator: Any
    state: OpenRecords

    @classmethod
    def opened(cls, directory: Path, segments: Segments, share: TaskShare, operator: Any) -> Self:
        schema, marks = operator.record_schema, operator.keeps_matches
        return cls(operator, OpenRecords.of_task(directory, segments, share, schema, marks=marks))

    def needed(self, batch: pa.Table, times: Times) -> WorkingSet:
        # Only the records that can match a record of the batch, or that expire with the batch.
        records, matched = self.state.records, self.state.matched
        numbers = np.flatnonzero(self.operator.concerned(records, matched, batch, tuple(times)))
        return OpenWorkingSet(self.state.state(numbers), numbers)

    def replaced(
        self, needed: Any, batch: pa.Table, times: Times, result: Any, name: str, *, sync: bool
    ) -> Version:
        del batch
        # Times are read for all records, because records outside the working set can also have
        # expired. The operator returns which rows of the working set stay.
        stays = self.operator.stays(self.state.records, times.after)
        numbers = needed.numbers[result.stayed]
        return self.state.replaced(numbers, result.state, stays, name, sync=sync)


@dataclass(frozen=True)
class OutputState(OperatorState):
    """The output of the last batch only: it is published, and not read again."""

    directory: Path
    operator: Operator[Any]

    @classmethod
    def opened(
        cls, directory: Path, segments: Segments, share: TaskShare, operator: Operator[Any]
    ) -> Self:
        del segments, share
        return cls(directory, operator)

    @staticmethod
    def divide(rows: pa.Table, shares: Sequence[TaskShare]) -> list[pa.Table]:
        # One segment contains the records of all tasks. The first task has it.
        return [rows, *[rows.slice(0, 0)] * (len(shares) - 1)]

    def needed(self, batch: pa.Table, times: Times) -> WorkingSet:
        del batch, times
        no_rows = np.zeros(0, dtype=np.int64)
        return OpenWorkingSet(self.operator.empty_state(), no_rows)

    def replaced(
        self, needed: Any, batch: pa.Table, times: Times, result: Any, name: str, *, sync: bool
    ) -> Version:
        del needed, batch, times
        if not len(result.state):
            return Version([], 0)
        # The number of rows is 0, because no batch reads these records again. The file stays with
        # its version, as long as a start can publish the batch again.
        return Version([write_segment(self.directory, result.state, name, sync=sync)], 0)


#: A new layout needs a class and an entry here.
_LAYOUTS: Mapping[StateLayout, type[OperatorState]] = {
    "keyed": KeyedOperatorState,
    "open records": OpenOperatorState,
    "output": OutputState,
}


def open_state(
    directory: Path, segments: Segments, share: TaskShare, operator: Operator[Any]
) -> OperatorState:
    """Return the state of an operator in one task, after the last batch.

    Raises:
        CheckpointError: A file is missing, or has another format or schema.
    """
    return _LAYOUTS[operator.state_layout].opened(directory, segments, share, operator)
