"""What became of a batch's records, counted by each task where a record's way ends.

A record's way ends exactly once: a stamp finds it bad, filtered or late; a join finds it late,
or without a partner to go on with, or keeps it in its state; or a window engine applies it,
finds it late, or a user's function raises on it. Nobody subtracts what others counted. So the
numbers of all tasks add up to the records that came in, or else a record was lost or used twice
on the way, and the batch must not be committed.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from oriel.pipeline.errors import RecordsMiscounted


@dataclass(frozen=True)
class Counters:
    """Numbers of records: input = applied + late + dead_lettered + filtered.

    The results of a join are no records: one record can have many results, or none. Those that
    come too late for any window (``late_results``), or that go to the dead letters
    (``rejected_results``), are counted beside.
    """

    input: int = 0
    applied: int = 0
    late: int = 0
    dead_lettered: int = 0
    filtered: int = 0
    late_results: int = 0
    rejected_results: int = 0

    def __add__(self, other: "Counters") -> "Counters":
        """Add number by number."""
        return Counters(**{name: n + getattr(other, name) for name, n in vars(self).items()})

    def as_dict(self, *, with_results: bool) -> dict[str, int]:
        """The numbers by name; those of a join's results only where the store has one."""
        numbers = dict(vars(self))
        if not with_results:
            del numbers["late_results"], numbers["rejected_results"]
        return numbers


def count_batch(store: str, batch: int, by_task: Iterable[Counters]) -> Counters:
    """Put together what all tasks of a batch counted.

    Raises:
        RecordsMiscounted: the records that came in are not those that are accounted for.
    """
    total = sum(by_task, Counters())
    ends = total.applied + total.late + total.dead_lettered + total.filtered
    if ends != total.input:
        message = (
            f"store {store!r}, batch {batch}: {total.input} records came in, but {ends} are "
            f"accounted for ({total.applied} applied, {total.late} late, {total.dead_lettered} "
            f"dead-lettered, {total.filtered} filtered). Nothing of the batch is committed; a "
            "restart computes it again. If it happens again, it is a fault of the pipeline"
        )
        raise RecordsMiscounted(message)
    return total
