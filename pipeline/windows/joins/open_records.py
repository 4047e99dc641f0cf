"""Joins whose state is records as they came, which leave by the clocks alone (decision 0016)."""

from abc import abstractmethod

import pyarrow as pa

from oriel.pipeline.windows.arrays import Flags
from oriel.pipeline.windows.joins.sides import Clocks, JoinEngine

#: Whether a record in the state had a partner.
MATCHED = pa.field("matched", pa.bool_())


class OpenRecordsEngine(JoinEngine):
    """A join that keeps records, with ``matched``, until clocks let them leave.

    ``JoinResult.stayed`` says which of the old state's rows the new one begins with.
    """

    @property
    @abstractmethod
    def keeps_matches(self) -> bool:
        """Whether it matters later which records had a partner."""

    @abstractmethod
    def stays(self, records: pa.Table, clocks: Clocks) -> Flags:
        """Which records are still in the state at these clocks."""

    @abstractmethod
    def concerned(
        self, records: pa.Table, matched: Flags, batch: pa.Table, clocks: tuple[Clocks, Clocks]
    ) -> Flags:
        """Which of the state's ``records`` have to do with the batch, or leave with it.

        ``matched`` has a flag for each of ``records``, ``clocks`` are those before and after the
        batch. ``process`` gives with these records the results that it gives with all of them;
        ``stays`` tells which of the others are in the next state, as they are.
        """
